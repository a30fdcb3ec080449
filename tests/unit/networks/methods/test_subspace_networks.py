"""Networks from a few integers in a random subspace: which network, what is refused, what effort buys."""

import pytest
from worlds.bright_rows import CHAIN, asked_for, base_of, images, known, search_for, solved

from codebound.methods.search import UnsuitedError, run
from codebound.sample.arrays import from_arrays
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.methods import subspace_networks as subspace
from codebound_networks.methods.subspace_networks import propose_subspace, propose_subspace_of_f


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(subspace, "_STEPS", {"standard": 30, "max": 30})
    monkeypatch.setattr(subspace, "_RUNS", {"standard": 2, "max": 3})
    monkeypatch.setattr(subspace, "_EVALUATIONS", {"standard": 40, "max": 40})
    monkeypatch.setattr(subspace, "_GREY_SHIFTS", {"standard": (None,), "max": (None,)})


def flat():
    return from_arrays(images().x.reshape(150, 16), images().y, name="flat", classes=3)


def test_images_have_a_network_of_their_own():
    search = asked_for()
    propose_subspace(search)
    assert search.best.outcome.made.chain != CHAIN
    assert isinstance(search.best.outcome.made.codes, Subspace)
    assert search.tried == 1


def test_the_architecture_of_f_loses_its_biases():
    search = asked_for()
    propose_subspace_of_f(search)
    assert list(search.best.outcome.made.weights()) == ["0.weight"]
    assert isinstance(search.best.outcome.made.codes, Subspace)


def test_around_a_base_the_biases_stay():
    base = base_of(solved())
    search = asked_for(base=base)
    propose_subspace(search)
    assert set(search.best.outcome.made.weights(base.tensors)) == {"0.weight", "0.bias"}
    assert search.best.bound < 0.3  # the base solves it


REFUSED = {
    "nothing may be trained": (lambda: asked_for("quick"), "longer than a quick search"),
    "g must stay near f": (lambda: asked_for(input_range=(0.0, 255.0)), "stay near f"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("propose", [propose_subspace, propose_subspace_of_f])
def test_it_says_what_it_does_not_suit(propose, name):
    search, words = REFUSED[name][0](), REFUSED[name][1]
    with pytest.raises(UnsuitedError, match=words):
        propose(search)
    assert search.tried == 0


@pytest.mark.parametrize("least_bits", [2.0, 0.0])  # before a network is trained, and after
def test_auto_leaves_it_out_where_something_better_is_known(least_bits, monkeypatch):
    monkeypatch.setattr(subspace, "_LEAST_BITS", least_bits)
    search = search_for("standard")
    search.offers.append(known(errors=0, code_bits=4))
    with pytest.raises(UnsuitedError, match="choose it by its name"):
        propose_subspace(search)
    assert search.tried == 0


def test_with_a_base_one_of_the_two_is_enough():
    with pytest.raises(UnsuitedError, match="the same as subspace"):
        propose_subspace_of_f(asked_for(base=base_of(solved())))


@pytest.mark.parametrize(("effort", "most"), [("standard", 2), ("max", 3)])
def test_an_effort_has_so_many_runs(effort, most, monkeypatch):
    train, seen = subspace.train_in_subspace, []

    def counted(*arguments, **options):
        seen.append(arguments[1])
        return train(*arguments, **options)

    monkeypatch.setattr(subspace, "train_in_subspace", counted)
    propose_subspace_of_f(asked_for(effort))
    assert len(seen) == most + 1  # the first compares networks
    assert len(set(seen)) == len(seen)


def test_an_interrupt_certifies_what_was_held(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(subspace, "polish", interrupted)
    search = search_for("standard")
    best = run(search, "subspace-f")
    assert search.is_interrupted
    assert (search.tried, search.best.method) == (1, "subspace-f")
    assert 0.0 < best.bound <= 1.0

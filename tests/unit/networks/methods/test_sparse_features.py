"""A sparse last layer on features that cost no bits: which ones, what is refused, what remains."""

import time

import numpy as np
import pytest
import torch
from worlds.bright_rows import asked_for, base_of, images, known, search_for, solved

from codebound.methods.search import UnsuitedError, run
from codebound.sample.arrays import from_arrays
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.operations import Dictionary, Linear
from codebound_networks.chains.original import Original
from codebound_networks.codes.tensors import Zero
from codebound_networks.methods import sparse_features as features
from codebound_networks.methods.pruned import PruneBudget
from codebound_networks.methods.sparse_features import propose_features


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(features, "SHORT", PruneBudget(steps=40, runs=2, styles=((1e-2, 2),)))
    monkeypatch.setattr(features, "_FEW_COUNTS", 2)
    monkeypatch.setattr(features, "_COUNTS", {"standard": 4, "max": 4})
    monkeypatch.setattr(features, "_GREY_SHIFTS", {"standard": (3, None), "max": (3, None)})


def timed(search):
    """The same with a time that is not up."""
    search.until = time.monotonic() + 60.0
    return search


@pytest.mark.thorough
def test_a_network_of_its_own_on_fixed_filters():
    search = asked_for()
    propose_features(search)
    chain = search.best.outcome.made.chain
    assert any(isinstance(operation, Dictionary) for operation in chain.operations)
    assert search.tried == 1  # the best head alone is assessed
    assert search.best.bound < 0.6


@pytest.mark.thorough
def test_with_a_base_everything_below_the_last_layer_is_the_base():
    torch.manual_seed(0)
    chain = Chain((1, 4, 4), (Linear(6, True), Linear(3, True)))
    tensors = {
        "0.weight": torch.randn(6, 16),
        "0.bias": torch.randn(6),
        "1.weight": torch.zeros(3, 6),
        "1.bias": torch.zeros(3),
    }
    original = Original(chain, tensors)
    search = asked_for(original=original, base=base_of(original))
    propose_features(search)
    codes = search.best.outcome.made.codes
    assert {name for name, code in codes.items() if isinstance(code, Zero)} >= {"0.weight", "0.bias"}
    assert search.best.outcome.made.options.has_base


REFUSED = {
    "nothing may be trained": (lambda: asked_for("quick"), "longer than a quick search"),
    "nothing may be trained yet": (lambda: timed(asked_for("quick")), "Give more minutes"),
    "g must stay near f": (lambda: asked_for(input_range=(0.0, 255.0)), "stay near f"),
    "no images": (
        lambda: asked_for(
            sample=from_arrays(images().x.reshape(150, 16), images().y, name="flat", classes=3),
            original=None,
        ),
        "features are those of images",
    ),
    "the head of the base is not zero": (lambda: asked_for(base=base_of(solved())), "starts at zero"),
    "the base of a split": (
        lambda: asked_for(base=base_of(solved(), head=0.0, rows=45)),
        "trained already",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_says_what_it_does_not_suit(name):
    search, words = REFUSED[name][0](), REFUSED[name][1]
    with pytest.raises(UnsuitedError, match=words):
        propose_features(search)
    assert search.tried == 0


@pytest.mark.thorough
def test_auto_leaves_it_out_where_something_better_is_known(monkeypatch):
    search = search_for("standard", base=base_of(solved(), head=0.0))
    propose_features(search)  # nothing is known
    search = search_for("standard")
    search.offers.append(known(errors=0, code_bits=20))
    with pytest.raises(UnsuitedError, match="choose it by its name"):
        propose_features(search)
    monkeypatch.setattr(features, "_LEAST_BITS", 0.0)
    with pytest.raises(UnsuitedError, match="choose it by its name"):  # after a first head
        propose_features(search)
    assert search.tried == 0
    search.is_asked = True
    propose_features(search)
    assert search.tried == 1


def test_an_interrupt_while_it_polishes_certifies_what_was_held(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(features, "polish_linear", interrupted)
    search = search_for("standard")
    best = run(search, "features")
    assert search.is_interrupted
    assert (search.tried, search.best.method) == (1, "features")
    assert best.tally.errors < best.tally.n


@pytest.mark.thorough
def test_the_sample_is_evaluated_once_for_each_set_of_features(monkeypatch):
    calls = []
    of = features.AbstractTrainer.__init__

    def counted(self, *arguments):
        calls.append(arguments)
        of(self, *arguments)

    monkeypatch.setattr(features.AbstractTrainer, "__init__", counted)
    search = asked_for()
    propose_features(search)
    assert len(calls) == 4  # two dictionaries, with and without shifts
    assert np.array_equal(search.sample.y.numpy(), search.task.rest.y)

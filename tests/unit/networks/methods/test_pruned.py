"""Pruning with quantisation: what is proposed at each effort, near f, and with a base."""

import numpy as np
import pytest
import torch
from worlds.bright_rows import CHAIN, base_of, images, search_for, solved

from codebound.methods.search import run
from codebound.sample.arrays import from_arrays
from codebound_networks.chains.original import Original
from codebound_networks.methods import pruned
from codebound_networks.methods.pruned import (
    PruneBudget,
    best_plan,
    image_strides,
    propose_pruned,
    quantise_tensor,
)
from codebound_networks.train.pruning import PruneSettings


@pytest.fixture
def _short(monkeypatch):
    budget = PruneBudget(steps=60, runs=3, styles=((1e-2, 2),))
    monkeypatch.setattr(pruned, "_BUDGETS", {"standard": (budget,), "max": (budget, budget)})


def test_a_quick_search_trains_nothing_and_assesses_the_finalists_alone(monkeypatch):
    monkeypatch.setattr(pruned, "prune", lambda *_: pytest.fail("nothing is to be trained"))
    search = search_for("quick")
    propose_pruned(search)
    assert search.tried == 2
    assert search.best.outcome.made.chain == CHAIN  # biases too: f is quantised as it is
    assert search.best.bound < 0.5


def test_a_claim_about_f_by_disagreements_adds_their_limit():
    search = search_for("quick", unlabelled=images(60, 1, "unlabelled"))
    propose_pruned(search)
    assert [tally.of for tally in search.best.limits] == ["risk", "disagreement"]
    assert search.best.terms.joined == "sum"


@pytest.mark.usefixtures("_short")
def test_what_is_trained_has_no_biases_and_few_weights():
    search = search_for("standard")
    propose_pruned(search)
    assert 1 <= search.tried <= 3
    (weight,) = search.best.outcome.made.weights().values()
    assert np.count_nonzero(weight) <= 2 * round(150**0.6)
    assert search.best.tally.errors < 15


@pytest.mark.thorough
@pytest.mark.usefixtures("_short")
def test_a_longer_effort_goes_on_from_the_shorter_one():
    short, long = search_for("standard"), search_for("max")
    propose_pruned(short)
    propose_pruned(long)
    assert long.tried >= short.tried
    assert long.best.rank <= short.best.rank


def test_near_f_every_message_is_fine_and_every_one_is_assessed(monkeypatch):
    monkeypatch.setattr(pruned, "prune", lambda *_: pytest.fail("g must stay near f"))
    search = search_for("standard", input_range=(0.0, 255.0))
    propose_pruned(search)
    assert search.tried == 4
    weights = search.best.outcome.made.weights()
    assert np.abs(weights["0.weight"] - solved().arrays["0.weight"]).max() < 0.05


def test_with_a_base_the_differences_are_quantised(monkeypatch):
    monkeypatch.setattr(pruned, "prune", lambda *_: pytest.fail("the base is not to be left"))
    base = base_of(solved())
    search = search_for("standard", base=base)
    propose_pruned(search)
    assert search.best.outcome.made.options.has_base
    weights = search.best.outcome.made.weights(base.tensors)
    assert all(np.array_equal(weights[name], value) for name, value in base.tensors.items())


def test_an_interrupt_while_it_trains_keeps_the_best_so_far(monkeypatch):
    budget = PruneBudget(steps=60, runs=5, styles=((1e-2, 2),))
    monkeypatch.setattr(pruned, "_BUDGETS", {"standard": (budget,)})
    train, calls = pruned.prune, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train(*arguments)

    monkeypatch.setattr(pruned, "prune", interrupted)
    search = search_for("standard")
    best = run(search, "prune")
    assert search.is_interrupted
    assert (search.tried, search.best.method) == (1, "prune")
    assert best is search.best


class TestThePlan:
    """The search among numbers of weights, on a landscape that is known."""

    def found(self, best_keep, runs=20, size=1000, keep=64, styles=((3e-3, 2), (1e-2, 3))):
        tried = []

        def bound_of(plan: PruneSettings, report) -> float:
            tried.append(plan)
            report(1, 1)
            return abs(np.log(plan.keep / best_keep)) + (0.1 if plan.learning_rate < 5e-3 else 0.0)

        budget = PruneBudget(steps=10, runs=runs, styles=styles)
        plan = best_plan(search_for(), bound_of, budget, size=size, keep=keep, n=100)
        return plan, tried

    @pytest.mark.parametrize("best_keep", [8, 64, 500])
    def test_it_finds_the_number_within_the_square_root_of_two(self, best_keep):
        plan, tried = self.found(best_keep)
        assert best_keep / 2**0.5 < plan.keep < best_keep * 2**0.5
        assert (plan.learning_rate, plan.levels) == (1e-2, 3)
        assert len(tried) == len(set(tried)) <= 20  # nothing is trained twice

    def test_it_never_spends_more_than_the_budget(self):
        assert len(self.found(8, runs=3)[1]) == 3

    def test_it_never_keeps_more_than_there_is(self):
        plan, tried = self.found(500, size=100)
        assert plan.keep <= 100
        assert max(each.keep for each in tried) <= 100


class TestQuantisedCodes:
    def test_the_largest_entries_are_kept(self):
        task = search_for().task
        levels = quantise_tensor("0.weight", task, density=0.25, levels=3).levels
        assert np.count_nonzero(levels) == 12
        assert {tuple(np.flatnonzero(row)) for row in levels} == {(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)}

    def test_vectors_stay_dense_and_fine(self):
        original = solved()
        tensors = {**original.tensors, "0.bias": torch.tensor([0.31, -0.2, 0.07])}
        task = search_for(original=Original(CHAIN, tensors)).task
        code = quantise_tensor("0.bias", task, density=0.0, levels=3)
        assert np.allclose(code.weights(), tensors["0.bias"].numpy(), atol=0.02)

    def test_nothing_kept_is_zero(self):
        assert not quantise_tensor("0.weight", search_for().task, density=0.0, levels=3).weights().any()

    def test_images_have_rows_and_vectors_none(self):
        assert image_strides(search_for().task) == (4,)
        sample = from_arrays(images().x.reshape(150, 16), images().y, name="flat", classes=3)
        assert image_strides(search_for(sample=sample).task) == ()

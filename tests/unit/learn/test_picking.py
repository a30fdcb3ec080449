"""A rule on a sample: what is picked, counted and refused."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from codebound.bounds.picked import picked_risk
from codebound.learn import picking, ridge
from codebound.learn.features import ColumnFeatures, FilterFeatures, RoomError
from codebound.learn.picking import Picked, pick
from codebound.learn.ridge import KernelRidge
from codebound.learn.rule import Rule
from codebound.run.errors import UsageError
from codebound.sample.dataset import Dataset
from codebound.sample.load import load_dataset

DIGITS = Rule(FilterFeatures(True, 3, 2), 100, 2, 4, 7, 3, 5, 10)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset("digits")


@pytest.fixture(scope="module")
def found(digits: Dataset) -> Picked:
    return pick(DIGITS, digits)


def two_clouds(n: int, seed: int = 0, apart: float = 2.0) -> Dataset:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 3)).astype(np.float32) + apart * y[:, None].astype(np.float32)
    return Dataset("clouds", "train", x, y.astype(np.int64), 2)


def test_few_picks_say_much_about_digits(found: Picked) -> None:
    best = found.best()
    facts = best.facts(code_bits=60, delta=0.05, classes=10)
    assert facts.picks == best.rule.picks == len(best.order) - 100
    assert len(set(best.order)) == len(best.order)
    assert picked_risk(facts).value < 0.09
    assert best.last.counted == min(found.rounds[count].counted for count in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10))
    assert found.gap > 1e-6
    assert found.rounding < 1e-9


@pytest.mark.thorough
def test_the_second_time_is_as_the_first(digits: Dataset, found: Picked) -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1 if threads > 1 else 2)
        again = pick(DIGITS, digits)
    finally:
        torch.set_num_threads(threads)
    assert np.array_equal(again.order, found.order)
    assert again.rounds == found.rounds


@pytest.mark.parametrize("copies", [0, 4])
def test_how_much_is_kept_and_done_at_a_time_changes_nothing(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch, copies: int
) -> None:
    sample = digits.select(np.arange(600), role="train")
    rule = replace(DIGITS, copies=copies, first=50)
    usual = pick(rule, sample)
    monkeypatch.setattr(ridge, "KEPT", 0)
    monkeypatch.setattr(ridge, "_PIECE", 17)
    monkeypatch.setattr(ridge, "_ROWS", 101)
    small = pick(rule, sample)
    assert np.array_equal(small.order, usual.order)
    assert small.rounds == usual.rounds
    assert torch.allclose(small.learned.outputs, usual.learned.outputs, rtol=0.0, atol=1e-9)


def test_the_best_round_has_its_own_network(found: Picked, digits: Dataset) -> None:
    best = found.best()
    again = pick(best.rule, digits)
    assert torch.allclose(best.learned.coefficients, again.learned.coefficients, rtol=0.0, atol=1e-11)
    assert torch.allclose(best.learned.outputs, again.learned.outputs, rtol=0.0, atol=1e-11)
    assert len(best.learned.coefficients) == 5 * len(best.order)


def test_the_order_of_the_rest_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, rule = two_clouds(150), Rule(ColumnFeatures(), 10, 0, 6, 5, 3, 3, 5)
    monkeypatch.setattr(picking, "permutation", lambda n: np.arange(n))
    order = np.concatenate([np.arange(10), 10 + np.random.default_rng(1).permutation(140)])
    one, other = pick(rule, sample), pick(rule, sample.select(order, role="train"))
    assert set(one.order) == set(order[other.order])
    assert one.rounds == other.rounds


def test_what_was_not_kept_can_be_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preference of the rule as it is carried out: c(U) = c(S) for U between c(S) and S."""
    sample, rule = two_clouds(60, apart=1.0), Rule(ColumnFeatures(), 10, 0, 6, 5, 3, 2, 4)
    monkeypatch.setattr(picking, "permutation", lambda n: np.arange(n))
    whole = pick(rule, sample)
    kept = _kept(whole, sample)
    rest = [each for each in range(60) if each not in kept]
    rng = np.random.default_rng(2)
    for _ in range(20):
        thrown = set(rng.choice(rest, rng.integers(1, len(rest)), replace=False))
        part = np.array([each for each in range(60) if each not in thrown])
        rest_of_it = sample.select(part, role="train")
        assert {part[each] for each in _kept(pick(rule, rest_of_it), rest_of_it)} == kept


def _kept(picked: Picked, sample: Dataset) -> set[int]:
    """Picks and errors: what the theorem calls c(U)."""
    wrong = picking.is_wrong(picked.learned.outputs, torch.from_numpy(sample.y))
    return {*picked.order.tolist(), *wrong.nonzero()[:, 0].tolist()}


def test_copies_of_an_example_are_each_counted() -> None:
    sample = two_clouds(120, apart=0.5)
    rule = Rule(ColumnFeatures(), 10, 0, 6, 5, 3, 1, 6)
    once = pick(rule, sample)
    doubled = sample.select(np.repeat(np.arange(120), 2), role="train")
    twice = pick(rule, doubled)
    assert len(set(twice.order)) == len(twice.order) == 16
    assert twice.last.errors > once.last.errors


def test_examples_that_are_too_close_lengthen_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, rule = two_clouds(150), Rule(ColumnFeatures(), 10, 0, 6, 5, 3, 3, 5)
    plain = pick(rule, sample)
    assert plain.rule.longer == ()
    monkeypatch.setattr(picking, "_GAP", plain.gap * 1.01)
    longer = pick(rule, sample)
    assert longer.rule.longer
    assert longer.rule.picks == len(longer.order) - 10 > plain.rule.picks
    monkeypatch.setattr(picking, "_GAP", 1e9)
    with pytest.raises(RoomError, match="told apart"):
        pick(rule, sample)


def test_rounding_that_may_decide_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picking, "_ROUNDING", 1e-16)
    with pytest.raises(RoomError, match="larger ridge"):
        pick(Rule(ColumnFeatures(), 10, 0, 6, 5, 3, 3, 5), two_clouds(100))


def test_rounds_until_machines_might_differ_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, rule = two_clouds(150, apart=0.5), Rule(ColumnFeatures(), 10, 0, 6, 5, 3, 3, 8)
    known = KernelRidge.bound_rounding
    monkeypatch.setattr(KernelRidge, "bound_rounding", lambda self, a: 1.0 if len(a) > 20 else known(self, a))
    with pytest.raises(RoomError):
        pick(rule, sample)
    assert pick(rule, sample, patience=True).last.picks == 9


@pytest.mark.parametrize(("apart", "batch"), [(1.0, 5), (2.0, 1), (2.0, 2)])
def test_rounds_that_can_no_longer_be_the_best_are_left_out(apart: float, batch: int) -> None:
    sample, rule = two_clouds(150, apart=apart), Rule(ColumnFeatures(), 10, 0, 6, 5, 3, batch, 14)
    whole, early = pick(rule, sample), pick(rule, sample, patience=True)
    assert len(early.rounds) < len(whole.rounds)
    assert early.last.picks + batch >= early.best().last.counted
    assert early.best().rule == whole.best().rule
    assert early.best().rounds == whole.best().rounds
    assert torch.equal(early.best().learned.outputs, whole.best().learned.outputs)


def test_an_interrupted_run_keeps_its_rounds() -> None:
    calls = itertools.count()

    def stop(done: int, total: int | None, note: str = "") -> None:
        if "picks" in note and next(calls) == 3:
            raise KeyboardInterrupt

    picked = pick(Rule(ColumnFeatures(), 10, 0, 6, 5, 3, 3, 8), two_clouds(200), progress=stop)
    assert picked.is_interrupted
    best = picked.best()
    assert best.rule.rounds <= 3
    assert best.rule.picks == len(best.order) - 10


def test_too_many_picks_are_refused() -> None:
    with pytest.raises(UsageError, match="leave none"):
        pick(Rule(ColumnFeatures(), 10, batch=10, rounds=10), two_clouds(100))

"""Rules that are carried out, against a naive learner in numpy; what is picked, counted and refused."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from codebound.bits.plain_code import FIRST_TABLE, PICKS, SPLIT, USUAL_SPLIT
from codebound.certificate.offers import rule_outcome
from codebound.learn import kernels, picking
from codebound.learn.column_features import ColumnFeatures
from codebound.learn.features import FilterFeatures, RoomError, prepare
from codebound.learn.kernels import KernelRidge
from codebound.learn.learner import room_of
from codebound.learn.patch_features import PatchFeatures
from codebound.learn.picking import carry_out, usual_kernel, usual_split
from codebound.learn.rule import ROUNDS, Rule, usual_rule
from codebound.run.errors import ModelError, UsageError
from codebound.sample.dataset import Sample
from codebound.sample.load import load_sample
from codebound.sample.order import Arranged, Design, arrange

if TYPE_CHECKING:
    from codebound.learn.learner import Learned

DIGITS = Rule(FilterFeatures(True, 3, 2), 0, 2, 4, 7, 3, 5, 10)
TABLE = Rule(gamma_index=6, ridge_index=5, batch=3, rounds=5)


@pytest.fixture(scope="module")
def digits() -> Arranged:
    return arrange(load_sample("digits"), Design())


@pytest.fixture(scope="module")
def found(digits: Arranged) -> Learned:
    return carry_out(DIGITS, digits, form=PICKS, first=100)


def blobs(n: int, seed: int = 0, classes: int = 3, apart: float = 1.5) -> Sample:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return Sample("blobs", "train", rng.normal(size=(n, 4)) + apart * np.eye(4)[y], y, classes)


def pick(
    rule: Rule, sample: Sample, *, first: int = 10, design: Design | None = None, **options: object
) -> Learned:
    return carry_out(rule, arrange(sample, design or Design()), form=PICKS, first=first, **options)


class Naive:
    """Columns, kernel and learner of section 7, for a table of numbers."""

    def __init__(self, sample: Sample, known: np.ndarray, rule: Rule, classes: list[int]) -> None:
        t, size = len(known), sample.x.shape[1]
        v = np.sort(sample.x[known].astype(np.float64), axis=0)
        spread = v[9 * t // 10] - v[t // 10]
        u = math.floor((4095 - math.sqrt(size) / 2) / (4 * math.sqrt(size)))
        self.q = np.rint(np.clip((sample.x - v[t // 2]) / spread, -4, 4) * u)
        self.scale, self.rule, self.y, self.classes = size * u * u, rule, sample.y, classes

    def kernel(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        apart = ((self.q[a][:, None] - self.q[b]) ** 2).sum(-1)
        return (1 + self.rule.gamma / 4 * (apart / self.scale)) ** -4

    def scores(self, rows: np.ndarray) -> np.ndarray:
        targets = np.where(self.y[rows][:, None] == self.classes, 1.0, -1.0)
        solution = np.linalg.solve(self.kernel(rows, rows) + self.rule.ridge * np.eye(len(rows)), targets)
        return self.kernel(np.arange(len(self.q)), rows) @ solution

    def margins(self, scores: np.ndarray) -> np.ndarray:
        found = []
        for label, row in zip(self.y.tolist(), scores, strict=True):
            own = [row[j] for j, each in enumerate(self.classes) if each == label]
            others = max(row[j] for j, each in enumerate(self.classes) if each != label)
            found.append(own[0] - others if own else -math.inf)
        return np.array(found)


@pytest.mark.parametrize("form", [SPLIT, FIRST_TABLE])
def test_a_split_is_that_of_the_page(form: str) -> None:
    sample, first = blobs(200), 60
    y = np.where(sample.y == 1, 3, sample.y)  # no row has label 1
    y[:first][y[:first] == 2] = 0  # no known row has label 2
    sample = Sample("blobs", "train", sample.x, y, 4)
    arranged, rule = arrange(sample, Design("file")), Rule(gamma_index=6, ridge_index=5)
    known = arranged.places[:first]
    result = carry_out(rule, arranged, form=form, first=first)
    classes = [0, 3] if form == SPLIT else [0, 1, 2, 3]
    assert result.classes.tolist() == classes
    assert result.known.tolist() == known.tolist()
    naive = Naive(sample, known, rule, classes)
    wanted, (values, room) = naive.scores(known), result.scores()
    counted = arranged.split(first)[1]
    assert np.abs(values - wanted)[counted].max() < (1e-10 if form == SPLIT else 1e-5)
    assert not values[known].any()
    assert np.allclose(room, np.maximum(1e-4 * np.abs(values).max(1), 1e-5))
    assert result.last.errors == (naive.margins(wanted)[counted] <= room[counted]).sum()
    assert (y[counted] == 2).sum() > 0


def test_the_usual_split_of_few_rows_is_quick_and_takes_one_bit(digits: Arranged) -> None:
    part = arrange(digits.sample.select(range(300), role="train"), Design())
    result = usual_split(part)
    assert result is not None
    assert (result.form, result.first, len(result.known)) == (USUAL_SPLIT, 150, 150)
    rule = usual_rule((1, 8, 8), 150)
    assert result.rule == usual_kernel(rule, part, 150, prepare(rule, part, 150))[0]
    assert str(rule_outcome(result, part).encoded[0]) == "0"
    assert result.last.errors < 15
    again = carry_out(result.rule, part, form=SPLIT, first=150)
    assert torch.equal(again.outputs, result.outputs)
    assert len(rule_outcome(again, part).encoded[0]) == 27


def test_the_usual_split_is_none_where_two_kernels_are_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picking, "usual_kernel", lambda rule, *_: (rule, False))
    assert usual_split(arrange(blobs(40), Design())) is None


@pytest.mark.parametrize("copies", ["any", "repeated"])
def test_picks_are_those_of_a_naive_loop(copies: str) -> None:
    sample = blobs(200, seed=1)
    sample = sample.select([*range(180), *range(20)], role="train")  # some rows twice
    arranged = arrange(sample, Design(copies=copies))
    result = carry_out(TABLE, arranged, form=PICKS, first=20)
    known = arranged.places[: arranged.cut(20)]
    naive, chosen = Naive(sample, known, TABLE, [0, 1, 2]), known.tolist()
    for number in range(TABLE.rounds + 1):
        margins = naive.margins(naive.scores(np.array(chosen)))
        wrong = [i for i in range(sample.n) if i not in chosen and margins[i] <= 1e-4]
        assert len(wrong) == result.rounds[number].errors
        assert result.rounds[number].picks == len(chosen) - len(known)
        if number < TABLE.rounds:
            rest = [i for i in range(sample.n) if i not in chosen]
            rest.sort(key=lambda i: abs(margins[i] + 0.5))
            new = rest[: result.rule.batch_of(number)]
            own = result.picks[len(chosen) - len(known) :][: len(new)]
            assert sample.x[own].tolist() == sample.x[new].tolist()  # of equal rows any may be picked
            chosen += own.tolist()
    assert np.abs(result.scores()[0] - naive.scores(np.array(chosen))).max() < 1e-10
    assert [*known, *result.picks] == chosen


def test_few_picks_say_much_about_digits(found: Learned, digits: Arranged) -> None:
    assert len(set(found.picks.tolist())) == found.rule.picks == found.last.picks
    assert not set(found.picks.tolist()) & set(found.known.tolist())
    assert found.last.counted < 130
    assert found.gap > 1e-6
    assert found.rounding < 1e-9
    assert found.coefficients.shape == (5 * (100 + found.rule.picks), 10)


@pytest.mark.parametrize("copies", [0, 1, 4])
def test_how_much_is_kept_and_done_at_a_time_changes_nothing(
    digits: Arranged, monkeypatch: pytest.MonkeyPatch, copies: int
) -> None:
    sample = digits.sample.select(range(500), role="train")
    features = PatchFeatures(3, 256, 4, 3, 3) if copies == 1 else DIGITS.features
    rule = replace(DIGITS, features=features, copies=copies, rounds=3)
    usual = pick(rule, sample, first=50)
    monkeypatch.setattr(kernels, "KEPT", 0)
    monkeypatch.setattr(kernels, "_ROWS", 17)
    small = pick(rule, sample, first=50)
    assert np.array_equal(small.picks, usual.picks)
    assert small.rounds == usual.rounds
    assert torch.allclose(small.outputs, usual.outputs, rtol=0.0, atol=1e-9)


def test_the_order_of_the_rest_does_not_matter() -> None:
    sample = blobs(150)
    order = np.concatenate([np.arange(10), 10 + np.random.default_rng(1).permutation(140)])
    one = pick(TABLE, sample, design=Design("file"))
    other = pick(TABLE, sample.select(order, role="train"), design=Design("file"))
    assert set(one.picks) == set(order[other.picks])
    assert one.rounds == other.rounds


def test_what_was_not_kept_can_be_thrown_away() -> None:
    """Preference of the rule as it is carried out: c(U) = c(S) for U between c(S) and S."""
    sample = blobs(60, apart=1.0)

    def kept(learned: Learned, part: Sample) -> set[int]:
        values, room = learned.scores()
        wrong = [
            i
            for i in range(part.n)
            if np.delete(values[i], part.y[i]).max() >= values[i, part.y[i]] - room[i]
        ]
        return {*learned.known.tolist(), *learned.picks.tolist(), *wrong}

    rule = replace(TABLE, batch=2, rounds=4)
    whole = kept(pick(rule, sample, design=Design("file")), sample)
    rest = [each for each in range(60) if each not in whole]
    rng = np.random.default_rng(2)
    for _ in range(10):
        thrown = set(rng.choice(rest, rng.integers(1, len(rest)), replace=False))
        part = np.array([each for each in range(60) if each not in thrown])
        without = sample.select(part, role="train")
        assert {part[each] for each in kept(pick(rule, without, design=Design("file")), without)} == whole


def test_rows_that_are_too_close_lengthen_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = blobs(150)
    plain = pick(TABLE, sample)
    assert plain.rule.longer == ()
    monkeypatch.setattr(picking, "_GAP", plain.gap * 1.01)
    longer = pick(TABLE, sample)
    assert longer.rule.longer
    assert longer.rule.picks == len(longer.picks) > plain.rule.picks
    monkeypatch.setattr(picking, "_GAP", 1e9)
    with pytest.raises(RoomError, match="told apart"):
        pick(TABLE, sample)


def test_equal_rows_need_no_gap_unless_their_groups_differ() -> None:
    sample = blobs(80)
    sample = sample.select(np.repeat(np.arange(80), 2), role="train")
    rule = replace(TABLE, batch=1, rounds=6)
    twice = pick(rule, sample, design=Design(copies="independent"))
    assert twice.rule.longer == ()
    assert len(set(twice.picks.tolist())) == 6
    many = blobs(8).select(np.repeat(np.arange(8), 60), role="train")
    assert pick(rule, many, design=Design(copies="independent")).rule.longer == ()
    groups = np.tile(np.arange(2), 80)
    apart = pick(rule, sample, design=Design(copies="independent", groups=groups))
    assert apart.rule.longer


def test_rounding_that_may_decide_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    least = pick(TABLE, blobs(100)).rounding
    monkeypatch.setattr(picking, "_ROUNDING", {True: 0.9 * least, False: least})
    with pytest.raises(RoomError, match="larger ridge"):
        pick(TABLE, blobs(100))
    split = replace(TABLE, rounds=0)
    with pytest.raises(RoomError, match="larger ridge"):
        carry_out(split, arrange(blobs(100), Design()), form=SPLIT, first=60)
    assert pick(TABLE, blobs(100), is_checked=False).rounding == 0.0


def test_rounds_until_machines_might_differ_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    known = KernelRidge.bound_rounding
    monkeypatch.setattr(KernelRidge, "bound_rounding", lambda self, a: 1.0 if len(a) > 20 else known(self, a))
    with pytest.raises(RoomError):
        pick(TABLE, blobs(150, apart=0.5))
    assert pick(TABLE, blobs(150, apart=0.5), patience=True).last.picks <= 9


@pytest.mark.parametrize(("apart", "batch"), [(1.0, 5), (2.0, 1), (2.0, 2)])
def test_rounds_that_can_no_longer_be_the_best_are_left_out(apart: float, batch: int) -> None:
    sample, rule = blobs(150, classes=2, apart=apart), replace(TABLE, batch=batch, rounds=14)
    whole, best = pick(rule, sample), pick(rule, sample, patience=True)
    assert best.rule.rounds in ROUNDS
    assert best.last.counted == min(whole.rounds[each].counted for each in ROUNDS if each <= 14)
    assert whole.rounds[: len(best.rounds)] == best.rounds
    assert len(best.picks) == best.rule.picks
    again = pick(best.rule, sample)
    assert torch.allclose(again.outputs, best.outputs, rtol=0.0, atol=1e-11)
    assert torch.allclose(again.coefficients, best.coefficients, rtol=0.0, atol=1e-11)


def test_an_interrupted_run_keeps_its_rounds() -> None:
    calls = itertools.count()

    def stop(done: int, total: int | None, note: str = "") -> None:
        if "pick" in note and next(calls) == 3:
            raise KeyboardInterrupt

    picked = pick(replace(TABLE, rounds=8), blobs(200), progress=stop)
    assert picked.is_interrupted
    assert 1 <= picked.rule.rounds <= 3
    assert picked.rule.picks == len(picked.picks)


@pytest.mark.parametrize(
    ("form", "rule", "first"),
    [
        (PICKS, replace(TABLE, batch=10, rounds=9), 10),
        (PICKS, Rule(), 10),
        (SPLIT, TABLE, 10),
        (SPLIT, Rule(), 100),
    ],
)
def test_what_leaves_no_rows_or_does_not_fit_its_form_is_refused(form: str, rule: Rule, first: int) -> None:
    with pytest.raises(UsageError, match="leaves some"):
        carry_out(rule, arrange(blobs(100), Design()), form=form, first=first)


def test_known_rows_of_one_class_teach_nothing() -> None:
    sample = blobs(50)
    sample = sample.select(np.argsort(sample.y, kind="stable"), role="train")
    arranged = arrange(sample, Design("file"))
    with pytest.raises(UsageError, match="two classes"):
        carry_out(Rule(), arranged, form=SPLIT, first=5)
    with pytest.raises(ModelError, match="none"):
        prepare(Rule(), arranged, 0)


def test_too_much_work_is_refused_before_anything_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = load_sample("digits").select(range(60), role="train")
    monkeypatch.setattr(picking, "prepare", None)
    rule = Rule(PatchFeatures(3, 2048, 4, 5), rounds=0)  # of 102,400 numbers
    with pytest.raises(ModelError, match="more than a certificate"):
        carry_out(rule, arrange(sample, Design()), form=SPLIT, first=30)
    with pytest.raises(ModelError, match="do not fit"):
        carry_out(Rule(PatchFeatures(8)), arrange(sample, Design()), form=SPLIT, first=30)
    table = arrange(blobs(60), Design())
    with pytest.raises(ModelError, match="of pictures"):
        carry_out(Rule(FilterFeatures()), table, form=SPLIT, first=30)


def test_clusters_come_one_after_the_other() -> None:
    sample = blobs(120)
    arranged = arrange(sample, Design("clusters", "independent", clusters=np.arange(120) // 4))
    result = carry_out(Rule(ColumnFeatures(True), 1), arranged, form=SPLIT, first=10)
    assert len(result.known) == 40
    assert np.abs(np.diff(result.known // 4)).astype(bool).sum() == 9


def test_splits_have_more_room_than_picks() -> None:
    outputs = torch.tensor([[0.001, 0.0], [-3.0, 1.0]], dtype=torch.float64)
    assert room_of(outputs, picks=True).tolist() == pytest.approx([1e-6, 3e-4])
    assert room_of(outputs, picks=False).tolist() == pytest.approx([1e-5, 3e-4])

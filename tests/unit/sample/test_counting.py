"""Counts of claims against loops over rows, for all rows that count and all copies (docs/format.md, 6)."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from count_loops import flags_of, limits_of
from hypothesis import given
from hypothesis import strategies as st

from codebound.run.errors import DataError, UsageError
from codebound.sample import counting
from codebound.sample.counting import Tally, Verdicts, count, judge
from codebound.sample.dataset import Sample
from codebound.sample.order import Design, arrange
from codebound.sample.questions import parse_question
from codebound_verify.losses import Question as OnPage

LABELS = np.array([0, 2, 5])  # of the columns
LOSSES = ("wrong", "class:2", "confused:2:5", "false-alarm:5", "top:2", "cost-above:1:distance")
PLAIN = ("all", "answered:1", "predicted:5", "each class", "each group")
CLUSTERED = ("one row a cluster", "any row of a cluster")
ROW = st.tuples(
    st.integers(0, 3),  # input
    st.sampled_from([0, 2, 5, 3]),  # label, one of no column
    st.tuples(*[st.integers(-3, 3)] * 3),  # scores
    st.integers(0, 1),  # cluster
    st.sampled_from(["known", "picked", "counted", "counted", "counted"]),
)


COSTS = ((0, 1, 2), (1, 0, 1), (2, 1, 0))


def looped(rows, **places):
    """The same rows for the loops of the tests."""
    return SimpleNamespace(
        inputs=np.array([each[0] for each in rows]),
        y=np.array([each[1] for each in rows]),
        values=np.array([each[2] for each in rows]),
        groups=np.array([each[0] // 2 for each in rows]),  # copies have one
        room=np.zeros(len(rows)),
        theta=0.0,
        classes=LABELS.tolist(),
        **places,
    )


def sample_of(rows):
    x = np.array([[float(each[0]), 1.0] for each in rows])
    return Sample("t", "train", x, np.array([each[1] for each in rows]), 6)


@given(
    st.lists(ROW, min_size=2, max_size=16),
    st.sampled_from(LOSSES),
    st.sampled_from(PLAIN),
    st.sampled_from(["any", "independent", "repeated"]),
    st.booleans(),
)
def test_counts_are_those_of_loops(rows, loss, on, copies, may_pick):
    if not may_pick or on.startswith(("answered", "predicted")):
        rows = [(*each[:4], each[4].replace("picked", "counted")) for each in rows]
    part = np.array([each[4] for each in rows])
    known, picked = np.flatnonzero(part == "known"), np.flatnonzero(part == "picked")
    picked = picked if len(picked) else None
    loops, question = (
        looped(rows, known=known, counted=np.flatnonzero(part != "known")),
        parse_question(loss, on),
    )
    found = arrange(sample_of(rows), Design(copies=copies, groups=loops.groups))
    verdicts = judge(question, loops.values, loops.y, classes=LABELS)
    options = {"question": question, "known": known, "picked": picked, "classes": LABELS}
    wanted = tuple(Tally(*each) for each in limits_of(loops, OnPage(loss, on, COSTS), copies, picked))
    if len(wanted) == 1 and wanted[0].n == 0 and not on.startswith("each"):
        with pytest.raises(DataError, match="nothing can be said"):
            count(found, verdicts, **options)
    else:
        assert count(found, verdicts, **options) == wanted


@given(st.lists(ROW, min_size=2, max_size=16), st.sampled_from(LOSSES), st.sampled_from(CLUSTERED))
def test_counts_of_clusters_are_those_of_loops(rows, loss, on):
    clusters = np.array([each[0] // 2 + 2 * each[3] for each in rows])
    question = parse_question(loss, on)
    found = arrange(sample_of(rows), Design(order="clusters", copies="independent", clusters=clusters))
    loops = looped(rows)
    verdicts = judge(question, loops.values, loops.y, classes=LABELS)
    about, right, _ = flags_of(loops, OnPage(loss, "all", COSTS))
    known, counted = found.split(found.units // 2)
    rows_of = {}
    for i in counted.tolist():
        rows_of.setdefault(int(clusters[i]), []).append(i)
    if on == "one row a cluster":
        chosen = found.one_row(counted).tolist()
        rows_of = {c: [i for i in each if i in chosen] for c, each in rows_of.items()}
        assert all(len(each) == 1 for each in rows_of.values())
    fine = []
    for each in rows_of.values():
        own = [right[i] for i in each if about[i]]
        fine += [all(own)] if own else []
    options = {"question": question, "known": known, "classes": LABELS}
    if not fine:
        with pytest.raises(DataError, match="nothing can be said"):
            count(found, verdicts, **options)
    else:
        assert count(found, verdicts, **options) == (Tally(loss, fine.count(False), len(fine)),)


@pytest.mark.parametrize("room", [0.5, np.array([0.5, 0.5, 0.5]), math.inf])
def test_what_is_in_doubt_is_wrong_answered_and_silent(room):
    """Three rows: clearly right and answered, right by little, answered by little."""
    scores, y = np.array([[9.0, 0.0], [0.25, 0.0], [2.25, 0.0]]), np.zeros(3, int)
    answered = judge(parse_question("wrong", "answered:2"), scores, y, room=room)
    predicted = judge(parse_question("wrong", "predicted:1"), scores - [0.0, 0.5], y, room=room)
    if np.isinf(room).any():
        assert not answered.right.any() | answered.speaks.any() | predicted.right.any()
        assert answered.counts.all() & predicted.counts.all()
    else:
        assert answered.right.tolist() == [True, False, False]
        assert answered.counts.tolist() == [True, False, True]
        assert answered.speaks.tolist() == [True, False, False]
        near = judge(parse_question("wrong", "predicted:0"), scores, y, room=room)
        assert near.counts.tolist() == [True, True, True]
        assert near.right.tolist() == [True, False, True]


def test_room_and_theta_are_taken_from_each_difference():
    scores, y = np.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]]), np.zeros(3, int)
    plain = parse_question("wrong")
    assert judge(plain, scores, y, theta=1.0).right.tolist() == [True, True, False]
    assert judge(plain, scores, y, theta=1.0, room=1.0).right.tolist() == [True, False, False]
    assert judge(plain, scores, y, room=np.array([0.0, 2.0, 0.0])).right.tolist() == [True, False, True]


def test_scores_that_are_not_finite_are_wrong_and_may_be_answered():
    scores = np.array([[math.nan, 0.0], [math.inf, 0.0]])
    for on in ("all", "answered:1"):
        found = judge(parse_question("wrong", on), scores, np.zeros(2, int))
        assert not found.right.any()
        assert found.counts.all()


def test_verdicts_of_blocks_are_joined():
    one = Verdicts(np.array([True]), np.array([True]), np.array([False]))
    two = Verdicts(np.array([False]), np.array([True]), np.array([True]))
    both = Verdicts.join([one, two])
    assert [each.tolist() for each in (both.right, both.counts, both.speaks)] == [
        [True, False],
        [True, True],
        [False, True],
    ]


def tallies(on="all", *, picked=None, copies="any", groups=None, x=(0.0, 1.0, 2.0), labels=(0, 0, 0)):
    sample = Sample("t", "train", np.array(x)[:, None], np.array(labels), 3)
    found = arrange(sample, Design(copies=copies, groups=groups))
    right = np.ones(sample.n, bool)
    return count(
        found,
        Verdicts(right, right, right),
        question=parse_question("wrong", on),
        known=np.array([], int),
        classes=np.arange(3),
        picked=picked,
    )


@pytest.mark.parametrize("on", ["answered:1", "predicted:0"])
def test_rows_chosen_by_predictions_are_not_taken_where_rows_were_picked(on):
    with pytest.raises(UsageError, match="picked"):
        tallies(on, picked=np.array([0]))


@pytest.mark.parametrize("on", CLUSTERED)
def test_clusters_are_counted_only_where_there_are_some(on):
    with pytest.raises(UsageError, match="only with clusters"):
        tallies(on)


def test_rows_are_not_counted_where_clusters_are_drawn():
    sample = sample_of([(0, 0), (1, 0)])
    found = arrange(sample, Design(order="clusters", copies="independent", clusters=np.arange(2)))
    right = np.ones(2, bool)
    options = {"known": np.array([], int), "classes": np.arange(6)}
    for on in PLAIN:
        with pytest.raises(UsageError, match="never with clusters"):
            count(found, Verdicts(right, right, right), question=parse_question("wrong", on), **options)


def test_copies_in_two_groups_are_refused_unless_they_are_draws():
    apart = {"x": (1.0, 1.0, 2.0), "groups": np.array([0, 1, 1])}
    for copies in ("any", "repeated"):
        with pytest.raises(DataError, match="different groups"):
            tallies("each group", copies=copies, **apart)
    assert [each.n for each in tallies("each group", copies="independent", **apart)] == [1, 2]
    with pytest.raises(UsageError, match="with groups"):
        tallies("each group")


def test_many_parts_are_refused(monkeypatch):
    monkeypatch.setattr(counting, "MOST_PARTS", 2)
    with pytest.raises(UsageError, match="3 limits; at most 2"):
        tallies("each class")


def test_a_part_without_rows_is_one_of_none():
    assert tallies("each class", labels=(0, 0, 2)) == (
        Tally("class 0", 0, 2),
        Tally("class 1", 0, 0),
        Tally("class 2", 0, 1),
    )


def test_any_mixture_is_at_least_as_bad_as_it_is_counted():
    """Errors never fewer than those of the true draws, right rows never more, whichever copies are draws."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        inputs = rng.integers(0, 5, 12)
        is_wrong = np.isin(inputs, rng.integers(0, 5, 2))  # a classifier treats copies alike
        sample = Sample("t", "train", inputs[:, None].astype(float), np.zeros(12, int), 2)
        verdicts = Verdicts(~is_wrong, np.ones(12, bool), np.ones(12, bool))
        question, none = parse_question("wrong"), np.array([], int)
        (found,) = count(
            arrange(sample, Design()), verdicts, question=question, known=none, classes=np.arange(2)
        )
        draws = {x: rng.integers(1, (inputs == x).sum() + 1) for x in set(inputs.tolist())}
        wrong = sum(number for x, number in draws.items() if is_wrong[inputs == x].any())
        fine = sum(number for x, number in draws.items() if not is_wrong[inputs == x].any())
        assert found.errors >= wrong
        assert found.n - found.errors <= fine
        assert found.n == 0 or Fraction(found.errors, found.n) >= Fraction(wrong, wrong + fine)


@pytest.mark.parametrize(
    ("copies", "known", "loss", "words"),
    [
        ("any", [0], "wrong", "Declare that equal rows are independent draws"),
        ("repeated", [0], "wrong", "or has another label"),
        ("any", [0, 1, 2], "wrong", "is left, all are known"),
        ("any", [0], "class:1", "ask for another loss"),
    ],
)
def test_errors_say_why_nothing_counts(copies, known, loss, words):
    labels = np.zeros(3, np.int64)
    found = arrange(Sample("t", "train", np.ones((3, 2)), labels, 2), Design(copies=copies))
    verdicts = judge(parse_question(loss), np.tile([1.0, 0.0], (3, 1)), labels)
    with pytest.raises(DataError, match=words):
        count(found, verdicts, question=parse_question(loss), known=np.array(known), classes=np.arange(2))

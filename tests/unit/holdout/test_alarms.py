"""Watches: the log of a stream, its alarms, and streams that cannot be right."""

import os
import random
import shutil

import numpy as np
import pytest
from ledger_writer import forged

from codebound.bounds.monitoring import Mixture
from codebound.holdout import alarms
from codebound.holdout.alarms import Watch, WatchTerms, outcomes_of, read_chunks, read_stream
from codebound.holdout.answers import as_table
from codebound.holdout.ledger import read_ledger
from codebound.run.errors import DataError, FormatError, UsageError
from codebound_verify.holdout.ledger import verify_ledger

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def live(tmp_path):
    return tmp_path / "live.watch.jsonl"


def drawn(count, rate, seed=0):
    rng = random.Random(seed)
    return [int(rng.random() < rate) for _ in range(count)]


def stream(outcomes, **columns):
    return as_table({"wrong": outcomes, **columns}, name="s.csv")


def test_the_alarm_is_that_of_the_mixture_in_batches_of_any_size(live):
    outcomes = drawn(900, 0.12)
    whole = Mixture(bound=0.05, alpha=0.01)
    whole.update(outcomes)
    watch = Watch.start(live, WatchTerms(bound=0.05))
    for start in range(0, 900, 70):
        watch.update(outcomes[start : start + 70])
    again = Watch.load(live)
    assert whole.alarm_at is not None
    assert watch.alarm_at == again.alarm_at == whole.alarm_at
    assert again.labels == 900
    assert again.upper_limit() == whole.upper_limit()
    kept = [line["alarm"] for line in again.ledger.statements]
    assert kept == sorted(kept, key=lambda at: at is not None)
    assert np.concatenate([outcomes_of(line) for line in again.ledger.statements]).tolist() == outcomes
    assert read_ledger(live).head == watch.ledger.head


def test_a_stream_is_read_where_it_was_left(live):
    outcomes = drawn(300, 0.05)
    watch = Watch.start(live, WatchTerms(bound=0.05))
    assert watch.follow(stream(outcomes[:200]), "wrong") == 200
    assert Watch.load(live).follow(stream(outcomes), "wrong") == 100
    before = live.read_bytes()
    assert Watch.load(live).follow(stream(outcomes), "wrong") == 0
    assert live.read_bytes() == before


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (stream([0] * 9), "shorter than it was: 9 labels, and 10"),
        (stream([0] * 9 + [1] + [0] * 5), "label 10 was right when it was read"),
        (stream([0, 2]), "must have outcomes, 1 where wrong and 0 where right. Got '2'"),
        (stream([0, None]), "row 2 has no value"),
        (as_table({"label": [1]}), "no column 'wrong'"),
    ],
)
def test_a_stream_that_cannot_be_right_changes_nothing(live, table, says):
    Watch.start(live, WatchTerms(bound=0.05)).follow(stream([0] * 10), "wrong")
    before = live.read_bytes()
    with pytest.raises(DataError, match=says):
        Watch.load(live).follow(table, "wrong")
    assert live.read_bytes() == before


def test_labels_and_answers_are_compared(live):
    watch = Watch.start(live, WatchTerms(bound=0.05, loss="class:cat"))
    table = as_table({"label": ["cat", "dog", "cat"], "a": ["dog", "cat", "cat"]})
    assert watch.follow(table, "label", "a") == 2  # the loss is about cats
    assert watch.overall.errors == 1


def test_each_group_has_an_alarm_of_its_own(live):
    outcomes, names = drawn(600, 0.02), ["north", "south"] * 300
    outcomes[1::2] = drawn(300, 0.3)
    watch = Watch.start(live, WatchTerms(bound=0.05, group="topic", groups=("south", "north")))
    table = stream(outcomes, topic=names)
    watch.follow(table, "wrong")
    expected = Mixture(bound=0.05, alpha=0.01 / 4)
    expected.update(outcomes[1::2])
    assert watch.alarms == {"south": expected.alarm_at}
    assert Watch.load(live).alarms == watch.alarms
    with pytest.raises(DataError, match="group 'west' was not named"):
        Watch.load(live).follow(stream([*outcomes, 0], topic=[*names, "west"]), "wrong")
    with pytest.raises(DataError, match="needs the group of each outcome"):
        watch.update([0, 1])
    assert watch.update([0, 1], ["north", "south"]) is watch.alarm_at


@pytest.mark.parametrize("claim", ["row", "any"])
def test_a_cluster_counts_when_the_next_one_begins(live, claim):
    watch = Watch.start(live, WatchTerms(bound=0.05, cluster="patient", claim=claim))
    patients, wrong = ["p", "p", "q", "q", "r"], [0, 1, 0, 0, 1]
    assert watch.follow(stream(wrong, patient=patients), "wrong") == 2
    assert watch.follow(stream([*wrong, 1, 0], patient=[*patients, "r", "s"]), "wrong") == 1
    assert watch.overall.errors == (2 if claim == "any" else 1 + outcomes_of(watch.ledger.lines[1])[0])
    with pytest.raises(DataError, match="cluster 'p' comes back"):
        watch.follow(stream([*wrong, 0], patient=[*patients, "p"]), "wrong")


def test_a_second_writer_is_told_to_load_again(live):
    first = Watch.start(live, WatchTerms(bound=0.05))
    Watch.load(live).update([0, 1])
    before = live.read_bytes()
    with pytest.raises(UsageError, match="another program has written"):
        first.update([1])
    assert live.read_bytes() == before


def test_an_older_copy_is_refused(live, tmp_path):
    Watch.start(live, WatchTerms(bound=0.05)).update([0] * 5)
    shutil.copy(live, tmp_path / "copy")
    Watch.load(live).update([1])
    shutil.copy(tmp_path / "copy", live)
    with pytest.raises(UsageError, match="lacks a line"):
        Watch.load(live)


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    [
        (1, {"errors": [5]}, "no rising places"),
        (1, {"labels": None}, "labels must be"),
        (1, {"alarm": 2}, "the wealth is too small"),
        (0, {"loss": 1}, "loss must be"),
        (0, {"bound": "x"}, "bound must be"),
        (0, {"kind": "other"}, "is of kind 'other'"),
    ],
)
def test_a_file_that_no_program_wrote_is_refused(live, own_cache, kind, change, says):
    watch = Watch.start(live, WatchTerms(bound=0.05))
    watch.update([0, 0, 1])
    lines = [line | (change if at == kind else {}) for at, line in enumerate(watch.ledger.lines)]
    lines[0]["stream"] = "of another machine"
    live.write_bytes(forged(lines))
    with pytest.raises(FormatError, match=says):
        Watch.load(live)
    live.write_bytes(b"")
    with pytest.raises(FormatError, match="is empty"):
        Watch.load(live)


@pytest.mark.parametrize(
    "changed",
    [{"bound": 0.0}, {"bound": 1.0}, {"alpha": 0.0}, {"loss": "precision:1"}, {"group": "g"},
     {"groups": ("x",)},
     {"group": "g", "groups": ("x", "x")}, {"cluster": "c"}, {"cluster": "c", "claim": "all"}],
)  # fmt: skip
def test_terms_out_of_range_are_refused(live, changed):
    with pytest.raises(UsageError):
        Watch.start(live, WatchTerms(**{"bound": 0.05, **changed}))
    assert not live.exists()


def test_outcomes_are_zeros_and_ones(live):
    watch = Watch.start(live, WatchTerms(bound=0.05))
    for outcomes in ([0, 2], [0.5], [[0, 1]], [None], [float("nan")]):
        with pytest.raises(DataError):
            watch.update(outcomes)
    assert len(live.read_bytes().splitlines()) == 1
    with pytest.raises(UsageError, match="exists already"):
        Watch.start(live, WatchTerms(bound=0.05))


def test_a_stream_in_a_file_that_grows(tmp_path):
    (tmp_path / "s.csv").write_bytes(b"wrong\n0\n1\n1")
    table, label = read_stream(f"{tmp_path / 's.csv'}:wrong")
    assert table.cells(label) == ("0", "1")


def test_rows_come_through_a_pipe(live):
    out, into = os.pipe()
    chunks = read_chunks(out, "stdin")
    watch = Watch.start(live, WatchTerms(bound=0.05))
    for new in (b"wr", b"ong\n0\n", b"1\n1\n0", b"\n1"):
        os.write(into, new)
    watch.extend(next(chunks), "wrong")
    assert (watch.labels, watch.overall.errors) == (4, 2)
    os.close(into)
    with pytest.raises(DataError, match="ends in the middle of a row"):
        next(chunks)
    os.close(out)
    assert Watch.load(live).labels == 4
    clustered = Watch.start(live.with_name("c"), WatchTerms(bound=0.05, cluster="p", claim="any"))
    with pytest.raises(UsageError, match="read from a file"):
        clustered.extend(stream([0], p=["x"]), "wrong")


def test_a_row_of_several_lines_comes_whole_through_a_pipe():
    out, into = os.pipe()
    chunks = read_chunks(out, "stdin")
    for new in (b'wrong,why\n0,"a\n', b'b"\n1,"c ""d""\n', b'e"\n'):
        os.write(into, new)
        if new.startswith(b"b"):
            assert next(chunks).columns == {"wrong": ("0",), "why": ("a\nb",)}
    assert next(chunks).columns == {"wrong": ("1",), "why": ('c "d"\ne',)}
    os.close(into)
    assert next(chunks, None) is None
    os.close(out)


def test_more_labels_than_a_line_has_are_split_with_their_groups(tmp_path, own_cache, monkeypatch):
    monkeypatch.setattr(alarms, "MOST_LABELS", 7)
    draw = np.random.default_rng(3)
    outcomes, groups = draw.integers(0, 2, 40), [str(each) for each in draw.choice(["x", "y"], 40)]
    terms = WatchTerms(bound=0.4, group="site", groups=("x", "y"))
    watch = Watch.start(tmp_path / "made.watch.jsonl", terms)
    watch.update(outcomes, groups)
    assert [line["labels"] for line in watch.ledger.statements] == [7, 7, 7, 7, 7, 5]
    assert verify_ledger(watch.path.read_bytes()).reasons == ()
    again = Watch.load(watch.path)
    assert [each.errors for each in again.groups.values()] == [
        sum(bad for bad, of in zip(outcomes, groups, strict=True) if of == name) for name in "xy"
    ]


def test_a_full_watch_says_so_and_loses_nothing(tmp_path, own_cache, monkeypatch):
    watch = Watch.start(tmp_path / "made.watch.jsonl", WatchTerms(bound=0.4))
    watch.update([0, 1, 0])
    before = watch.path.read_bytes()
    for name, limit in (("MOST_IN_ALL", 4), ("MOST_ERRORS", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(alarms, name, limit)
            with pytest.raises(UsageError, match="is full"):
                watch.update([1, 0])
    assert watch.path.read_bytes() == before
    assert watch.update([1, 0]) is None

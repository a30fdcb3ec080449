"""Ledgers and watches that somebody has tampered with: the second program refuses every one of them.

What is changed is chained again, so that it is not the hashes that give it away, but for the first group.
"""

import copy
import hashlib
import json
import math
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from ledger_writer import Ledger, forged, hash_of, line_of, says_no_more, write_watch

from codebound_verify.holdout import results, wealth
from codebound_verify.holdout.ledger import verify_ledger
from codebound_verify.holdout.rules import MOST_IN_LINE

GRID = [0.8, 0.5, 0.2]
Lines = list[dict[str, Any]]


@cache
def table() -> dict[str, list[str]]:
    draw = random.Random(7)
    label = [draw.choice("abc") for _ in range(60)]

    def answers(share: float) -> list[str]:
        return [draw.choice("abc") if draw.random() < share else each for each in label]

    return {
        "label": label,
        "one": answers(0.1),
        "two": answers(0.7),
        "three": answers(0.3),
        "scores": [str(draw.choice([draw.random(), "nan", 1])) for _ in label],
        "site": [draw.choice("xy") for _ in label],
        "patient": [str(draw.randrange(20)) for _ in label],
        "question": [str(draw.randrange(50)) for _ in label],
    }


def planned(*names: str) -> tuple[dict, ...]:
    return tuple(
        {"kind": "look", "column": {"name": each, "sha256": hash_of(table()[each])}} for each in names
    )


def choice(rule: str) -> dict:
    names = {"column": "one", "scores": "scores"}
    columns = {key: {"name": each, "sha256": hash_of(table()[each])} for key, each in names.items()}
    return {"kind": "abstain", **columns, "risk": 0.5, "rule": rule, "thresholds": GRID}


@cache
def made(kind: str) -> Lines:
    """Lines that are right."""
    if kind in ("watch", "watch of groups"):
        draw = random.Random(5)
        stream = [(int(draw.random() < (0.03 if at < 150 else 0.3)), draw.choice("xy")) for at in range(330)]
        batches = [stream[at : at + 110] for at in range(0, 330, 110)]
        kept = {"sha256": "a" * 64, "delta": 0.05}
        return write_watch(batches, names=["x", "y"] if kind != "watch" else None, certificate=kept)
    if kind == "exact":
        settled = (*planned("one"), choice("sequence"), choice("choice"))
        made = Ledger(table(), {"looks": 7}, inputs="question", planned=settled)
        made.look("two")
        made.look("one")
        made.better("two", "one")
        made.better("one", "three", 0.5)
        for rule in ("sequence", "choice"):
            made.abstain("one", "scores", risk=0.5, rule=rule, thresholds=GRID)
        made.look("three")
    elif kind == "groups":
        made = Ledger(table(), {"looks": 3}, groups="site")
        made.look("one")
        made.better("two", "one")
        made.look("one", final=True)
    elif kind == "levels":
        made = Ledger(table(), {"looks": 5, "levels": [45, 30, 20, 10, 5, 0]})
        for name in ("two", "three", "one"):
            made.look(name)
        made.look("one", final=True)
    elif kind == "open":
        made = Ledger(table(), {"looks": None})
        for name in ("two", "three", "one"):
            made.look(name)
    elif kind == "precision":
        made = Ledger(table(), {"looks": 2, "loss": ["precision", "a"]}, groups="site")
        made.look("one")
        made.look("two")
    else:
        made = Ledger(table(), {"looks": 3}, clusters="patient", claim=kind)
        made.look("one")
        made.better("two", "one")
    return made.records


KINDS = ("exact", "groups", "levels", "open", "precision", "row", "any", "watch", "watch of groups")


def verdict_on(content: bytes, kind: str, **given: Any) -> Any:
    return verify_ledger(content, table=None if kind.startswith("watch") else table(), **given)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_right_is_accepted(kind):
    verdict = verdict_on(forged(made(kind)), kind)
    assert (verdict.verdict, verdict.reasons) == ("ACCEPT", ())
    assert verdict.recounted == (None if kind.startswith("watch") else len(made(kind)) - 1)


# bytes

BYTES: dict[str, Callable[[bytes], bytes]] = {
    "a line is removed": lambda c: b"".join(line for at, line in enumerate(c.splitlines(True)) if at != 2),
    "two lines change places": lambda c: b"".join(c.splitlines(True)[at] for at in (0, 2, 1, 3, 4, 5, 6, 7)),
    "a line is there twice": lambda c: c + c.splitlines(True)[-1],
    "the first line is missing": lambda c: c.partition(b"\n")[2],
    "the last line feed is missing": lambda c: c[:-1],
    "the file is cut in the middle": lambda c: c[: len(c) // 2],
    "an empty line at the end": lambda c: c + b"\n",
    "an empty line within": lambda c: c.replace(b"\n", b"\n\n", 1),
    "nothing": lambda c: b"",
    "only a line feed": lambda c: b"\n",
    "lines end as on Windows": lambda c: c.replace(b"\n", b"\r\n"),
    "a byte order mark": lambda c: b"\xef\xbb\xbf" + c,
    "a space after a colon": lambda c: c.replace(b'":', b'": ', 1),
    "a digit is changed": lambda c: c.replace(b'"delta":0.05', b'"delta":0.06'),
    "a key twice": lambda c: c.replace(b'"delta":0.05', b'"delta":0.05,"delta":0.05'),
    "NaN": lambda c: c.replace(b'"delta":0.05', b'"delta":NaN'),
    "infinity": lambda c: c.replace(b'"delta":0.05', b'"delta":1e999'),
    "a number of five thousand digits": lambda c: c.replace(b'"rows":60', b'"rows":' + b"6" * 5000),
    "a name in letters that are not ASCII": lambda c: c.replace(b"made up", "gem\u00e4cht".encode()),
    "the same number in another way": lambda c: c.replace(b'"delta":0.05', b'"delta":5e-2'),
    "a hundred thousand brackets": lambda c: b"[" * 100_000 + b"\n" + c,
    "a line that is too long": lambda c: b'"' + b"a" * MOST_IN_LINE + b'"\n' + c,
    "a list for a line": lambda c: b"[]\n" + c,
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_were_changed_are_refused(name):
    content = forged(made("exact"))
    changed = BYTES[name](content)
    assert changed != content
    verdict = verdict_on(changed, "exact")
    assert verdict.verdict == "REFUSE"
    assert len(verdict.reasons) == 1
    assert verdict.reasons[0].startswith("Ledger: ")


# lines that are chained again

TAMPERED: dict[str, tuple[str, Callable[[Lines], object]]] = {}


def tampering(kind: str) -> Callable[[Callable[[Lines], object]], Callable[[Lines], object]]:
    def enter(change: Callable[[Lines], object]) -> Callable[[Lines], object]:
        TAMPERED[change.__name__.replace("_", " ")] = kind, change
        return change

    return enter


def sets(name: str, kind: str, at: int, path: str, value: Any) -> None:
    """Enter the tampering that puts a value somewhere; a function of the old one where it is callable."""

    def change(lines: Lines) -> None:
        *way, last = (int(each) if each.lstrip("-").isdigit() else each for each in path.split("."))
        place: Any = lines[at]
        for each in way:
            place = place[each]
        place[last] = value(place[last]) if callable(value) else value

    TAMPERED[name] = kind, change


sets("another version", "exact", 0, "version", 2)
sets("a version that is true", "exact", 0, "version", True)
sets("another kind of first line", "exact", 0, "kind", "begin")
sets("a key too many", "exact", 0, "data", lambda _: {"name": "x"})
sets("delta above a half", "exact", 0, "delta", 0.51)
sets("delta as a text", "exact", 0, "delta", "0.05")
sets("delta is nothing", "exact", 0, "delta", 0.0)
sets("delta raised afterwards", "exact", 0, "delta", 0.2)
sets("delta lowered afterwards", "exact", 0, "delta", 0.01)
sets("fewer looks than lines", "exact", 0, "looks", 6)
sets("fewer looks, so that each has more", "open", 0, "looks", 2)
sets("no look at all", "exact", 0, "looks", 0)
sets("a loss that there is not", "exact", 0, "loss", ["top", "2"])
sets("a loss of another number of labels", "exact", 0, "loss", ["class"])
sets("a class that is confused with itself", "exact", 0, "loss", ["confused", "a", "a"])
sets("a threshold of a residual with a sign", "exact", 0, "loss", ["residual", "+1"])
sets("a label that is not canonical", "precision", 0, "loss", ["precision", " a"])
sets("more units than rows", "exact", 0, "n", 61)
sets("fewer units than there are", "exact", 0, "n", 59)
sets("other rows", "exact", 0, "rows", 61)
sets("another label column", "exact", 0, "label.sha256", "0" * 64)
sets("a hash in capitals", "exact", 0, "label.sha256", str.upper)
sets("fewer copies", "exact", 0, "inputs.copies", lambda v: v - 1)
sets("levels that do not fall", "levels", 0, "levels", [45, 30, 30, 10, 5, 0])
sets("levels with groups", "groups", 0, "levels", [30, 10])
sets("a level more", "levels", 0, "levels", [45, 30, 25, 20, 10, 5, 0])
sets("groups in another order", "groups", 0, "groups.names", ["y", "x"])
sets("another group", "groups", 0, "groups.names", ["x", "z"])
sets("sizes of groups that do not add up", "groups", 0, "groups.sizes.0", lambda v: v - 1)
sets("rows of one group in the other", "groups", 0, "groups.sizes", lambda v: [v[0] - 1, v[1] + 1])
sets("fewer clusters", "any", 0, "clusters.units", lambda v: v - 1)
sets("the other claim of clusters", "any", 0, "clusters.claim", "row")
sets("another claim of clusters", "row", 0, "clusters.claim", "mean")
sets("a column planned afterwards", "exact", 0, "planned", lambda v: [*v, *planned("three")])
sets("nothing was planned", "exact", 0, "planned", [])
sets("a column planned twice", "exact", 0, "planned", lambda v: v * 2)
sets("a date of February", "exact", 1, "date", "2026-02-30T00:00:00Z")
sets("a date before the line above", "exact", 2, "date", "2025-12-31T23:59:59Z")
sets("a date in another way", "exact", 2, "date", "2026-1-01T00:02:00Z")
sets("a kind of line that there is not", "exact", 2, "kind", "glance")
sets("a column without a name", "exact", 2, "column.name", "")
sets("half of a character for a name", "exact", 2, "column.name", "\ud800")
sets("another column", "exact", 2, "column.sha256", lambda _: hash_of(table()["three"]))
sets("an error fewer", "exact", 2, "result.errors", lambda v: v - 1)
sets("an error fewer with its bound", "exact", 1, "result", lambda v: better_look(v, 0.05 / 7))
sets("errors below nothing", "exact", 2, "result.errors", -1)
sets("more errors than units", "exact", 2, "result.errors", 61)
sets("errors with a point", "exact", 2, "result.errors", float)
sets("a bound that is lower", "exact", 1, "result.bound", lambda v: v - 1e-9 - 2e-8 * v)
sets("a bound that is needlessly high", "exact", 1, "result.bound", lambda v: v * (1 + 2e-6))
sets("a bound without a point", "exact", 1, "result.bound", 1)
sets("a bound at the level of one look", "exact", 2, "result", lambda v: at_level(v, 0.05))
sets("an answer that was not paid for", "exact", 7, "result", lambda v: at_level(v, 0.05 / 7))
sets("no result", "exact", 2, "result", None)
sets("final is a number", "exact", 1, "final", 0)
sets("a final look with others behind it", "exact", 1, "final", True)
sets("one error of A more", "exact", 3, "result.a_only", lambda v: v + 1)
sets("one error of B fewer", "exact", 3, "result.b_only", lambda v: v - 1)
sets("B is better after all", "exact", 3, "result.shown", lambda v: not v)
sets("a larger gain", "exact", 3, "result.limit", lambda v: v + 2e-6)
sets("a gain that is needlessly small", "exact", 3, "result.limit", lambda v: v - 2e-6)
sets("minus nothing", "exact", 3, "result.limit", -0.0)
sets("a column against itself", "exact", 3, "a", lambda _: made("exact")[3]["b"])
sets("a larger margin afterwards", "exact", 4, "margin", lambda v: v + 0.4)
sets("a margin below nothing", "exact", 4, "margin", -0.1)
sets("not worse after all", "exact", 4, "result.shown", lambda v: not v)
sets("a limit beside a margin", "exact", 4, "result.limit", 0.0)
sets("a threshold further on", "exact", 5, "result.chosen", lambda v: v + 1 if v < 2 else 0)
sets("no threshold where there is one", "exact", 6, "result", lambda v: v | {"chosen": None, "share": None})
sets("a smaller risk", "exact", 6, "risk", 0.01)
sets("the other rule", "exact", 6, "rule", "sequence")
sets("a rule that takes the better of two", "exact", 6, "rule", "better")
sets("thresholds that rise", "exact", 5, "thresholds", GRID[::-1])
sets("one wrong answer fewer", "exact", 5, "result.wrong.2", lambda v: v - 1)
sets("one answer more", "exact", 5, "result.answered.2", lambda v: v + 1)
sets("more wrong than answered", "exact", 5, "result.wrong.0", 60)
sets("more copies, which pay for more", "exact", 0, "inputs.copies", lambda v: v + 1)
sets("groups without what their sizes cost", "groups", 3, "result", lambda v: unpaid(v, made("groups")))
sets("a larger share", "exact", 6, "result.share", lambda v: v + 2e-6)
sets("a share that is needlessly small", "exact", 6, "result.share", lambda v: v - 2e-6)
sets("a share of minus nothing", "exact", 6, "result.share", -0.0)
sets("a group without a result", "groups", 1, "groups", lambda v: v[:1])
sets("no groups", "groups", 1, "groups", None)
sets("groups that do not add up", "groups", 1, "groups.0", lambda v: better_look(v, 0.05 / 3 / 4))
sets("a group at the full level", "groups", 1, "groups.0", lambda v: at_level(v, 0.05 / 3))
sets("all at the level of a seal without groups", "groups", 1, "result", lambda v: at_level(v, 0.05 / 3))
sets("groups where there are none", "exact", 1, "groups", [])
sets("a level that was not asked for", "levels", 1, "result.errors", 44)
sets("a level that is not better", "levels", 2, "result", lambda _: made("levels")[1]["result"])
sets("not better, though it is", "levels", 3, "result", None)
sets("fewer predicted", "precision", 1, "result.n", lambda v: v - 1)
sets("an alarm that was not raised", "watch", 1, "alarm", 90)
sets("no alarm", "watch", -1, "alarm", None)
sets("an alarm that is late", "watch", -1, "alarm", lambda v: v + 1)
sets(
    "an error that never was", "watch", 1, "errors", lambda v: sorted({*v, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
)
sets("errors that fall", "watch", 3, "errors", lambda v: v[::-1])
sets("an error twice", "watch", 3, "errors", lambda v: [*v, v[-1]])
sets("an error after the last label", "watch", 3, "errors", lambda v: [*v, 111])
sets("an error before the first label", "watch", 3, "errors", lambda v: [0, *v])
sets("no labels", "watch", 1, "labels", 0)
sets("a million labels too many", "watch", 1, "labels", (1 << 20) + 1)
sets("a larger bound afterwards", "watch", 0, "bound", 0.2)
sets("a smaller bound afterwards", "watch", 0, "bound", 0.02)
sets("a smaller alpha afterwards", "watch", 0, "alpha", 1e-9)
sets("a larger alpha afterwards", "watch", 0, "alpha", 0.3)
sets("a bound of one", "watch", 0, "bound", 1.0)
sets("precision of a stream", "watch", 0, "loss", ["precision", "a"])
sets("a certificate without its delta", "watch", 0, "certificate", {"sha256": "a" * 64})
sets("a group of a stream without alarm", "watch of groups", -1, "groups.0.alarm", None)
sets("a group of a stream with another alarm", "watch of groups", -1, "groups.0.alarm", lambda v: v + 1)
sets("labels of groups that do not add up", "watch of groups", 1, "groups.0.labels", lambda v: v + 1)
sets("a group too few in a batch", "watch of groups", 1, "groups", lambda v: v[:1])


def at_level(result: dict, level: float) -> dict:
    from ledger_writer import mpf, up, upper

    return {**result, "bound": up(upper(result["errors"], result["n"], mpf(level)))}


def unpaid(result: dict, lines: Lines) -> dict:
    """The last of three looks as if the answers before it were all that it pays for."""
    sizes = lines[0]["groups"]["sizes"]
    bits = sum(math.log2((size + 1) * math.comb(size + 2, 2)) for size in sizes)
    return at_level(result, 0.05 / 3 / 2 * 2**-bits)


def better_look(result: dict, level: float) -> dict:
    return at_level({**result, "errors": result["errors"] - 1}, level)


@tampering("exact")
def the_only_error_is_that_it_was_said_before(lines: Lines) -> None:
    lines[3] = lines[2]


@tampering("exact")
def a_batch_among_looks(lines: Lines) -> None:
    lines[3] = made("watch")[1]


@tampering("watch")
def a_look_among_batches(lines: Lines) -> None:
    lines[2] = made("exact")[1]


@tampering("exact")
def a_second_seal(lines: Lines) -> None:
    lines.append(lines[0] | {"date": lines[-1]["date"]})


@tampering("exact")
def a_look_that_cost_too_much_is_left_out(lines: Lines) -> None:
    del lines[2]


@tampering("exact")
def the_order_of_two_looks(lines: Lines) -> None:
    lines[2], lines[3] = lines[3] | {"date": lines[2]["date"]}, lines[2] | {"date": lines[3]["date"]}


@tampering("watch")
def a_batch_left_out(lines: Lines) -> None:
    del lines[1]


@tampering("watch")
def two_batches_in_another_order(lines: Lines) -> None:
    lines[1]["errors"], lines[2]["errors"] = lines[2]["errors"], lines[1]["errors"]


def test_more_work_than_is_allowed_is_refused(monkeypatch):
    each = 16 + 7  # of 60 rows, whose root is 7
    work = each * (3 + 2 * 20 + 2 * len(GRID))
    monkeypatch.setattr(results, "WORK_LIMIT", work)
    assert verify_ledger(forged(made("exact"))).is_accepted
    monkeypatch.setattr(results, "WORK_LIMIT", work - 1)
    assert "line 8 makes more work" in verify_ledger(forged(made("exact"))).reasons[0]
    of_groups = sum(16 + math.isqrt(n) for n in (60, *made("groups")[0]["groups"]["sizes"]))
    monkeypatch.setattr(results, "WORK_LIMIT", 22 * of_groups)
    assert verify_ledger(forged(made("groups"))).is_accepted
    monkeypatch.setattr(results, "WORK_LIMIT", 22 * of_groups - 1)
    assert not verify_ledger(forged(made("groups"))).is_accepted


def test_a_watch_of_too_many_errors_is_refused(monkeypatch):
    lines = made("watch of groups")
    total = sum(len(each["errors"]) for each in lines[1:]) * 2
    monkeypatch.setattr(wealth, "ERRORS_LIMIT", total)
    assert verify_ledger(forged(lines)).is_accepted
    monkeypatch.setattr(wealth, "ERRORS_LIMIT", total - 1)
    assert "those of groups included" in verify_ledger(forged(lines)).reasons[0]


def test_columns_are_called_as_in_the_table():
    lines = copy.deepcopy(made("open"))
    lines[1]["column"]["name"], lines[2]["column"]["name"] = "three", "elsewhere"  # it is two, and three
    content = forged(lines)
    assert [each.partition(":")[0] for each in verify_ledger(content).statements] == [
        "three",
        "elsewhere",
        "one",
    ]
    verdict = verify_ledger(content, table=table())
    assert [each.partition(":")[0] for each in verdict.statements] == ["two", "three", "one"]
    assert verdict.best_model == "one"


def test_there_are_sixty_kinds_of_tampering():
    assert len(TAMPERED) >= 60


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_lines_are_refused(name):
    kind, change = TAMPERED[name]
    lines = copy.deepcopy(made(kind))
    change(lines)
    assert lines != made(kind) or json.dumps(lines) != json.dumps(made(kind))
    verdict = verdict_on(forged(lines), kind)
    assert verdict.verdict == "REFUSE"
    assert len(verdict.reasons) == 1
    assert verdict.reasons[0].startswith(("Ledger: ", "Data: "))
    assert verdict.reasons[0].endswith(".")
    assert len(verdict.reasons[0]) < 600


# chance

SOURCES = [0, 1, -1, 1.0, 0.5, "", "a", None, True, [], {}, 1e-300, 2**53, 2**53 + 1, "\ud800", -0.0]


def places_of(value: Any, *, way: tuple = ()) -> list[tuple]:
    """Ways to everything within a value, but hashes of answers: a line that names others is not recounted."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [way] if way else []
    for at, each in inside:
        if not (at == "sha256" and way[-1] in ("column", "a", "b", "scores")):
            found += places_of(each, way=(*way, at))
    return found


def mutated(lines: Lines, draw: random.Random) -> Lines:
    lines = copy.deepcopy(lines)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        *way, last = draw.choice(places_of(lines))
        place: Any = lines
        for each in way:
            place = place[each]
        old, kind = place[last], draw.randrange(8)
        if kind == 0:
            del place[last]
        elif kind == 1 and isinstance(place, list):
            place.insert(last, copy.deepcopy(old))
        elif kind == 2 and isinstance(old, bool):
            place[last] = not old
        elif kind < 5 and type(old) is int:
            place[last] = old + draw.choice([-2, -1, 1, 2])
        elif kind < 7 and type(old) is float:
            place[last] = draw.choice(
                [old * 1.0000001, old * 0.9999999, old * 2, old / 2, old + 1e-8, old - 1e-7]
            )
        elif isinstance(old, str) and old and kind < 7:
            place[last] = draw.choice([old[1:], old + "x", old.upper(), old.replace("2026", "2027")])
        else:
            place[last] = draw.choice(SOURCES)
        if not (lines and isinstance(lines[0], dict) and all(isinstance(each, dict) for each in lines)):
            return copy.deepcopy(made("exact"))
    return lines


def check_mutations(count: int, seed: int) -> int:
    draw, accepted = random.Random(seed), 0
    for _ in range(count):
        kind = draw.choice(KINDS)
        lines = mutated(made(kind), draw)
        verdict = verdict_on(forged(lines), kind)
        if verdict.is_accepted:
            accepted += 1
            is_watch = lines[0]["kind"] == "watch"
            assert is_watch or says_no_more(lines, table()), (kind, lines)
            if is_watch:
                alarms = [each["alarm"] for each in lines[1:]]
                right = [each["alarm"] for each in made(kind)[1:]]
                same = [(each["labels"], each["errors"]) for each in lines[1:]]
                if same == [(each["labels"], each["errors"]) for each in made(kind)[1:]]:
                    assert alarms == right
        else:
            assert len(verdict.reasons) == 1
    return accepted


def test_lines_changed_at_random_claim_nothing_that_is_not_so():
    assert check_mutations(400, seed=1) > 10


@pytest.mark.slow
def test_many_lines_changed_at_random_claim_nothing_that_is_not_so():
    assert check_mutations(5_000, seed=2) > 100


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_changed_at_random_are_refused_by_the_head(kind):
    draw, content = random.Random(kind), forged(made(kind))
    head = hashlib.sha256(line_of(json.loads(content.splitlines()[-1]))).hexdigest()
    assert verify_ledger(content, head=head).is_accepted
    for _ in range(150):
        changed = bytearray(content)
        for _ in range(draw.choice([1, 1, 2, 5])):
            at = draw.randrange(len(changed))
            part = draw.choice(
                [b"", bytes([draw.randrange(256)]), bytes(changed[at : at + 9]), b'"', b"\n", b"}"]
            )
            changed[at : at + draw.choice([0, 1, 1, 4])] = part
        if bytes(changed) != content:
            verdict = verify_ledger(bytes(changed), head=head)
            assert verdict.verdict == "REFUSE"
            assert len(verdict.reasons) == 1
            verify_ledger(bytes(changed))  # which may be another last line, and never a crash

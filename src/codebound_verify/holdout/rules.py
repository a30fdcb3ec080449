"""Lines of a ledger and the rules of their values: chain, seal, statements (docs/ledger.md, 1 to 4)."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from io import BytesIO
from itertools import pairwise
from typing import Any, TypeAlias

from ..header import integer, or_null, read_canonical, record, require, sequence, text, value, word
from ..refusal import Refused, quote

Record: TypeAlias = "dict[str, Any]"

PAGE_SHA256 = "ea7b435b4fd0510b7fdedb942b69908f31493f7a5a1c3ea51a6833e07a4a90a4"
FROZEN = "2026-11-19"
"""Hash of the page that this part was written from, and the day on which it was frozen."""

MOST_BYTES, MOST_IN_LINE = 1 << 28, 1 << 24
MOST_LINES = {"seal": 1 << 16, "watch": 1 << 20}
ROWS_LIMIT, GROUPS_LIMIT = 10**9, 4096
WHOLE = re.compile(r"[+-]?[0-9]{1,15}(?:\.0*)?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
SHORT = "[^\ud800-\udfff]{1,400}"
NAMED = {"wrong": 0, "class": 1, "confused": 2, "false-alarm": 1, "precision": 1, "residual": 1}


def canonical(cell: str) -> str:
    """The characters that a cell is compared by.

    Example:
        >>> [canonical(each) for each in (" yes ", "+01.0", "-0", "NaN", "1e3")]
        ['yes', '1', '0', '', '1e3']
    """
    cell = cell.strip(" \t\r\n")
    if WHOLE.fullmatch(cell):
        return str(int(cell.partition(".")[0]))
    return "" if cell.lower() == "nan" else cell


def number_of(cell: str) -> float:
    """The number that a canonical cell is, or one that equals no other (NaN)."""
    value = float(cell) if _NUMBER.fullmatch(cell) else math.nan
    return value if math.isfinite(value) else math.nan


def read_chain(content: bytes, hashes: list[str]) -> Iterator[Record]:
    """Every line, its hash noted; one that does not follow the line before is refused."""
    if len(content) > MOST_BYTES or not content.endswith(b"\n"):
        raise Refused(
            f"Ledger: it has {len(content)} bytes; {MOST_BYTES} are allowed, the last of them a line feed."
        )
    count, head, date = content.count(b"\n"), "0" * 64, ""
    for number, line in enumerate(BytesIO(content), start=1):
        line, where = line[:-1], f"Ledger: line {number}"
        if len(line) > MOST_IN_LINE:
            raise Refused(f"{where} has more than {MOST_IN_LINE} bytes.")
        found: Any = read_canonical(line, where)
        if type(found) is not dict or found.get("previous") != head:
            raise Refused(f"{where} does not follow the one before it: one was changed, removed or moved.")
        if DATE(found.get("date"), f"{where}.date") < date:
            raise Refused(f"{where} is dated before the line above it.")
        if number == 1 and count > MOST_LINES.get(str(found.get("kind")), 0):
            raise Refused(f"{where} of {count} is of kind {quote(found.get('kind'))}; known: {MOST_LINES}.")
        head, date = hashlib.sha256(line).hexdigest(), found["date"]
        hashes.append(head)
        yield found


def _is_date(value: Any) -> bool:
    try:
        return bool(datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").isoformat() + "Z" == value)
    except (ValueError, TypeError):
        return False


def _is_number(value: Any) -> bool:
    return type(value) is float and math.isfinite(value) and str(value) != "-0.0"


def _is_cell(value: Any) -> bool:
    return type(value) is str and bool(re.fullmatch(SHORT, value)) and canonical(value) == value


def _is_loss(value: Any) -> bool:
    if not _is_list(value, 3, _is_cell):
        return False
    kind, *named = value
    if kind == "residual" and not all(each[0] not in "+-" and number_of(each) > 0 for each in named):
        return False
    return NAMED.get(kind) == len(named) == len({*named})


def _is_list(value: Any, most: int, is_so: Callable[[Any], bool]) -> bool:
    return type(value) is list and 0 < len(value) <= most and all(map(is_so, value))


def rise(values: Any) -> bool:
    """Return True if every value is above the one before."""
    return all(a < b for a, b in pairwise(values))


DATE = value("a date YYYY-MM-DDTHH:MM:SSZ", _is_date)
NUMBER = value("a finite number with a point or an exponent", _is_number)
SHARE = value("a number strictly between 0 and 1", lambda each: type(each) is float and 0.0 < each < 1.0)
MARGIN = value("a number from 0 to below 1", lambda each: _is_number(each) and 0.0 <= each < 1.0)
TEXT = text(SHORT, "a text of 1 to 400 characters")
LOSS = value("a loss of the page", _is_loss)
NAMES = value("cells in rising order", lambda each: _is_list(each, GROUPS_LIMIT, _is_cell) and rise(each))
GRID = value("thresholds that fall", lambda each: _is_list(each, 256, _is_number) and rise(each[::-1]))
NULL = value("null", lambda each: each is None)
ANY = value("anything", lambda _: True)
SHA256 = text("[0-9a-f]{64}", "64 hexadecimal digits")
CLAIM = word("row", "any")
LINE = {"previous": SHA256, "date": DATE}
_ANSWERS = record(dict, name=TEXT, sha256=SHA256)
_COLUMN = {"column": TEXT, "sha256": SHA256}
STATEMENTS = {
    "look": {"kind": word("look"), "column": _ANSWERS},
    "better": {"kind": word("better"), "a": _ANSWERS, "b": _ANSWERS, "margin": MARGIN},
    "abstain": {
        "kind": word("abstain"),
        "column": _ANSWERS,
        "scores": _ANSWERS,
        "risk": SHARE,
        "rule": word("sequence", "choice"),
        "thresholds": GRID,
    },
}


def statement(given: Any, name: str, **more: Any) -> Record:
    """Rule for a statement, with more keys in a line."""
    kind: Any = given.get("kind") if type(given) is dict else None
    require(kind in [*STATEMENTS], name, "a statement of kind look, better or abstain", kind)
    found: Record = record(dict, **STATEMENTS[kind], **more)(given, name)
    return found


def key_of(found: Record) -> str:
    """Text that two statements share if they are the same."""
    plain = {key: found[key] for key in STATEMENTS[found["kind"]]}
    return repr({key: each["sha256"] if type(each) is dict else each for key, each in plain.items()})


def read_seal(line: Record) -> Record:
    """The first line of a ledger, if its rules hold."""
    where = "Ledger: the seal"
    rows = integer(1, ROWS_LIMIT)
    seal: Record = record(
        dict,
        **LINE,
        kind=word("seal"),
        version=integer(1, 1),
        data=TEXT,
        rows=rows,
        label=record(dict, **_COLUMN, **{"is": word("label", "answers")}),
        inputs=or_null(record(dict, **_COLUMN, copies=integer(0, ROWS_LIMIT))),
        groups=or_null(
            record(dict, **_COLUMN, names=NAMES, sizes=sequence(integer(0, ROWS_LIMIT), 1, GROUPS_LIMIT))
        ),
        clusters=or_null(record(dict, **_COLUMN, claim=CLAIM, units=rows)),
        loss=LOSS,
        n=rows,
        delta=SHARE,
        looks=or_null(integer(1, 1 << 32)),
        planned=sequence(statement, 0, MOST_IN_LINE),
        levels=or_null(sequence(integer(0, ROWS_LIMIT), 1, MOST_IN_LINE)),
    )(line, where)
    n, is_precision = seal["n"], seal["loss"][0] == "precision"
    units, copies = seal["clusters"] or {"units": seal["rows"]}, seal["inputs"] or {"copies": 0}
    keys, sizes = [key_of(each) for each in seal["planned"]], (seal["groups"] or {"sizes": (n,)})["sizes"]
    names = [""] if seal["groups"] is None else seal["groups"]["names"]
    levels, exact = seal["levels"] or (), seal["groups"] is not None or is_precision
    for is_so, reason in (
        (seal["delta"] <= 0.5, "delta is above 0.5"),
        (n <= units["units"] <= seal["rows"], "there are more units than there can be"),
        (n == units["units"] or not is_precision, "precision is about all units"),
        (copies["copies"] < seal["rows"], "there are more copies than rows"),
        (len({*keys}) == len(keys) <= (seal["looks"] or 0), "more is planned than looks, or twice"),
        (not (levels and exact), "levels go with no groups, no precision"),
        (rise((*levels[::-1], n)), "the levels do not fall from n"),
        (len(sizes) == len(names), "the groups have too few names or sizes"),
        (max(sizes) <= n <= sum(sizes), "the sizes of the groups do not fit n"),
        (sum(sizes) == n or not adds_up(seal), "the sizes of the groups do not add up to n"),
    ):
        if not is_so:
            raise Refused(f"{where} contradicts itself: {reason}.")
    for each in seal["planned"]:
        check_fitting(seal, each, where)
    return seal


def check_fitting(seal: Record, found: Record, where: str) -> None:
    """Refuse a statement about one column twice, or that is not for this loss or these groups."""
    kind = found["kind"]
    if kind == "better" and found["a"]["sha256"] == found["b"]["sha256"]:
        raise Refused(f"{where} has better, which needs two different columns.")
    if kind != "look" and seal["loss"][0] == "precision":
        raise Refused(f"{where} has {kind}, which needs a loss other than precision.")
    if kind == "abstain" and seal["groups"] is not None:
        raise Refused(f"{where} has abstain, which needs a seal without groups.")


def adds_up(first: Record) -> bool:
    """Return True if every unit is in one group, so that counts of groups add up to those of all."""
    return first["clusters"] is None or bool(first["clusters"]["claim"] == "row")

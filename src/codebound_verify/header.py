"""The header of a certificate (docs/format.md, section 2): a closed schema."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from .refusal import Refused, quote

PAGE_SHA256 = "b45e2a14cf3b571aeaa1299bb8f4e7927dc3a3ee2c68ffecc02185c686b504f3"
FROZEN = "2026-11-19"
"""Hash of the page that this program was written from, and the day on which it was frozen."""
IS_DRAFT = FROZEN == "0001-01-01"
DRAFT_SENTENCE = "The file follows a draft whose page may still change: keep no file of it."

TEXT_LIMIT = 400
LEVELS_LIMIT = 8
DIGITS_LIMIT = 17  # of an integer up to 2^53 with its sign
BITS_LIMIT = 2**32
ROWS_LIMIT = 2**32
CLASSES_LIMIT = 2**16
INPUT_LIMIT = 2**24  # numbers in one input
SCORES_LIMIT = 2**31  # numbers in one table
SIZE_LIMIT = 2**16  # in a chain
LEDGER_LIMIT = 2**16
REAL_LIMIT = 1e300

CHAIN_SIZES = {  # the least value of each size (section 9); a bias, the last of some, is at most 1
    "linear": (1, 0),
    "conv": (1, 1, 1, 0, 0),
    "local conv": (1, 1, 1, 0, 0),
    "max pool": (1,),
    "average pool": (1,),
    "global average pool": (),
    "residual": (1, 0),
}
BIASED = ("linear", "conv", "local conv", "residual")

Check: TypeAlias = Callable[[Any, str], Any]  # a value and its name to what it is read as


@dataclass(frozen=True)
class Made:
    """Something that was made elsewhere: by whom, of which data, of how many first rows of this sample."""

    by: str
    of: str
    rows: int
    sha256: str


@dataclass(frozen=True)
class Table(Made):
    """A declared table of scores; ``picks`` is None unless a rule picked rows."""

    columns: int
    picks: int | None


@dataclass(frozen=True)
class Sample:
    """The sample (section 3)."""

    rows: int
    sha256: str
    input_shape: tuple[int, ...]
    classes: int
    order: str
    salt: str
    seal: str
    copies: str
    clusters: str | None
    groups: str | None


@dataclass(frozen=True)
class Known:
    """Everything that was fixed without the counted rows (section 4); ``rows`` is t, before it grows."""

    rows: int
    tables: tuple[Table, ...]
    features: Made | None
    base: Made | None


@dataclass(frozen=True)
class Code:
    """Length, hash and ledger of the message."""

    bits: int
    sha256: str
    ledger: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Limit:
    """One limit that was printed (section 6.5)."""

    bound: float
    errors: int
    n: int
    of: str
    picks: int | None


@dataclass(frozen=True)
class Claim:
    """The claim (section 6)."""

    loss: str
    on: str
    law: str
    subject: str
    assurance: str
    delta: float
    limits: tuple[Limit, ...]
    bound: float
    vacuous: bool


@dataclass(frozen=True)
class Unlabelled:
    """A second draw of inputs, and on how many of them two networks disagree (section 9.1)."""

    disagreements: int
    rows: int
    sha256: str


@dataclass(frozen=True)
class Original:
    """The network that was given (section 9); ``chain`` is None for declared answers."""

    chain: tuple[tuple[Any, ...], ...] | None
    domain: tuple[float, float] | None
    sha256: str
    unlabelled: Unlabelled | None


@dataclass(frozen=True)
class Header:
    """Everything that the file says about itself; nothing in here has been believed yet."""

    sample: Sample
    known: Known
    message: Code
    claim: Claim
    original: Original | None
    declarations: tuple[str, ...]
    made_by: dict[str, str]
    format: dict[str, str]


def read_header(data: bytes) -> Header:
    """Read a header; raises :class:`Refused` with the first field that is wrong, or all that do not fit."""
    header: Header = _HEADER(_canonical(data), "the header")
    if reasons := [f"Header: {sentence}" for is_so, sentence in _list_rules(header) if not is_so]:
        raise Refused(*reasons)
    return header


def _canonical(data: bytes) -> object:
    """The JSON value, if writing it again gives the same bytes."""

    def without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError("a key occurs twice in one object")
        return dict(pairs)

    def constant(name: str) -> object:
        raise ValueError(f"{name} is no number")

    def integer(digits: str) -> int:
        if len(digits) > DIGITS_LIMIT or abs(int(digits)) > 2**53:
            raise ValueError("an integer is above 2^53")
        return int(digits)

    try:
        if not re.fullmatch(rb"[ -~]+", data):
            raise ValueError("a character is not printable")
        text = data.decode("ascii")
        if _levels(text) > LEVELS_LIMIT:  # before a parser goes down
            raise ValueError(f"more than {LEVELS_LIMIT} levels")
        value: object = json.loads(
            text, object_pairs_hook=without_duplicates, parse_constant=constant, parse_int=integer
        )
        again = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise Refused(f"Header: not canonical JSON in ASCII ({error}).") from None
    if again != text:
        raise Refused("Header: not canonical JSON: written again with sorted keys, its bytes differ.")
    return value


def _levels(text: str) -> int:
    """The depth of brackets outside of texts."""
    depth = deepest = 0
    for bracket in re.findall(r'"(?:[^"\\]|\\.)*"|[][{}]', text):
        depth += (bracket in "[{") - (bracket in "]}")
        deepest = max(deepest, depth)
    return deepest


def _require(is_so: bool, name: str, expected: str, value: object) -> None:
    if not is_so:
        raise Refused(f"Header: {name} must be {expected}; found {quote(value)}.")


def _integer(low: int, high: int) -> Check:
    def check(value: Any, name: str) -> int:
        is_so = type(value) is int and low <= value <= high
        _require(is_so, name, f"an integer from {low} to {high}", value)
        return int(value)

    return check


def _real(low: float, high: float) -> Check:
    def check(value: Any, name: str) -> float:
        is_so = type(value) is float and low <= value <= high
        _require(is_so, name, f"a number with a point or an exponent from {low:g} to {high:g}", value)
        return float(value)

    return check


def _text(pattern: str, expected: str) -> Check:
    def check(value: Any, name: str) -> str:
        _require(type(value) is str and re.fullmatch(pattern, value) is not None, name, expected, value)
        return str(value)

    return check


def _word(*words: str) -> Check:
    return _text("|".join(words), " or ".join(words))


def _list(each: Check, low: int, high: int) -> Check:
    def check(value: Any, name: str) -> tuple[Any, ...]:
        is_so = type(value) is list and low <= len(value) <= high
        _require(is_so, name, f"a list of {low} to {high} entries", value)
        return tuple(each(entry, f"{name}[{i}]") for i, entry in enumerate(value))

    return check


def _object(kind: Callable[..., Any], **checks: Check) -> Check:
    def check(value: Any, name: str) -> Any:
        is_so = type(value) is dict and value.keys() == checks.keys()
        _require(is_so, name, f"an object with the keys {', '.join(sorted(checks))}", value)
        return kind(**{key: each(value[key], f"{name}.{key}") for key, each in checks.items()})

    return check


def _or_null(each: Check) -> Check:
    return lambda value, name: None if value is None else each(value, name)


def _true_or_false(value: Any, name: str) -> bool:
    _require(type(value) is bool, name, "true or false", value)
    return bool(value)


def _date(value: Any, name: str) -> str:
    try:
        is_so = type(value) is str and datetime.date.fromisoformat(value).isoformat() == value
    except ValueError:
        is_so = False
    _require(is_so, name, "a date YYYY-MM-DD", value)
    return str(value)


def _part(value: Any, name: str) -> tuple[str, int]:
    _require(type(value) is list and len(value) == 2, name, "a part and its bits", value)
    return _TEXT(value[0], name), _integer(0, BITS_LIMIT)(value[1], name)


def _operation(value: Any, name: str) -> tuple[Any, ...]:
    """An operation of a chain with its sizes (section 9)."""
    kind = value[0] if type(value) is list and value and type(value[0]) is str else None
    least = CHAIN_SIZES.get(kind or "")
    is_so = least is not None and len(value) == 1 + len(least)
    _require(is_so, name, "an operation of section 9 with its sizes", value)
    limits = [SIZE_LIMIT] * (len(value) - 1)
    if kind in BIASED:
        limits[-1] = 1
    sizes = zip(value[1:], least or (), limits, strict=True)
    return (kind, *(_integer(low, high)(size, name) for size, low, high in sizes))


_TEXT = _text(f"[ -~]{{0,{TEXT_LIMIT}}}", f"a text of at most {TEXT_LIMIT} printable ASCII characters")
_SHA256 = _text("[0-9a-f]{64}", "64 hexadecimal digits")
_ROWS = _integer(0, ROWS_LIMIT)
_SHARE = _real(0.0, 1.0)
_MADE = {"by": _TEXT, "of": _TEXT, "rows": _ROWS, "sha256": _SHA256}
_HEADER = _object(
    Header,
    sample=_object(
        Sample,
        rows=_integer(1, ROWS_LIMIT),
        sha256=_SHA256,
        input_shape=_list(_integer(1, INPUT_LIMIT), 1, 3),
        classes=_integer(2, CLASSES_LIMIT),
        order=_word("rows", "clusters", "file"),
        salt=_text("([0-9a-f]{64})?", "64 hexadecimal digits or nothing"),
        seal=_TEXT,
        copies=_word("any", "independent", "repeated"),
        clusters=_or_null(_SHA256),
        groups=_or_null(_SHA256),
    ),
    known=_object(
        Known,
        rows=_ROWS,
        tables=_list(
            _object(Table, **_MADE, columns=_integer(2, CLASSES_LIMIT), picks=_or_null(_ROWS)), 0, 256
        ),
        features=_or_null(_object(Made, **_MADE)),
        base=_or_null(_object(Made, **_MADE)),
    ),
    message=_object(Code, bits=_integer(1, BITS_LIMIT), sha256=_SHA256, ledger=_list(_part, 1, LEDGER_LIMIT)),
    claim=_object(
        Claim,
        loss=_TEXT,
        on=_TEXT,
        law=_word("binomial", "picked", "sum"),
        subject=_word("g", "f"),
        assurance=_word("replayed", "replayed on declared inputs", "recounted"),
        delta=_SHARE,
        limits=_list(
            _object(Limit, bound=_SHARE, errors=_ROWS, n=_ROWS, of=_TEXT, picks=_or_null(_ROWS)), 1, 1024
        ),
        bound=_SHARE,
        vacuous=_true_or_false,
    ),
    original=_or_null(
        _object(
            Original,
            chain=_or_null(_list(_operation, 1, 256)),
            domain=_or_null(_list(_real(-REAL_LIMIT, REAL_LIMIT), 2, 2)),
            sha256=_SHA256,
            unlabelled=_or_null(
                _object(Unlabelled, disagreements=_ROWS, rows=_integer(1, ROWS_LIMIT), sha256=_SHA256)
            ),
        )
    ),
    declarations=_list(_TEXT, 1, 64),
    made_by=_object(
        dict, codebound=_TEXT, commit=_text("([0-9a-f]{40})?", "40 hexadecimal digits or nothing"), date=_date
    ),
    format=_object(dict, frozen=_word(FROZEN), sha256=_word(PAGE_SHA256)),
)


def _list_rules(header: Header) -> Iterator[tuple[bool, str]]:
    """Rules between fields: each with its truth, and a sentence for when it is broken."""
    sample, known, code, claim = header.sample, header.known, header.message, header.claim
    in_clusters = sample.order == "clusters"
    yield math.prod(sample.input_shape) <= INPUT_LIMIT, "sample.input_shape has a product above 2^24."
    yield (sample.salt == "") == (sample.seal == ""), "sample.salt and sample.seal: one without the other."
    yield (sample.clusters is not None) == in_clusters, "sample.clusters: null but in the order clusters."
    yield not in_clusters or sample.copies == "independent", "sample.copies: independent with clusters."
    yield known.rows < sample.rows, "known.rows leaves nothing to count."
    for made in (*known.tables, known.features, known.base):
        yield made is None or made.rows <= sample.rows, "known: something was made from more rows than all."
    for table in known.tables:
        yield table.columns * sample.rows <= SCORES_LIMIT, "known.tables: one has more than 2^31 scores."
        yield (table.picks or 0) <= sample.rows, "known.tables: one has more picks than rows."
    if known.features is not None and known.features.rows:
        yield sample.order == "file", "sample.order: file, where features learned from rows of the sample."
        yield known.features.rows <= known.rows, "known.rows: features learned from more."
    total = sum(bits for _, bits in code.ledger)
    yield total == code.bits, f"message.ledger adds up to {total}, but message.bits is {code.bits}."
    yield 0.0 < claim.delta < 1.0, "claim.delta must be above 0 and below 1."
    yield from _list_rules_of_original(header.original, claim)
    for limit in claim.limits:
        second = header.original and header.original.unlabelled
        rows = second.rows if second and limit.of == "disagreement" else sample.rows
        yield limit.errors + (limit.picks or 0) <= limit.n <= rows, "claim.limits: counts do not fit."
        yield (limit.picks is None) == (claim.law != "picked"), "claim.limits: picks are for the law picked."


def _list_rules_of_original(original: Original | None, claim: Claim) -> Iterator[tuple[bool, str]]:
    yield (claim.subject == "f") == (original is not None), "original: null exactly for subject g."
    unlabelled = None if original is None else original.unlabelled
    yield (claim.law == "sum") == (unlabelled is not None), "claim.law: sum exactly with unlabelled inputs."
    if unlabelled is not None:
        yield unlabelled.disagreements <= unlabelled.rows, "original.unlabelled: more differ than there are."
    if original is not None:
        domain = original.domain
        yield (domain is None) != (unlabelled is None), "original: either a domain or unlabelled inputs."
        yield domain is None or domain[0] <= domain[1], "original.domain: not [low, high]."
        yield domain is None or original.chain is not None, "original.chain: a claim on a domain needs it."

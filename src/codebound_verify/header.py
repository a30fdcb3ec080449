"""The header of a certificate (docs/format.md, section 2): a closed schema."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, get_type_hints

from .refusal import Refused, quote

PAGE_SHA256 = "b45e2a14cf3b571aeaa1299bb8f4e7927dc3a3ee2c68ffecc02185c686b504f3"
FROZEN = "2026-11-19"
"""Hash of the page that this program was written from, and the day on which it was frozen."""

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


def require(is_so: bool, name: str, expected: str, value: object) -> None:
    """Refuse a value that is not as expected."""
    if not is_so:
        raise Refused(f"{name} must be {expected}; found {quote(value)}.")


def value(expected: str, is_so: Callable[[Any], bool]) -> Check:
    """Rule for what a predicate takes."""

    def check(value: Any, name: str) -> Any:
        require(is_so(value), name, expected, value)
        return value

    return check


def integer(low: int, high: int) -> Check:
    """Rule for an integer in a range."""
    return value(f"an integer from {low} to {high}", lambda each: type(each) is int and low <= each <= high)


def real(low: float, high: float) -> Check:
    """Rule for a float in a closed range."""
    expected = f"a number with a point or an exponent from {low:g} to {high:g}"
    return value(expected, lambda each: type(each) is float and low <= each <= high)


def text(pattern: str, expected: str) -> Check:
    """Rule for a text that matches a pattern."""
    return value(expected, lambda each: type(each) is str and re.fullmatch(pattern, each) is not None)


def word(*words: str) -> Check:
    """Rule for one of some words."""
    return text("|".join(words), " or ".join(words))


def sequence(each: Check, low: int, high: int) -> Check:
    """Rule for a list of so many entries."""
    rule = value(f"a list of {low} to {high} entries", lambda v: type(v) is list and low <= len(v) <= high)
    return lambda found, name: tuple(each(v, f"{name}[{i}]") for i, v in enumerate(rule(found, name)))


def record(kind: Callable[..., Any], /, **checks: Check) -> Check:
    """Rule for an object with exactly these keys."""
    expected = f"an object with the keys {', '.join(sorted(checks))}"
    rule = value(expected, lambda found: type(found) is dict and found.keys() == checks.keys())

    def check(found: Any, name: str) -> Any:
        rule(found, name)
        return kind(**{key: each(found[key], f"{name}.{key}") for key, each in checks.items()})

    return check


def fields_of(kind: type[Any]) -> Check:
    """Rule for an object with exactly the fields of a class: each has its own in its annotation."""
    hints = get_type_hints(kind, include_extras=True)
    return record(kind, **{name: hint.__metadata__[0] for name, hint in hints.items()})


def or_null(each: Check) -> Check:
    """Rule for null, or for what another rule takes."""
    return lambda value, name: None if value is None else each(value, name)


boolean = value("true or false", lambda each: type(each) is bool)


def _is_date(value: Any) -> bool:
    with suppress(ValueError):
        return type(value) is str and datetime.date.fromisoformat(value).isoformat() == value
    return False


def _part(value: Any, name: str) -> tuple[str, int]:
    require(type(value) is list and len(value) == 2, name, "a part and its bits", value)
    return _TEXT(value[0], name), integer(0, BITS_LIMIT)(value[1], name)


def _operation(value: Any, name: str) -> tuple[Any, ...]:
    """An operation of a chain with its sizes (section 9)."""
    kind = value[0] if type(value) is list and value and type(value[0]) is str else None
    least = CHAIN_SIZES.get(kind or "")
    is_so = least is not None and len(value) == 1 + len(least)
    require(is_so, name, "an operation of section 9 with its sizes", value)
    limits = [SIZE_LIMIT] * (len(value) - 1)
    if kind in BIASED:
        limits[-1] = 1
    sizes = zip(value[1:], least or (), limits, strict=True)
    return (kind, *(integer(low, high)(size, name) for size, low, high in sizes))


_TEXT = text(f"[ -~]{{0,{TEXT_LIMIT}}}", f"a text of at most {TEXT_LIMIT} printable ASCII characters")
_SHA256 = text("[0-9a-f]{64}", "64 hexadecimal digits")
_ROWS = integer(0, ROWS_LIMIT)
_SHARE = real(0.0, 1.0)


@dataclass(frozen=True)
class Made:
    """Something that was made elsewhere: by whom, of which data, of how many first rows of this sample."""

    by: Annotated[str, _TEXT]
    of: Annotated[str, _TEXT]
    rows: Annotated[int, _ROWS]
    sha256: Annotated[str, _SHA256]


@dataclass(frozen=True)
class Table(Made):
    """A declared table of scores. ``picks`` is None unless a rule picked rows."""

    columns: Annotated[int, integer(2, CLASSES_LIMIT)]
    picks: Annotated[int | None, or_null(_ROWS)]


@dataclass(frozen=True)
class Sample:
    """The sample (section 3)."""

    rows: Annotated[int, integer(1, ROWS_LIMIT)]
    sha256: Annotated[str, _SHA256]
    input_shape: Annotated[tuple[int, ...], sequence(integer(1, INPUT_LIMIT), 1, 3)]
    classes: Annotated[int, integer(2, CLASSES_LIMIT)]
    order: Annotated[str, word("rows", "clusters", "file")]
    salt: Annotated[str, text("([0-9a-f]{64})?", "64 hexadecimal digits or nothing")]
    seal: Annotated[str, _TEXT]
    copies: Annotated[str, word("any", "independent", "repeated")]
    clusters: Annotated[str | None, or_null(_SHA256)]
    groups: Annotated[str | None, or_null(_SHA256)]


@dataclass(frozen=True)
class Known:
    """Everything that was fixed without the counted rows (section 4). ``rows`` is t, before it grows."""

    rows: Annotated[int, _ROWS]
    tables: Annotated[tuple[Table, ...], sequence(fields_of(Table), 0, 256)]
    features: Annotated[Made | None, or_null(fields_of(Made))]
    base: Annotated[Made | None, or_null(fields_of(Made))]


@dataclass(frozen=True)
class Code:
    """Length, hash and ledger of the message."""

    bits: Annotated[int, integer(1, BITS_LIMIT)]
    sha256: Annotated[str, _SHA256]
    ledger: Annotated[tuple[tuple[str, int], ...], sequence(_part, 1, LEDGER_LIMIT)]


@dataclass(frozen=True)
class Limit:
    """One limit that was printed (section 6.5)."""

    bound: Annotated[float, _SHARE]
    errors: Annotated[int, _ROWS]
    n: Annotated[int, _ROWS]
    of: Annotated[str, _TEXT]
    picks: Annotated[int | None, or_null(_ROWS)]


@dataclass(frozen=True)
class Claim:
    """The claim (section 6)."""

    loss: Annotated[str, _TEXT]
    on: Annotated[str, _TEXT]
    law: Annotated[str, word("binomial", "picked", "sum")]
    subject: Annotated[str, word("g", "f")]
    assurance: Annotated[str, word("replayed", "replayed on declared inputs", "recounted")]
    delta: Annotated[float, _SHARE]
    limits: Annotated[tuple[Limit, ...], sequence(fields_of(Limit), 1, 1024)]
    bound: Annotated[float, _SHARE]
    vacuous: Annotated[bool, boolean]


@dataclass(frozen=True)
class Unlabelled:
    """A second draw of inputs, and on how many of them two networks disagree (section 9.1)."""

    disagreements: Annotated[int, _ROWS]
    rows: Annotated[int, integer(1, ROWS_LIMIT)]
    sha256: Annotated[str, _SHA256]


@dataclass(frozen=True)
class Original:
    """The network that was given (section 9). ``chain`` is None for declared answers."""

    chain: Annotated[tuple[tuple[Any, ...], ...] | None, or_null(sequence(_operation, 1, 256))]
    domain: Annotated[tuple[float, float] | None, or_null(sequence(real(-REAL_LIMIT, REAL_LIMIT), 2, 2))]
    sha256: Annotated[str, _SHA256]
    unlabelled: Annotated[Unlabelled | None, or_null(fields_of(Unlabelled))]


@dataclass(frozen=True)
class Maker:
    """The program that wrote the file, and the day."""

    codebound: Annotated[str, _TEXT]
    commit: Annotated[str, text("([0-9a-f]{40})?", "40 hexadecimal digits or nothing")]
    date: Annotated[str, value("a date YYYY-MM-DD", _is_date)]


@dataclass(frozen=True)
class Page:
    """The page that the file follows: this one."""

    frozen: Annotated[str, word(FROZEN)]
    sha256: Annotated[str, word(PAGE_SHA256)]


@dataclass(frozen=True)
class Header:
    """Everything that the file says about itself. Nothing in here has been believed yet."""

    sample: Annotated[Sample, fields_of(Sample)]
    known: Annotated[Known, fields_of(Known)]
    message: Annotated[Code, fields_of(Code)]
    claim: Annotated[Claim, fields_of(Claim)]
    original: Annotated[Original | None, or_null(fields_of(Original))]
    declarations: Annotated[tuple[str, ...], sequence(_TEXT, 1, 64)]
    made_by: Annotated[Maker, fields_of(Maker)]
    format: Annotated[Page, fields_of(Page)]


_HEADER = fields_of(Header)


def read_header(data: bytes) -> Header:
    """Read a header. Raises :class:`Refused` with the first field that is wrong, or all that do not fit."""
    header: Header = _HEADER(read_canonical(data, "Header"), "Header: the header")
    if reasons := [f"Header: {sentence}" for is_so, sentence in _list_rules(header) if not is_so]:
        raise Refused(*reasons)
    return header


def read_canonical(data: bytes, where: str) -> object:
    """The JSON value of printable ASCII, if writing it again gives the same bytes."""

    def whole(digits: str) -> int:
        if len(digits) > DIGITS_LIMIT or abs(int(digits)) > 2**53:
            raise ValueError("an integer is above 2^53")
        return int(digits)

    try:
        if not re.fullmatch(rb"[ -~]+", data):
            raise ValueError("a character is not printable")
        written = data.decode("ascii")
        if _levels(written) > LEVELS_LIMIT:  # before a parser goes down
            raise ValueError(f"more than {LEVELS_LIMIT} levels")
        found: object = json.loads(written, parse_int=whole)
        again = json.dumps(found, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise Refused(f"{where}: not canonical JSON in ASCII ({error}).") from None
    if again != written:
        raise Refused(
            f"{where}: not canonical JSON: written again with sorted keys, none twice, its bytes differ."
        )
    return found


def _levels(text: str) -> int:
    """The depth of brackets outside of texts. One without an end goes to the end, so all is read once."""
    depth = deepest = 0
    for bracket in re.findall(r'"(?:[^"\\]|\\.)*"?|[][{}]', text):
        depth += (bracket in "[{") - (bracket in "]}")
        deepest = max(deepest, depth)
    return deepest


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

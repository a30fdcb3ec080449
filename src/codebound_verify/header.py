"""The header of a certificate (docs/format.md, section 2): a closed schema that reports every violation."""

from __future__ import annotations

import datetime
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from .losses import WRONG, Loss, read_loss
from .refusal import Refused, quote

if TYPE_CHECKING:
    from .versions import Version

TEXT_LIMIT = 400
CODE_BITS_LIMIT = 2**32
EXAMPLES_LIMIT = 2**32
CLASSES_LIMIT = 2**16
INPUT_LIMIT = 2**24  # numbers in one example
CONSTANTS_LIMIT = 4  # means, and stds, of a scaling
NEEDS_CODE = (
    "Header: the file needs code of others (a factory), which this program does not run; helper.architecture "
    "must be null."
)

Statement: TypeAlias = Literal["C-2", "C-10", "C-12a", "C-12b", "C-15"]
EXTRA_KEYS: dict[Statement, str] = {
    "C-10": "n_prior",
    "C-12a": "input_low input_high subject_sha256",
    "C-12b": "disagreements n_unlabelled unlabelled_sha256 subject_sha256 subject_chain delta_risk "
    "delta_disagreement",
    "C-15": "first picks",
}
SUBJECTS: dict[Statement, str] = {"C-2": "g", "C-10": "g", "C-12a": "f", "C-12b": "f", "C-15": "g"}


@dataclass(frozen=True)
class Scaling:
    """Scaling of inputs to ``(x / divisor - mean) / std``, mean and std per channel."""

    divisor: float
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Named:
    """A helper outside the file: what it is called, and the hash that decides."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Split:
    """``facts.extra`` of C-10."""

    n_prior: int


@dataclass(frozen=True)
class Domain:
    """``facts.extra`` of C-12a."""

    input_low: float
    input_high: float
    subject_sha256: str


@dataclass(frozen=True)
class Disagreement:
    """``facts.extra`` of C-12b."""

    disagreements: int
    n_unlabelled: int
    unlabelled_sha256: str
    subject_sha256: str
    subject_chain: tuple[tuple[object, ...], ...]
    delta_risk: float
    delta_disagreement: float


@dataclass(frozen=True)
class Picked:
    """``facts.extra`` of C-15: examples that the rule starts with, and how many it picks."""

    first: int
    picks: int


Extra: TypeAlias = Split | Domain | Disagreement | Picked | None


@dataclass(frozen=True)
class PartOfSample:
    """``facts.tally`` of C-12b for a loss on a part: of all ``examples``, at least ``share`` of new data."""

    examples: int
    share: float


@dataclass(frozen=True)
class PartOfPicks:
    """``facts.tally`` of C-15 for a loss on a part: the picks in it."""

    picks: int


Tally: TypeAlias = PartOfSample | PartOfPicks | None


@dataclass(frozen=True)
class Header:
    """Everything that the file says about itself; nothing in here has been believed yet."""

    version: Version
    statement: Statement
    loss: Loss
    delta: float
    bound: float
    kl: float
    hoeffding: float
    vacuous: bool
    n: int
    errors: int
    code_bits: int
    classes: int
    commonest: int | None  # None in version 1, as what follows
    copies: int | None
    contradictions: int | None
    sample_sha256: str
    message_sha256: str
    extra: Extra
    tally: Tally
    input_shape: tuple[int, ...]
    scaling: Scaling
    base: Named | None
    ledger: tuple[tuple[str, int], ...]
    declarations: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The network that the claim is about: g, which the message describes, or the original f."""
        return SUBJECTS[self.statement]


class _Fields:
    """Reader of typed fields that notes every wrong one instead of stopping at the first."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def wrong(self, name: str, expected: str, value: object) -> None:
        self.reasons.append(f"Header: {name} must be {expected}; found {quote(value)}.")

    def record(self, value: object, name: str, keys: str) -> dict[str, object]:
        expected = sorted(keys.split())
        if not isinstance(value, dict) or sorted(value) != expected:
            self.wrong(
                name,
                f"an object with the keys {', '.join(expected) or '(none)'}",
                sorted(value) if isinstance(value, dict) else value,
            )
        found = value if isinstance(value, dict) else {}
        return {key: found.get(key) for key in expected}

    def items(self, value: object, name: str, low: int, high: int) -> list[object]:
        if isinstance(value, list) and low <= len(value) <= high:
            return value
        self.wrong(name, f"a list of {low} to {high} entries", value)
        return []

    def integer(self, value: object, name: str, low: int, high: int) -> int:
        if type(value) is int and low <= value <= high:
            return value
        self.wrong(name, f"an integer from {low} to {high}", value)
        return low

    def real(self, value: object, name: str, low: float = -1e300, high: float = 1e300) -> float:
        if type(value) in (int, float) and low <= value <= high:  # type: ignore[operator]
            return float(value)  # type: ignore[arg-type]
        self.wrong(name, f"a number from {low:g} to {high:g}", value)
        return math.nan

    def probability(self, value: object, name: str) -> float:
        """A level strictly between 0 and 1."""
        if type(value) is float and 0.0 < value < 1.0:
            return value
        self.wrong(name, "a number above 0 and below 1", value)
        return math.nan

    def text(self, value: object, name: str) -> str:
        if isinstance(value, str) and len(value) <= TEXT_LIMIT:
            return value
        self.wrong(name, f"a text of at most {TEXT_LIMIT} characters", value)
        return ""

    def digest(self, value: object, name: str) -> str:
        if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
            return value
        self.wrong(name, "64 hexadecimal digits in lower case", value)
        return ""

    def flag(self, value: object, name: str) -> bool:
        if not isinstance(value, bool):
            self.wrong(name, "true or false", value)
        return value is True


def parse_header(text: bytes, version: Version) -> Header:
    """The header that ``text`` spells; raises :class:`Refused` with every violation of section 2."""
    fields = _Fields()
    top = fields.record(_canonical(text), "it", version.header_keys)
    if (page := version.page) and top["format"] != {"sha256": page.sha256, "frozen": page.frozen}:
        fields.wrong("format", f"the page of SHA-256 {page.sha256}, frozen on {page.frozen}", top["format"])

    claim = fields.record(top["claim"], "claim", version.claim_keys)
    statement = _statement(fields, claim["statement"])
    if claim["subject"] != SUBJECTS[statement]:
        fields.wrong("claim.subject", f"{SUBJECTS[statement]!r} for {statement}", claim["subject"])

    facts = fields.record(top["facts"], "facts", version.facts_keys)
    n = fields.integer(facts["n"], "facts.n", 1, EXAMPLES_LIMIT)

    def counted(name: str, most: int) -> int | None:
        return fields.integer(facts[name], f"facts.{name}", 0, most) if name in facts else None

    helper = fields.record(top["helper"], "helper", "architecture base input_shape scaling")
    if helper["architecture"] is not None:
        fields.reasons.append(NEEDS_CODE)
    shape = _input_shape(fields, helper["input_shape"])
    made_by = fields.record(top["made_by"], "made_by", version.maker_keys)
    fields.text(made_by["codebound"], "made_by.codebound")
    if not re.fullmatch("([0-9a-f]{40})?", fields.text(made_by.get("commit", ""), "made_by.commit")):
        fields.wrong("made_by.commit", "40 hexadecimal digits in lower case, or nothing", made_by["commit"])
    _date(fields, made_by["date"])

    # the frozen pages call the loss a fault: in the header, the ledger of bits and the seals of looks
    loss = _loss(fields, claim.get("fault", WRONG.text), statement, facts["classes"], version)
    header = Header(
        version=version,
        statement=statement,
        loss=loss,
        delta=fields.probability(claim["delta"], "claim.delta"),
        bound=fields.real(claim["bound"], "claim.bound", 0.0, 1.0),
        kl=fields.real(claim["kl"], "claim.kl", 0.0, 1.0),
        hoeffding=fields.real(claim["hoeffding"], "claim.hoeffding", 0.0, 1.0),
        vacuous=fields.flag(claim["vacuous"], "claim.vacuous"),
        n=n,
        errors=fields.integer(facts["errors"], "facts.errors", 0, n),
        code_bits=fields.integer(facts["code_bits"], "facts.code_bits", 0, CODE_BITS_LIMIT),
        classes=fields.integer(facts["classes"], "facts.classes", 2, CLASSES_LIMIT),
        commonest=counted("commonest", n),
        copies=counted("copies", EXAMPLES_LIMIT),
        contradictions=counted("contradictions", EXAMPLES_LIMIT),
        sample_sha256=fields.digest(facts["sample_sha256"], "facts.sample_sha256"),
        message_sha256=fields.digest(facts["message_sha256"], "facts.message_sha256"),
        extra=_extra(fields, facts["extra"], statement),
        tally=_tally(fields, facts["tally"], statement, loss, n) if version.is_third else None,
        input_shape=shape,
        scaling=_scaling(fields, helper["scaling"], channels=shape[0] if len(shape) == 3 else 1),
        base=_base(fields, helper["base"]),
        ledger=_ledger(fields, top["ledger"]),
        declarations=tuple(
            fields.text(entry, f"declarations[{i}]")
            for i, entry in enumerate(fields.items(top["declarations"], "declarations", 1, 32))
        ),
    )
    if fields.reasons:
        raise Refused(*fields.reasons)
    if (total := sum(bits for _, bits in header.ledger)) != header.code_bits:
        raise Refused(
            f"Header: the ledger adds up to {total} bits, but facts.code_bits is {header.code_bits}."
        )
    return header


def _canonical(text: bytes) -> object:
    """The JSON value, if writing it again gives the same bytes."""

    def no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError("a key occurs twice in one object")
        return dict(pairs)

    def no_constant(name: str) -> object:
        raise ValueError(f"{name} is no number")

    try:
        value: object = json.loads(
            text.decode("ascii"), object_pairs_hook=no_duplicates, parse_constant=no_constant
        )
        again = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise Refused(f"Header: not canonical JSON in ASCII ({error}).") from None
    if again.encode("ascii") != text:
        raise Refused("Header: not canonical JSON: written again with sorted keys, its bytes differ.")
    return value


def _statement(fields: _Fields, value: object) -> Statement:
    for statement in SUBJECTS:
        if value == statement:
            return statement
    fields.wrong("claim.statement", "C-2, C-10, C-12a, C-12b or C-15", value)
    return "C-2"


def _loss(fields: _Fields, value: object, statement: Statement, classes: object, version: Version) -> Loss:
    found = read_loss(value, classes if type(classes) is int else 0, has_new=version.is_third)
    allowed = version.is_third or found == WRONG or statement in ("C-2", "C-10")
    if found is None or not allowed:
        fields.wrong("claim.fault", f"a loss that {statement} can be about, with {classes} classes", value)
    return found or WRONG


def _tally(fields: _Fields, value: object, statement: Statement, loss: Loss, n: int) -> Tally:
    """Statement about the part that the loss is counted on (docs/format-3.md, sections 7 and 10.7)."""
    where = "facts.tally"
    if loss.is_partial and statement == "C-12b":
        found = fields.record(value, where, "examples share")
        return PartOfSample(
            examples=fields.integer(found["examples"], f"{where}.examples", n, EXAMPLES_LIMIT),
            share=fields.real(found["share"], f"{where}.share", 0.0, 1.0),
        )
    if loss.is_partial and statement == "C-15":
        found = fields.record(value, where, "picks")
        return PartOfPicks(fields.integer(found["picks"], f"{where}.picks", 0, n))
    if value is not None:
        fields.wrong(where, "null", value)
    return None


def _extra(fields: _Fields, value: object, statement: Statement) -> Extra:
    where, keys = "facts.extra", EXTRA_KEYS.get(statement, "")
    found = fields.record(value, where, keys)

    def integer(key: str, low: int = 0, high: int = EXAMPLES_LIMIT) -> int:
        return fields.integer(found[key], f"{where}.{key}", low, high)

    def digest(key: str) -> str:
        return fields.digest(found[key], f"{where}.{key}")

    if statement == "C-10":
        return Split(integer("n_prior"))
    if statement == "C-12a":
        return Domain(
            input_low=fields.real(found["input_low"], f"{where}.input_low"),
            input_high=fields.real(found["input_high"], f"{where}.input_high"),
            subject_sha256=digest("subject_sha256"),
        )
    if statement == "C-12b":
        n_unlabelled = integer("n_unlabelled", 1)
        return Disagreement(
            disagreements=integer("disagreements", 0, n_unlabelled),
            n_unlabelled=n_unlabelled,
            unlabelled_sha256=digest("unlabelled_sha256"),
            subject_sha256=digest("subject_sha256"),
            subject_chain=tuple(
                tuple(fields.items(entry, f"{where}.subject_chain[{i}]", 1, 6))
                for i, entry in enumerate(
                    fields.items(found["subject_chain"], f"{where}.subject_chain", 1, 256)
                )
            ),
            delta_risk=fields.probability(found["delta_risk"], f"{where}.delta_risk"),
            delta_disagreement=fields.probability(found["delta_disagreement"], f"{where}.delta_disagreement"),
        )
    if statement == "C-15":
        return Picked(first=integer("first", 1), picks=integer("picks"))
    return None


def _input_shape(fields: _Fields, value: object) -> tuple[int, ...]:
    entries = fields.items(value, "helper.input_shape", 1, 3)
    shape = tuple(fields.integer(size, "helper.input_shape", 1, INPUT_LIMIT) for size in entries)
    if len(shape) not in (1, 3) or math.prod(shape) > INPUT_LIMIT:
        fields.wrong("helper.input_shape", "[features] or [channels, height, width], product <= 2^24", value)
        return (1,)
    return shape


def _scaling(fields: _Fields, value: object, *, channels: int) -> Scaling:
    found = fields.record(value, "helper.scaling", "divisor mean std")

    def constants(key: str, low: float) -> tuple[float, ...]:
        name = f"helper.scaling.{key}"
        entries = fields.items(found[key], name, 1, CONSTANTS_LIMIT)
        if len(entries) not in (1, channels):
            fields.wrong(name, f"a list of length 1 or {channels}", found[key])
        return tuple(fields.real(entry, name, low) for entry in entries)

    return Scaling(
        divisor=fields.real(found["divisor"], "helper.scaling.divisor", 1e-300),
        mean=constants("mean", -1e300),
        std=constants("std", 1e-300),
    )


def _base(fields: _Fields, value: object) -> Named | None:
    if value is None:
        return None
    found = fields.record(value, "helper.base", "name sha256")
    return Named(
        name=fields.text(found["name"], "helper.base.name"),
        sha256=fields.digest(found["sha256"], "helper.base.sha256"),
    )


def _ledger(fields: _Fields, value: object) -> tuple[tuple[str, int], ...]:
    entries = []
    for i, entry in enumerate(fields.items(value, "ledger", 1, 65536)):
        part, bits = fields.items(entry, f"ledger[{i}]", 2, 2) or ("", 0)
        entries.append(
            (
                fields.text(part, f"ledger[{i}][0]"),
                fields.integer(bits, f"ledger[{i}][1]", 0, CODE_BITS_LIMIT),
            )
        )
    return tuple(entries)


def _date(fields: _Fields, value: object) -> None:
    try:
        if datetime.date.fromisoformat(str(value)).isoformat() == value:
            return
    except ValueError:
        pass
    fields.wrong("made_by.date", "a date YYYY-MM-DD", value)

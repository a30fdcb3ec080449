"""The certificate as an object and as a file (docs/format.md, sections 1 and 2)."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from codebound.bits.plain_code import RULES, TABLES, Bits, PlainReader, TableChoice, code_table
from codebound.bounds.risk import (
    TWO_DRAWS,
    Subject,
    claim_sentence,
    count_of,
    percent,
)
from codebound.certificate.words import Counted, describe_counts, describe_data
from codebound.run.errors import CodeboundError, FormatError
from codebound.run.files import make_folder, require_file, write_atomically
from codebound.sample.counting import Terms, terms_of
from codebound.sample.dataset import Made  # noqa: TC001
from codebound.sample.questions import Question, code_start, parse_question

VERSION = 4
"""Version byte of the files that are written and read."""
PAGE_SHA256 = "b45e2a14cf3b571aeaa1299bb8f4e7927dc3a3ee2c68ffecc02185c686b504f3"
FROZEN = "2026-11-19"


@dataclass(frozen=True, slots=True)
class Page:
    """The page of the format, and the day from which on it does not change."""

    frozen: str
    sha256: str

    @property
    def named(self) -> str:
        """The page in words."""
        return f"its page of SHA-256 {self.sha256}, frozen on {self.frozen}"


PAGE = Page(FROZEN, PAGE_SHA256)
"""docs/format.md; ``make freeze`` writes its hash here and into the second program."""


@cache
def code_commit() -> str:
    """The commit of this code where it runs from a clean repository, else nothing."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return ""
    try:
        changed, commit = (
            subprocess.run(
                ["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=10
            ).stdout.strip()
            for words in (("status", "-s", "src"), ("rev-parse", "HEAD"))
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return "" if changed else commit


MAGIC = b"CBOUND\x00"
MAX_HEADER = 1 << 20
MAX_CODE_BITS = 1 << 32
MAX_WITNESS = 1 << 24
_START = len(MAGIC) + 1 + 4  # version, length of the header
_HASH_BYTES = 32

Law = Literal["binomial", "picked", "sum"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFacts:
    """The sample, and the order and reading of its rows."""

    rows: int
    sha256: str
    input_shape: tuple[int, ...]
    classes: int
    order: str = "rows"
    salt: str = ""
    seal: str = ""
    copies: str = "any"
    clusters: str | None = None
    groups: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """A declared table of scores; ``picks`` counts the rows that its learner picked."""

    by: str
    columns: int
    of: str
    picks: int | None
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFacts:
    """Everything that was fixed without the counted examples."""

    rows: int
    tables: tuple[TableFacts, ...] = ()
    features: Made | None = None
    base: Made | None = None

    def used_by(self, form: str, place: int) -> dict[str, Made | TableFacts]:
        """Things that a message uses, by what they are called: its form says, and the place of its table."""
        used: dict[str, Made | TableFacts] = {}
        if self.features is not None:
            used["features"] = self.features
        if self.base is not None:
            used["base"] = self.base
        if form in TABLES and self.tables:
            used["scores"] = self.tables[place - 1]
        return used


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFacts:
    """Length and parts of the message."""

    bits: int
    sha256: str
    ledger: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit on one loss, from counts of its own; ``picks`` is None but under the picked law."""

    bound: float
    errors: int
    n: int
    of: str
    picks: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFacts:
    """The guarantee: which loss was counted, on which examples, by which law."""

    loss: str
    on: str
    law: Law
    subject: Subject
    assurance: str
    delta: float
    limits: tuple[Limit, ...]
    bound: float
    vacuous: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlabelled:
    """Fresh inputs on which f and g were compared."""

    disagreements: int
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalFacts:
    """The network f that a claim is about."""

    chain: Any
    domain: tuple[float, float] | None
    sha256: str
    unlabelled: Unlabelled | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A message, what was known before it, and a claim about the classifier that both determine.

    The witness proves what a decoder would have to search for; it says nothing about the classifier.

    Example:
        >>> import codebound as cb
        >>> few = cb.load_sample("digits").select(range(300), role="train")
        >>> found = cb.certify(few, method="split", run=cb.Run(effort="quick"))
        >>> found.certificate.message.bits, found.certificate.claim.delta
        (1, 0.05)
    """

    sample: SampleFacts
    known: KnownFacts
    message: MessageFacts
    claim: ClaimFacts
    original: OriginalFacts | None
    declarations: tuple[str, ...]
    made_by: dict[str, str]
    bits: Bits
    witness: bytes = b""
    format: Page = PAGE

    @property
    def form(self) -> str:
        """The form of its message, by the word that it begins with."""
        return code_start(PlainReader(self.bits), classes=self.sample.classes)[0]

    @property
    def question(self) -> Question:
        """The loss that was counted, and the examples that count."""
        return parse_question(self.claim.loss, self.claim.on)

    @property
    def is_learned(self) -> bool:
        """Return True if the second program learns g from the sample: no message has its numbers."""
        return self.form in RULES

    @property
    def has_table(self) -> bool:
        """Return True if g is known by declared scores alone."""
        return self.form in TABLES

    @property
    def table_choice(self) -> TableChoice:
        """Table that its message names, and its biases; the first where it names none."""
        reader = PlainReader(self.bits)
        form, _ = code_start(reader, classes=self.sample.classes)
        if form not in TABLES:
            return TableChoice()
        choice = code_table(reader, form, columns=tuple(table.columns for table in self.known.tables))
        reader.finish()
        return choice

    @property
    def used(self) -> dict[str, Made | TableFacts]:
        """Things that were made before the counting and that it uses, by what they are called."""
        return self.known.used_by(self.form, self.table_choice.table)

    @property
    def has_picks(self) -> bool:
        """Return True if examples were picked after looking at them."""
        return self.claim.law == "picked"

    @property
    def statement(self) -> str:
        """ID of its statement in docs/references.md."""
        if self.original is not None:
            return "C-12a" if self.original.domain is not None else "C-12b"
        if self.claim.law == "picked":
            return "C-15"
        return "C-10" if self.known.rows else "C-2"

    @property
    def limit(self) -> Limit:
        """The first of its limits."""
        return self.claim.limits[0]

    @property
    def widest(self) -> Limit:
        """The limit that is its bound, or the first for a sum."""
        return self.limit if self.claim.law == "sum" else max(self.claim.limits, key=lambda each: each.bound)

    @property
    def terms(self) -> Terms:
        """Limits of its claim, at any failure probability."""
        return terms_of(self.claim.law, self.claim.on, self.claim.limits, bits=self.message.bits)

    @property
    def sentence(self) -> str:
        """The claim as a sentence."""
        claim = self.claim
        return claim_sentence(
            claim.subject,
            claim.bound,
            delta=claim.delta,
            vacuous=claim.vacuous,
            drawn=TWO_DRAWS if claim.law == "sum" else "sample",
            does=self.does,
            provided=self.condition,
        )

    @property
    def does(self) -> str:
        """Verb phrase of the claim. For plain errors: "errs on at most 2.00 % of new data"."""
        does = self.question.says(percent(self.claim.bound))
        about = describe_data(self)
        return does if about == "new data" else f"{does}, for {about}"

    @property
    def condition(self) -> str:
        """Condition on what was declared to be known before, in words. Empty without such things."""
        names = " and ".join(f"the {name}" for name in self.used)
        return f"{names} never saw the examples that are counted" if names else ""

    @property
    def counts(self) -> tuple[Counted, ...]:
        """Counts that the bound was computed from, each with its meaning."""
        return describe_counts(self)

    def __repr__(self) -> str:
        return f"Certificate(bound={self.claim.bound!r}, delta={self.claim.delta!r})"

    def __str__(self) -> str:
        counted = "; ".join(map(str, self.counts))
        return (
            f"{self.sentence}\n({self.claim.assurance}; {counted}; {count_of(self.message.bits, 'bit')}; "
            f"delta {self.claim.delta!r})"
        )

    def to_bytes(self) -> bytes:
        """The file's content."""
        record = asdict(self)
        del record["bits"], record["witness"]
        header = _canonical(record)
        if len(header) > MAX_HEADER:
            raise FormatError(
                f"the header has {len(header)} bytes, more than {MAX_HEADER}. Shorten its texts."
            )
        content = MAGIC + bytes([VERSION]) + len(header).to_bytes(4, "little") + header
        content += self.bits.data + len(self.witness).to_bytes(4, "little") + self.witness
        return content + hashlib.sha256(content).digest()

    def save(self, path: Path | str) -> Path:
        """Writes the file, all of it or nothing."""
        target = Path(path)
        make_folder(target.parent)
        write_atomically(target, self.to_bytes())
        return target

    @staticmethod
    def from_bytes(content: bytes) -> Certificate:
        """Reads a file's content; the reader only trusts its form, the verifier checks what it says."""
        try:
            return _parse(content)
        except (KeyError, TypeError, ValueError, RecursionError, CodeboundError) as error:
            raise FormatError(f"this is no certificate: {error}") from error

    @staticmethod
    def load(path: Path | str) -> Certificate:
        """Reads a file."""
        source = Path(path)
        limit = _START + MAX_HEADER + MAX_CODE_BITS // 8 + 4 + MAX_WITNESS + _HASH_BYTES
        try:
            require_file(source)
            if source.stat().st_size > limit:
                raise FormatError(f"{source} is larger than any certificate.")
            return Certificate.from_bytes(source.read_bytes())
        except OSError as error:
            raise FormatError(f"{source} cannot be read: {error.strerror}.") from error


def _canonical(record: object) -> bytes:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def _parse(content: bytes) -> Certificate:
    if content[: len(MAGIC)] != MAGIC or len(content) < _START + _HASH_BYTES:
        raise FormatError("it does not start as one does, or is too short.")
    version = content[len(MAGIC)]
    if 0 < version < VERSION:
        raise FormatError(
            f"it has the format of version {version}, which earlier programs wrote: docs/history.md names "
            f"the last that reads it."
        )
    if version != VERSION:
        raise FormatError(f"it has format version {version}; version {VERSION} is known.")
    if hashlib.sha256(content[:-_HASH_BYTES]).digest() != content[-_HASH_BYTES:]:
        raise FormatError("its hash does not match: the file is damaged or was changed.")
    size = int.from_bytes(content[len(MAGIC) + 1 : _START], "little")
    header = content[_START : _START + size]
    if not 2 <= size <= MAX_HEADER or len(header) < size:
        raise FormatError(f"a header of {size} bytes does not fit.")
    record = json.loads(header.decode("ascii"))
    if _canonical(record) != header:
        raise FormatError("its header is not in canonical form.")
    if record["format"] != asdict(PAGE):
        raise FormatError(
            f"it is written by another page than this program: {record['format']!r:.160}, not {asdict(PAGE)}."
        )
    code_bits = record["message"]["bits"]
    body, end = content[_START + size : -_HASH_BYTES], -(-code_bits // 8)
    witness = body[end + 4 :]
    if body[end : end + 4] != len(witness).to_bytes(4, "little") or len(witness) > MAX_WITNESS:
        raise FormatError(f"behind a message of {code_bits} bits there is no witness of the stated length.")
    certificate = _record(Certificate, {**record, "bits": Bits(body[:end], code_bits), "witness": witness})
    if min(certificate.sample.input_shape, default=0) < 1:
        raise FormatError(f"its inputs have the shape {certificate.sample.input_shape}.")
    if not certificate.message.ledger or not certificate.claim.limits:
        raise FormatError("its ledger or its list of limits is empty.")
    str(certificate)  # a word or a loss that is unknown is found out here
    return certificate


def _record(kind: type[T], value: object) -> T:
    """A record from an object that has exactly its fields, each of its type."""
    hints = get_type_hints(kind)
    if not isinstance(value, dict) or set(value) != set(hints):
        raise FormatError(f"its {kind.__name__} must have the fields {', '.join(sorted(hints))}.")
    return kind(**{name: _convert(value[name], hint, name) for name, hint in hints.items()})


def _convert(value: Any, hint: Any, name: str) -> Any:
    """A value of a header as what its field expects; JSON has no tuples and no records."""
    expected = get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type) and not isinstance(value, hint):
        return _record(hint, value)
    if type(None) in expected:
        return None if value is None else _convert(value, expected[0], name)
    if get_origin(hint) is tuple and isinstance(value, list):
        each = expected[:1] * len(value) if expected[-1] is ... else expected
        if len(each) == len(value):
            return tuple(map(_convert, value, each, [name] * len(value)))
    elif get_origin(hint) is dict and isinstance(value, dict):
        return {key: _convert(item, expected[1], name) for key, item in value.items()}
    elif (get_origin(hint) is Literal and value in expected) or (
        hint is Any or type(value) is hint or (hint is float and type(value) is int)
    ):
        return value
    raise FormatError(f"its {name} has the wrong type: {value!r:.60}.")

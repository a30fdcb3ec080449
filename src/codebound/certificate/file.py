"""The certificate as an object and as a file (docs/format.md, sections 1 and 2)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from codebound.bits.bitstring import Bits
from codebound.bits.messages import MAX_WITNESS
from codebound.bits.setting import FORM, Setting
from codebound.bounds.facts import Subject  # noqa: TC001  (read at run time, to check the types of a header)
from codebound.bounds.risk import claim_sentence, count_of, percent
from codebound.certificate.claims import CLAIMS
from codebound.certificate.statement import AbstractStatement, Counted
from codebound.certificate.versions import PAGE, PAGES, VERSIONS, Page, add_new, drop_new, version_of
from codebound.known.provenance import declared_names, declared_part
from codebound.run.errors import CodeboundError, FormatError
from codebound.run.files import make_folder, require_file, write_atomically
from codebound.run.tensor_files import float32_sha256
from codebound.sample.dataset import Scaling  # noqa: TC001 - fields are read by their types
from codebound.sample.losses import WRONG, Loss, parse_loss

MAGIC = b"CBOUND\x00"
MAX_HEADER = 1 << 16
MAX_CODE_BITS = 1 << 32
_START = len(MAGIC) + 1 + 4  # version, length of the header
_HASH_BYTES = 32
_MOST_SCORES = 1024  # classes of a base that is compared with the largest input
_WORDS = {"loss": "fault"}  # of a field, the word of the frozen pages docs/format.md and format-3.md

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Guarantee of the certificate. Without a loss it is of version 1, which counts errors."""

    statement: str
    loss: str | None
    subject: Subject
    delta: float
    bound: float
    kl: float
    hoeffding: float
    vacuous: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """Counts behind the bound. ``extra`` holds those that a claim other than C-2 needs.

    ``commonest`` counts the commonest label, ``copies`` and ``contradictions`` rows that occur again;
    ``tally`` describes the part of the data that a loss is about.
    """

    n: int
    errors: int
    code_bits: int
    classes: int
    commonest: int | None
    copies: int | None
    contradictions: int | None
    sample_sha256: str
    message_sha256: str
    extra: dict[str, Any]
    tally: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Base:
    """Weights that the message codes the difference to."""

    name: str
    sha256: str

    def declare(self, unseen: str) -> str:
        """The sentence on which everything rests and that nobody can check; of what it has not seen."""
        return (
            f"The base, of SHA-256 {self.sha256}, was neither trained nor selected on {unseen}. It is said "
            f"to be {self.name!r}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Helper:
    """Side information of the decoder, fixed without looking at the sample."""

    input_shape: tuple[int, ...]
    scaling: Scaling
    architecture: None = None  # files of a factory are refused; the key stays for the bytes of the others
    base: Base | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A message and a claim about the network it decodes to.

    The witness proves what a decoder would have to search for; it says nothing about the network. Only a file
    of version 1 names no page.
    """

    claim: Claim
    facts: CertificateFacts
    helper: Helper
    ledger: tuple[tuple[str, int], ...]
    declarations: tuple[str, ...]
    made_by: dict[str, str | None]
    message: Bits
    witness: bytes = b""
    format: Page | None = PAGE

    @property
    def version(self) -> int:
        """The version of its file."""
        return version_of(self.format)

    @property
    def is_short(self) -> bool:
        """Return True if its message is a short one (docs/format-3.md, 5.7)."""
        return self.ledger[0][0] == FORM

    @property
    def setting(self) -> Setting:
        """Classes, scaling and loss, as its header has them."""
        return Setting(self.facts.classes, self.helper.scaling, self.loss)

    @property
    def loss(self) -> Loss:
        """Loss that was counted."""
        return parse_loss(self.claim.loss or str(WRONG), classes=self.facts.classes)

    @property
    def sentence(self) -> str:
        """The claim as a sentence."""
        claim = self.claim
        return claim_sentence(
            claim.subject,
            claim.bound,
            delta=claim.delta,
            vacuous=claim.vacuous,
            drawn=self.kind.drawn,
            data=self.kind.about(self.facts),
            does=None if self.loss == WRONG else self.does,
            provided=self.condition,
        )

    @property
    def condition(self) -> str:
        """Independence condition on base and encoders, in words. Empty without them."""
        encoders = tuple(f"the encoder {name}" for name in declared_names(self.declarations))
        if not encoders:
            return f"the base never saw {self.kind.unseen}" if self.helper.base else ""
        base = ("the base",) if self.has_learned_base else ()
        return f"{' and '.join((*base, *encoders))} never saw the examples that are counted"

    @property
    def has_learned_base(self) -> bool:
        """Return True if the base has learned numbers. The one that takes the largest input has none."""
        base, classes = self.helper.base, self.facts.classes
        if base is None or self.helper.input_shape != (classes,) or classes > _MOST_SCORES:
            return base is not None
        largest = {"0.weight": np.eye(classes, dtype="<f4"), "0.bias": np.zeros(classes, "<f4")}
        return base.sha256 != float32_sha256(largest)

    @property
    def first_part(self) -> tuple[int, int] | None:
        """Examples that its encoder was made of, and those of the whole sample; None where it was not."""
        return declared_part(self.declarations)

    @property
    def does(self) -> str:
        """Verb phrase of the claim. For plain errors: "errs on at most 2.00 % of new data"."""
        does = self.loss.says(percent(self.claim.bound))
        about = self.kind.about(self.facts)
        return does if about == "new data" else f"{does}, for {about}"

    @property
    def kind(self) -> type[AbstractStatement]:
        """The claim that the statement names."""
        if self.claim.statement not in CLAIMS:
            raise FormatError(f"its statement is unknown here: {self.claim.statement!r:.60}.")
        return CLAIMS[self.claim.statement]

    @property
    def counts(self) -> tuple[Counted, ...]:
        """Counts that the bound was computed from, each with its meaning."""
        counts, part = self.kind.counts(self.facts), self.first_part
        if self.helper.base is not None or part is not None:  # g may be the base itself, not trained on these
            counts = tuple(replace(each, name=each.name.removeprefix("training ")) for each in counts)
        if part is not None:
            unseen = f"on the {part[1] - part[0]} of {part[1]} examples that its encoder was not made of"
            counts = tuple(
                replace(each, meaning=each.meaning.replace("on the whole sample", unseen)) for each in counts
            )
        if self.loss == WRONG:
            return counts
        key, facts = self.kind.errors_key, self.facts
        meaning = (
            f"examples on which the decoded network incurs the loss {self.loss}, among those that it is "
            "about; whatever is not clear counts"
        )
        n = next((each.of for each in counts if each.key == key), facts.n)
        own = Counted("losses", f"losses of g ({self.loss})", facts.errors, n, meaning)
        return (*(each for each in counts if each.key != key), own)

    @property
    def base_declared(self) -> str:
        """Assumption about the base, whatever the file declares. Empty without one."""
        base = self.helper.base
        return "" if base is None else base.declare(self.kind.unseen)

    def __str__(self) -> str:
        counted = "; ".join(map(str, self.counts))
        return (
            f"{self.sentence}\n({self.claim.statement}; {counted}; {count_of(self.facts.code_bits, 'bit')}; "
            f"delta {self.claim.delta!r})"
            + (f"\nDECLARED, not checked: {self.base_declared}" if self.base_declared else "")
        )

    def to_bytes(self) -> bytes:
        """The file's content."""
        record = asdict(self)
        del record["message"], record["witness"]
        record["claim"] = {_WORDS.get(name, name): value for name, value in record["claim"].items()}
        header = _canonical(drop_new(record, self.version))
        if len(header) > MAX_HEADER:
            raise FormatError(
                f"the header has {len(header)} bytes, more than {MAX_HEADER}. Shorten its texts."
            )
        content = MAGIC + bytes([self.version]) + len(header).to_bytes(4, "little") + header
        content += self.message.data
        if self.version > 1:
            content += len(self.witness).to_bytes(4, "little") + self.witness
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
    if version not in VERSIONS:
        raise FormatError(f"it has format version {version}; versions 1 to {VERSIONS[-1]} are known.")
    if hashlib.sha256(content[:-_HASH_BYTES]).digest() != content[-_HASH_BYTES:]:
        raise FormatError("its hash does not match: the file is damaged or was changed.")
    is_first = version == 1
    size = int.from_bytes(content[len(MAGIC) + 1 : _START], "little")
    header = content[_START : _START + size]
    if not 2 <= size <= MAX_HEADER or len(header) < size:
        raise FormatError(f"a header of {size} bytes does not fit.")
    record = json.loads(header.decode("ascii"))
    if _canonical(record) != header:
        raise FormatError("its header is not in canonical form.")
    if not is_first and record["format"] != (page := asdict(PAGES[version])):
        raise FormatError(
            f"it is written by another page than this program: {record['format']!r:.160}, not {page}."
        )
    if record["helper"]["architecture"] is not None:
        raise FormatError("it needs code of others (a factory), which this program does not run.")
    record = add_new(record, version)
    code_bits = record["facts"]["code_bits"]
    body = content[_START + size : -_HASH_BYTES]
    data, witness = (body, b"") if is_first else _split_witness(body, code_bits)
    certificate = _record(Certificate, {**record, "message": Bits(data, code_bits), "witness": witness})
    if min(certificate.helper.input_shape, default=0) < 1:
        raise FormatError(f"its inputs have the shape {certificate.helper.input_shape}.")
    if not certificate.ledger:
        raise FormatError("its ledger is empty.")
    str(certificate)  # a statement that is unknown, or without its facts, is found out here
    return certificate


def _split_witness(body: bytes, code_bits: int) -> tuple[bytes, bytes]:
    """The message and the witness behind it."""
    end = -(-code_bits // 8)
    witness = body[end + 4 :]
    if body[end : end + 4] != len(witness).to_bytes(4, "little") or len(witness) > MAX_WITNESS:
        raise FormatError(f"behind a message of {code_bits} bits there is no witness of the stated length.")
    return body[:end], witness


def _record(kind: type[T], value: object) -> T:
    """A record from an object that has exactly its fields, each of its type."""
    hints = get_type_hints(kind)
    keys = {name: _WORDS.get(name, name) for name in hints}
    if not isinstance(value, dict) or set(value) != set(keys.values()):
        names = ", ".join(sorted(keys.values()))
        raise FormatError(f"its {kind.__name__} must have the fields {names}.")
    return kind(**{name: _convert(value[key], hints[name], key) for name, key in keys.items()})


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

"""The certificate as an object and as a file (docs/format.md, sections 1 and 2)."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from codebound.bounds.certified import percent
from codebound.coding import Bits
from codebound.data.dataset import Scaling
from codebound.errors import CodeboundError, FormatError

MAGIC = b"CBOUND\x00\x01"
MAX_HEADER = 1 << 16
MAX_CODE_BITS = 1 << 32
_HASH_BYTES = 32

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the certificate guarantees."""

    statement: str
    subject: str
    delta: float
    bound: float
    kl: float
    hoeffding: float
    vacuous: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """What was counted; ``extra`` holds what a statement other than C-2 needs."""

    n: int
    errors: int
    code_bits: int
    classes: int
    sample_sha256: str
    message_sha256: str
    extra: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Factory:
    """An architecture that is not in the message."""

    name: str
    graph_sha256: str


@dataclass(frozen=True, slots=True)
class Base:
    """Weights that the message codes the difference to."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Helper:
    """What the decoder knows before it reads the message, fixed without looking at the sample."""

    input_shape: tuple[int, ...]
    scaling: Scaling
    architecture: Factory | None = None
    base: Base | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A message and a claim about the network it decodes to."""

    claim: Claim
    facts: CertificateFacts
    helper: Helper
    ledger: tuple[tuple[str, int], ...]
    declarations: tuple[str, ...]
    made_by: dict[str, str]
    message: Bits

    @property
    def sentence(self) -> str:
        """The claim as a sentence."""
        who = {"g": "the decoded network g", "f": "the original network f"}[self.claim.subject]
        claim = (
            f"With probability at least 1 - {self.claim.delta!r} over the draw of the sample, "
            f"{who} errs on at most {percent(self.claim.bound)} of new data."
        )
        return claim + (" VACUOUS: guessing does as well." if self.claim.vacuous else "")

    def __str__(self) -> str:
        facts = self.facts
        return (
            f"{self.sentence}\n({self.claim.statement}: {facts.errors} errors on {facts.n} examples, "
            f"{facts.code_bits} bits, delta {self.claim.delta!r})"
        )

    def to_bytes(self) -> bytes:
        """The file's content."""
        record = asdict(self)
        del record["message"]
        header = _canonical(record)
        if len(header) > MAX_HEADER:
            raise FormatError(
                f"the header has {len(header)} bytes, more than {MAX_HEADER}. Shorten its texts."
            )
        content = MAGIC + len(header).to_bytes(4, "little") + header + self.message.data
        return content + hashlib.sha256(content).digest()

    def save(self, path: Path | str) -> Path:
        """Writes the file, all of it or nothing."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self.to_bytes())
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
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
        limit = len(MAGIC) + 4 + MAX_HEADER + MAX_CODE_BITS // 8 + _HASH_BYTES
        try:
            if source.stat().st_size > limit:
                raise FormatError(f"{source} is larger than any certificate.")
            return Certificate.from_bytes(source.read_bytes())
        except OSError as error:
            raise FormatError(f"{source} cannot be read: {error.strerror}.") from error


def _canonical(record: object) -> bytes:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def _parse(content: bytes) -> Certificate:
    if content[: len(MAGIC)] != MAGIC:
        raise FormatError("it does not start as one of version 1 does.")
    if hashlib.sha256(content[:-_HASH_BYTES]).digest() != content[-_HASH_BYTES:]:
        raise FormatError("its hash does not match: the file is damaged or was changed.")
    start = len(MAGIC) + 4
    size = int.from_bytes(content[len(MAGIC) : start], "little")
    header = content[start : start + size]
    if not 2 <= size <= MAX_HEADER or len(header) < size:
        raise FormatError(f"a header of {size} bytes does not fit.")
    record = json.loads(header.decode("ascii"))
    if _canonical(record) != header:
        raise FormatError("its header is not in canonical form.")
    facts = _record(CertificateFacts, record["facts"])
    message = Bits(content[start + size : -_HASH_BYTES], facts.code_bits)
    helper = _record(Helper, record["helper"])
    scaling = _record(Scaling, helper.scaling)
    return Certificate(
        claim=_record(Claim, record["claim"]),
        facts=facts,
        helper=Helper(
            input_shape=tuple(int(size) for size in helper.input_shape),
            scaling=Scaling(scaling.divisor, tuple(scaling.mean), tuple(scaling.std)),
            architecture=helper.architecture and _record(Factory, helper.architecture),
            base=helper.base and _record(Base, helper.base),
        ),
        ledger=tuple((str(part), int(bits)) for part, bits in record["ledger"]),
        declarations=tuple(str(line) for line in record["declarations"]),
        made_by={str(key): str(value) for key, value in record["made_by"].items()},
        message=message,
    )


def _record(kind: type[T], value: Any) -> T:
    """A record from an object that has exactly its fields."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if not isinstance(value, dict) or set(value) != names:
        raise FormatError(f"its {kind.__name__} must have the fields {', '.join(sorted(names))}.")
    return kind(**value)

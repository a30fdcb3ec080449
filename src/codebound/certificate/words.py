"""Counts, choices, data and assumptions of a certificate in words."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.bits.plain_code import FIRST_TABLE, NETWORK, PICKS, SPLIT, TABLE, TABLES, USUAL_SPLIT
from codebound.bounds.risk import count_of
from codebound.run.errors import FormatError
from codebound.sample.caveats import DEVELOPED
from codebound.sample.dataset import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from codebound.certificate.file import Certificate, KnownFacts, Limit, OriginalFacts, SampleFacts
    from codebound.sample.dataset import Sample

_CHOICES = {
    USUAL_SPLIT: "the usual learner on the usual share",
    FIRST_TABLE: "the first declared table of scores, as it is",
    TABLE: "a table of scores among those declared, or biases on one",
    SPLIT: "a share and a learner of its own",
    PICKS: "a rule that picks examples",
    NETWORK: "the numbers of a network",
}
_ROWS_COUNTED = {
    "any": "every copy of a wrong row counts, and right rows with equal inputs count once",
    "independent": "every row counts",
    "repeated": "rows that are equal count once",
}


@dataclass(frozen=True, slots=True)
class Counted:
    """A count that a claim rests on; ``key`` is its name in JSON, ``name`` that in tables."""

    key: str
    name: str
    count: int
    of: int
    meaning: str

    def __str__(self) -> str:
        return f"{self.name}: {self.count} of {self.of}"


def describe_choice(certificate: Certificate) -> str:
    """Content and price of the message.

    The usual thing costs one bit: "1 bit for the usual learner on the usual share".
    """
    return f"{count_of(certificate.message.bits, 'bit', form='g')} for {_CHOICES[certificate.form]}"


def describe_data(certificate: Certificate) -> str:
    """The data on which the classifier errs that little."""
    original = certificate.original
    if original is None or original.domain is None:
        return "new data"
    low, high = original.domain
    return f"new data with stored values from {low:g} to {high:g}"


def describe_counts(certificate: Certificate) -> tuple[Counted, ...]:
    """The counts behind the bound: those of each limit, or of the widest of many parts."""
    claim = certificate.claim
    limits = (certificate.widest,) if claim.on.startswith("each ") else claim.limits
    unit = "clusters" if certificate.sample.order == "clusters" else "examples"
    found = [each for limit in limits for each in _describe_limit(certificate, limit, unit)]
    if certificate.known.rows:
        known, all_units = certificate.known.rows, certificate.sample.rows
        if unit == "clusters":  # a file does not say how many there are
            all_units = known + certificate.limit.n
        meaning = "learned from, and never counted"
        found.append(Counted("known", f"{unit} set apart", known, all_units, meaning))
    return tuple(found)


def _describe_limit(certificate: Certificate, limit: Limit, unit: str) -> list[Counted]:
    claim = certificate.claim
    if limit.of == "disagreement":
        meaning = (
            "unlabelled inputs, a second draw, on which f and g predict differently or one of them is "
            "ambiguous: their share is bounded too, and added to the bound for g"
        )
        return [Counted("disagreements", "disagreements of f and g", limit.errors, limit.n, meaning)]
    copies = _ROWS_COUNTED[certificate.sample.copies]
    among = "among those that were not learned from" if certificate.known.rows else "of the whole sample"
    if limit.of == "silent":
        meaning = f"{unit} without an answer {among}; their share is bounded too"
        return [Counted("silent", f"{unit} without an answer", limit.errors, limit.n, meaning)]
    name = "errors counted"
    if claim.loss != "wrong":
        name = f"losses counted ({claim.loss})"
    if claim.on.startswith("each "):
        name += f", {limit.of}"
    margin = ""
    if certificate.original is not None and certificate.original.domain is not None:
        margin = ", or right by less than f and g can differ"
    meaning = f"wrong {unit} {among}{margin}; {copies}"
    counts = [Counted("errors", name, limit.errors, limit.n, meaning)]
    if limit.picks is not None:
        picked = f"{unit} that the rule learned from after looking at them: each counts like an error"
        counts.insert(0, Counted("picks", "picks", limit.picks, limit.n, picked))
    return counts


ONLY_TABLE = (
    "The table of scores was made without the counted examples (but for its picks), and it is the only one "
    "that was counted on them; others are listed and paid for. Nothing in the file can show this."
)
_FIXED = (
    "Rows, order, reading of copies, what is known, claim and delta were fixed before any result on the "
    "counted examples was seen; every choice made afterwards is in the message and paid for in bits."
)
_COPIES = {
    "any": "How often a row is repeated does not depend on what it holds: nothing was oversampled, "
    "balanced or augmented.",
    "independent": "Equal rows are independent draws that happen to be equal.",
    "repeated": "Equal rows are one record that was stored more than once, whatever it holds.",
}
_HASHED = (
    "The hash that orders the rows acts on them as a random function does: without a salt the "
    "probability is over the hash too."
)
_SALTED = "Nothing in the file shows that this salt was the only one."
_AS_STORED = "The order of the rows as stored is one of independent draws, or of time."
_TENSORS = "The tensors of the network that was learned, as in g.safetensors, have SHA-256 "
_NAMES = "The names of classes and columns, as in result.json, have SHA-256 "


def list_declarations(
    sample: SampleFacts,
    known: KnownFacts,
    original: OriginalFacts | None,
    *,
    form: str,
    place: int,
    developed: bool,
    extra: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """The assumptions of a claim in words, the ones that are broken most easily first.

    The message has this form, and a table at this place. The format may have been ``developed`` on the
    sample; ``extra`` are sentences about names, tensors and the data.
    """
    units = "clusters" if sample.order == "clusters" else "rows"
    lines = [ONLY_TABLE] if form in TABLES else []
    lines += [
        f"{name.capitalize()}: {made.by}, made of {made.of}"
        + (f" and of the first {made.rows} {units} of this sample" if made.rows else "")
        + "; the counted examples had no part in it."
        for name, made in known.used_by(form, place).items()
    ]
    if form in TABLES and any(table.picks is not None for table in known.tables):
        lines.append(
            "The picks of a table were made by a rule that would pick the same, in the same order, without "
            "any of the rows that it did not pick; the table was made of the first rows and the picks alone, "
            "in that order."
        )
    lines += [
        f"The {units} are independent draws from where new data come from.",
        _FIXED,
        _COPIES[sample.copies],
    ]
    lines.append(_AS_STORED if sample.order == "file" else _SALTED if sample.salt else _HASHED)
    if developed:
        lines.append(DEVELOPED)
    if original is not None and original.unlabelled is not None:
        lines.append(
            "The unlabelled inputs are independent draws of the same kind: they made none of f, base and "
            "features, and none was left out for being in the sample."
        )
    if original is not None and original.domain is not None:
        low, high = original.domain
        lines.append(f"Stored values of new data lie between {low:g} and {high:g}.")
    return tuple(printable(line) for line in (*lines, *extra))


def describe_files(sample: Sample, learned: Mapping[str, Tensor] | None) -> tuple[str, ...]:
    """Sentences with the hashes of names and of learned tensors beside the certificate."""
    names = [list(sample.class_names), [asdict(each) for each in sample.columns]]
    lines = [f"{_NAMES}{_names_sha256(names)}."] if any(names) else []
    lines += [f"{_TENSORS}{_tensors_sha256(learned)}."] if learned else []
    return (*lines, *(f"About the data: {warning}" for warning in sample.warnings))


def require_learned(certificate: Certificate, tensors: Mapping[str, Tensor]) -> None:
    """Refuses other tensors than those that a certificate names."""
    if (stated := _find_hash(certificate, _TENSORS)) != _tensors_sha256(tensors):
        raise FormatError(
            f"these are not the weights of this certificate, which names those of SHA-256 {stated}. Give the "
            "file g.safetensors that was saved beside it."
        )


def require_names(certificate: Certificate, result: Mapping[str, Any]) -> None:
    """Refuses other names of classes and columns than those of a certificate."""
    inputs = result.get("inputs")
    names = [result.get("class_names", []), inputs.get("columns", []) if isinstance(inputs, dict) else []]
    stated = _find_hash(certificate, _NAMES)
    if result and stated != (_names_sha256(names) if any(names) else ""):
        raise FormatError(
            "the names of classes and columns in result.json are not those of the certificate beside it: "
            "answers would have wrong names. Take the result.json that was saved with it."
        )


def _tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Hash of tensors by their names, types and shapes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        values = np.ascontiguousarray(tensor.detach().cpu().numpy())
        digest.update(f"{name}|{values.dtype.name}|{values.shape}|".encode() + values.tobytes())
    return digest.hexdigest()


def _names_sha256(names: list[Any]) -> str:
    return hashlib.sha256(json.dumps(names, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _find_hash(certificate: Certificate, beginning: str) -> str:
    """The hash in the sentence that begins so; one sentence only."""
    found = {each for each in certificate.declarations if each.startswith(beginning)}
    if len(found) > 1:
        raise FormatError(f"the certificate says twice, and not the same: {beginning}")
    return next(iter(found), "").removeprefix(beginning).removesuffix(".")

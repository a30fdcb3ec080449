"""Declarations of a certificate: what has to be true and no file can show (docs/format.md, section 10).

They also name hashes of what lies beside it: learned tensors, and names of classes and columns.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.bits.forms import TABLES
from codebound.run.errors import FormatError
from codebound.sample.caveats import DEVELOPED
from codebound.sample.made import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from codebound.certificate.file import Certificate, Known, OriginalFacts, SampleFacts
    from codebound.sample.dataset import Dataset

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
    known: Known,
    original: OriginalFacts | None,
    *,
    form: str,
    developed: str,
    extra: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """The assumptions of a claim in words, the ones that are broken most easily first.

    Args:
        sample: What was drawn.
        known: What was fixed without the counted rows.
        original: The network that a claim is about.
        form: Form of the message.
        developed: Name of the sample where the format was developed on it.
        extra: Sentences about names, tensors and the data.
    """
    units = "clusters" if sample.order == "clusters" else "rows"
    lines = [ONLY_TABLE] if form in TABLES else []
    lines += [
        f"{name.capitalize()}: {made.by}, made of {made.of}"
        + (f" and of the first {made.rows} {units} of this sample" if made.rows else "")
        + "; the counted examples had no part in it."
        for name, made in known.used_by(form).items()
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


def describe_files(sample: Dataset, learned: Mapping[str, Tensor] | None) -> tuple[str, ...]:
    """Sentences with the hashes of names and of learned tensors beside the certificate."""
    names = [list(sample.class_names), [asdict(each) for each in sample.columns]]
    lines = [f"{_NAMES}{_names_sha256(names)}."] if any(names) else []
    lines += [] if learned is None else [f"{_TENSORS}{_tensors_sha256(learned)}."]
    return (*lines, *(f"About the data: {warning}" for warning in sample.warnings))


def require_learned(certificate: Certificate, tensors: Mapping[str, Tensor]) -> None:
    """Refuses other tensors than those that a certificate names."""
    if (stated := _find_hash(certificate, _TENSORS)) != _tensors_sha256(tensors):
        raise FormatError(
            f"these are not the weights of this certificate, which names those of SHA-256 {stated}. Give the "
            "file g.safetensors that was saved beside it."
        )


def find_unnamed(certificate: Certificate, result: Mapping[str, Any]) -> str:
    """Files and names whose hash is not in the certificate. Empty if there are none.

    Raises:
        FormatError: The names of classes and columns are others than those that it names.
    """
    inputs = result.get("inputs")
    names = [result.get("class_names", []), inputs.get("columns", []) if isinstance(inputs, dict) else []]
    stated = _find_hash(certificate, _NAMES)
    if stated and result and _names_sha256(names) != stated:
        raise FormatError(
            "the names of classes and columns in result.json are not those of the certificate beside it: "
            "answers would have wrong names. Take the result.json that was saved with it."
        )
    parts = ["the names in result.json"] if any(names) and not stated else []
    if certificate.is_learned and not _find_hash(certificate, _TENSORS):
        parts.insert(0, "the weights in g.safetensors")
    return " and ".join(parts)


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

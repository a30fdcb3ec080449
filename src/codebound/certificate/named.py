"""What a certificate names of the files beside it: what was learned, names of classes and columns."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from codebound.certificate.file import Certificate
    from codebound.data.dataset import Dataset

_TENSORS = "The tensors of the network that was learned, as in g.safetensors, have SHA-256 "
_NAMES = "The names of classes and columns, as in result.json, have SHA-256 "


def naming(sample: Dataset, learned: Mapping[str, Tensor] | None) -> list[str]:
    """The sentences of a certificate about its sample, and about what was learned from that."""
    names = [list(sample.class_names), [asdict(each) for each in sample.columns]]
    lines = [f"{_NAMES}{_names_sha256(names)}."] if any(names) else []
    return lines if learned is None else [*lines, f"{_TENSORS}{tensors_sha256(learned)}."]


def require_learned(certificate: Certificate, tensors: Mapping[str, Tensor]) -> None:
    """Refuses other tensors than those that a certificate names; one of an older program names none."""
    if (stated := _stated(certificate, _TENSORS)) not in ("", tensors_sha256(tensors)):
        raise FormatError(
            f"these are not the weights of this certificate, which names those of SHA-256 {stated}. Give the "
            "file g.safetensors that was saved beside it."
        )


def unnamed(certificate: Certificate, result: Mapping[str, Any]) -> str:
    """What lies beside a certificate that does not name it, in words; empty where there is nothing.

    Raises:
        FormatError: The names of classes and columns are others than those that it names.
    """
    inputs = result.get("inputs")
    names = [result.get("class_names", []), inputs.get("columns", []) if isinstance(inputs, dict) else []]
    stated = _stated(certificate, _NAMES)
    if stated and result and _names_sha256(names) != stated:
        raise FormatError(
            "the names of classes and columns in result.json are not those of the certificate beside it: "
            "answers would have wrong names. Take the result.json that was saved with it."
        )
    parts = ["the names in result.json"] if any(names) and not stated else []
    if certificate.kind.is_learned and not _stated(certificate, _TENSORS):
        parts.insert(0, "the weights in g.safetensors")
    return " and ".join(parts)


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Hash of tensors by their names, types and shapes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        values = np.ascontiguousarray(tensor.detach().cpu().numpy())
        digest.update(f"{name}|{values.dtype.name}|{values.shape}|".encode() + values.tobytes())
    return digest.hexdigest()


def _names_sha256(names: list[Any]) -> str:
    return hashlib.sha256(json.dumps(names, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _stated(certificate: Certificate, beginning: str) -> str:
    """The hash in the sentence that begins so; one sentence only."""
    found = {each for each in certificate.declarations if each.startswith(beginning)}
    if len(found) > 1:
        raise FormatError(f"the certificate says twice, and not the same: {beginning}")
    return next(iter(found), "").removeprefix(beginning).removesuffix(".")

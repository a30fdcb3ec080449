"""Declarations of a certificate, one plain sentence for each unchecked assumption.

They also name hashes of what lies beside it: learned tensors, and names of classes and columns.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.bounds.risk import CODE_ALONE, CODE_FIRST, RULE_FIRST
from codebound.certificate.versions import PAGES
from codebound.run.errors import FormatError
from codebound.sample.caveats import DEVELOPED, development_sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from codebound.certificate.assessment import AbstractAssessed
    from codebound.certificate.file import Certificate, Helper
    from codebound.certificate.task import Task
    from codebound.sample.dataset import Dataset

MAX_CHARACTERS = 400
_TENSORS = "The tensors of the network that was learned, as in g.safetensors, have SHA-256 "
_NAMES = "The names of classes and columns, as in result.json, have SHA-256 "


def list_assumptions(assessed: AbstractAssessed, task: Task, helper: Helper) -> tuple[str, ...]:
    """The assumptions of the bound and the helper in words, the ones that are broken most easily first."""
    page = PAGES[assessed.version]
    named = f"version {assessed.version}, {page.named}"
    is_developed = bool(development_sample(task.sample, assessed.version))
    lines = [] if helper.base is None else [helper.base.declare(assessed.kind.unseen)]
    lines += task.sample.encoder.splitlines()
    lines.append(
        DEVELOPED if is_developed else f"The format ({named}) was fixed without looking at the sample."
    )
    lines.extend(
        line
        for line in assessed.bound.assumptions
        if not (is_developed and line in (CODE_FIRST, CODE_ALONE, RULE_FIRST))
    )
    if task.rows.equal:
        lines.append(f"{task.rows.sentence}; they are independent draws that happen to be equal.")
    lines += _find_sentences(task.sample, assessed.network.state_dict() if assessed.kind.is_learned else None)
    lines.append(_setting(assessed))
    if not assessed.kind.is_learned:  # learned networks are defined to the last bit
        network = "The network behind the encoder" if task.sample.encoder else "The network"
        lines.append(
            f"{network} is run in float64, or in float32: there the largest deviation seen on the first "
            f"4,096 examples was {assessed.count.float32_deviation:.1e} of the largest logit."
        )
    lines.extend(f"About the data: {warning}" for warning in task.sample.warnings)
    return tuple(line[:MAX_CHARACTERS] for line in lines)


def _setting(assessed: AbstractAssessed) -> str:
    """Classes and scaling, and where they stand; a short message leaves out what is known without it."""
    classes, scaling = assessed.message.setting.classes, assessed.message.setting.scaling
    said = f"inputs are scaled as (x / {scaling.divisor:g} - {list(scaling.mean)}) / {list(scaling.std)}"
    if assessed.message.is_short:
        words = f"as many as the base has; the message says that {said}"
        for rule in assessed.rules:
            taken = (
                f", which says that {said}"
                if rule.features.plain.has_pictures
                else "; inputs are taken as stored"
            )
            words = f"by the labels of the first examples and the message{taken}"
        return f"There are {classes} classes, {words}."
    return f"The message says that there are {classes} classes, and that {said}."


def _find_sentences(sample: Dataset, learned: Mapping[str, Tensor] | None) -> list[str]:
    """The sentences of a certificate about its sample, and about what was learned from that."""
    names = [list(sample.class_names), [asdict(each) for each in sample.columns]]
    lines = [f"{_NAMES}{_names_sha256(names)}."] if any(names) else []
    return lines if learned is None else [*lines, f"{_TENSORS}{_tensors_sha256(learned)}."]


def require_learned(certificate: Certificate, tensors: Mapping[str, Tensor]) -> None:
    """Refuses other tensors than those that a certificate names; one of an older program names none."""
    if (stated := _find_hash(certificate, _TENSORS)) not in ("", _tensors_sha256(tensors)):
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
    if certificate.kind.is_learned and not _find_hash(certificate, _TENSORS):
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

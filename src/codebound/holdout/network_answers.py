"""Answers of networks, and datasets by name, as columns. This loads torch."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003
from typing import TYPE_CHECKING

import numpy as np

from codebound.holdout.answers import AnswerTable, as_table, split_spec
from codebound.run.errors import UsageError
from codebound.run.extensions import reader
from codebound.sample.load import load_sample

if TYPE_CHECKING:
    from codebound.sample.dataset import Sample


def dataset_table(spec: str) -> AnswerTable:
    """Return the test part of a dataset by name, or of a folder: inputs ``x`` and labels ``y``."""
    spec = spec.removesuffix(":y")  # so a seal names its labels
    sample = load_sample(spec, role="test")
    return AnswerTable(spec, as_table({"x": np.asarray(sample.x), "y": _names(sample, sample.y)}).columns)


def answer_by_network(spec: str, weights: Path, *, model: str | None = None) -> list[str]:
    """Return what a network answers on a sealed dataset: its class, or nothing where two are equal.

    Args:
        spec: The dataset, as it was sealed.
        weights: Weights of the network, or a certificate (``.cbound``).
        model: How the network of the weights is built.
    """
    import torch

    from codebound.certificate.decoding import decode
    from codebound.sample.outputs import logit_chunks

    file = split_spec(spec)[0]
    is_npz = file.suffix.lower() == ".npz"
    sample = load_sample(str(file) if is_npz else spec.removesuffix(":y"), role="test")
    if weights.suffix == ".cbound":
        network = decode(weights)
    elif model is not None:
        shape = sample.input_shape
        network = reader("models")(model, input_shape=shape, classes=sample.classes, weights=weights)
    else:
        raise UsageError("weights need a model: how the network is built.")
    chunks = logit_chunks(network, sample.on("cpu"), dtype=torch.float64)
    scores = torch.cat([logits for logits, _ in chunks]).numpy()
    best = scores.max(axis=1, keepdims=True)
    is_clear = np.isfinite(scores).all(axis=1) & ((scores == best).sum(axis=1) == 1)
    names = _names(sample, scores.argmax(axis=1))
    return [name if clear else "" for name, clear in zip(names, is_clear.tolist(), strict=True)]


def _names(sample: Sample, labels: np.ndarray) -> list[str]:
    return [sample.class_names[each] if sample.class_names else str(each) for each in labels.tolist()]

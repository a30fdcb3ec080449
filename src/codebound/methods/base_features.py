"""A network that never saw the sample as an encoder: what its last layer reads is a table to learn from.

Picks are then made on that table and nowhere else, so that each message still has one meaning, and a search
that compares them with messages about the network itself pays for nothing twice.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from codebound.known.encoder import Encoder, digest
from codebound.known.first_share import NetworkRows, Scores
from codebound.known.unseen import count_seen
from codebound.methods.search import UnsuitedError

if TYPE_CHECKING:
    from codebound.certificate.task import AbstractOriginal, Tensors
    from codebound.known.provenance import Origin
    from codebound.sample.dataset import Dataset

NAME = "the last hidden layer of the base"
SCORES_NAME = "the scores of the base"


def features_encoder(
    original: AbstractOriginal, tensors: Tensors, says: str, sample: Dataset, *, device: str | torch.device
) -> Encoder:
    """Encoder by the features in front of a network's last layer.

    ``says`` is where its tensors come from. Examples of the sample show what it returns.

    Raises:
        UnsuitedError: The network has no last linear layer, or nothing in front of it.
    """
    network = original.build({name: torch.from_numpy(value) for name, value in tensors.items()})
    example = sample.scaling.apply(torch.from_numpy(sample.x[:2]))
    rows = NetworkRows.of([network], example, classes=sample.classes)
    if rows.ends == [None]:
        raise UnsuitedError("the network has no hidden layer in front of a linear one that is its last.")
    return Encoder(NAME, rows.to(device), digest(original.computes.encode(), rows), origin=says)


def scores_encoder(
    original: AbstractOriginal, tensors: Tensors, says: str, *, device: str | torch.device
) -> Encoder:
    """The scores of a network with these tensors, as an encoder that runs on the device.

    They are declared: the verifier counts them and does not run the network. ``says`` is where the tensors
    come from.
    """
    network = original.build({name: torch.from_numpy(value) for name, value in tensors.items()})
    rows = Scores([network.to(device)])
    return Encoder(SCORES_NAME, rows, digest(original.computes.encode(), rows), origin=says, has_scores=True)


def why_no_features(origin: Origin, sample: Dataset) -> str:
    """Reason why f's features are not used, and the remedy."""
    if count_seen(origin, sample):
        return (
            "No picks are made on the features of f: it was trained on this sample, whose labels they know."
        )
    return (
        "No picks are made on the features of f: nobody says that it was neither trained nor selected on the "
        "sample. Where that is true, give its weights as a base instead."
    )


def own_message_words(original: AbstractOriginal, sample: Dataset, *, delta: float, bound: float) -> str:
    """Length limits of a message of f itself, in words."""
    numbers = sum(tensor.numel() for tensor in original.tensors.values())
    most = [
        max(0, math.floor((-sample.n * math.log1p(-risk) + math.log(delta)) / math.log(2.0)))
        for risk in (1.0 - 1.0 / sample.classes, bound)
        if risk < 1.0
    ]
    each = [f"{bits:,} bits ({bits / numbers:.2g} a number)" for bits in most]
    return (
        f"A message of f itself says {numbers:,} numbers. With {sample.n:,} examples, and without a single "
        f"error, its bound is below guessing up to {each[0]}, and below what was found up to {each[-1]}."
    )

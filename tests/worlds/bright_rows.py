"""A tiny world for the methods: images with one bright row, which is the class."""

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from codebound.bits.plain_code import FIRST_TABLE, USUAL_SPLIT
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import OccamFacts
from codebound.certificate.offers import Offer
from codebound.known.messages import KnownTensors
from codebound.methods.search import Search
from codebound.request import Task
from codebound.run.tensor_files import float32_sha256
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Made, Scaling
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.operations import Linear
from codebound_networks.chains.original import Original

CHAIN = Chain((1, 4, 4), (Linear(3, True),))


def images(n=150, seed=0, role="train"):
    stream = np.random.default_rng(seed)
    y = stream.integers(3, size=n)
    x = stream.integers(0, 120, size=(n, 1, 4, 4))
    x[np.arange(n), 0, y] += 100
    labels = None if role == "unlabelled" else y
    return from_arrays(x.astype(np.uint8), labels, name="rows", role=role, classes=3, scaling=Scaling(255.0))


def solved() -> Original:
    """The network that compares the rows, with weights that are no integers."""
    weight = torch.zeros(3, 16)
    for row in range(3):
        weight[row, 4 * row : 4 * row + 4] = 1.0
    stream = torch.Generator().manual_seed(0)
    weight += 0.05 * torch.randn(weight.shape, generator=stream)
    return Original(CHAIN, {"0.weight": weight, "0.bias": torch.zeros(3)})


def search_for(effort="quick", **changes) -> Search:
    given = {"sample": images(), "delta": 0.05, "original": solved()}
    return Search(Task(**(given | changes)), effort)


def asked_for(effort="standard", **changes) -> Search:
    """A search for one method, which somebody has named."""
    search = search_for(effort, **changes)
    search.is_asked = True
    return search


def base_of(original: Original, *, head: float = 1.0, rows: int = 0) -> KnownTensors:
    """A base like f, made of the first rows; ``head`` scales its last layer."""
    tensors = {name: head * value for name, value in original.arrays.items()}
    return KnownTensors(Made("rows seen elsewhere", "other data", rows, float32_sha256(tensors)), tensors)


def known(*, errors: int, code_bits: int, n: int = 150) -> Offer:
    """An offer that a search may have already: only its bound counts."""
    bound = occam_binomial(OccamFacts(errors=errors, n=n, code_bits=code_bits, delta=0.05)).value
    return offer_of(bound)


def offer_of(
    bound: float, *, errors: int = 0, n: int = 1, is_recounted: bool = False, method: str = "split"
) -> Offer:
    """An offer of which only its bound, its count, and who repeats it, is known."""
    rest: Any = dict.fromkeys(each.name for each in fields(Offer))
    rest |= {
        "bits": SimpleNamespace(length=1),
        "limits": (SimpleNamespace(errors=errors, n=n),),
        "outcome": SimpleNamespace(
            is_recounted=is_recounted, form=FIRST_TABLE if is_recounted else USUAL_SPLIT
        ),
    }
    return Offer(**rest | {"bound": bound, "is_vacuous": False, "method": method})

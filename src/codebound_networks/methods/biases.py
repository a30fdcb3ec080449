"""Biases alone: a base whose last layer gets a small number added for some classes, in a few tens of bits.

With some tens or hundreds of labels nothing else is worth its bits. The base may be made of the names of the
classes, or be a linear layer of an encoder.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound.methods.search import UnsuitedError
from codebound_networks.chains.message import OCTAVES, Message
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.quantization import nearest_step, step_size
from codebound_networks.codes.tensors import Zero

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.methods.search import Search
    from codebound_networks.codes.tensors import AbstractTensorCode

_SCALES = (0.5, 1.0, 2.0)  # of the middle lead of a winner
_PRICES = (0.0, 0.25, 0.5, 1.0, 2.0)  # of a number other than zero, in errors
_LARGEST = 7
_OCTAVES = (-1, 0, 1)  # around that of the middle lead
_PASSES = 4
_ROWS = 1000


def propose_biases(search: Search) -> None:
    """The base as it is, and with small numbers added to its last biases."""
    task = search.task
    if task.base is None or task.original is None:
        raise UnsuitedError("biases are added to those of a base. Give a base.")
    name = next((each for each in reversed(list(task.coded)) if each.endswith(".bias")), "")
    if not name or task.coded[name].shape != (task.sample.classes,):
        raise UnsuitedError("the last layer of the base has no biases.")
    zeros: dict[str, AbstractTensorCode] = {each: Zero(value.shape) for each, value in task.coded.items()}
    search.propose(Message(task.options, task.chain, zeros))
    scores = _scores(search)
    labels = task.counted.y
    best_two = np.sort(scores, axis=1)[:, -2:]
    lead = float(np.median(best_two[:, 1] - best_two[:, 0])) or 1.0
    wide = dict.fromkeys((nearest_step(scale * lead), _LARGEST) for scale in _SCALES)
    octave = round(np.log2(lead))  # of those that a short message can add, by one unit
    short = ((8 * (octave + more), 1) for more in _OCTAVES if octave + more in OCTAVES)
    seen = set()
    for (step, largest), price in itertools.product((*short, *wide), _PRICES):
        found = descend(scores, labels, unit=step_size(step), price=price, largest=largest)
        if found.any() and (step, found.tobytes()) not in seen:
            seen.add((step, found.tobytes()))
            code = best_tensor_code(found, step=step)
            search.propose(Message(task.options, task.chain, {**zeros, name: code}))


@torch.no_grad()
def _scores(search: Search) -> NDArray[np.float64]:
    """Return the scores of the base on every counted example."""
    assert search.task.base_tensors is not None  # there is a base
    tensors = {name: torch.from_numpy(value) for name, value in search.task.base_tensors.items()}
    base = search.task.f.build(tensors).double()
    parts = [base(x).numpy() for x, _ in search.task.counted_data.chunks(_ROWS, torch.float64)]
    return np.concatenate(parts)


def descend(
    scores: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    unit: float,
    price: float,
    largest: int = _LARGEST,
) -> NDArray[np.int32]:
    """Whole numbers for the classes, in units, that lower errors plus a price for each that is not zero.

    >>> scores = np.array([[1.0, 0.0], [0.6, 0.0], [0.5, 0.0]])
    >>> descend(scores, np.array([0, 1, 1]), unit=0.25, price=0.5).tolist()
    [-3, 0]
    """
    added = np.zeros(scores.shape[1], dtype=np.int32)

    def cost(numbers: NDArray[np.int32]) -> float:
        errors = int((np.argmax(scores + unit * numbers, axis=1) != labels).sum())
        return errors + price * int(np.count_nonzero(numbers)) + 1e-3 * int(np.abs(numbers).sum())

    least = cost(added)
    for _ in range(_PASSES):
        before = least
        for at in range(len(added)):
            for value in sorted(range(-largest, largest + 1), key=abs):
                moved = added.copy()
                moved[at] = value
                if (found := cost(moved)) < least:
                    added, least = moved, found
        if least == before:
            break
    return added

"""The constant classifier: always the commonest label. What cannot beat it has learned nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codebound.coding.chain import Chain
from codebound.coding.choose import best_tensor_code
from codebound.coding.message import Message
from codebound.coding.operations import Linear
from codebound.coding.tensors import Zero
from codebound.search.search import UnsuitedError

if TYPE_CHECKING:
    from codebound.search.search import Search


def propose_constant(search: Search) -> None:
    """A linear layer without weights, whose bias knows the commonest label of the examples that count."""
    task = search.task
    if task.claim.is_about_f or task.base is not None:
        raise UnsuitedError("a constant is no network near f, nor near a base.")
    labels, classes = task.counted.y, task.sample.classes
    bias = np.zeros(classes, dtype=np.int64)
    bias[np.bincount(labels, minlength=classes).argmax()] = 1
    chain = Chain(task.sample.input_shape, (Linear(classes, True),))
    codes = {"0.weight": Zero(chain.tensor_shapes()["0.weight"]), "0.bias": best_tensor_code(bias, step=0)}
    search.propose(Message(task.options, chain, codes))

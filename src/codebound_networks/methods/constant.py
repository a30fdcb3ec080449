"""The constant classifier: always the commonest label. What cannot beat it has learned nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codebound.methods.search import UnsuitedError
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import Linear
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.tensors import Zero

if TYPE_CHECKING:
    from codebound.methods.search import Search


def propose_constant(search: Search) -> None:
    """A linear layer without weights, whose bias knows the commonest label of the examples that count."""
    task = search.task
    if task.is_about_f or task.base is not None or task.sample.is_cells:
        raise UnsuitedError("a constant is no network near f, nor near a base, and no network reads words.")
    labels, classes = task.rest.y, task.sample.classes
    bias = np.zeros(classes, dtype=np.int64)
    bias[np.bincount(labels, minlength=classes).argmax()] = 1
    chain = Chain(task.sample.input_shape, (Linear(classes, True),))
    codes = {"0.weight": Zero(chain.tensor_shapes()["0.weight"]), "0.bias": best_tensor_code(bias, step=0)}
    search.propose(Message(task.options, chain, codes))

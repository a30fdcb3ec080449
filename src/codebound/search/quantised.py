"""Tensors of f pruned and quantised as they are: what a method starts from, or leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codebound.coding.choose import best_tensor_code
from codebound.coding.quantization import quantize, step_for_levels
from codebound.coding.tensors import Raw, Zero

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.certificate.task import Task
    from codebound.coding.tensors import AbstractTensorCode

VECTOR_LEVELS = 31


def quantised_code(name: str, task: Task, *, density: float = 1.0, levels: int) -> AbstractTensorCode:
    """A tensor of f, or its difference to the base, at a density and a number of levels.

    Vectors stay dense and finer, because they are few; those of a factory stay as they are, because some of
    them are variances.
    """
    value, strides = task.coded[name], image_strides(task)
    if value.ndim < 2:
        if task.f.chain is None:
            return Raw(value)
        density, levels = 1.0, max(levels, VECTOR_LEVELS)
    kept = _largest(value, density)
    if not kept.any():
        return Zero(value.shape)
    step = step_for_levels(kept, levels)
    return best_tensor_code(quantize(kept, step), step=step, strides=strides)


def _largest(value: NDArray[np.float32], density: float) -> NDArray[np.float32]:
    """The largest entries by magnitude; zero elsewhere."""
    keep = round(density * value.size)
    if keep >= value.size:
        return value
    if keep == 0:
        return np.zeros_like(value)
    threshold = np.partition(np.abs(value), value.size - keep, axis=None)[value.size - keep]
    return np.where(np.abs(value) >= threshold, value, np.float32(0.0))


def image_strides(task: Task) -> tuple[int, ...]:
    """Distances at which inputs are alike: the width of an image."""
    shape = task.sample.input_shape
    return (shape[-1],) if len(shape) == 3 else ()

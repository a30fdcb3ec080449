"""What the methods share: the weights to code, and the codes of tensors that a method leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codebound.coding.choose import best_tensor_code
from codebound.coding.quantization import quantize, step_for_levels
from codebound.coding.tensors import Raw, Zero

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound.certificate.build import Setting
    from codebound.coding.tensors import AbstractTensorCode
    from codebound.search.search import Search

VECTOR_LEVELS = 31


def tensor_code(name: str, search: Search, *, density: float = 1.0, levels: int) -> AbstractTensorCode:
    """A tensor of f, or its difference to the base, at a density and a number of levels.

    Vectors stay dense and finer, because they are few; those of a factory stay as they are, because some of
    them are variances.
    """
    value = search.subject.tensors[name].detach().cpu().float().numpy()
    if search.setting.base is not None:
        value = (value - search.setting.base[1][name]).astype(np.float32)
    if value.ndim < 2:
        if search.subject.chain is None:
            return Raw(value)
        density, levels = 1.0, max(levels, VECTOR_LEVELS)
    kept = _largest(value, density)
    if not kept.any():
        return Zero(value.shape)
    step = step_for_levels(kept, levels)
    return best_tensor_code(quantize(kept, step), step=step, strides=strides(search.setting))


def _largest(value: NDArray[np.float32], density: float) -> NDArray[np.float32]:
    """The largest entries by magnitude; zero elsewhere."""
    keep = round(density * value.size)
    if keep >= value.size:
        return value
    if keep == 0:
        return np.zeros_like(value)
    threshold = np.partition(np.abs(value), value.size - keep, axis=None)[value.size - keep]
    return np.where(np.abs(value) >= threshold, value, np.float32(0.0))


def strides(setting: Setting) -> tuple[int, ...]:
    """Distances at which inputs are alike: the width of an image."""
    shape = setting.sample.input_shape
    return (shape[-1],) if len(shape) == 3 else ()

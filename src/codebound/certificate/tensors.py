"""The name of a set of tensors: a hash of their content (docs/format.md, section 5.3)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def tensors_sha256(tensors: Mapping[str, NDArray[np.float32]]) -> str:
    """SHA-256 over names in sorted order, each as ``name|d0,d1,..|`` and its little-endian float32 bytes.

    Example:
        >>> tensors_sha256({"a": np.zeros((2, 3), np.float32)})[:8]
        '205d4964'
    """
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name}|{','.join(map(str, tensors[name].shape))}|".encode())
        digest.update(np.ascontiguousarray(tensors[name], dtype="<f4").tobytes())
    return digest.hexdigest()

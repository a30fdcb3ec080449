"""The name of a set of tensors: a hash of their content (docs/format.md, section 5.3)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from codebound.errors import CertificateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def tensors_sha256(tensors: Mapping[str, NDArray[np.float32]]) -> str:
    """SHA-256 over names in sorted order, each as ``name|d0,d1,..|`` and its little-endian float32 bytes.

    Names are of printable ASCII characters without a bar: else two sets of tensors could have one hash.

    Example:
        >>> tensors_sha256({"a": np.zeros((2, 3), np.float32)})[:8]
        '205d4964'
    """
    digest = hashlib.sha256()
    for name in sorted(tensors):
        if "|" in name or not (name.isascii() and name.isprintable()):
            raise CertificateError(
                f"a tensor is called {name!r:.80}; its name must be of printable ASCII characters, without "
                "'|'. Rename it."
            )
        digest.update(f"{name}|{','.join(map(str, tensors[name].shape))}|".encode())
        digest.update(np.ascontiguousarray(tensors[name], dtype="<f4").tobytes())
    return digest.hexdigest()

"""Named random streams derived from one seed. The global generators are never touched."""

import hashlib

import numpy as np
import torch


def stream_seed(seed: int, name: str) -> int:
    """A 63-bit seed for the stream ``name``. Streams of different names are unrelated.

    Example:
        >>> stream_seed(0, "batches") == stream_seed(0, "batches")
        True
        >>> stream_seed(0, "batches") == stream_seed(0, "labels")
        False
    """
    digest = hashlib.sha256(f"codebound/{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def torch_stream(seed: int, name: str, *, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator for the stream ``name``."""
    return torch.Generator(device=device).manual_seed(stream_seed(seed, name))


def numpy_stream(seed: int, name: str) -> np.random.Generator:
    """A numpy generator (Philox, counter-based) for the stream ``name``."""
    return np.random.Generator(np.random.Philox(stream_seed(seed, name)))

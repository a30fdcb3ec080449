"""Vectors of many inputs, in 16 bits, which cores make side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch

from codebound.run.device import exact_products
from codebound.run.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from codebound.learn.features import FeatureMap
    from codebound.learn.images import Change

FEATURES = "features"
"""Name of the progress before anything is learned."""
_CHUNK = 500


def vectors_of(
    features: FeatureMap,
    stored: Tensor,
    *,
    change: Change | None = None,
    device: str | torch.device = "cpu",
    progress: Progress = silent,
) -> Tensor:
    """Vectors of stored inputs, or of their changed copies, in 16 bits."""
    size = features.dimension
    found = torch.empty(len(stored), size, dtype=torch.int16, device=device)

    def make(start: int) -> Tensor:
        with torch.no_grad():  # which every thread has to say
            return features(stored[start : start + _CHUNK].to(device), change).to(torch.int16)

    is_on_cpu = torch.device(device).type == "cpu"
    with exact_products():
        for start, part in _side_by_side(make, range(0, len(stored), _CHUNK), is_on_cpu=is_on_cpu):
            found[start : start + len(part)] = part
            progress(start, len(stored), FEATURES)
    return found


def _side_by_side(
    make: Callable[[int], Tensor], starts: range, *, is_on_cpu: bool
) -> Iterator[tuple[int, Tensor]]:
    """Make the parts in parallel, in order. The steps are small, so that each core has a part of its own."""
    threads = torch.get_num_threads()
    if not is_on_cpu or threads == 1:
        yield from ((start, make(start)) for start in starts)
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for at in range(0, len(starts), 2 * threads):
                some = starts[at : at + 2 * threads]
                yield from zip(some, pool.map(make, some), strict=True)
    finally:
        torch.set_num_threads(threads)

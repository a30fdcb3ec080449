"""Time of pruning against the size of a layer, beside torch.nn.utils.prune, which gives a mask and no code.

Run: python benchmarks/compress.py [--full]

Sizes end at a million weights; --full goes on to ten millions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from ratios import beside
from torch import Tensor, nn
from torch.nn.utils import prune

from codebound_networks.codes.modes import encode_tensors
from codebound_networks.views.layers import view_of
from codebound_papers.compress.compressors import AbstractCompressor
from codebound_papers.guha23.magnitude import LargestWeights, MagnitudePruning
from codebound_papers.guha23.pruning import strength_for
from codebound_papers.shin21.compressor import HeavyTail

SHAPES = [(100, 100), (500, 200), (1000, 1000), (2500, 4000)]
KEPT = 0.4
REPEATS = 5
THREADS = torch.get_num_threads()


def best_of(repeats: int, work: Callable[[], object]) -> float:
    """Shortest wall time in milliseconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def torch_milliseconds(weight: Tensor, method: Callable[..., nn.Module]) -> float:
    """Time of a mask by torch."""

    def work() -> None:
        layer = nn.Module()
        layer.weight = nn.Parameter(weight)
        method(layer, "weight", amount=1.0 - KEPT)

    return best_of(REPEATS, work)


def our_milliseconds(weight: Tensor, algorithm: AbstractCompressor) -> tuple[float, float]:
    """Time of a code, and of a code together with its bits."""
    layer = nn.Linear(1, 1, bias=False)
    layer.weight = nn.Parameter(weight)
    view = view_of("layer", layer)
    return (
        best_of(REPEATS, lambda: algorithm.compress(view, seed=0)),
        best_of(REPEATS, lambda: encode_tensors([algorithm.compress(view, seed=0).code])),
    )


def pruning() -> None:
    """One line per size: codes, and codes with their bits, beside torch's masks."""
    ours: dict[str, AbstractCompressor] = {
        "mbp": MagnitudePruning(strength=strength_for(KEPT)),
        "naive": LargestWeights(density=KEPT),
        "heavytail": HeavyTail(threshold=0.84),  # keeps 40 % of standard Gaussians
    }
    theirs = {"l1_unstructured": prune.l1_unstructured, "random_unstructured": prune.random_unstructured}
    print(f"pruning {1 - KEPT:.0%} of a layer: milliseconds to a code + to its bits; {THREADS} thread(s)")
    print(f"{'weights':>12}" + "".join(f"{name:>21}" for name in (*ours, *theirs)))
    for shape in SHAPES if "--full" in sys.argv else SHAPES[:-1]:
        weight = torch.randn(shape)
        cells = [our_milliseconds(weight, algorithm) for algorithm in ours.values()]
        masks = [torch_milliseconds(weight, method) for method in theirs.values()]
        texts = [f"{code:.1f} + {bits - code:.1f}" for code, bits in cells]
        texts += [f"{mask:.1f}" for mask in masks]
        for name, (code, _) in zip(ours, cells, strict=True):
            what = f"pruning {weight.numel():,} weights, {name}"
            beside(what, ours=code, theirs=masks[0], peer="l1_unstructured of torch, a mask", unit="ms")
        print(f"{weight.numel():>12,}" + "".join(f"{text:>21}" for text in texts))


if __name__ == "__main__":
    pruning()

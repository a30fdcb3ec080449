"""Time of ``compare`` without a certificate: an MLP on MNIST and, with --full, VGG-19 on CIFAR-10.

Run: python benchmarks/compare.py [--full]

Where a dataset is not in the cache, random bytes of its shape take its place.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch

from codebound.run.errors import DataError
from codebound.sample.dataset import Sample, Scaling
from codebound.sample.load import load_sample
from codebound_networks.reading.loading import load_model
from codebound_papers.compare.table import compare
from codebound_papers.measure.record import MeasureSettings

CASES = [
    ("mlp:depth=5,width=784", "mnist", (60_000, 1, 28, 28), 1000),
    ("vgg19", "cifar10", (50_000, 3, 32, 32), 2000),
]


def sample_of(name: str, shape: tuple[int, ...]) -> Sample:
    """The dataset, or random bytes."""
    try:
        return load_sample(name)
    except DataError:
        random = np.random.default_rng(0)
        x = random.integers(0, 256, size=shape, dtype=np.uint8)
        return Sample("random bytes", "train", x, random.integers(0, 10, len(x)), 10, Scaling(divisor=255.0))


def main() -> None:
    """Prints one line per case: wall time, and processor time, which a busy machine does not change."""
    print(f"{torch.get_num_threads()} threads")
    for model, data, shape, examples in CASES if "--full" in sys.argv else CASES[:1]:
        sample = sample_of(data, shape)
        network = load_model(model, input_shape=sample.input_shape, classes=sample.classes)
        start = time.perf_counter(), time.process_time()
        found = compare(network, sample, effort=None, settings=MeasureSettings(examples=examples))
        wall, processor = time.perf_counter() - start[0], time.process_time() - start[1]
        print(
            f"{model} on {sample.name}: {sample.n:,} examples, {examples:,} for Jacobians: {wall:.1f} s "
            f"({processor:.1f} s of processor time), {len(found.rows)} rows",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Time of `fit` beside a bare PyTorch loop that takes the same steps on the same tensors.

Both run in one process, in turns, so that a busy machine slows both. The ratio of the minima says what the
harness costs: batch order, schedule, loss and error counts, and checks after each epoch.
"""

from __future__ import annotations

import copy
import statistics
import time
from itertools import pairwise

import numpy as np
import torch
from ratios import beside
from torch import nn
from torch.nn import functional

from codebound.sample.dataset import Sample, Scaling
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit

REPEATS = 7


def sample(n: int, side: int) -> Sample:
    """Random bytes in the shape of MNIST."""
    stream = np.random.default_rng(0)
    x = stream.integers(0, 256, size=(n, 1, side, side), dtype=np.uint8)
    return Sample("random bytes", "train", x, stream.integers(0, 10, size=n), 10, Scaling(divisor=255.0))


def mlp(inputs: int, width: int, hidden: int) -> nn.Module:
    """ReLU network with ``hidden`` hidden layers."""
    sizes = [inputs, *([width] * hidden)]
    layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(width, 10))


def bare(model: nn.Module, data: Sample, config: TrainConfig, device: str) -> float:
    """Seconds of the loop that one would write by hand, with the same optimiser and input pipeline."""
    model = copy.deepcopy(model).to(device)
    x, y = torch.from_numpy(data.x).to(device), torch.from_numpy(data.y).to(device)
    optimizer: torch.optim.Optimizer
    if config.optimizer == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate, fused=True)
    else:
        optimizer = torch.optim.SGD(
            model.parameters(), lr=config.learning_rate, momentum=config.momentum, fused=True
        )
    start = time.perf_counter()
    for _ in range(config.epochs):
        for indices in torch.split(torch.randperm(data.n, device=device), config.batch_size):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x[indices].to(torch.float32).div_(255.0)), y[indices])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    loss.item()  # waits for the device
    return time.perf_counter() - start


def compare(name: str, *, data: Sample, model: nn.Module, config: TrainConfig, device: str) -> None:
    """Prints one row. `fit` reports the time of its epochs; both times leave out set-up."""
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(REPEATS + 1):
        ours.append(fit(model, data, config, device=device).seconds)
        theirs.append(bare(model, data, config, device))
    ours, theirs = ours[1:], theirs[1:]  # the first round warms up
    steps = config.epochs * -(-data.n // config.batch_size)
    beside(f"training {name} on {device}", ours=min(ours), theirs=min(theirs), peer="a bare loop of PyTorch")
    print(
        f"{name:26} {device:5} {1e6 * min(theirs) / steps:9.1f} {1e6 * min(ours) / steps:9.1f} "
        f"{min(ours) / min(theirs):8.3f} {statistics.median(ours) / statistics.median(theirs):8.3f}"
    )


def main() -> None:
    """Prints the table."""
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, {REPEATS} repeats in turns")
    print(f"{'':32} {'microseconds a step':>19} {'fit / bare':>17}")
    print(f"{'network, optimiser, batch':26} {'on':5} {'bare':>9} {'fit':>9} {'minima':>8} {'medians':>8}")
    large, small = sample(5120, side=28), sample(6400, side=8)
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        config = TrainConfig(optimizer="adam", batch_size=256, epochs=1 if device == "cpu" else 20)
        compare("784-784x4-10, Adam, 256", data=large, model=mlp(784, 784, 4), config=config, device=device)
        config = TrainConfig(optimizer="adam", batch_size=32, epochs=3)
        compare("64-32-10, Adam, 32", data=small, model=mlp(64, 32, 1), config=config, device=device)
        config = TrainConfig(optimizer="sgd", batch_size=32, epochs=3)
        compare("64-32-10, SGD, 32", data=small, model=mlp(64, 32, 1), config=config, device=device)


if __name__ == "__main__":
    main()

"""Times noise stability beside the forward passes it needs and beside the loop that one would write by hand.

Run: python benchmarks/stability.py [--device cuda] [--images 1000]

1. Layer cushions and contractions of the 784-784x4-10 network on 60,000 images, beside plain forward passes.
2. Exact interlayer cushions of all pairs of layers of that network, beside a loop of
   torch.autograd.functional.jacobian over a few of the images. Both give the same numbers.
3. All measures of VGG-19 to the last layer on CIFAR-sized images, on --device.

The compared ones run in one process, in turns, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from codebound.data import load_dataset
from codebound.errors import DataError
from codebound.measure import Smoothness, StabilityPlan, stability
from codebound.nets.zoo import build

REPEATS = 3
LOOP_IMAGES = 2
CHUNK = 500

Result = TypeVar("Result")


def images(name: str, n: int, shape: tuple[int, ...]) -> tuple[str, Tensor]:
    """The first n training images where the dataset is at hand, otherwise random ones of its shape."""
    try:
        data = load_dataset(name)
    except DataError:
        generator = torch.Generator().manual_seed(0)
        return "random images", torch.rand(n, *shape, generator=generator)
    return name, data.scaling.apply(torch.from_numpy(data.x[:n]))


def timed(function: Callable[[], Result], device: str = "cpu") -> tuple[Result, float, float]:
    """A result, the wall time, and the processor time, which other users of the machine change less."""
    wall, processor = time.perf_counter(), time.process_time()
    result = function()
    if device != "cpu":
        torch.cuda.synchronize()
    return result, time.perf_counter() - wall, time.process_time() - processor


def forward_passes(model: nn.Module, x: Tensor) -> None:
    """What any measurement of all examples has to do at least."""
    with torch.no_grad():
        for chunk in torch.split(x, CHUNK):
            model(chunk)


def loop(model: nn.Sequential, x: Tensor) -> dict[tuple[str, str], list[float]]:
    """Interlayer cushions of all pairs by the textbook loop: one image, one pair, one Jacobian at a time."""
    places = [k for k, module in enumerate(model) if isinstance(module, nn.Linear)]
    names = [name for name, module in model.named_children() if isinstance(module, nn.Linear)]
    found: dict[tuple[str, str], list[float]] = {}
    for image in x:
        for i, start in enumerate(places):
            for j, stop in enumerate(places[i + 1 :], start=i + 1):
                pre = model[: start + 1](image[None]).detach()
                jacobian = torch.autograd.functional.jacobian(model[start + 1 : stop + 1], pre)  # type: ignore[no-untyped-call]
                matrix = jacobian.reshape(-1, pre.numel())
                cushion = (matrix @ pre[0]).norm() / (matrix.norm() * pre.norm())
                found.setdefault((names[i], names[j]), []).append(float(cushion))
    return found


def layer_cushions(model: nn.Sequential, x: Tensor) -> None:
    """Prints how much longer cushions and contractions take than the forward passes."""
    measured = partial(stability, model, x, StabilityPlan(interlayer="none"), chunk_size=CHUNK)
    turns = [(timed(partial(forward_passes, model, x))[1:], timed(measured)[1:]) for _ in range(REPEATS)]
    print(f"1. cushions and contractions, {len(x):,} images")
    for k, what in enumerate(("wall", "processor")):
        bare, ours = min(forward[k] for forward, _ in turns), min(own[k] for _, own in turns)
        print(f"   {what:9}  forward {bare:7.2f} s  measured {ours:7.2f} s  ratio {ours / bare:5.2f}")


def interlayer_cushions(model: nn.Sequential, x: Tensor) -> None:
    """Prints the time of exact cushions of all pairs, and of the loop per image."""
    plan = StabilityPlan(interlayer="all", biases="separate")
    found, *ours = timed(partial(stability, model, x, plan, chunk_size=125))
    expected, *theirs = timed(partial(loop, model, x[:LOOP_IMAGES]))
    columns = {(key.layer, key.target): values for key, values in found.columns.items() if key.target}
    apart = max(
        abs(float(columns[pair][k]) / value - 1.0)
        for pair, values in expected.items()
        for k, value in enumerate(values)
    )
    print(f"2. exact interlayer cushions of {len(columns)} pairs, {len(x):,} images (loop: {LOOP_IMAGES})")
    for what, mine, other in zip(("wall", "processor"), ours, theirs, strict=True):
        each, loop_each = mine / len(x), other / LOOP_IMAGES
        print(
            f"   {what:9}  seconds an image: loop {loop_each:7.3f}  measured {each:7.3f}  "
            f"speed-up {loop_each / each:5.1f}  {mine:7.1f} s in all"
        )
    print(f"   largest relative difference {apart:.1e}")


def vgg19(n: int, device: str) -> None:
    """Prints the time of all measures of VGG-19 to its last layer."""
    source, x = images("cifar10", n, (3, 32, 32))
    model = build("vgg19:batch_norm=true", input_shape=(3, 32, 32), classes=10).to(device)
    noise = Smoothness(0.1, draws=5)
    plans = {
        "cushions and contractions": StabilityPlan(interlayer="none"),
        "and exact Jacobians and spreads to the output": StabilityPlan(),
        "and smoothness of all pairs, 5 draws": StabilityPlan(smoothness=noise),
        "and Jacobians of all pairs, 8 probes": StabilityPlan(interlayer="all", probes=8, smoothness=noise),
    }
    print(f"3. VGG-19 on {device}, {len(x):,} images: {source}")
    stability(model, x[:8], StabilityPlan(smoothness=noise))  # starts the libraries
    for name, plan in plans.items():
        spent = timed(partial(stability, model, x, plan, chunk_size=CHUNK), device)[1]
        print(f"   {spent:8.2f} s  {name}")


def main() -> None:
    """Runs the three parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="device of the VGG-19 part")
    parser.add_argument("--images", type=int, default=1000, help="images of parts 2 and 3")
    parser.add_argument("--parts", default="123", help="parts to run, such as 3")
    options = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, minima of {REPEATS} in part 1")
    if {"1", "2"} & set(options.parts):
        source, x = images("mnist", 60_000, (1, 28, 28))
        model = build("mlp:depth=5,width=784", input_shape=(1, 28, 28), classes=10)
        assert isinstance(model, nn.Sequential)
        print(f"784-784x4-10 on the CPU: {source}")
        if "1" in options.parts:
            layer_cushions(model, x)
        if "2" in options.parts:
            interlayer_cushions(model, x[: options.images])
    if "3" in options.parts:
        vgg19(options.images, options.device)


if __name__ == "__main__":
    main()

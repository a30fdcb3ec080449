"""Times the measures beside WeightWatcher, powerlaw, and the loops that one would write by hand.

Run: python benchmarks/measure.py [SECTION ...] [--images 50] [--device cuda]

spectra     norms, stable ranks and exponents of a 784-784x4-10 network, beside WeightWatcher
tails       single fits, beside powerlaw.Fit; verdicts; stable densities
cushions    layer cushions and contractions on 20,000 images, beside plain forward passes
interlayer  exact interlayer cushions of all pairs of layers, beside a loop of
            torch.autograd.functional.jacobian over two of the images; both give the same numbers
vgg19       all measures of VGG-19 on CIFAR-sized images, on --device; only when it is named

The first two are CPU seconds of one thread; the others print wall and processor time, and what is compared
runs in turns, so that a busy machine slows both. Other libraries are used where they are installed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from ratios import beside, is_installed
from torch import Tensor, nn

from codebound.run.errors import DataError
from codebound.sample.load import load_sample
from codebound_networks.reading.walk import wrap
from codebound_networks.views.zoo import build
from codebound_papers.measure.noise.meter import stability
from codebound_papers.measure.noise.quantities import Smoothness, StabilitySettings
from codebound_papers.measure.norms import layer_spectra
from codebound_papers.measure.tails import estimate_tail, fit_power_law
from codebound_papers.shin21.laws import PowerLaw, Stable

T = TypeVar("T")

WIDTHS = (784, 784, 784, 784, 784, 10)
REPEATS = 3
LOOP_IMAGES = 2
CHUNK = 500


class Timed(NamedTuple):
    """Seconds; the processor's are changed less by other users of the machine."""

    wall: float
    processor: float


def timed(work: Callable[[], T], *, repeats: int = 1, device: str = "cpu") -> tuple[T, Timed]:
    """A result and the least times of a few calls."""
    times = []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        result = work()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(Timed(time.perf_counter() - wall, time.process_time() - processor))
    return result, Timed(min(t.wall for t in times), min(t.processor for t in times))


def quietly(work: Callable[[], T]) -> Callable[[], T]:
    """The same work with its prints and warnings dropped."""

    def silenced() -> T:
        out, err = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
        with out, err, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work()

    return silenced


def heavy_mlp(seed: int = 0) -> nn.Sequential:
    """A 784-784x4-10 network with Gaussian weights plus stable noise, so that its spectra have tails."""
    layers: list[nn.Module] = []
    generator = torch.Generator().manual_seed(seed)
    for i, (inputs, outputs) in enumerate(pairwise(WIDTHS)):
        layer = nn.Linear(inputs, outputs)
        noise = Stable(alpha=1.8).sample((outputs, inputs), seed=seed + i) / inputs**0.6
        with torch.no_grad():
            nn.init.normal_(layer.weight, std=inputs**-0.5, generator=generator)
            layer.weight += torch.from_numpy(noise).float()
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def spectra_and_tails(model: nn.Module) -> list[tuple[float, float, float]]:
    """Ours: exponent, spectral norm and stable rank of every layer."""
    spectra = layer_spectra(wrap(model))
    return [(estimate_tail(s.eigenvalues).density_exponent, s.spectral_norm, s.stable_rank) for s in spectra]


def weightwatcher_rows(model: nn.Module) -> list[tuple[float, float, float]]:
    """The same three numbers by WeightWatcher."""
    import weightwatcher  # type: ignore[import-not-found,import-untyped,unused-ignore]

    watcher = weightwatcher.WeightWatcher(model=model, log_level=logging.CRITICAL)
    details = watcher.analyze(plot=False)
    columns = zip(details["alpha"], details["sv_max"], details["stable_rank"], strict=True)
    return [(float(a), float(s), float(r)) for a, s, r in columns]


def powerlaw_exponent(values: NDArray[np.float64]) -> float:
    """The density exponent by powerlaw.Fit."""
    import powerlaw  # type: ignore[import-not-found,import-untyped,unused-ignore]

    fit: Any = powerlaw.Fit(values, verbose=False)
    return float(fit.alpha)


def spectra_section() -> None:
    """Spectra, norms and exponents of a whole network."""
    model = heavy_mlp()
    print(f"spectra, norms and exponents of a {'-'.join(map(str, WIDTHS))} network")
    ours, spent = timed(lambda: spectra_and_tails(model), repeats=REPEATS)
    print(f"  codebound      {spent.processor:8.3f} s")
    theirs: list[tuple[float, float, float]] = []
    if is_installed("weightwatcher"):
        theirs, their = timed(quietly(lambda: weightwatcher_rows(model)), repeats=REPEATS)
        print(f"  WeightWatcher  {their.processor:8.3f} s  ratio {their.processor / spent.processor:.1f}")
        what = "spectra, norms and exponents of a 784-784x4-10 network"
        beside(what, ours=spent.processor, theirs=their.processor, peer="WeightWatcher")
    heads = "  ".join(f"{head:>8} {'theirs':>8}" for head in ("alpha", "norm", "s.rank"))
    print(f"  {'layer':>5}  {heads}")
    for i, row in enumerate(ours):
        pairs = zip(row, theirs[i] if theirs else ("", "", ""), strict=True)
        cells = "  ".join(f"{a:8.3f} {f'{b:8.3f}' if b != '' else '':>8}" for a, b in pairs)
        print(f"  {i:>5}  {cells}")
    print("  (below 20 eigenvalues WeightWatcher uses another estimator)")


def tails_section() -> None:
    """Exponent and seconds of single fits."""
    print("density exponents")
    has_powerlaw = is_installed("powerlaw")
    print(f"  {'values':>16}  {'alpha':>8} {'s':>8}  {'powerlaw':>8} {'s':>8}  {'ratio':>7}")
    rng = np.random.default_rng(0)
    for size in (784, 5_000, 20_000):
        samples = {
            "power law": PowerLaw(1.5, 1.0).sample(size, seed=0),
            "Gaussian": np.abs(rng.standard_normal(size)),
        }
        for name, values in samples.items():
            fit, spent = timed(partial(estimate_tail, values), repeats=REPEATS)
            line = f"  {size:>6,} {name:>9}  {fit.density_exponent:8.3f} {spent.processor:8.4f}"
            if has_powerlaw and (size < 20_000 or name == "power law"):  # 20,000 values take it 17 s
                alpha, their = timed(quietly(partial(powerlaw_exponent, values)))
                ratio = their.processor / spent.processor
                line += f"  {alpha:8.3f} {their.processor:8.2f}  {ratio:7.0f}"
                what = f"exponent of {size:,} values, {name}"
                beside(what, ours=spent.processor, theirs=their.processor, peer="powerlaw.Fit")
            print(line)
    fit_values = PowerLaw(1.5, 1.0).sample(784, seed=0)
    verdict, spent = timed(lambda: fit_power_law(fit_values), repeats=REPEATS)
    print(f"  verdict with 2 x 200 resamples of 784 values: {spent.processor:.2f} s ({verdict.reason})")
    places = np.linspace(-10.0, 10.0, 1000)
    _, spent = timed(lambda: Stable(alpha=1.5).density(places), repeats=REPEATS)
    print(f"  stable density at 1,000 places: {spent.processor:.3f} s")


def images(name: str, n: int, shape: tuple[int, ...]) -> tuple[str, Tensor]:
    """The first n training images where the dataset is at hand, otherwise random ones of its shape."""
    try:
        data = load_sample(name)
    except DataError:
        return "random images", torch.rand(n, *shape, generator=torch.Generator().manual_seed(0))
    return name, data.scaling.apply(torch.from_numpy(data.x[:n]))


def mnist_mlp() -> nn.Sequential:
    """The 784-784x4-10 network, untrained."""
    model = build("mlp:depth=5,width=784", input_shape=(1, 28, 28), classes=10)
    assert isinstance(model, nn.Sequential)
    return model


def forward_passes(model: nn.Module, x: Tensor) -> None:
    """Run the forward passes that any measurement of all examples needs."""
    with torch.no_grad():
        for chunk in torch.split(x, CHUNK):
            model(chunk)


def cushions_section() -> None:
    """Time cushions and contractions beside the forward passes."""
    model, (source, x) = mnist_mlp(), images("mnist", 20_000, (1, 28, 28))
    measured = partial(stability, model, x, StabilitySettings(interlayer="none"), chunk_size=CHUNK)
    turns = [(timed(partial(forward_passes, model, x))[1], timed(measured)[1]) for _ in range(REPEATS)]
    print(f"cushions and contractions of a 784-784x4-10 network, {len(x):,} images: {source}")
    for k, what in enumerate(Timed._fields):
        bare, ours = min(forward[k] for forward, _ in turns), min(own[k] for _, own in turns)
        print(f"  {what:9}  forward {bare:7.2f} s  measured {ours:7.2f} s  ratio {ours / bare:5.2f}")
    beside(f"cushions on {len(x):,} images", ours=ours, theirs=bare, peer="the forward passes alone")


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


def interlayer_section(n: int) -> None:
    """Exact cushions of all pairs, and the loop per image."""
    model, (source, x) = mnist_mlp(), images("mnist", n, (1, 28, 28))
    plan = StabilitySettings(interlayer="all", biases="separate")
    found, ours = timed(partial(stability, model, x, plan, chunk_size=125))
    expected, theirs = timed(partial(loop, model, x[:LOOP_IMAGES]))
    columns = {(key.layer, key.target): values for key, values in found.columns.items() if key.target}
    apart = max(
        abs(float(columns[pair][k]) / value - 1.0)
        for pair, values in expected.items()
        for k, value in enumerate(values)
    )
    print(
        f"exact interlayer cushions of {len(columns)} pairs of layers, {len(x):,} images (loop: "
        f"{LOOP_IMAGES}): {source}"
    )
    for what, mine, other in zip(Timed._fields, ours, theirs, strict=True):
        each, loop_each = mine / len(x), other / LOOP_IMAGES
        print(
            f"  {what:9}  seconds an image: loop {loop_each:7.3f}  measured {each:7.3f}  "
            f"speed-up {loop_each / each:5.1f}  {mine:7.1f} s in all"
        )
    print(f"  largest relative difference {apart:.1e}")
    peer = "a loop of torch.autograd.functional.jacobian"
    beside("exact interlayer cushions of an image", ours=each, theirs=loop_each, peer=peer)


def vgg19_section(n: int, device: str) -> None:
    """The time of all measures of VGG-19."""
    source, x = images("cifar10", n, (3, 32, 32))
    model = build("vgg19:batch_norm=true", input_shape=(3, 32, 32), classes=10).to(device)
    noise = Smoothness(0.1, draws=5)
    plans = {
        "cushions and contractions": StabilitySettings(interlayer="none"),
        "and exact Jacobians and spreads to the output": StabilitySettings(),
        "and smoothness of all pairs, 5 draws": StabilitySettings(smoothness=noise),
        "and Jacobians of all pairs, 8 probes": StabilitySettings(
            interlayer="all", probes=8, smoothness=noise
        ),
    }
    print(f"VGG-19 on {device}, {len(x):,} images: {source}")
    stability(model, x[:8], StabilitySettings(smoothness=noise))  # starts the libraries
    for name, plan in plans.items():
        spent = timed(partial(stability, model, x, plan, chunk_size=CHUNK), device=device)[1]
        print(f"  {spent.wall:8.2f} s  {name}")


def main() -> None:
    """Runs the sections."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = ("spectra", "tails", "cushions", "interlayer", "vgg19")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="default: all but vgg19")
    parser.add_argument("--images", type=int, default=50, help="images of the last two sections")
    parser.add_argument("--device", default="cpu", help="device of the vgg19 section")
    options = parser.parse_args()
    sections = options.sections or known[:-1]
    unknown = [name for name in sections if name not in known]
    if unknown:
        parser.error(f"unknown section {unknown[0]!r}; known: {', '.join(known)}")
    threads = torch.get_num_threads()
    print(f"PyTorch {torch.__version__}, {threads} threads, minima of {REPEATS}")
    torch.set_num_threads(1)
    if "spectra" in sections:
        spectra_section()
    if "tails" in sections:
        tails_section()
    torch.set_num_threads(threads)
    if "cushions" in sections:
        cushions_section()
    if "interlayer" in sections:
        interlayer_section(options.images)
    if "vgg19" in sections:
        vgg19_section(options.images, options.device)


if __name__ == "__main__":
    main()

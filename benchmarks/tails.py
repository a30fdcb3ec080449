"""Times spectra and tail fits beside WeightWatcher and powerlaw, where they are installed.

Run: OMP_NUM_THREADS=1 python benchmarks/tails.py [--all]

CPU seconds in one process, least of three calls, of one for powerlaw.Fit. `--all` adds powerlaw.Fit on
20,000 values, which takes minutes. Ratios are their seconds to ours.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import sys
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from codebound.measure import PowerLaw, Stable, estimate_tail, fit_power_law, layer_spectra
from codebound.nets import wrap

T = TypeVar("T")
WIDTHS = (784, 784, 784, 784, 784, 10)


def timed(work: Callable[[], T], repeats: int = 3) -> tuple[T, float]:
    """A result and the least CPU seconds of a few calls."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return result, min(seconds)


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


def quietly(work: Callable[[], T]) -> Callable[[], T]:
    """The same work with its prints and warnings dropped."""

    def silenced() -> T:
        out, err = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
        with out, err, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work()

    return silenced


def network_table(model: nn.Module) -> None:
    """Prints spectra, norms and exponents of a whole network."""
    print(f"spectra, norms and exponents of a {'-'.join(map(str, WIDTHS))} network")
    ours, seconds = timed(lambda: spectra_and_tails(model))
    print(f"  codebound      {seconds:8.3f} s")
    theirs: list[tuple[float, float, float]] = []
    if importlib.util.find_spec("weightwatcher"):
        theirs, their_seconds = timed(quietly(lambda: weightwatcher_rows(model)))
        print(f"  WeightWatcher  {their_seconds:8.3f} s  ratio {their_seconds / seconds:.1f}")
    else:
        print("  WeightWatcher is not installed")
    print(
        f"  {'layer':>5}  {'alpha':>8} {'theirs':>8}  {'norm':>8} {'theirs':>8}  {'s.rank':>8} {'theirs':>8}"
    )
    for i, row in enumerate(ours):
        pairs = zip(row, theirs[i] if theirs else ("", "", ""), strict=True)
        cells = "  ".join(f"{a:8.3f} {f'{b:8.3f}' if b != '' else '':>8}" for a, b in pairs)
        print(f"  {i:>5}  {cells}")
    print("  (below 20 eigenvalues WeightWatcher uses another estimator)")


def fits_table(*, with_largest: bool) -> None:
    """Prints exponent and seconds of single fits."""
    has_powerlaw = importlib.util.find_spec("powerlaw") is not None
    print("density exponents" + ("" if has_powerlaw else "; powerlaw is not installed"))
    print(f"  {'values':>16}  {'alpha':>8} {'s':>8}  {'powerlaw':>8} {'s':>8}  {'ratio':>7}")
    rng = np.random.default_rng(0)
    for size in (784, 5_000, 20_000):
        for name, values in (
            ("power law", PowerLaw(1.5, 1.0).sample(size, seed=0)),
            ("Gaussian", np.abs(rng.standard_normal(size))),
        ):
            fit, seconds = timed(lambda values=values: estimate_tail(values))  # type: ignore[misc]
            line = f"  {size:>6,} {name:>9}  {fit.density_exponent:8.3f} {seconds:8.4f}"
            if has_powerlaw and (with_largest or size < 20_000):
                alpha, their_seconds = timed(
                    quietly(lambda values=values: powerlaw_exponent(values)),  # type: ignore[misc]
                    repeats=1,
                )
                line += f"  {alpha:8.3f} {their_seconds:8.2f}  {their_seconds / seconds:7.0f}"
            print(line)


def main() -> None:
    """Prints three tables."""
    torch.set_num_threads(1)
    network_table(heavy_mlp())
    fits_table(with_largest="--all" in sys.argv[1:])
    values = PowerLaw(1.5, 1.0).sample(784, seed=0)
    fit, seconds = timed(lambda: fit_power_law(values))
    print(f"verdict with 2 x 200 resamples of 784 values: {seconds:.2f} s ({fit.reason})")
    places = np.linspace(-10.0, 10.0, 1000)
    _, seconds = timed(lambda: Stable(alpha=1.5).density(places))
    print(f"stable density at 1,000 places: {seconds:.3f} s")


if __name__ == "__main__":
    main()

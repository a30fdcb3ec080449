"""Noise stability for the published bounds: on a part of the sample that the network's size allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.rng import numpy_stream
from codebound_papers.measure.noise.meter import StabilityPlan, stability
from codebound_papers.measure.noise.smoothness import Smoothness

if TYPE_CHECKING:
    from torch import nn

    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine
    from codebound.progress import Progress
    from codebound_papers.compare.facts import MeasurePlan
    from codebound_papers.measure.noise.result import Stability
    from codebound_papers.measure.summary import Workload

_LIGHT = 10**7  # multiplications of a forward pass up to which Jacobians between all pairs are measured
_PROBES = 64
_PIXELS = 16  # of every layer of a heavy network, as in the papers' figures
_NOISE, _DRAWS, _NOISY_EXAMPLES = 0.1, 5, 50


def noise_stability(
    model: nn.Module,
    sample: Dataset,
    plan: MeasurePlan,
    *,
    initial: nn.Module | None,
    work: Workload,
    engine: Engine | None,
    progress: Progress,
) -> tuple[Stability, float | None]:
    """Noise stability on a random part of the sample, and interlayer smoothness on a smaller one.

    Raises:
        CodeboundError: The network has none, for example because it cannot be traced.
    """

    def measured(count: int, settings: StabilityPlan, what: str) -> Stability:
        def told(done: int, total: int | None, note: str = "") -> None:
            progress(done, total, what)

        picked = numpy_stream(plan.seed, "compared examples").permutation(sample.n)[:count]
        part = sample.select(sorted(picked.tolist()), role=sample.role)
        chunk = min(64, plan.chunk_size)  # Jacobians take far more memory than outputs
        return stability(
            model,
            part,
            settings,
            initial=initial,
            chunk_size=chunk,
            device=plan.device,
            engine=engine,
            progress=told,
        )

    is_light = work.multiplications <= _LIGHT
    jacobians = StabilityPlan(
        interlayer="all" if is_light else "output",
        probes=_PROBES if is_light else work.probes("output"),
        pixels=None if is_light else _PIXELS,
        seed=plan.seed,
    )
    noise = Smoothness(_NOISE, draws=_DRAWS, delta=plan.delta, seed=plan.seed)
    noisy = StabilityPlan(interlayer="none", smoothness=noise, seed=plan.seed)
    found = measured(plan.examples, jacobians, "noise stability")
    return found, measured(min(plan.examples, _NOISY_EXAMPLES), noisy, "smoothness").smoothness


def described(found: Stability) -> str:
    """How noise stability was measured, in a sentence."""
    targets = {key.target for key in found.columns if key.quantity == "interlayer"}
    goal = "the output" if len(targets) < 2 else "all later layers"
    norms = "exact norms" if found.probes is None else f"norms by {found.probes} probes where they are large"
    noisy = min(found.n, _NOISY_EXAMPLES)
    return (
        f"Noise stability is that of {found.n:,} random examples, with Jacobians to {goal} and {norms}; "
        f"smoothness that of {noisy} of them, under {_DRAWS} draws of Gaussian noise {_NOISE} times as long "
        "as an activation."
    )

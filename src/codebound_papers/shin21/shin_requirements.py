"""Requirements of replacing small weights by noise (Shin 2021, algorithm 1, theorem 2)."""

from dataclasses import dataclass

from codebound.run.errors import ModelError
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound_networks.train.rng import numpy_stream, stream_seed
from codebound_networks.views.layers import AbstractLayerView
from codebound_papers.arora18.arora_requirements import plan_layers
from codebound_papers.measure.norms import tail_values
from codebound_papers.measure.record import Measured
from codebound_papers.measure.tails import fit_power_law
from codebound_papers.shin21.compressor import Published, ScaleFree

_TAIL_VALUES, _TAIL_RESAMPLES = 2000, 50  # weights that a tail is fitted to, and synthetic samples


@dataclass(frozen=True, slots=True, kw_only=True)
class TailLayer:
    """Thresholds and shares for replacing small weights of one layer by noise."""

    name: str  # the layer
    weights: int  # its number of weights
    epsilon: float  # accuracy that theorem 2 asks for, eps_i
    rms: float  # root mean square of its weights
    published_threshold: float  # threshold tau of algorithm 1, without noise
    published_share: float  # share of weights up to it
    scale_free_threshold: float  # one that keeps the promise of algorithm 1 at every scale of the weights
    scale_free_share: float  # share of weights up to that
    p_value: float | None  # of a power law of their magnitudes; None where nothing could be fitted
    tail: str  # the verdict on it

    @property
    def asked(self) -> int:
        """Weights that stay by the scale-free threshold."""
        return round((1.0 - self.scale_free_share) * self.weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavytailRequirements:
    """Requirements of S-Thm2."""

    layers: tuple[TailLayer, ...]  # in forward order
    eta: float  # failure probability in one direction
    notes: tuple[str, ...]  # what a reader should know, in sentences

    @property
    def verdict(self) -> str:
        """In plain words."""
        total = sum(layer.weights for layer in self.layers)
        below = sum(layer.weights - layer.asked for layer in self.layers)
        published = round(sum(layer.published_share * layer.weights for layer in self.layers))
        nearest = max(layer.scale_free_threshold / layer.rms for layer in self.layers)
        carried = sum(layer.tail.startswith("power law") for layer in self.layers)
        return (
            f"The theorem lets {below:,} of {total:,} weights be replaced ({published:,} with the constants "
            f"as published): its threshold is at most {nearest:.2g} of the root mean square weight. "
            f"It assumes power laws, which {carried} of {len(self.layers)} layers can carry."
        )


@implements("S-E22", kind="measure")
def heavytail_requirements(measured: Measured, *, progress: Progress = silent) -> HeavytailRequirements:
    """Find the weights that theorem 2 lets noise replace: those below the threshold of its accuracy.

    Noise of variance t > 0 only lowers the threshold (S-E13), so it is 0.
    """
    found = plan_layers(measured)
    eta, layers = found.eta, []
    for position, planned in enumerate(found.layers):
        progress(position, len(found.layers), planned.name)
        view = measured.network.layer(planned.name)
        magnitudes = view.matrix.detach().cpu().double().abs()
        rms = float(magnitudes.square().mean().sqrt())
        if rms == 0.0:
            raise ModelError(f"layer {view.name} is zero: it has no weights to replace. Check the weights.")
        epsilon = min(planned.epsilon, 1.0)
        published = Published(epsilon, eta).of(magnitudes, variance=0.0)
        scale_free = ScaleFree(epsilon, eta).of(magnitudes, variance=0.0)
        p_value, tail = _tail(view, measured.settings.seed)
        layers.append(
            TailLayer(
                name=planned.name,
                weights=planned.weights,
                epsilon=planned.epsilon,
                rms=rms,
                published_threshold=published,
                published_share=float((magnitudes <= published).double().mean()),
                scale_free_threshold=scale_free,
                scale_free_share=float((magnitudes <= scale_free).double().mean()),
                p_value=p_value,
                tail=tail,
            )
        )
    progress(len(layers), len(layers), "")
    notes = (*measured.chain_notes, *measured.filter_notes)
    return HeavytailRequirements(layers=tuple(layers), eta=eta, notes=notes)


def _tail(view: AbstractLayerView, seed: int) -> tuple[float | None, str]:
    values = tail_values(view)
    if values.size > _TAIL_VALUES:
        values = numpy_stream(seed, f"tail/{view.name}").choice(values, _TAIL_VALUES, replace=False)
    fit = fit_power_law(values, resamples=_TAIL_RESAMPLES, seed=stream_seed(seed, f"tail fit/{view.name}"))
    return fit.p_value, fit.reason

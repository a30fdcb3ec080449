"""Requirements of random projection (Arora et al. 2018, lemmas 3, 10 and 14)."""

from dataclasses import dataclass, replace

from codebound.run.errors import ModelError
from codebound.run.progress import Progress, silent
from codebound_networks.views.layers import AbstractLayerView, LinearView
from codebound_papers.arora18 import projection_plan
from codebound_papers.measure.noise.quantities import augmented_matrix
from codebound_papers.measure.norms import stable_rank
from codebound_papers.measure.record import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRequirements:
    """Requirements of A-Lem3, A-Lem10 and A-Lem14."""

    layers: tuple[projection_plan.PlannedLayer, ...]  # in forward order
    contraction: float  # largest activation contraction c
    smoothness: float | None  # measured rho_delta; None for a single layer
    smoothness_needed: float  # 3 d
    eta: float  # failure probability of one projection
    notes: tuple[str, ...]  # what a reader should know, in sentences

    @property
    def is_smooth(self) -> bool | None:
        """Return True if the lemmas apply at all. None where a single layer needs no smoothness."""
        return None if self.smoothness is None else self.smoothness >= self.smoothness_needed

    @property
    def verdict(self) -> str:
        """In plain words."""
        small = [each.name for each in self.layers if each.count is not None and each.count < each.weights]
        if small:
            text = f"The lemma compresses {len(small)} of {len(self.layers)} layers: {', '.join(small)}."
        else:
            least = min(self.layers, key=lambda layer: layer.asked / layer.weights)
            times = least.asked / least.weights
            told = f"{times:,.0f}" if 10.0 <= times < 1e6 else f"{times:.2g}"
            text = (
                f"The lemma compresses no layer: it asks for at least {told} times as many numbers as there "
                f"are weights ({least.name})."
            )
        nearest = [(x.least_inputs / x.inputs, x) for x in self.layers if x.least_inputs is not None]
        if nearest and min(ratio for ratio, _ in nearest) >= 1.0:
            _, first = min(nearest, key=lambda each: each[0])
            text += (
                f" Whatever the cushions, even layer {first.name} would need more than "
                f"{first.least_inputs:,.0f} inputs; it has {first.inputs:,}."
            )
        if self.smoothness is not None:
            words = "holds" if self.is_smooth else "fails, so the lemma does not apply"
            text += (
                f" Smoothness is {self.smoothness:.3g} and has to be at least {self.smoothness_needed:g}: "
                f"that {words}."
            )
        return text


def plan_layers(measured: Measured) -> projection_plan.ProjectionPlan:
    """Plan the projection of every layer for the margin, chain or not; refused as ``theorem_facts`` are."""
    facts, found = measured.theorem_facts, measured.require_stability()
    planned = projection_plan.plan_projection(
        facts, contraction=max(1.0, found.contraction or 1.0), spread=max(1.0, found.spread or 1.0)
    )
    if planned is None:
        worst = min(facts.layers, key=lambda x: (x.cushion or 0.0) * (x.interlayer_cushion or 0.0))
        raise ModelError(
            f"layer {worst.name} or those behind it map some example to zero, so a cushion is 0 and the "
            "theorem asks for infinitely many numbers. Check the weights, and how the data is scaled."
        )
    return planned


def project_requirements(measured: Measured, *, progress: Progress = silent) -> ProjectRequirements:
    """Count the numbers that random projection needs per layer: too few if measured on a part alone."""
    planned, network = plan_layers(measured), measured.network
    facts, found = measured.facts, measured.require_stability()
    factor = projection_plan.compression_threshold(facts)
    settings = measured.settings.stability
    is_augmented = settings is None or settings.biases == "augmented"
    augments = is_augmented and measured.has_biases

    def least_inputs(view: AbstractLayerView) -> float | None:
        if not isinstance(view, LinearView):
            return None
        is_last = view.name == network.layers[-1].name
        return factor * stable_rank(augmented_matrix(view, last=is_last) if augments else view.matrix)

    progress(facts.depth, facts.depth, "")
    layers = (replace(each, least_inputs=least_inputs(network.layer(each.name))) for each in planned.layers)
    return ProjectRequirements(
        layers=tuple(layers),
        contraction=max(1.0, found.contraction or 1.0),
        smoothness=facts.smoothness,
        smoothness_needed=3.0 * facts.depth,
        eta=planned.eta,
        notes=measured.chain_notes,
    )

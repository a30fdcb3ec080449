r"""The factors kappa of Guha et al. 2023, appendix C, and its deviations: not sound (G-E11), for diagnosis.

If the inputs x of a layer B were so spread out that
:math:`P(\langle x, v\rangle \ge t\|x\|) \le a e^{-b t^2 d_{in}}` for every unit v, then :math:`\|Bx\|`
would be below :math:`\kappa \|B\|_2 \|x\|` with kappa < 1. Inputs after a ReLU are not. The released code
prunes by the margin that these deviations ask for: ``prune_for_margin`` does the same.
"""

import math
from dataclasses import dataclass, replace

import torch

from codebound.run.errors import UnsupportedLayerError, UsageError
from codebound.run.references import implements
from codebound_networks.reading.walk import Network
from codebound_networks.train.rng import torch_stream
from codebound_networks.views.layers import AbstractLayerView, LinearView
from codebound_papers.facts import LayerFacts, NetworkFacts, has_no_biases, is_fully_connected
from codebound_papers.guha23 import pruning as lemmas
from codebound_papers.guha23.magnitude import prune_randomly
from codebound_papers.guha23.pruning import PruningFacts
from codebound_papers.measure.spectral import matrix_spectral_norm
from codebound_papers.value import Constant, Hypothesis, PublishedValue, expression

STRONGEST, TOLERANCE = 10.0, 1e-3  # of the search in the released code
_LEVELS = 255  # values of a weight after rounding: a byte
SLACK = 4.0
"""Of eps_l and lambda_l over the number of layers: all layers together fail with 1/4 each."""
RELEASED_FAILURE = 0.01
"""Failure probability of a layer in the released code, where a = b = 1."""


@dataclass(frozen=True, slots=True)
class Kappa:
    """The factors of one layer; no guarantee."""

    layer: str  # its name
    inputs: int  # width of its input
    outputs: int  # width of its output
    t: float  # where the assumed tail, over all n examples, has probability failure
    proved: float  # t sqrt(outputs), or 1 for a layer that widens: what the proof of Lemma C.1 arrives at
    printed: float  # sqrt(outputs t), or 1: what its statement prints
    released: float  # min(1, t sqrt(outputs)) at a = b = 1 and failure 0.01, or 1 unless the layer narrows


@implements("G-ConC.1", kind="published-form")
@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadInputs:
    """Condition C.1, what appendix C assumes of the inputs of a layer."""

    n: int  # examples
    failure: float = RELEASED_FAILURE  # probability left to a layer, in (0, 1)
    a: float = 1.0  # constant of the assumed tail, which the paper leaves open
    b: float = 1.0  # constant in its exponent, which the paper leaves open

    def __post_init__(self) -> None:
        is_tail = self.n >= 1 and min(self.a, self.b) > 0.0 and self.n * self.a > self.failure
        if not is_tail or not 0.0 < self.failure < 1.0:
            raise UsageError(
                "kappa needs n >= 1, failure in (0, 1), positive a and b, and n a above failure. "
                f"Got n={self.n}, failure={self.failure}, a={self.a}, b={self.b}."
            )


@implements("G-LemC.1", kind="published-form")
def layer_kappa(layer: str, *, inputs: int, outputs: int, spread: SpreadInputs) -> Kappa:
    """The factors of one fully connected layer.

    >>> kappa = layer_kappa("fc", inputs=784, outputs=10, spread=SpreadInputs(n=48_000))
    >>> round(kappa.proved, 4), round(kappa.printed, 4), round(kappa.released, 4)
    (0.443, 1.1836, 0.443)
    """
    t = math.sqrt(math.log(spread.n * spread.a / spread.failure) / (spread.b * inputs))
    released_t = math.sqrt(math.log(spread.n / RELEASED_FAILURE) / inputs)
    return Kappa(
        layer=layer,
        inputs=inputs,
        outputs=outputs,
        t=t,
        proved=t * math.sqrt(outputs) if outputs <= inputs else 1.0,
        printed=math.sqrt(outputs * t) if outputs <= inputs else 1.0,
        released=min(1.0, released_t * math.sqrt(outputs)) if outputs < inputs else 1.0,
    )


@expression("G-LemC.2", name="Guha C.2: measured changes", unit="deviation")
def spread_perturbation(
    facts: NetworkFacts, *, pruning: PruningFacts, spread: SpreadInputs | None = None
) -> PublishedValue:
    """Change of the outputs for measured changes of the layers: the e-form times the product of kappas."""
    return _deviation(facts, spread, measured_changes(facts, pruning))


@expression("G-LemC.3", name="Guha C.3: pruned", unit="deviation")
def spread_pruned_deviation(
    facts: NetworkFacts, *, pruning: PruningFacts, spread: SpreadInputs | None = None
) -> PublishedValue:
    """``pruned_deviation`` times the product of kappas."""
    changes = lemmas.pruned_changes(facts, pruning)
    return _deviation(facts, spread, changes, pruning=pruning, errata=("G-E26",))


@expression("G-LemC.4", name="Guha C.4: pruned and rounded", unit="deviation")
def spread_rounded_deviation(
    facts: NetworkFacts, *, pruning: PruningFacts, spread: SpreadInputs | None = None
) -> PublishedValue:
    """``rounded_deviation`` times the product of kappas."""
    changes = lemmas.rounded_changes(facts, pruning)
    return _deviation(facts, spread, changes, pruning=pruning, errata=("G-E9", "G-E26"))


_NEEDS = {"pruning": "released_pruning"}
_MARGIN = "Guha's code: needed margin"


@expression("G-LemC.2:released", name=_MARGIN, unit="deviation", facts="least margin", needs=_NEEDS)
def released_needed_margin(facts: NetworkFacts, *, pruning: PruningFacts) -> PublishedValue:
    """The margin that the released code asks for: measured changes, the input norm, kappas of at most 1."""
    changes = measured_changes(facts, pruning)
    kappas = _kappas(facts, SpreadInputs(n=facts.examples))
    log_kappas = math.fsum(math.log(kappa.released) for kappa in kappas)
    return PublishedValue(
        log_value=lemmas.log_e_form(facts, changes, radius=facts.input_norm) + log_kappas,
        sentence="How far one drawn pruning may move an output, by the released code; too small where a "
        "factor kappa is below 1.",
        failure_published=RELEASED_FAILURE * facts.depth,
        hypotheses=(_SPREAD, *_measured_conditions(facts, changes)),
        errata=("G-E6", "G-E11"),
    )


def _measured_conditions(facts: NetworkFacts, changes: list[float]) -> tuple[Hypothesis, ...]:
    return lemmas.has_small_changes(facts, changes), has_no_biases(facts), is_fully_connected(facts)


def measured_changes(facts: NetworkFacts, pruning: PruningFacts) -> list[float]:
    """Return the spectral norm of what pruning took from every layer."""
    changes = []
    for _, pruned in pruning.beside(facts):
        if pruned.change is None:
            raise UsageError(
                f"layer {pruned.name}: the spectral norm of its change was not measured. Prune it, and give "
                "the norm of the difference as `change`."
            )
        changes.append(pruned.change)
    return changes


_SPREAD = Hypothesis(
    "inputs of every layer have no direction in common (condition C.1)",
    None,
    "not measured; non-negative inputs, as after a ReLU, always have one",
)


def _kappas(facts: NetworkFacts, spread: SpreadInputs) -> list[Kappa]:
    return [
        layer_kappa(layer.name, inputs=layer.columns, outputs=layer.rows, spread=spread)
        for layer in facts.layers
    ]


def _deviation(
    facts: NetworkFacts,
    spread: SpreadInputs | None,
    changes: list[float],
    *,
    pruning: PruningFacts | None = None,
    errata: tuple[str, ...] = (),
) -> PublishedValue:
    """The e-form times the kappas, of changes that were measured, or are those of lemma 4.2 for a pruning."""
    spread = spread or SpreadInputs(n=facts.examples)
    conditions, failure, constants = _measured_conditions(facts, changes), 0.0, list[Constant]()
    if pruning is not None:
        conditions = lemmas.deviation_conditions(facts, pruning, changes)
        failure, constants = 1.0 / pruning.slack, [lemmas.latala(pruning)]
    log_kappas = math.fsum(math.log(kappa.proved) for kappa in _kappas(facts, spread))
    return PublishedValue(
        log_value=lemmas.log_e_form(facts, changes, radius=facts.input_size) + log_kappas,
        sentence="How far an output moves, if inputs had no direction in common; unsound, a diagnosis only.",
        failure_published=facts.depth * (failure + spread.failure),
        hypotheses=(_SPREAD, lemmas.has_short_inputs(facts), *conditions),
        constants=(
            *constants,
            Constant("a", spread.a, "factor of the assumed tail, left open"),
            Constant("b", spread.b, "factor in its exponent, left open"),
        ),
        errata=("G-E5", "G-E6", "G-E11", *errata),
    )


@implements("I-12", kind="published-form")
def kappa_diagnostics(
    network: Network, *, n: int, failure: float = RELEASED_FAILURE, a: float = 1.0, b: float = 1.0
) -> tuple[Kappa, ...]:
    """The factors of all layers of a network of linear layers, by ``SpreadInputs``.

    >>> from codebound_networks.reading.walk import wrap
    >>> (kappa,) = kappa_diagnostics(wrap(torch.nn.Sequential(torch.nn.Linear(784, 10))), n=48_000)
    >>> round(kappa.proved, 4), round(kappa.printed, 4), round(kappa.released, 4)
    (0.443, 1.1836, 0.443)
    """
    spread = SpreadInputs(n=n, failure=failure, a=a, b=b)
    kappas = []
    for view in network.layers:
        if not isinstance(view, LinearView):
            raise UnsupportedLayerError(
                f"layer {view.name}: kappa is defined for linear layers. Got {type(view).__name__}."
            )
        outputs, inputs = view.matrix.shape
        kappas.append(layer_kappa(view.name, inputs=inputs, outputs=outputs, spread=spread))
    return tuple(kappas)


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningChoice:
    """The numbers that theorem 5.2 leaves to its user, for all layers."""

    d: float | None = None  # strength; None: as strong as the margin allows
    eps: float | None = None  # None: four times the number of layers, as in the next
    lambda_: float | None = None
    rho: float | None = None  # step of rounding; None: 255 levels of every layer

    def __post_init__(self) -> None:
        for name in ("d", "eps", "lambda_", "rho"):
            value = getattr(self, name)
            if value is not None and not (0.0 if name == "d" else math.ulp(0.0)) <= value < math.inf:
                raise UsageError(f"{name.rstrip('_')} is a finite number above 0. Got {value}.")


def prune_for_margin(
    network: Network,
    facts: NetworkFacts,
    *,
    keep_diagonal: bool,
    choice: PruningChoice | None = None,
    seed: int = 0,
) -> PruningFacts:
    """Prunes a network as strongly as its margin allows, by what the released code of Guha et al. asks for.

    The strength is found by bisection, as there; nothing is pruned where the margin is not positive. All
    strengths use the same random numbers. Released code prunes the diagonal. The ``choice`` comes first.

    >>> from codebound_papers.measure.record import measure_facts
    >>> from codebound.sample.load import load_sample
    >>> from codebound_networks.reading.loading import load_model
    >>> net = load_model("linear", input_shape=(1, 8, 8), classes=10)
    >>> measured = measure_facts(net, load_sample("digits"))
    >>> (layer,) = prune_for_margin(measured.network, measured.facts, keep_diagonal=True).layers
    >>> layer.strength, layer.change  # an untrained network has no margin
    (0.0, 0.0)
    """
    choice = choice or PruningChoice()

    def drawn(strength: float) -> PruningFacts:
        layers = (
            _prune(view, layer, strength=strength, keep_diagonal=keep_diagonal, seed=seed)
            for view, layer in zip(network.layers, facts.layers, strict=True)
        )
        rounded = tuple(replace(each, step=choice.rho or each.step) for each in layers)
        slack = SLACK * facts.depth
        eps, sparsity = choice.eps or slack, choice.lambda_ or slack
        return PruningFacts(layers=rounded, slack=eps, sparsity_slack=sparsity)

    def is_allowed(strength: float) -> bool:
        needed = released_needed_margin(facts, pruning=drawn(strength))
        return needed.log_value <= math.log(facts.margin)

    if choice.d is not None:
        return drawn(choice.d)
    if facts.margin <= 0.0 or not is_allowed(TOLERANCE):
        return drawn(0.0)
    low, high = TOLERANCE, STRONGEST
    while high - low > TOLERANCE:
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_allowed(middle) else (low, middle)
    return drawn(low)


def _prune(
    view: AbstractLayerView, layer: LayerFacts, *, strength: float, keep_diagonal: bool, seed: int
) -> lemmas.PrunedLayer:
    matrix, variance = view.matrix.detach().cpu(), layer.variance
    stream = torch_stream(seed, f"compared pruning/{view.name}")
    pruned = prune_randomly(
        matrix, strength=strength, variance=variance, generator=stream, keep_diagonal=keep_diagonal
    )
    expected = lemmas.expected_change_norm(layer.rows, layer.columns, strength=strength, variance=variance)
    largest = float(matrix.abs().max())
    return lemmas.PrunedLayer(
        name=view.name,
        strength=strength,
        kept_share=lemmas.kept_share(strength),
        expected_change=expected,
        step=largest / (_LEVELS // 2) if largest > 0.0 else 1.0,
        nonzeros=int(torch.count_nonzero(pruned)),
        change=matrix_spectral_norm(matrix - pruned).value if strength > 0.0 else 0.0,
    )

"""Networks whose weights all come from a few integers in a random subspace, trained straight to few bits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

import torch

from codebound.bounds.numerics import kl_inverse_upper
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import OccamFacts
from codebound.methods.search import Search, UnsuitedError
from codebound_networks.chains.message import Message
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.methods.hidden_units import without_biases
from codebound_networks.methods.pruned import SMALLEST_SHARE
from codebound_networks.train.few_bits import LEAST_SIDE, image_chains
from codebound_networks.train.polishing import polish
from codebound_networks.train.subspace import Features, Learner, SubspaceSettings, train_in_subspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from codebound.sample.dataset import Sample
    from codebound_networks.chains.chain import Chain

_GREY_SHIFTS = {"standard": (3, None), "max": (3, 4, None)}
_RUNS = {"standard": 4, "max": 24}
_STEPS = {"standard": 5000, "max": 24_000}  # of one run
_STEP, _STEP_FROM_BASE = -8, -12  # coarser ones drown what the base knows
_LEAST_EPOCHS = 30  # a run that can do no more takes the place of others
_PRODUCTS = {
    ("cpu", "standard"): 1e13,
    ("cpu", "max"): 1e14,
    ("cuda", "standard"): 2e15,
    ("cuda", "max"): 2e16,
}
_FIRST = 0.25  # share of the products for the first runs of all networks
_SEARCH = 0.5  # and for the search among plans; polishing has the rest
_FIRST_STEPS = 0.25  # of a first run, as a share of those of others
_BIT = 2.0  # weight of a bit in training, in units of what it is worth at the point reached
_EVALUATIONS = {"standard": 6000, "max": 60_000}
_LEAST_BITS = 2.0  # that an integer takes
_NEAR = 0.2  # about the share of the examples that judge one evaluation
POLISHED = 3
"""Candidates that are polished a little, before the best of them is polished at length."""
BY_BOUND = attrgetter("bound")
"""The order of candidates."""
_LEAST_LOG_ODDS = 0.1  # between error and bound: beyond it nothing is worth a search


def propose_subspace(search: Search) -> None:
    """A network of its own for images; the architecture of f for other inputs and where there is a base."""
    require_training(search, starts_from_f=True)
    shape = search.task.sample.input_shape
    if search.task.base is None and len(shape) == 3 and min(shape[1:]) >= LEAST_SIDE:
        chains = image_chains(shape, search.task.sample.classes, kinds=_GREY_SHIFTS[search.effort])
        _find(search, [(chain, Learner(chain)) for chain in chains])
    else:
        _find(search, [_network_of_f(search)])


def propose_subspace_of_f(search: Search) -> None:
    """The architecture of f, without its biases."""
    require_training(search, starts_from_f=True)
    if search.task.base is not None:
        raise UnsuitedError("subspace-f does the same as subspace where there is a base.")
    _find(search, [_network_of_f(search)])


def _find(search: Search, networks: Sequence[tuple[Chain, Learner]]) -> None:
    """Picks the network by a first run of each, then its plan. The best integers are polished."""
    if search.task.base is None:
        search.require_promise(code_bits=_LEAST_BITS * _first_dimension(search.task.rest))
    chosen: _Trainer | None = None
    for chain, learner in networks:
        trainer = _Trainer(search, chain, learner, rivals=len(networks))
        if chosen is None or trainer.first.bound < chosen.first.bound:
            chosen = trainer  # the features of the others take much memory: they go
    assert chosen is not None  # there are networks
    chosen.require_promise()
    search.propose(chosen.best().message)


def require_training(search: Search, *, starts_from_f: bool = False) -> None:
    """Refuses where nothing may be trained, g must stay near f, or there is no f to start from."""
    if starts_from_f and search.task.original is None:
        raise UnsuitedError("there is no network to start from. Give a model.")
    if search.effort == "quick":
        more = "Choose the effort standard." if search.until == math.inf else "Give more minutes."
        raise UnsuitedError(f"training takes longer than a quick search. {more}")
    if search.task.stays_near_f:
        raise UnsuitedError("what is trained does not stay near f, which this claim is about.")


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Integers that were trained, and their facts as the features show them: for choosing, no certificate."""

    plan: SubspaceSettings
    integers: NDArray[np.int32]
    message: Message
    facts: OccamFacts

    @property
    def bound(self) -> float:
        """Bound that it would be certified for."""
        return occam_binomial(self.facts).value

    @property
    def price(self) -> float:
        """Errors that one bit is worth here."""
        return errors_per_bit(self.facts)


def best_polished(
    candidates: Iterable[Candidate], polish: Callable[[Candidate, int], Candidate], *, few: int, many: int
) -> Candidate:
    """The best candidates, polished with ``few`` counts each, and the best of those with ``many``."""
    best = sorted(candidates, key=BY_BOUND)[:POLISHED]
    return polish(min((polish(each, few) for each in best), key=BY_BOUND), many)


def errors_per_bit(facts: OccamFacts) -> float:
    """The number of errors that moves the bound as far as one bit does.

    Along kl(error, bound) = (bits ln 2 + ln(1/delta)) / n an error is worth the difference in log-odds of
    bound and error, and a bit ln 2.

    >>> round(errors_per_bit(OccamFacts(errors=900, n=60_000, code_bits=2000, delta=0.05)), 2)
    0.5
    """
    chance = (facts.errors + 0.5) / (facts.n + 1)  # neither 0 nor 1
    nats = (facts.code_bits * math.log(2.0) - math.log(facts.delta)) / facts.n
    risk = min(kl_inverse_upper(chance, nats), 1.0 - 0.5 / (facts.n + 1))
    gap = math.log(risk / (1.0 - risk)) - math.log(chance / (1.0 - chance))
    return math.log(2.0) / max(gap, _LEAST_LOG_ODDS)


class _Trainer:
    """Trains one network by many plans, within its share of the products that the effort allows.

    Attributes:
        search: What it is for.
        chain: The architecture.
        features: What the fixed part makes of the sample, computed once.
        found: What was trained by each plan.
    """

    def __init__(self, search: Search, chain: Chain, learner: Learner, *, rivals: int) -> None:
        self.search, self.chain = search, chain
        self.features = Features.of(learner, search.sample, search.progress)
        self.found: dict[SubspaceSettings, Candidate] = {}
        task, sample = search.task, search.sample
        base = task.base_tensors
        self.base = None if base is None else {name: torch.from_numpy(each) for name, each in base.items()}
        passes = _passes(search, chain, sample.n)  # over the sample, forwards
        batch_size = min(500, max(32, sample.n // 28))
        epochs = math.ceil(_STEPS[search.effort] * batch_size / sample.n)
        most = round(_SEARCH * passes / 3.0)  # a step takes about three evaluations
        self.most_runs = max(1, min(_RUNS[search.effort], most // _LEAST_EPOCHS))
        self.evaluations = min(_EVALUATIONS[search.effort], round((1.0 - _FIRST - _SEARCH) * passes / _NEAR))
        first = SubspaceSettings(
            dimension=_first_dimension(task.rest),
            step=_STEP if self.base is None else _STEP_FROM_BASE,
            gain=1.5 if _is_colour(task.rest) else 3.0,
            batch_size=batch_size,
            epochs=max(1, min(round(_FIRST * passes / (3.0 * rivals)), round(_FIRST_STEPS * epochs))),
            seed=search.seed,
        )
        self.first = self.run(first)
        self.plan = replace(
            first,
            epochs=max(1, min(most // self.most_runs, epochs)),
            hardness=1.0,
            sharpening=4.0,
            price=_BIT * self.first.price,
        )

    def best(self) -> Candidate:
        """The best run that a search among neighbours of the plan finds, polished."""

        def bound_of(plan: SubspaceSettings) -> float:
            if plan not in self.found and len(self.found) < self.most_runs:
                self.found[plan] = self.run(plan)
            return self.found[plan].bound if plan in self.found else math.inf

        best, plan = None, self.plan
        while plan != best and len(self.found) < self.most_runs:
            best = plan
            plan = min((plan, *_neighbours(plan)), key=bound_of)
        half = self.evaluations // 2
        return best_polished(self.found.values(), self.polish_candidate, few=half // POLISHED, many=half)

    def run(self, plan: SubspaceSettings) -> Candidate:
        """The integers of a plan."""
        before = len(self.found)

        def report(done: int, total: int | None, note: str = "") -> None:
            each = total or 1
            self.search.progress(before * each + done, self.most_runs * each, self.search.note or note)

        integers = train_in_subspace(self.features, plan, base=self.base, progress=report)
        return self.judge(plan, integers)

    def judge(self, plan: SubspaceSettings, integers: NDArray[np.int32]) -> Candidate:
        """Counts errors on the features. The search holds the message, in case that it is interrupted."""
        task = self.search.task
        code = Subspace(
            best_tensor_code(integers, step=0), plan.entries_log2, plan.step, plan.zero_head, plan.helper_seed
        )
        message = Message(task.options, self.chain, code)
        bits, _ = message.encode()
        tensors = {
            name: torch.from_numpy(value).to(self.features.labels.device)
            for name, value in message.weights(task.base_tensors).items()
        }
        facts = OccamFacts(
            errors=self.features.errors(tensors),
            n=len(self.features.labels),
            code_bits=bits.length,
            delta=task.delta,
        )
        candidate = Candidate(plan, integers, message, facts)
        self.search.hold(message, candidate.bound)
        return candidate

    def require_promise(self) -> None:
        """Ends the method where what its first candidate may become is no better than the best."""
        facts = self.first.facts
        self.search.require_promise(errors=facts.errors, code_bits=facts.code_bits / SMALLEST_SHARE)

    def polish_candidate(self, candidate: Candidate, counts: int) -> Candidate:
        """The candidate after a local search, or as it is."""
        integers = polish(
            self.features,
            replace(candidate.plan, price=candidate.price),
            candidate.integers,
            evaluations=counts,
            base=self.base,
            progress=self.search.progress,
        )
        return min(candidate, self.judge(candidate.plan, integers), key=BY_BOUND)


def _neighbours(plan: SubspaceSettings) -> Iterator[SubspaceSettings]:
    """Plans that differ in one choice, the most rewarding first. What a decoder needs of them is coded."""
    yield replace(plan, hardness=1.0 - plan.hardness, sharpening=5.0 - plan.sharpening)
    for factor in (0.7, 1.4):
        yield replace(plan, dimension=max(4, round(factor * plan.dimension)))
    yield replace(plan, helper_seed=plan.helper_seed + 1)
    for factor in (2.0, 0.5):
        yield replace(plan, rate=factor * plan.rate, price=factor * plan.price)
    for change in (8, -8):
        yield replace(plan, step=plan.step + change)
    for factor in (0.5, 2.0):
        yield replace(plan, gain=factor * plan.gain)


def _network_of_f(search: Search) -> tuple[Chain, Learner]:
    """The architecture of f, without its biases, which start at zero, unless a base has them."""
    chain = search.task.chain
    if search.task.base is None:
        chain = without_biases(chain)
    return chain, Learner(chain)


def _first_dimension(sample: Sample) -> int:
    """Integers that a network starts with."""
    return max(16, round((6.0 if _is_colour(sample) else 2.5) * math.sqrt(sample.n)))


def _is_colour(sample: Sample) -> bool:
    return len(sample.input_shape) == 3 and sample.input_shape[0] > 1


def _passes(search: Search, chain: Chain, n: int) -> float:
    """Evaluations of the whole sample that the effort allows on this device."""
    device = "cuda" if torch.device(search.device).type == "cuda" else "cpu"
    return max(20.0, _PRODUCTS[device, search.effort] / (n * chain.trained_products()))

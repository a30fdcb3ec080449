"""Networks whose weights all come from a few integers in a random subspace, trained straight to few bits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from codebound.certificate.message import Message, multiplications
from codebound.certificate.methods.free import estimate, require_time
from codebound.certificate.search import Search, UnsuitedError, method
from codebound.coding import Subspace, best_tensor_code
from codebound.compress import without_biases
from codebound.errors import ModelError
from codebound.nets.chain import Chain, Dictionary, Views
from codebound.nets.few_bits import LEAST_SIDE, image_chain
from codebound.train.subspace import Features, Learner, SubspacePlan, train_in_subspace

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNS = {"standard": 4, "max": 16}
_STEPS = {"standard": 6000, "max": 24_000}  # of one run
_STEP, _STEP_FROM_BASE = -8, -12  # coarser ones drown what the base knows
_LEAST_EPOCHS = 30  # a run that can do no more takes the place of others
_PRODUCTS = {
    ("cpu", "standard"): 1e13,
    ("cpu", "max"): 1e14,
    ("cuda", "standard"): 2e15,
    ("cuda", "max"): 2e16,
}


@method(
    "subspace",
    "All weights from a few integers in a random subspace: of a small network of its own, best on a GPU, or "
    "around the base.",
)
def subspace_method(search: Search) -> None:
    """A network of its own for images; the architecture of f for other inputs and where there is a base."""
    require_time(search, "subspace")
    shape = search.setting.sample.input_shape
    has_own = search.setting.base is None and search.subject.chain is not None
    if has_own and len(shape) == 3 and min(shape[1:]) >= LEAST_SIDE:
        chain = image_chain(shape, search.setting.sample.classes)
        _find(search, chain, Learner.of_chain(chain))
    else:
        _find(search, *_network_of_f(search))


@method("subspace-f", "The same in the architecture of f, whatever the inputs are.")
def subspace_of_f_method(search: Search) -> None:
    """The architecture of f, without its biases where the message describes it."""
    require_time(search, "subspace-f")
    if search.setting.base is not None:
        raise UnsuitedError("subspace-f does the same as subspace where there is a base.")
    _find(search, *_network_of_f(search))


def _find(search: Search, chain: Chain | None, learner: Learner) -> None:
    """Looks for the plan with the smallest bound, each trained on the sample; the best one is assessed."""
    setting = search.setting
    sample = setting.counted.on(search.device)
    features = Features.of(learner, sample, search.progress)
    base = setting.base and {name: torch.from_numpy(value) for name, value in setting.base[1].items()}
    is_colour = len(setting.sample.input_shape) == 3 and setting.sample.input_shape[0] > 1
    batch_size = min(500, max(32, sample.n // 28))
    most_epochs = _epochs_in_all(search, chain, sample.n)
    runs = max(1, min(_RUNS[search.effort], most_epochs // _LEAST_EPOCHS))
    plan = SubspacePlan(
        dimension=max(16, round((6.0 if is_colour else 2.5) * math.sqrt(sample.n))),
        step=_STEP if base is None else _STEP_FROM_BASE,
        gain=1.5 if is_colour else 3.0,
        batch_size=batch_size,
        epochs=max(1, min(most_epochs // runs, math.ceil(_STEPS[search.effort] * batch_size / sample.n))),
        seed=search.seed,
    )
    found: dict[SubspacePlan, tuple[float, Message]] = {}

    def bound_of(candidate: SubspacePlan) -> float:
        if candidate not in found and len(found) < runs:
            before = len(found)

            def report(done: int, total: int | None, note: str = "") -> None:
                search.progress(before * (total or 1) + done, runs * (total or 1), search.note or note)

            integers = train_in_subspace(learner, features, candidate, base=base, progress=report)
            code = Subspace(
                best_tensor_code(integers, step=0),
                candidate.entries_log2,
                candidate.step,
                candidate.zero_head,
                candidate.helper_seed,
            )
            message = Message(setting.options, chain, code, None if chain else dict(learner.shapes))
            found[candidate] = estimate(message, learner, features, search), message
        return found[candidate][0] if candidate in found else math.inf

    best = None
    while plan != best and len(found) < runs:
        best = plan
        plan = min((plan, *_neighbours(plan)), key=bound_of)
    search.propose(min(found.values(), key=lambda each: each[0])[1])


def _neighbours(plan: SubspacePlan) -> Iterator[SubspacePlan]:
    """Plans that differ in one choice, the most rewarding first; what a decoder needs of them is coded."""
    for factor in (0.7, 1.4):
        yield replace(plan, dimension=max(4, round(factor * plan.dimension)))
    for factor in (2.0, 0.5):
        yield replace(plan, rate=factor * plan.rate)
    for change in (8, -8):
        yield replace(plan, step=plan.step + change)
    for factor in (0.5, 2.0):
        yield replace(plan, gain=factor * plan.gain)
    yield replace(plan, helper_seed=plan.helper_seed + 1)


def _network_of_f(search: Search) -> tuple[Chain | None, Learner]:
    """The architecture of f; without its biases, which start at zero, unless a base has them."""
    setting, subject = search.setting, search.subject
    if subject.chain is not None:
        chain = subject.chain if setting.base is not None else without_biases(subject.chain)
        return chain, Learner.of_chain(chain)
    assert setting.module is not None  # a subject is a chain or the state of a module
    try:
        learner = Learner.of_module(setting.module)
    except ModelError as reason:
        raise UnsuitedError(str(reason)) from reason
    flat = [name for name, value in subject.tensors.items() if value.dim() < 2 and "bias" not in name]
    if flat and setting.base is None:
        raise UnsuitedError(
            f"vectors of a subspace start at zero, which would switch off {', '.join(flat)}. "
            "Use normalisations without weights (affine=False), or give a base."
        )
    return None, learner


def _epochs_in_all(search: Search, chain: Chain | None, n: int) -> int:
    """Passes over the sample that the effort allows on this device; one takes about three evaluations."""
    device = "cuda" if torch.device(search.device).type == "cuda" else "cpu"
    if chain is None:
        products = sum(value.numel() for value in search.subject.tensors.values())
    else:
        trained = tuple(each for each in chain.operations if not isinstance(each, Views | Dictionary))
        inside = chain.input_shapes()[len(chain.operations) - len(trained)]
        products = chain.view_count * multiplications(Chain(inside, trained))
    return max(5, round(_PRODUCTS[device, search.effort] / (3.0 * n * products)))

"""Inputs of a search: f, and the scores of a base, of a learner or of a helper."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from codebound.certificate.task import KnownTensors
from codebound.known.learners import learn_scores
from codebound.known.provenance import Pretrained, count_seen, origin_of_parts, require_unseen
from codebound.known.score_tables import Scaled, ScoreTable, run_on
from codebound.methods.registry import find_method
from codebound.run.errors import UsageError
from codebound.run.extensions import form_of, reader
from codebound.run.tensor_files import float32_sha256
from codebound.sample.dataset import Made, printable
from codebound.sample.order import usual_share

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from codebound.certificate.task import AbstractOriginal, Task, Tensors
    from codebound.known.provenance import Origin
    from codebound.request import Claim, Known
    from codebound.run.progress import Progress
    from codebound.sample.dataset import Sample
    from codebound.sample.order import Arranged

SCORES = ("auto", "scores")
"""Methods that count the scores of a learner, a base or a helper as a declared table."""
_NEW = "data of your own"
_TRIED = 2  # examples that show what a network returns


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """Networks that were given, as far as they could be read.

    Attributes:
        original: The network f; None where there is none, or none that can be read.
        unread: Why f cannot be read; then methods that make a network of their own go on without it.
        uncoded: Why no message is made of f; then they go on beside it, and a base counts by its scores.
        base: Of the same architecture, if one was given.
        base_tensors: Its tensors, with the names of the message.
    """

    original: AbstractOriginal | None
    unread: str = ""
    uncoded: str = ""
    base: Pretrained | None = None
    base_tensors: Tensors | None = None

    @property
    def coded(self) -> AbstractOriginal | None:
        """The network that messages are made of."""
        return None if self.uncoded else self.original

    @property
    def known(self) -> KnownTensors | None:
        """The base: a message codes the difference to it."""
        if self.base is None or self.base_tensors is None or self.uncoded:
            return None
        made = Made(self.base.name, "other data", 0, float32_sha256(self.base_tensors))
        return KnownTensors(made, self.base_tensors)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the reading of f and on its missing message."""
        read = () if self.original is None else self.original.notes
        return tuple(filter(None, (*read, self.unread, self.uncoded)))


def check_method(method: str, known: Known, learner: Any) -> None:
    """Refuse a method that is not there, or that makes nothing of what is known."""
    if method == "auto":
        return
    find_method(method)
    if learner is not None and method != "scores":
        raise UsageError(f"the scores of a learner are counted: leave out the method {method!r}.")
    if method == "picks" and (known.base is not None or known.helper is not None):
        raise UsageError(
            "picks are learned from the inputs as they are: leave out the method, and the scores of a base "
            "or helper are counted; or learn from the rows of an encoder (docs/howto/pretrained.md)."
        )


def add_known(
    task: Task,
    known: Known,
    learner: Any,
    given: Networks,
    *,
    method: str,
    device: torch.device,
    progress: Progress,
) -> Task:
    """The task with what a learner, a helper, a base, or f trained anew makes of the known share."""
    is_scored = method in SCORES
    on: dict[str, Any] = {"device": device, "progress": progress}
    if learner is not None:
        units = usual_share(task.arranged.units, is_rule=False)
        units = units if known.share is None else _units(known.share, task.arranged)
        if hasattr(learner, "fit"):
            table = learn_scores(learner, task.arranged, units)
        else:
            table = scores_of_helper(learner, task.arranged, units, **on)
        return replace(task, tables=(table, *task.tables))  # as they are, the first cost two bits
    if known.share is None:
        if known.base is None or not is_scored:
            return task
        return replace(task, tables=(*task.tables, scores_of_base(given, task.sample, device=device)))
    units = _units(known.share, task.arranged)
    if known.helper is not None and is_scored:
        return replace(
            task, tables=(*task.tables, scores_of_helper(known.helper, task.arranged, units, **on))
        )
    prior, rest = (task.sample.select(rows, role="prior") for rows in task.arranged.split(units))
    made, original = form_of("helper")(
        known.helper, task.original, prior, unseen=(task.sample, rest), progress=progress
    )
    base = KnownTensors(replace(made, rows=units), original.arrays)
    return replace(task, original=original, base=base)


def _units(share: float, arranged: Arranged) -> int:
    """Units of a share of a sample."""
    return math.floor(round(share * arranged.units, 9))


def read_network(
    network: Any, known: Known, sample: Sample, *, claim: Claim, method: str
) -> tuple[nn.Module | None, Networks]:
    """The module that was given, and what could be read of it."""
    if network is None:
        if known.base is not None or claim.is_about_network:
            raise UsageError("this certificate starts from a network: give one.")
        return None, Networks(None)
    given = reader("modules")(network)
    return given.model, form_of("networks")(
        given,
        known.base,
        sample,
        is_about_f=claim.is_about_network,
        trains_base=known.share is not None and known.helper is None,
        method=method,
        has_helper=known.helper is not None,
    )


def scores_of_base(start: Networks, sample: Sample, *, device: torch.device) -> ScoreTable:
    """The scores of a base, which are declared: the second program counts them and runs no network."""
    assert start.base is not None  # whoever asks has one
    assert start.original is not None
    assert start.base_tensors is not None
    made = start.original.build({name: torch.from_numpy(each) for name, each in start.base_tensors.items()})
    network = Scaled(made, sample.scaling)
    scores, by = run_on(network, sample, device=device), printable(start.base.name)
    return ScoreTable(scores, by, of="other data", classifier=network)


def explain_no_scores(origin: Origin, sample: Sample) -> str:
    """Reason why the scores of f are not counted, and the remedy."""
    if count_seen(origin, sample):
        return "The scores of f are not counted: it was trained on this sample, whose labels they know."
    return (
        "The scores of f are not counted: nobody says that it was neither trained nor selected on the "
        "sample. Where that is true, give its weights as a base instead."
    )


def describe_own_message(original: AbstractOriginal, sample: Sample, *, delta: float, bound: float) -> str:
    """Length limits of a message of f itself, in words."""
    numbers = sum(tensor.numel() for tensor in original.tensors.values())
    most = [
        max(0, math.floor((-sample.n * math.log1p(-risk) + math.log(delta)) / math.log(2.0)))
        for risk in (1.0 - 1.0 / sample.classes, bound)
        if risk < 1.0
    ]
    each = [f"{bits:,} bits ({bits / numbers:.2g} a number)" for bits in most]
    return (
        f"A message of f itself says {numbers:,} numbers. With {sample.n:,} examples, and without a single "
        f"error, its bound is below guessing up to {each[0]}, and below what was found up to {each[-1]}."
    )


def scores_of_helper(
    helper: Callable[[Sample], Any] | Pretrained,
    arranged: Arranged,
    share: int,
    *,
    device: torch.device,
    progress: Progress,
) -> ScoreTable:
    """The scores of a helper that was made of the known share, for every example."""
    sample = arranged.sample
    prior, rest = (sample.select(rows, role="prior") for rows in arranged.split(share))
    if isinstance(helper, Pretrained):
        made, says = helper.network, helper.name
    else:
        made, says = make_helper(helper, prior, device=device, progress=progress), maker_of(helper)
    networks = list(made) if isinstance(made, list | tuple) else [made]
    if not networks or not all(isinstance(each, nn.Module) for each in networks):
        raise UsageError(f"a helper is a torch module, or a list of them. Got {type(made).__name__}.")
    for each in networks:
        refuse_seen(each, (sample, rest), prior)
        _require_scores(each.eval(), prior)
    network = Scaled(Scores(networks), sample.scaling)
    scores = run_on(network, sample, device=device, progress=progress)
    return ScoreTable(scores, printable(says), _NEW, rows=share, classifier=network)


class Scores(nn.Module):
    """Scores of one classifier as it gives them, or of several: the mean of their log-probabilities."""

    def __init__(self, networks: list[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        found: list[Tensor] = [each(x.to(_place(each, x))).double().cpu() for each in self.networks]
        if len(found) == 1:
            return found[0]
        return torch.stack([each.log_softmax(1) for each in found]).mean(0)


def _place(network: nn.Module, x: Tensor) -> torch.device:
    return next((each.device for each in network.parameters()), x.device)


@torch.no_grad()
def _require_scores(network: nn.Module, prior: Sample) -> None:
    """Refuse a network that is no classifier of the sample's classes, as some examples show."""
    example = prior.scaling.apply(torch.from_numpy(prior.x[:_TRIED]))
    try:
        outputs = network(example.to(_place(network, example)))
    except Exception as error:  # of somebody else's network
        raise UsageError(
            f"the helper failed on {len(example)} examples of shape {prior.input_shape} with "
            f"{type(error).__name__}: {error}."
        ) from error
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2 or len(outputs) != len(example):
        raise UsageError("a helper returns a row of numbers for each example of a batch.")
    if outputs.shape[1] != prior.classes:
        raise UsageError(f"this helper is no classifier of {prior.classes} classes.")


def refuse_seen(network: object, unseen: Sequence[Sample], prior: Sample) -> None:
    """Refuses a helper that is known to have been trained on more than the first part of a sample."""
    if not isinstance(network, nn.Module):
        return
    for sample in unseen:
        require_unseen(
            origin_of_parts(network),
            sample,
            who="this helper",
            advice="Train it on the first part of the sample alone, which is what a function that makes it "
            "is called with.",
            given=prior,
        )


def maker_of(helper: Callable[[Sample], Any]) -> str:
    """Name of the function that makes a helper."""
    return f"{getattr(helper, '__module__', '')}:{getattr(helper, '__qualname__', type(helper).__name__)}"


def make_helper(helper: Callable[..., Any], prior: Sample, **offered: Any) -> Any:
    """Call a function with the first part, and with those of the other arguments that it takes by name."""
    try:
        taken = inspect.signature(helper).parameters.keys() & offered.keys()
    except (TypeError, ValueError):  # of code that is not Python
        taken = set()
    try:
        return helper(prior, **{name: offered[name] for name in taken})
    except Exception as error:  # of somebody else's training
        raise UsageError(
            f"{maker_of(helper)} failed with {type(error).__name__}: {error}. It is called with the first "
            "part of the sample, a Sample, and returns a network."
        ) from error

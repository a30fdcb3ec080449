"""Networks, learners and helpers that were given to ``certify``, as methods take them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from codebound.known.messages import KnownTensors
from codebound.known.provenance import count_seen
from codebound.known.share_scores import scores_of, scores_of_network
from codebound.methods.search import find_method
from codebound.run.errors import UsageError
from codebound.run.extensions import form_of, reader
from codebound.run.tensor_files import float32_sha256
from codebound.sample.dataset import Made
from codebound.sample.order import usual_share

if TYPE_CHECKING:
    import torch
    from torch import nn

    from codebound.known.messages import AbstractOriginal, Tensors
    from codebound.known.provenance import Origin, Pretrained
    from codebound.request import Claim, Known, Task
    from codebound.run.progress import Progress
    from codebound.sample.dataset import Sample

SCORES = ("auto", "scores")
"""Methods that count the scores of a learner, a base or a helper as a declared table."""


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """Networks that were given, as far as they could be read.

    Attributes:
        original: The network f; None where there is none, or none that can be read.
        unread: Why f cannot be read; then methods that make a network of their own go on without it.
        uncoded: Why no message is made of f; then they go on beside it, and a base counts by its scores.
        base: Of the same architecture, if one was given.
        base_tensors: Its tensors, with the names of the message.
        module: The network as it was given.
    """

    original: AbstractOriginal | None = None
    unread: str = ""
    uncoded: str = ""
    base: Pretrained | None = None
    base_tensors: Tensors | None = None
    module: nn.Module | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the reading of f and on its missing message."""
        read = () if self.original is None else self.original.notes
        return tuple(filter(None, (*read, self.unread, self.uncoded)))


def add_known(
    task: Task,
    network: Any,
    learner: Any,
    known: Known,
    *,
    claim: Claim,
    method: str,
    device: torch.device,
    progress: Progress,
) -> tuple[Task, Networks]:
    """The task with f, and with what a learner, a helper, a base, or f trained anew knows; and the networks.

    Raises:
        UsageError: The method makes nothing of what is known.
    """
    _check_method(method, known, learner)
    given = _read_networks(network, known, task.sample, claim=claim, method=method)
    base = None
    if given.base is not None and given.base_tensors is not None and not given.uncoded:
        made = Made(given.base.name, "other data", 0, float32_sha256(given.base_tensors))
        base = KnownTensors(made, given.base_tensors)
    task = replace(
        task,
        original=None if given.uncoded else given.original,  # that messages are made of
        base=base,
        unlabelled=claim.unlabelled,
        input_range=claim.input_range,
    )
    units, is_scored = task.arranged.units, method in SCORES and not task.is_about_f
    share = 0 if known.share is None else math.floor(round(known.share * units, 9))
    if learner is not None:
        share = share or usual_share(units, is_rule=False)
        table = scores_of(learner, task.arranged, share, device=device, progress=progress)
        return replace(task, tables=(table, *task.tables)), given  # as they are, the first cost two bits
    if known.base is not None and is_scored:
        assert given.original is not None  # a base is read by it
        assert given.base_tensors is not None
        own = given.original.build_with(given.base_tensors)
        table = scores_of_network(own, task.sample, by=known.base.name, of="other data", device=device)
        return replace(task, tables=(*task.tables, table)), given
    if known.helper is not None and is_scored:
        table = scores_of(known.helper, task.arranged, share, device=device, progress=progress)
        return replace(task, tables=(*task.tables, table)), given
    if known.share is not None:
        prior, rest = (task.sample.select(rows, role="prior") for rows in task.arranged.split(share))
        made, original = form_of("helper")(
            known.helper, task.original, prior, unseen=(task.sample, rest), progress=progress
        )
        task = replace(task, original=original, base=KnownTensors(replace(made, rows=share), original.arrays))
    return task, given


def _check_method(method: str, known: Known, learner: Any) -> None:
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


def _read_networks(network: Any, known: Known, sample: Sample, *, claim: Claim, method: str) -> Networks:
    """The networks that were given, as far as they can be read."""
    if network is None:
        if known.base is not None or claim.is_about_network:
            raise UsageError("this certificate starts from a network: give one.")
        return Networks()
    given = reader("modules")(network)
    found: Networks = form_of("networks")(
        given,
        known.base,
        sample,
        is_about_f=claim.is_about_network,
        trains_base=known.share is not None and known.helper is None,
        method=method,
        has_helper=known.helper is not None,
    )
    return replace(found, module=given.model)


def explain_unused(
    given: Networks, origin: Origin, sample: Sample, *, delta: float, bound: float
) -> list[str]:
    """Reasons why neither a message of f itself nor its scores are certified, and the remedy."""
    assert given.original is not None  # whoever asks has one
    numbers = sum(tensor.numel() for tensor in given.original.tensors.values())
    most = [
        max(0, math.floor((-sample.n * math.log1p(-risk) + math.log(delta)) / math.log(2.0)))
        for risk in (1.0 - 1.0 / sample.classes, bound)
        if risk < 1.0
    ]
    below = [f"{bits:,} bits ({bits / numbers:.2g} a number)" for bits in most]
    scores = (
        "nobody says that it was neither trained nor selected on the sample. Where that is true, give its "
    )
    scores += "weights as a base instead."
    if count_seen(origin, sample):
        scores = "it was trained on this sample, whose labels they know."
    return [
        (
            f"A message of f itself says {numbers:,} numbers. With {sample.n:,} examples, and without a "
            f"single error, its bound is below guessing up to {below[0]}, and below what was found up to "
            f"{below[-1]}."
        ),
        f"The scores of f are not counted: {scores}",
    ]

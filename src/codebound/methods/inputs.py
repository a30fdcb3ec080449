"""Inputs of a search: f, a base and its rows, or a helper."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from codebound.certificate.task import KnownTensors
from codebound.known.base import Pretrained
from codebound.known.provenance import count_seen, origin_of_parts, require_unseen
from codebound.known.score_tables import Scaled, ScoreTable, run_on
from codebound.methods.search import UnsuitedError
from codebound.run.errors import UsageError
from codebound.run.tensor_files import float32_sha256
from codebound.sample.made import Made, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codebound.certificate.task import AbstractOriginal, Tensors
    from codebound.known.encoder import Encoder
    from codebound.known.provenance import Origin
    from codebound.run.progress import Progress
    from codebound.sample.dataset import Dataset
    from codebound.sample.order import Arranged

SCORES = ("auto", "picks", "scores")
"""Methods that certify a base of which no message is made: by what its last layer reads, or by its scores."""
_AT_ONCE = 500  # examples that are encoded at a time
_NEW = "data of your own"


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


def scores_of_base(start: Networks, sample: Dataset, *, device: torch.device) -> ScoreTable:
    """The scores of a base, which are declared: the second program counts them and runs no network."""
    assert start.base is not None  # whoever asks has one
    network = Scaled(_network_of_base(start), sample.scaling)
    scores, by = run_on(network, sample, device=device), printable(start.base.name)
    return ScoreTable(scores, by, of="other data", classifier=network)


def features_of_base(start: Networks, sample: Dataset, *, device: torch.device) -> Encoder:
    """Encoder by what enters the last layer of a base. It is another sample: nothing else is made of both.

    Raises:
        UnsuitedError: The network has no last linear layer, or nothing in front of it.
    """
    from codebound.known.encoder import Encoder, digest
    from codebound.known.first_share import NetworkRows

    assert start.base is not None
    assert start.original is not None
    example = sample.scaling.apply(torch.from_numpy(sample.x[:2]))
    rows = NetworkRows.of([_network_of_base(start)], example, classes=sample.classes)
    if rows.ends == [None]:
        raise UnsuitedError("the network has no hidden layer in front of a linear one that is its last.")
    sha256 = digest(start.original.computes.encode(), rows)
    return Encoder("the last hidden layer of the base", rows.to(device), sha256, origin=start.base.says)


def _network_of_base(start: Networks) -> nn.Module:
    assert start.original is not None
    assert start.base_tensors is not None
    return start.original.build({name: torch.from_numpy(each) for name, each in start.base_tensors.items()})


def explain_no_features(origin: Origin, sample: Dataset) -> str:
    """Reason why f's features are not used, and the remedy."""
    if count_seen(origin, sample):
        return (
            "No picks are made on the features of f: it was trained on this sample, whose labels they know."
        )
    return (
        "No picks are made on the features of f: nobody says that it was neither trained nor selected on the "
        "sample. Where that is true, give its weights as a base instead."
    )


def describe_own_message(original: AbstractOriginal, sample: Dataset, *, delta: float, bound: float) -> str:
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
    helper: Callable[[Dataset], Any] | Pretrained,
    arranged: Arranged,
    share: int,
    *,
    device: torch.device,
    progress: Progress,
) -> ScoreTable:
    """The scores of a helper that was made of the known share, for every example."""
    from codebound.known.first_share import joined_scores

    sample = arranged.sample
    prior, networks, says = _make_of_share(helper, arranged, share, device=device, progress=progress)
    network = Scaled(joined_scores(networks, prior), sample.scaling)
    scores = run_on(network, sample, device=device, progress=progress)
    return ScoreTable(scores, printable(says), _NEW, rows=share, classifier=network)


def features_of_helper(
    helper: Callable[[Dataset], Any] | Pretrained,
    arranged: Arranged,
    share: int,
    test_set: Dataset | None,
    *,
    device: torch.device,
    progress: Progress,
) -> tuple[Encoder, Dataset, Dataset | None]:
    """A helper that was made of the known share, and what it makes of the sample in its order.

    A hash of features would choose other rows than were learned from: the table is stored in the order of the
    sample behind it.
    """
    from codebound.known.first_share import helper_encoder

    prior, networks, says = _make_of_share(helper, arranged, share, device=device, progress=progress)
    encoder = helper_encoder(networks, prior, rows=prior.n, says=says)  # with what the share grew by
    ordered = arranged.sample.select(arranged.places, role="train")
    table_of = partial(encoder.table, batch=_AT_ONCE, progress=progress)
    return encoder, table_of(ordered), None if test_set is None else table_of(test_set)


def _make_of_share(
    helper: Callable[[Dataset], Any] | Pretrained,
    arranged: Arranged,
    share: int,
    *,
    device: torch.device,
    progress: Progress,
) -> tuple[Dataset, list[nn.Module], str]:
    """The known share, the networks that a helper makes of it, and its name."""
    known, counted = arranged.split(share)
    prior = arranged.sample.select(known, role="prior")
    rest = arranged.sample.select(counted, role="certify")
    if isinstance(helper, Pretrained):
        made, says = helper.network, helper.name
    else:
        made, says = make_helper(helper, prior, device=device, progress=progress), maker_of(helper)
    networks = list(made) if isinstance(made, list | tuple) else [made]
    if not networks or not all(isinstance(each, nn.Module) for each in networks):
        raise UsageError(f"a helper is a torch module, or a list of them. Got {type(made).__name__}.")
    for each in networks:
        refuse_seen(each, (arranged.sample, rest), prior)
    return prior, [each.eval() for each in networks], says


def refuse_seen(network: object, unseen: Sequence[Dataset], prior: Dataset) -> None:
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


def maker_of(helper: Callable[[Dataset], Any]) -> str:
    """Name of the function that makes a helper."""
    return f"{getattr(helper, '__module__', '')}:{getattr(helper, '__qualname__', type(helper).__name__)}"


def make_helper(helper: Callable[..., Any], prior: Dataset, **offered: Any) -> Any:
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
            "part of the sample, a Dataset, and returns a network."
        ) from error

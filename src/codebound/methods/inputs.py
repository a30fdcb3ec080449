"""Inputs of a search: f, a base and its rows, or a helper."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from codebound.certificate.claims import prior_and_rest
from codebound.known.base import Pretrained
from codebound.known.provenance import count_seen, origin_of_parts, require_unseen
from codebound.methods.search import UnsuitedError
from codebound.run.errors import UsageError
from codebound.sample.caveats import count_copies
from codebound.sample.dataset import seen_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codebound.certificate.task import AbstractOriginal, Tensors
    from codebound.known.encoder import Encoder
    from codebound.known.provenance import Origin
    from codebound.run.progress import Progress
    from codebound.sample.dataset import Dataset

ENCODES = ("auto", "picks")
"""Methods for which a helper that was given encodes the rest of the sample."""
SCORES = ("auto", "picks", "biases")
"""Methods that certify a base of which no message is made: by what its last layer reads, or by its scores."""
_AT_ONCE = 500  # examples that a helper encodes


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
    def known(self) -> tuple[str, Tensors] | None:
        """Name and tensors of the base: a message codes the difference to them."""
        if self.base is None or self.base_tensors is None or self.uncoded:
            return None
        return self.base.name, self.base_tensors

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the reading of f and on its missing message."""
        read = () if self.original is None else self.original.notes
        return tuple(filter(None, (*read, self.unread, self.uncoded)))


def base_encoder(
    start: Networks, sample: Dataset, *, device: str | torch.device, has_scores: bool
) -> Encoder:
    """Encoder by a base: by the features in front of its last layer, or by its scores.

    Picks are made on the table of its features and nowhere else, so that each message still has one meaning,
    and a search that compares them with messages about the network itself pays for nothing twice. Scores are
    declared: the verifier counts them and does not run the network. Examples of the sample show what it
    returns.

    Raises:
        UnsuitedError: The network has no last linear layer, or nothing in front of it.
    """
    from codebound.known.encoder import Encoder, digest
    from codebound.known.first_share import NetworkRows, Scores

    base, f, tensors = start.base, start.original, start.base_tensors
    assert base is not None  # whoever asks has one
    assert f is not None  # and it is one of f
    assert tensors is not None
    network = f.build({name: torch.from_numpy(value) for name, value in tensors.items()})
    rows: NetworkRows | Scores
    if has_scores:
        name, says, rows = "the scores of the base", base.name, Scores([network])
    else:
        example = sample.scaling.apply(torch.from_numpy(sample.x[:2]))
        name, says = "the last hidden layer of the base", base.says
        rows = NetworkRows.of([network], example, classes=sample.classes)
        if rows.ends == [None]:
            raise UnsuitedError("the network has no hidden layer in front of a linear one that is its last.")
    sha256 = digest(f.computes.encode(), rows)
    return Encoder(name, rows.to(device), sha256, origin=says, has_scores=has_scores)


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


def encode_rest(
    helper: Callable[[Dataset], Any] | Pretrained,
    sample: Dataset,
    test_set: Dataset | None,
    tenths: int | Sequence[int],
    *,
    has_scores: bool,
    allow_copies: bool,
    device: torch.device,
    progress: Progress,
) -> tuple[Encoder, Dataset, Dataset | None]:
    """A helper that was made of the first part of a sample, and what it makes of the rest."""
    from codebound.known.first_share import helper_encoder

    if not isinstance(tenths, int):
        if len(tenths) != 1:
            raise UsageError(
                "a helper that encodes is made of one share of the sample: the rest is a sample of its own, "
                "and no message says which share it was. Give one, or the method prune."
            )
        (tenths,) = tenths
    count_copies(sample, allow_copies=allow_copies)  # of the whole: a copy may be in the rest
    prior, rest = prior_and_rest(sample, tenths)
    if isinstance(helper, Pretrained):
        made, says = helper.network, helper.name
    else:
        made, says = make_helper(helper, prior, device=device, progress=progress), maker_of(helper)
    for each in made if isinstance(made, list | tuple) else [made]:
        refuse_seen(each, (sample, rest), prior)
    encoder = helper_encoder(made, prior, n=sample.n, says=says, has_scores=has_scores)
    drawn_twice = seen_rows(rest)  # equal inputs of both parts are no reason to refuse
    encoder = replace(encoder, seen=np.setdiff1d(encoder.seen, drawn_twice))
    table_of = partial(encoder.table, batch=_AT_ONCE, progress=progress)
    table = require_known_classes(replace(table_of(rest), role="train"), prior)
    return encoder, table, None if test_set is None else table_of(test_set)


def require_known_classes(sample: Dataset, prior: Dataset) -> Dataset:
    """The sample, with a word about classes that only the rest of it shows: a helper has as many outputs."""
    seen = int(prior.y.max()) + 1
    if seen >= sample.classes:
        return sample
    said = (
        f"the labels of the first part show {seen} classes; that there are {sample.classes} has to be known "
        "without the other examples"
    )
    return replace(sample, warnings=(*sample.warnings, said))


def largest_input(classes: int) -> Pretrained:
    """The network that takes the largest of its inputs, which are scores of the classes already."""
    network = nn.Linear(classes, classes)
    with torch.no_grad():
        network.weight.copy_(torch.eye(classes))
        network.bias.zero_()
    return Pretrained(nn.Sequential(network), "the largest input, as it is: no number of it was learned")


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

"""Scores that were made without the counted examples: by a learner, a training function or a network."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from codebound.known.learners import learn_scores
from codebound.known.provenance import Pretrained, origin_of_parts, require_unseen
from codebound.known.score_tables import Scaled, ScoreTable, run_on
from codebound.run.errors import UsageError
from codebound.run.progress import Progress, silent
from codebound.sample.dataset import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codebound.sample.dataset import Sample
    from codebound.sample.order import Arranged

_TRIED = 2  # examples that show what a network returns


def scores_of(
    source: Any,
    arranged: Arranged,
    share: int,
    *,
    device: str | torch.device = "cpu",
    progress: Progress = silent,
) -> ScoreTable:
    """Scores of every example by what is made of the known share, which are declared.

    Args:
        source: A learner with ``fit``; a function that makes a network of the known share; or a network of
            it that was made already.
        arranged: The sample in its order.
        share: Units that are known.
        device: Where networks are run.
        progress: Told how far it is.
    """
    if hasattr(source, "fit"):
        return learn_scores(source, arranged, share)
    sample = arranged.sample
    known, rest = (sample.select(rows, role="prior") for rows in arranged.split(share))
    if isinstance(source, Pretrained):
        made, says = source.network, source.name
    else:
        made, says = make_helper(source, known, device=device, progress=progress), maker_of(source)
    if not isinstance(made, nn.Module):
        raise UsageError(f"a helper is a torch module. Got {type(made).__name__}.")
    refuse_seen(made, (sample, rest), known)
    _require_scores(made.eval(), known)
    return scores_of_network(
        made, sample, by=says, of="data of your own", rows=share, device=device, progress=progress
    )


def scores_of_network(
    network: nn.Module,
    sample: Sample,
    *,
    by: str,
    of: str,
    rows: int = 0,
    device: str | torch.device = "cpu",
    progress: Progress = silent,
) -> ScoreTable:
    """The table of a network of scaled inputs: the second program counts it, and runs no network."""
    stored = Scaled(network, sample.scaling)
    scores = run_on(stored, sample, device=device, progress=progress)
    return ScoreTable(scores, printable(by), of, rows=rows, classifier=stored)


@torch.no_grad()
def _require_scores(network: nn.Module, known: Sample) -> None:
    """Refuse a network that is no classifier of the sample's classes, as some examples show."""
    example = known.scaling.apply(torch.from_numpy(known.x[:_TRIED]))
    place = next((each.device for each in network.parameters()), example.device)
    try:
        outputs = network(example.to(place))
    except Exception as error:  # of somebody else's network
        raise UsageError(
            f"the helper failed on {len(example)} examples of shape {known.input_shape} with "
            f"{type(error).__name__}: {error}."
        ) from error
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2 or len(outputs) != len(example):
        raise UsageError("a helper returns a row of numbers for each example of a batch.")
    if outputs.shape[1] != known.classes:
        raise UsageError(f"this helper is no classifier of {known.classes} classes.")


def refuse_seen(network: nn.Module, unseen: Sequence[Sample], known: Sample) -> None:
    """Refuse a helper that is known to have been trained on more than the known share of a sample."""
    for sample in unseen:
        require_unseen(
            origin_of_parts(network),
            sample,
            who="this helper",
            advice="Train it on the first part of the sample alone, which is what a function that makes it "
            "is called with.",
            given=known,
        )


def maker_of(helper: Callable[[Sample], Any]) -> str:
    """Name of the function that makes a helper."""
    return f"{getattr(helper, '__module__', '')}:{getattr(helper, '__qualname__', type(helper).__name__)}"


def make_helper(helper: Callable[..., Any], known: Sample, **offered: Any) -> Any:
    """Call a function with the known share, and with those of the other arguments that it takes by name."""
    try:
        taken = inspect.signature(helper).parameters.keys() & offered.keys()
    except (TypeError, ValueError):  # of code that is not Python
        taken = set()
    try:
        return helper(known, **{name: offered[name] for name in taken})
    except Exception as error:  # of somebody else's training
        raise UsageError(
            f"{maker_of(helper)} failed with {type(error).__name__}: {error}. It is called with the first "
            "part of the sample, a Sample, and returns a network."
        ) from error

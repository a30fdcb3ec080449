"""Comparison of what a rule learns with the certificate (docs/format.md, section 10.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..checks import check_count, counted_places
from ..header import Header, PartOfPicks, Picked
from ..refusal import Refused
from ..sample import Inputs, Labels, permutation
from .picking import Learned, learn
from .rule import Rule, check_share

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ..sample import Progress


def check_picks(
    header: Header, stated: Picked, rule: Rule, sample: tuple[Inputs, Labels], progress: Progress | None
) -> Learned:
    """Check that the network that the rule learns makes no more errors than stated (section 10.6)."""
    if (stated.first, stated.picks) != (rule.first, rule.picks):
        raise Refused(
            f"Facts: first is {stated.first} and picks {stated.picks}; the rule starts with {rule.first} "
            f"examples and picks {rule.picks}."
        )
    check_share(rule, sample[1], permutation(len(sample[1])), header.classes)
    learned = learn(rule, header, *sample, progress)
    places = counted_places(header, sample[1])
    picks, errors = learned.counted(header.fault, sample[1], places)
    if isinstance(header.tally, PartOfPicks) and header.tally.picks != picks:
        raise Refused(f"Facts: tally.picks is {header.tally.picks}; the rule picks {picks} of that part.")
    check_count(header, errors, len(places) - picks, "the network that the rule learns")
    return learned


def check_weights(
    learned: Learned | None, tensors: Mapping[str, NDArray[Any]], sample: tuple[Inputs, Labels] | None
) -> None:
    """Check that weights are those of the network that the rule learns (section 10.6)."""
    if learned is None or sample is None:
        raise Refused("Weights: there is no network that a rule has learned to compare them with.")
    learned.check_weights(tensors, *sample)

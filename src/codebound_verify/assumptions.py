"""Assumptions of a guarantee that no file can prove (C-14), in plain sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .developed import SENTENCE
from .header import Disagreement, Domain, Header, PartOfSample, Picked, Split
from .words import encoders_of

if TYPE_CHECKING:
    from .rows import Repeats

ROWS = (
    "Which rows the sample has, how many and in which order was decided before anybody looked at their "
    "labels, or at the errors of a network."
)
STORED = (
    "The stored numbers were made from each example by itself, or with constants fixed beforehand: nothing "
    "was learned, selected, scaled or rotated with the help of the sample, and no encoder that made them saw "
    "it. Where they are scores or features of a network, the bound means nothing without that."
)


def assumed_by(header: Header, repeats: Repeats | None, developed: str | None) -> tuple[str, ...]:
    """One sentence for each; those that are broken most easily come first."""
    sample = f"the {header.n} examples" + (" after the split" if isinstance(header.extra, Split) else "")
    if isinstance(picked := header.extra, Picked):
        sample += f" after the {picked.first} that the rule starts with"
    lines = []
    if header.base is not None:
        lines.append(
            f"The base, of SHA-256 {header.base.sha256}, was neither trained nor selected on {sample}: "
            f"without that the bound means nothing. The file says that it is {header.base.name!r}."
        )
    lines += [
        f"The encoder {name!r}, of SHA-256 {sha256}, which made the stored numbers, was neither trained nor "
        f"selected on {sample}: without that the bound means nothing. It is not in the file."
        for name, sha256 in encoders_of(header)
    ]
    lines += [
        _format(header, sample, developed),
        ROWS,
        STORED,
        f"Independent draws from the distribution that the claim is about: {sample}.{_copies(repeats)}",
        _fixed(header, sample),
    ]
    if isinstance(extra := header.extra, Domain):
        lines.append(f"Every input has stored values from {extra.input_low} to {extra.input_high}.")
    if isinstance(extra, Disagreement):
        lines.append(
            f"The {extra.n_unlabelled} unlabelled inputs are independent draws too, and neither f nor g nor "
            "the fault was chosen with them."
        )
    lines.append(
        "The network is run as it was counted: one example at a time or in batches that change nothing, in "
        "float64 or close enough not to change a prediction."
    )
    return tuple(lines)


def _format(header: Header, sample: str, developed: str | None) -> str:
    if developed is not None:
        return f"{SENTENCE} (The sample is {developed}.)"
    if (page := header.version.page) is not None:
        state = f"its page of SHA-256 {page.sha256}, frozen on {page.frozen}"
        if not page.frozen:
            state = "a draft whose page may still change: keep no file of it"
        return f"The format (version {header.version.number}, {state}) was fixed without looking at {sample}."
    return (
        f"The format (version {header.version.number}, whose words were changed while it was in use) was "
        f"fixed without looking at {sample}."
    )


def _copies(repeats: Repeats | None) -> str:
    if repeats is None or not repeats.equal:
        return ""
    return (
        f" {repeats.equal} of the {repeats.n} in the sample are exact copies of earlier ones, and have to "
        "be draws of their own."
    )


def _fixed(header: Header, sample: str) -> str:
    free = [f"delta = {header.delta}"]
    if not header.version.codes_setting:
        scaling = header.scaling
        free += [
            f"the number of classes, {header.classes}",
            f"the scaling (x / {scaling.divisor} - {scaling.mean}) / {scaling.std}",
        ]
    if isinstance(part := header.tally, PartOfSample):
        free.append(
            f"the part of the data that {header.fault.text} is about, whose share of new data, at least "
            f"{part.share:.4g}, is estimated for this part alone"
        )
    return f"Chosen without looking at {sample}: {'; '.join(free)}."

"""Conditions that no file can show, in this program's own words (docs/format.md, section 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .development import SENTENCE
from .header import DRAFT_SENTENCE, IS_DRAFT
from .losses import EACH_GROUP

if TYPE_CHECKING:
    from .header import Header, Made, Table

COPIES = {
    "any": "Rows of equal inputs may be draws of their own or one record that is repeated; how often a row "
    "is repeated does not depend on what it holds.",
    "independent": "Equal rows are separate draws: no record was stored twice.",
    "repeated": "Equal rows are records that were stored more than once; how often a row is repeated does "
    "not depend on what it holds.",
}
TOGETHER = "This is one claim: several certificates of one sample hold together at the sum of their deltas."
RUN = (
    "The classifier is run as it was counted: one example at a time or in batches that change nothing, in "
    "float64 or close enough not to change a prediction."
)


def list_assumptions(
    header: Header, *, form: str, table: Table | None, copies: int, developed: str | None
) -> tuple[str, ...]:
    """One sentence for each; those that are broken most easily come first.

    ``table`` is the one that the message names, ``copies`` the number of rows whose input occurs earlier,
    ``developed`` the sample of the page that this one is.
    """
    known = header.known
    unit = "clusters" if header.sample.order == "clusters" else "rows"
    counted = f"the {unit} after the first {known.rows}" if known.rows else f"the {unit} of the sample"
    lines = [] if table is None else _of_table(table, counted)
    if known.features is not None:
        lines.append(_of_made("What encoded the inputs", known.features, counted))
    if known.base is not None and form == "network":
        lines.append(_of_made("The base", known.base, counted))
    lines += _of_original(header)
    if developed is not None:
        lines.append(f"{SENTENCE} (The sample is {developed}, a part of it, or was made from it.)")
    if IS_DRAFT:
        lines.append(DRAFT_SENTENCE)
    lines.append(f"Independent draws from where new data come from: {counted}.")
    if unit == "rows":
        lines.append(COPIES[header.sample.copies] + (f" ({copies} rows are copies.)" if copies else ""))
    lines += [_fixed_before(header), *_of_order(header), TOGETHER]
    return tuple(lines if table is not None else [*lines, RUN])


def _of_table(table: Table, counted: str) -> list[str]:
    if table.picks is not None:
        counted += " (but for its picks)"
    first = (
        f"{_of_made('The table of scores', table, counted)} It is the only one that was counted on them; "
        "others are listed and paid for. Nothing in the file can show this; without it the bound is nothing."
    )
    lines = [first]
    if table.picks is not None:
        lines.append(
            f"The {table.picks} picks were made by a rule that would pick the same, in the same order, "
            "without any of the rows that it did not pick; the table was made of the first rows and the "
            "picks alone, in that order."
        )
    return lines


def _of_made(what: str, made: Made, counted: str) -> str:
    rows = f" and at most the first {made.rows} rows of this sample" if made.rows else ""
    return (
        f"{what}, of SHA-256 {made.sha256}, was made without {counted}: neither trained nor selected on "
        f"them. The file says that {made.by!r} made it of {made.of!r}{rows}."
    )


def _of_original(header: Header) -> list[str]:
    if (original := header.original) is None:
        return []
    if original.unlabelled is None:
        low, high = original.domain or (0.0, 0.0)
        return [f"Every new input has stored values from {low} to {high}."]
    second = (
        f"The {original.unlabelled.rows} unlabelled inputs are independent draws too; none of f, base and "
        "features was made of them, and none was left out for being in the sample."
    )
    lines = [second]
    if original.chain is None:
        lines.append("The answers of f on the unlabelled inputs are its own: they are declared.")
    return lines


def _fixed_before(header: Header) -> str:
    """Things that are fixed before, section 5.1: other inputs or numbers make another sample."""
    things = "the sample as stored, with its rows, their places, type, shape and labels"
    if header.sample.clusters is not None:
        things += ", their clusters"
    if header.sample.groups is not None:
        things += ", their groups" + (" (each has its limit)" if header.claim.on == EACH_GROUP else "")
    things += "; the order, the salt and the reading of copies; tables, features and base"
    if header.original is not None:
        things += "; f, what is said about it, and the unlabelled inputs"
    return (
        f"Fixed before any result on the counted examples was seen: {things}; delta = {header.claim.delta}. "
        "The stored inputs were made from each example by itself or with the known ones: of several versions "
        "of the sample, one was named before."
    )


def _of_order(header: Header) -> list[str]:
    sample = header.sample
    if sample.order == "file":
        return ["The order in which the rows are stored is one of independent draws, or of time."]
    if sample.salt:
        seal = f"The salt was drawn after the sample was sealed ({sample.seal})."
        return [f"{seal} Nothing in the file shows that this salt was the only one."]
    line = "The hash that orders the sample acts on its rows as a random function does: "
    return [line + "without a salt the probability is over the hash too."]

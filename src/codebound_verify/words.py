"""The claim in this program's own words, and what no file can show (docs/format.md, section 10)."""

from __future__ import annotations

import math
from fractions import Fraction

from .claim import DISAGREEMENT, statement_of
from .development import SENTENCE
from .header import Header, Limit, Made, Table
from .losses import ANY_ROW, EACH_CLASS, EACH_GROUP, LOSSES, ONE_ROW, Question

NEW_DATA = {
    EACH_CLASS: "new data of each class",
    EACH_GROUP: "new data of each group",
    ONE_ROW: "one row of a new cluster, chosen as the page says,",
    ANY_ROW: "a new cluster, if one wrong row makes it wrong,",
}
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


def state_claim(header: Header, question: Question) -> str:
    """The guarantee as a sentence."""
    claim, original = header.claim, header.original
    drawn, data = "the sample", NEW_DATA.get(question.on, "new data")
    if question.threshold is not None:
        data += f" that it answers (its best score leads by more than {question.on.partition(':')[2]})"
    if question.predicted is not None:
        data += f" that it takes for class {question.predicted}"
    if original is not None and original.unlabelled is not None:
        drawn = f"the sample and of the {original.unlabelled.rows} unlabelled inputs"
    if original is not None and original.domain is not None:
        data += f" with stored values from {original.domain[0]} to {original.domain[1]}"
    text = (
        f"With probability at least 1 - {claim.delta} over the draw of {drawn}, the "
        f"{LOSSES[question.kind].words.format(*question.numbers)} of {claim.subject} on {data} is at most "
        f"{percent(claim.bound)} ({claim.bound!r}, {statement_of(header)}{', VACUOUS' * claim.vacuous})"
    )
    if question.threshold is not None:
        text += f", and the share on which it stays silent at most {limit_text(claim.limits[1].bound)}"
    return text + "."


def describe_limit(header: Header, limit: Limit) -> str:
    """Counts of a limit, and the limit where there are several, as a sentence."""
    unit = "clusters" if header.sample.order == "clusters" else "rows"
    where = f"{unit} after the first {header.known.rows}" if header.known.rows else f"{unit} of the sample"
    what = "are wrong"
    if limit.of == DISAGREEMENT:
        where, what = "unlabelled inputs", "are such that f and g differ, or are in doubt"
    elif limit.of == "silent":
        what = "are not answered"
    counted = f"{limit.errors} of {limit.n} {where} {what}"
    if limit.picks:
        counted += f", and {limit.picks} were picked to learn from; each of these counts as wrong"
    if len(header.claim.limits) == 1:
        return f"{counted}."
    return f"{limit.of}: at most {limit_text(limit.bound)}; {counted}."


def percent(bound: float) -> str:
    """A bound in hundredths of a per cent, not smaller than it is.

    Example:
        >>> percent(0.0737163), percent(0.07)
        ('7.38 %', '7.01 %')
    """
    hundredths = math.ceil(Fraction(bound) * 10_000)
    return f"{hundredths // 100}.{hundredths % 100:02d} %"


def limit_text(bound: float) -> str:
    """A bound as it is read, and as it was checked.

    Example:
        >>> limit_text(0.25)
        '25.00 % (0.25)'
    """
    return f"{percent(bound)} ({bound!r})"


def list_assumptions(
    header: Header, *, form: str, table: Table | None, copies: int, developed: str | None
) -> tuple[str, ...]:
    """One sentence for each. Those that are broken most easily come first.

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

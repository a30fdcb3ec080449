"""``codebound bound``: the calculator behind every certificate."""

from __future__ import annotations

from typing import Annotated

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note
from codebound.cli.options import option
from codebound.report.tables import tabulate


def command(
    n: Annotated[int, option("Sample size.", None, "--n")],
    errors: Annotated[int, option("Errors of the network on the sample; ties count as errors.")],
    bits: Annotated[
        float | None, option("Length of the whole message in bits; required unless --holdout or --picks.")
    ] = None,
    picks: Annotated[
        int | None,
        option(
            "Examples that a fixed rule picked and the network was learned from (C-15); --errors then counts "
            "among the others, and --bits is the length of what names the rule."
        ),
    ] = None,
    fault: Annotated[
        str | None,
        option(
            "What --errors counts, as in certify and holdout seal, and what --n can happen on: for the "
            "sentence."
        ),
    ] = None,
    delta: opt.Delta = 0.05,
    classes: Annotated[
        int | None, option("Number of classes; a bound of 1 - 1/classes or more is vacuous.")
    ] = None,
    is_holdout: Annotated[
        bool, option("The examples are fresh: no code, no bits (C-11).", None, "--holdout")
    ] = False,
    looks: Annotated[
        int | None,
        option(
            "With --holdout: how many networks were tried on the examples, with this one (C-16); --bits is "
            "then the length of the answers that it was chosen with (default: the number of errors of each "
            "of the others)."
        ),
    ] = None,
    is_fixed_before: Annotated[
        bool,
        option(
            "With --looks: all networks were fixed before the first was tried, so that no answer led to "
            "another; that costs less.",
            None,
            "--fixed-before",
        ),
    ] = False,
    output: opt.Output = Format.table,
) -> None:
    """Bound the error on new data from errors, sample size and message length.

    Example: codebound bound --errors 300 --n 60000 --bits 5000 --delta 0.05
    """
    options = dict(locals())
    del options["output"]
    from codebound.bounds.risk import percent
    from codebound.certificate.calculator import Counts, calculate

    found = calculate(Counts(**options))
    rows = [(each.name, each.ref, percent(each.value, 4), each.meaning) for each in found.forms]
    emit(found.record(), output, [tabulate(("form", "reference", "bound", "what it is"), rows)])
    if output is Format.table:
        note(found.sentence)

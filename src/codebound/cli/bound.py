"""``codebound bound``: the calculator behind every certificate."""

from __future__ import annotations

from typing import Annotated

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note
from codebound.cli.options import option
from codebound.errors import UsageError
from codebound.report.tables import tabulate

_MEANING = {
    "holdout": ("C-11", "Clopper-Pearson limit: the examples were used for no choice"),
    "binomial": ("C-2", "exact binomial tail: the certificate"),
    "kl": ("C-3", "Chernoff-kl form, never below the binomial one"),
    "hoeffding": ("C-4", "training error plus a square root, the form that papers print"),
}


def command(
    errors: Annotated[int, option("Errors of the network on the sample; ties count as errors.")],
    n: Annotated[int, option("Sample size.", None, "--n")],
    bits: Annotated[
        float | None, option("Length of the whole message in bits; required unless --holdout.")
    ] = None,
    delta: opt.Delta = 0.05,
    classes: Annotated[
        int | None, option("Number of classes; a bound of 1 - 1/classes or more is vacuous.")
    ] = None,
    is_holdout: Annotated[
        bool, option("The examples are fresh: no code, no bits (C-11).", None, "--holdout")
    ] = False,
    output: opt.Output = Format.table,
) -> None:
    """Bound the error on new data from errors, sample size and message length.

    Example: codebound bound --errors 300 --n 60000 --bits 5000 --delta 0.05
    """
    from codebound.bounds.held_out import holdout
    from codebound.bounds.occam import occam_binomial, occam_hoeffding, occam_kl
    from codebound.bounds.risk import percent
    from codebound.facts import HoldoutFacts, OccamFacts

    if is_holdout and bits:
        raise UsageError(f"a hold-out bound has no message: leave out --bits. Got --bits {bits:g}.")
    if not is_holdout and bits is None:
        raise UsageError("--bits is missing: the length of the message, or --holdout for fresh examples.")
    facts = OccamFacts(errors=errors, n=n, code_bits=bits or 0.0, delta=delta, classes=classes)
    forms = {"binomial": occam_binomial(facts), "kl": occam_kl(facts), "hoeffding": occam_hoeffding(facts)}
    if is_holdout:
        fresh = HoldoutFacts(errors=errors, n=n, delta=delta, classes=classes)
        forms = {"holdout": holdout(fresh), **forms}
    best = next(iter(forms.values()))
    values = {name: form.value for name, form in forms.items()}
    rows = [(name, _MEANING[name][0], percent(value, 4), _MEANING[name][1]) for name, value in values.items()]
    shown = tabulate(("form", "reference", "bound", "what it is"), rows)
    emit({**values, "vacuous": best.vacuous}, output, [shown])
    if output is Format.table:
        note(best.sentence.replace("the decoded network g", "the network") if is_holdout else best.sentence)

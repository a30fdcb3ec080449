"""``codebound bound``: the calculator behind every certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note
from codebound.cli.options import option
from codebound.errors import UsageError
from codebound.report.tables import tabulate

if TYPE_CHECKING:
    from codebound.bounds.facts import OccamFacts
    from codebound.bounds.risk import RiskBound
    from codebound.faults import Fault

_MEANING = {
    "picked": ("C-15", "learned from picked examples: the sample is its own test set"),
    "looked": ("C-16", "the examples were looked at before: every look is paid for"),
    "holdout": ("C-11", "Clopper-Pearson limit: the examples were used for no choice"),
    "binomial": ("C-2", "exact binomial tail: the certificate"),
    "kl": ("C-3", "Chernoff-kl form, never below the binomial one"),
    "hoeffding": ("C-4", "training error plus a square root, the form that papers print"),
}
_WHO = {"g": "the decoded network g", "f": "the original network f"}
_ONCE = "for comparison: had this been the only look"
_AS_MANY = "for comparison: a hold-out set of n examples with as many errors as picks and errors"


def command(
    n: Annotated[int, option("Sample size.", None, "--n")],
    errors: Annotated[
        int | None, option("Errors of the network on the sample; ties count as errors.")
    ] = None,
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
    kept: Annotated[
        int | None, option("Examples that the network did not abstain from; --errors are among them (C-17).")
    ] = None,
    mean_cost: Annotated[
        float | None, option("Mean cost on the sample, between 0 and 1, in place of --errors (C-17).")
    ] = None,
    fault: Annotated[
        str | None,
        option(
            "What --errors counts, as in certify and holdout seal, and what --n can happen on: for the "
            "sentence; abstain:T goes with --kept, cost:COSTS with --mean-cost."
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
            "With --holdout: how many networks were tried on the examples (C-16); --bits is then the length "
            "of the answers that this one was chosen with."
        ),
    ] = None,
    output: opt.Output = Format.table,
) -> None:
    """Bound the error on new data from errors, sample size and message length.

    Example: codebound bound --errors 300 --n 60000 --bits 5000 --delta 0.05
    """
    from codebound.bounds.facts import OccamFacts
    from codebound.bounds.lengths import log2_up
    from codebound.bounds.risk import percent
    from codebound.faults import parse_fault

    if (errors is None) == (mean_cost is None):
        raise UsageError("give --errors, how many, or --mean-cost.")
    named = None
    if fault is not None:
        has_classes = not parse_fault(fault).is_of_values
        named = parse_fault(fault, classes=classes if has_classes else None)
    for kind, value, name in (("abstain", kept, "--kept"), ("cost", mean_cost, "--mean-cost")):
        if named is not None and (named.kind == kind) != (value is not None):
            raise UsageError(f"{name} belongs to the fault {kind}: give both, or leave out one.")
    if mean_cost is not None or kept is not None:
        if picks is not None and mean_cost is not None:
            raise UsageError(
                "after picks a mean cost is bounded cost by cost (docs/picked.md): ask for each cost-above "
                "with --errors, at delta divided by their number; certify --fault cost:COSTS does all of it."
            )
        paid = (bits or 0.0) + (0.0 if looks is None else log2_up(looks))
        record = _faulty(errors, n=n, kept=kept, mean_cost=mean_cost, bits=paid, delta=delta, picks=picks)
        _print_faulty(record, output, named)
        return
    if is_holdout and ((bits and looks is None) or picks is not None):
        raise UsageError("a hold-out bound has neither message nor picks: leave out --bits and --picks.")
    if looks is not None and not is_holdout:
        raise UsageError("--looks counts looks at hold-out examples: give --holdout too.")
    if not is_holdout and bits is None and picks is None:
        raise UsageError(
            "--bits is missing: the length of the message, or --holdout for fresh examples, or --picks."
        )
    assert errors is not None
    told = OccamFacts(errors=errors, n=n, code_bits=bits or 0.0, delta=delta, classes=classes)
    forms = _forms(told, picks=picks, looks=looks, is_holdout=is_holdout)
    best = next(iter(forms.values()))
    values = {name: form.value for name, form in forms.items()}
    as_many = {} if picks is None else {"holdout": ("C-11", _AS_MANY)}
    once = {} if looks is None else {"holdout": ("C-11", _ONCE)}
    meaning = {**_MEANING, **as_many, **once}
    rows = [(name, meaning[name][0], percent(value, 4), meaning[name][1]) for name, value in values.items()]
    shown = tabulate(("form", "reference", "bound", "what it is"), rows)
    emit({**values, "vacuous": best.vacuous}, output, [shown])
    if output is Format.table:
        is_decoded = not is_holdout and picks is None
        sentence = best.sentence if is_decoded else best.sentence.replace(_WHO[best.subject], "the network")
        if fault is not None:
            shown_bound = percent(best.value)
            plain = parse_fault("wrong").says(shown_bound)
            assert named is not None
            sentence = sentence.replace(plain, named.says(shown_bound))
        note(sentence)


def _forms(
    told: OccamFacts, *, picks: int | None, looks: int | None, is_holdout: bool
) -> dict[str, RiskBound]:
    """The bounds by their names, the one that is asked for first."""
    from codebound.bounds.facts import HoldoutFacts, LookFacts, PickedFacts
    from codebound.bounds.held_out import holdout
    from codebound.bounds.looked import looked_risk
    from codebound.bounds.occam import occam_binomial, occam_hoeffding, occam_kl
    from codebound.bounds.picked import picked_risk

    common: dict[str, Any] = {"n": told.n, "delta": told.delta, "classes": told.classes}
    if picks is not None:
        facts = PickedFacts(picks=picks, errors=told.errors, code_bits=told.code_bits, **common)
        fresh = HoldoutFacts(errors=facts.counted, **common)
        return {"picked": picked_risk(facts), "holdout": holdout(fresh)}
    if looks is not None:
        used = LookFacts(errors=told.errors, looks=looks, answer_bits=told.code_bits, **common)
        return {"looked": looked_risk(used), "holdout": holdout(HoldoutFacts(errors=told.errors, **common))}
    forms = {"binomial": occam_binomial(told), "kl": occam_kl(told), "hoeffding": occam_hoeffding(told)}
    if not is_holdout:
        return forms
    return {"holdout": holdout(HoldoutFacts(errors=told.errors, **common)), **forms}


def _faulty(
    errors: int | None,
    *,
    n: int,
    kept: int | None,
    mean_cost: float | None,
    bits: float,
    delta: float,
    picks: int | None,
) -> dict[str, float | None]:
    """Bounds that are no plain share of errors: with abstaining, or on a cost."""
    from codebound.bounds.facts import PickedFacts
    from codebound.bounds.faulty import occam_abstaining, occam_cost, picked_abstaining

    if mean_cost is not None:
        return {"cost": occam_cost(mean_cost=mean_cost, n=n, code_bits=bits, delta=delta)}
    assert kept is not None  # one or the other was given
    assert errors is not None
    if picks is None:
        error, abstained = occam_abstaining(errors=errors, kept=kept, n=n, code_bits=bits, delta=delta)
        return {"kept": error, "abstained": abstained}
    if not errors <= kept <= n - picks:
        raise UsageError(f"--kept lies between --errors and n - picks = {n - picks}. Got {kept}.")
    facts = PickedFacts(picks=picks, errors=errors, n=n, code_bits=bits, delta=delta)
    bound, share = picked_abstaining(facts, abstained=n - picks - kept)
    return {"kept": bound, "abstained": share}


def _print_faulty(record: dict[str, float | None], output: Format, fault: Fault | None) -> None:
    """The table, and the sentence where the fault was named."""
    from codebound.bounds.risk import percent

    meanings = {
        "cost": "expected cost on new data, by the kl form",
        "kept": "error on new data that the network does not abstain from; holds together with",
        "abstained": "how often it abstains from new data",
    }
    rows = [
        (name, "C-17", "-" if value is None else percent(value, 4), meanings[name])
        for name, value in record.items()
    ]
    emit(record, output, [tabulate(("form", "reference", "bound", "what it is"), rows)])
    first = next(iter(record.values()))
    if output is Format.table and fault is not None and first is not None:
        note(f"The network {fault.says(percent(first))}.")

"""Verbs that only compute: ``codebound bound``, behind every certificate, and ``holdout plan``, before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note
from codebound.cli.options import option
from codebound.report.templates import tabulate

if TYPE_CHECKING:
    from codebound.holdout.advice import Advice


def bound(
    n: Annotated[int, option("Sample size.", None, "--n")],
    errors: Annotated[int, option("Errors of the network on the sample; ties count as errors.")],
    bits: Annotated[
        float | None,
        option("Bits that describe the classifier; with --picks its rule, with --looks the answers so far."),
    ] = None,
    picks: Annotated[
        int | None,
        option("Examples that a fixed rule picked to learn from; --errors are of the others."),
    ] = None,
    loss: Annotated[
        str | None, option("The loss that --errors counts on --n examples, for the sentence.")
    ] = None,
    delta: opt.Delta = 0.05,
    classes: Annotated[int | None, option("Number of classes; 1 - 1/classes or more is vacuous.")] = None,
    is_holdout: Annotated[
        bool, option("The examples were used for nothing else: no bits.", None, "--holdout")
    ] = False,
    looks: Annotated[int | None, option("With --holdout: networks tried so far, with this one.")] = None,
    is_fixed_before: Annotated[
        bool,
        option(
            "With --looks: all were fixed before the first look, which is cheaper.", None, "--fixed-before"
        ),
    ] = False,
    output: opt.Output = Format.table,
) -> None:
    """Bound the error on new data from counts: errors, examples, and bits or looks.

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


def plan(
    n: Annotated[int, option("Labels there are, or will be.", None, "--n")],
    errors_guess: Annotated[float, option("Guessed error on new data of a network trained on all of them.")],
    delta: opt.Delta = 0.05,
    target: Annotated[float | None, option("Certified error wanted: how many labels does it need?")] = None,
    looks: Annotated[
        int, option("Networks tried on the held-out examples, fixed before the first look.")
    ] = 1,
    bits: Annotated[float | None, option("Length of a message in bits, where one is in sight.")] = None,
    picks: Annotated[int | None, option("Examples that a rule would pick, where that is known.")] = None,
    output: opt.Output = Format.table,
) -> None:
    """Compare a hold-out set, a split, a message and picks; says when holding out is better.

    Example: codebound holdout plan --n 2000 --errors-guess 0.05 --delta 1e-6 --bits 60 --target 0.08
    """
    from dataclasses import asdict

    from codebound.bounds.risk import percent
    from codebound.holdout.advice import Situation
    from codebound.holdout.advice import plan as compare

    situation = Situation(n=n, error=errors_guess, delta=delta, looks=looks, bits=bits, picks=picks)
    found = compare(situation, target=target)
    needed = {
        name: "more than a hundred million" if count is None else f"about {count:,}"
        for name, count in found.needed.items()
    }
    rows = [
        (
            way.name,
            percent(way.expected),
            f"{percent(way.low)} to {percent(way.high)}",
            f"{n - way.held_out} to learn from, {way.held_out} held out"
            if way.held_out
            else "all learned from",
            "-" if target is None else needed[way.name],
        )
        for way in found.ways
    ]
    drawn = "in 8 draws of 10, if the guess is right"
    columns = ("way", "certified error", drawn, "labels", "labels for the target")
    record = {**asdict(found), "paragraph": _paragraph(found, n)}
    emit(record, output, [tabulate(columns, rows)])
    if output is Format.table:
        note(record["paragraph"])


def _paragraph(found: Advice, n: int) -> str:
    """Advice on the best use of the labels, with break-even points."""
    from codebound.bounds.risk import count_of

    best, held_out = found.ways[0], next(way for way in found.ways if way.name == "hold-out")
    advice = {
        "hold-out": f"Hold out {held_out.held_out} of the {n} labels, before anything is tried",
        "split": f"Set {best.held_out} of the {n} labels apart by `certify`, which counts on them",
        "message": "Learn from all labels and certify the message",
        "picks": "Learn from picks, with all labels as the test set",
    }[best.name]
    bits, picks = "no message does", "no picks do"
    if found.most_bits is not None:
        bits = f"a message of at most {count_of(found.most_bits, 'bit')} does"
    if found.most_picks is not None:
        picks = f"so do at most {count_of(found.most_picks, 'pick')}"
    return (
        f"{advice}. At this error and delta, {bits} as well as the best hold-out set, and {picks}; longer "
        "ones lose to it. All of this rests on the guessed error and proves nothing."
    )

"""``codebound advise``: how to spend labels, before they are spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note
from codebound.cli.options import option
from codebound.report.tables import tabulate
from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from codebound.holdout.advice import Advice, Situation

_SIZES = 13  # points of a curve in the picture, over a factor of 100


def command(
    n: Annotated[int, option("Labels there are, or will be.", None, "--n")],
    errors_guess: Annotated[
        float, option("Error on new data that a network trained on all of them would have: a guess.")
    ],
    delta: opt.Delta = 0.05,
    target: Annotated[
        float | None, option("The certified error that is wanted: how many labels does it need?")
    ] = None,
    slope: Annotated[
        float, option("The error falls with the labels learned from as m**-slope; 0 for not at all.")
    ] = 0.25,
    looks: Annotated[
        int, option("Networks that will be tried on the held-out examples, all fixed before the first.")
    ] = 1,
    bits: Annotated[float | None, option("Length of a message in bits, where one is in sight.")] = None,
    picks: Annotated[int | None, option("Examples that a rule would pick, where that is known.")] = None,
    train_error: Annotated[
        float | None, option("Error on what was learned from (default: as on new data).")
    ] = None,
    picture: Annotated[Path | None, option("Draw certified error against labels (.svg, .png, .pdf).")] = None,
    output: opt.Output = Format.table,
) -> None:
    """Compare a hold-out set, a split, a message and picks; says when holding out is better.

    Example: codebound advise --n 2000 --errors-guess 0.05 --delta 1e-6 --bits 60 --target 0.08
    """
    from dataclasses import asdict

    from codebound.bounds.risk import percent
    from codebound.holdout.advice import Situation, advise

    situation = Situation(
        n=n,
        error=errors_guess,
        delta=delta,
        slope=slope,
        looks=looks,
        bits=bits,
        picks=picks,
        train_error=train_error,
    )
    if picture is not None and picture.exists():
        raise UsageError(f"{picture} exists already. Choose another file.")
    found = advise(situation, target=target)
    rows = [
        (
            way.name,
            percent(way.expected),
            f"{percent(way.low)} to {percent(way.high)}",
            f"{situation.n - way.held_out} to learn from, {way.held_out} held out"
            if way.held_out
            else "all learned from",
            _needed(found, way.name) if target is not None else "-",
        )
        for way in found.ways
    ]
    columns = (
        "way",
        "certified error",
        "in 8 draws of 10, if the guess is right",
        "labels",
        "labels for the target",
    )
    record = {**asdict(found), "paragraph": _paragraph(found, situation)}
    emit(record, output, [tabulate(columns, rows)])
    if output is Format.table:
        note(record["paragraph"])
    if picture is not None:
        _draw(situation, picture)


def _needed(found: Advice, name: str) -> str:
    count = found.needed[name]
    return "more than a hundred million" if count is None else f"about {count:,}"


def _paragraph(found: Advice, situation: Situation) -> str:
    """Advice on the best use of the labels, with break-even points."""
    from codebound.bounds.risk import count_of

    best, held_out = found.ways[0], next(way for way in found.ways if way.name == "hold-out")
    advice = {
        "hold-out": f"Hold out {held_out.held_out} of the {situation.n} labels, before anything is tried",
        "split": f"Set {best.held_out} of the {situation.n} labels apart by `certify`, which counts on them",
        "message": "Learn from all labels and certify the message",
        "picks": "Learn from picks, with all labels as the test set",
    }[best.name]
    bits = (
        "no message does"
        if found.most_bits is None
        else f"a message of at most {count_of(found.most_bits, 'bit')} does"
    )
    picks = (
        "no picks do" if found.most_picks is None else f"so do at most {count_of(found.most_picks, 'pick')}"
    )
    return (
        f"{advice}. At this error and delta, {bits} as well as the best hold-out set, and {picks}; longer "
        "ones lose to it. All of this rests on the guessed error and proves nothing."
    )


def _draw(situation: Situation, picture: Path) -> None:
    """Certified error against the number of labels, from a tenth of them to ten times as many."""
    import matplotlib.pyplot as plt

    from codebound.holdout.advice import advise
    from codebound.run.files import replacing

    sizes = sorted({max(2, round(situation.n * 10 ** (i / 6 - 1))) for i in range(_SIZES)})
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for size in sizes:
        for way in advise(situation.with_labels(size)).ways:
            curves.setdefault(way.name, []).append((way.low, way.expected, way.high))
    figure, axes = plt.subplots(figsize=(6, 4))
    for name, values in curves.items():
        low, expected, high = zip(*values, strict=True)
        (line,) = axes.plot(sizes, expected, label=name)
        axes.fill_between(sizes, low, high, alpha=0.2, color=line.get_color())
    axes.plot(sizes, [situation.error_after(size) for size in sizes], "k:", label="expected error")
    axes.set(xscale="log", yscale="log", xlabel="labels", ylabel="certified error")
    axes.legend()
    with replacing(picture) as file:
        figure.savefig(file, format=picture.suffix.removeprefix(".") or "png", bbox_inches="tight")
    plt.close(figure)

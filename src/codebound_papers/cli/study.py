"""``codebound study``: each of the three papers as a system, on a network of yours or on a small one."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, listener
from codebound.cli.options import option
from codebound.run.errors import UsageError
from codebound_papers.cli import options as own

_GUHA = "guha23: pruning and sketching"
_MODEL = """Zoo name such as mlp:depth=5,width=784, or package.module:factory (default: five layers of 128,
without biases)."""
_WEIGHTS = """Its trained weights, or the folder of train --keep-epochs, which adds the figure over epochs.
Without them the network is trained here."""
_DATA = "The sample: name, .npz file, table.csv:LABELS, image folder, or package.module:factory."
_HOLDOUT = """Keep this fraction of --data for tests (default, where the network is trained here and no test
split is known: 0.2)."""
_PRUNE = "Prune by algorithm1, by magnitude, or in rounds with rewinding (iterative)."
_D = "Strength of pruning; larger prunes more (default: the strongest of a grid that costs 1 % accuracy)."
_RHO = "Step of rounding, in place of --levels."
_SLACK = "of the theorem, for every layer (default: four times the number of layers)."
_WIDTHS = "Widths of other networks like this one, joined by commas: the bound against width."


class Paper(str, Enum):
    """The papers."""

    guha23 = "guha23"


def command(
    paper: Annotated[Paper, typer.Argument(help="guha23 (pruning, sketching).")],
    model: Annotated[str | None, option(_MODEL)] = None,
    weights: Annotated[Path | None, option(_WEIGHTS, None, "--network", "--weights")] = None,
    data: Annotated[str, option(_DATA)] = "digits",
    data_folder: opt.DataFolder = None,
    test: opt.Test = None,
    holdout: Annotated[float | None, option(_HOLDOUT)] = None,
    epochs: Annotated[
        int, typer.Option(min=1, help="Passes over the sample where a network is trained.")
    ] = 20,
    margin_share: Annotated[float, option(own.MARGIN_SHARE)] = 0.05,
    prune: Annotated[str, option(_PRUNE, _GUHA)] = "algorithm1",
    d: Annotated[float | None, option(_D, _GUHA, "--d")] = None,
    levels: Annotated[int, option("Values a weight can take, odd.", _GUHA)] = 15,
    rho: Annotated[float | None, option(_RHO, _GUHA)] = None,
    eps: Annotated[float | None, option(f"eps {_SLACK}", _GUHA)] = None,
    lambda_: Annotated[float | None, option(f"lambda {_SLACK}", _GUHA, "--lambda")] = None,
    constant: Annotated[float, option("C of lemma 4.2, which the paper leaves open.", _GUHA)] = 1.0,
    widths: Annotated[str | None, option(_WIDTHS, _GUHA)] = None,
    delta: opt.Delta = 0.05,
    seed: own.NaturalSeed = 0,
    out: opt.NewFolder = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Study a paper on a network: its claim, what it says about this network, and what is true.

    Example: codebound study guha23 --data digits
    """
    options = dict(locals())
    from codebound.run.store import new_folder
    from codebound_papers.study import subjects

    if weights is not None and model is None:
        raise UsageError("weights belong to an architecture: give it too (model).")
    names = ("weights", "holdout", "data_folder", "epochs", "margin_share", "delta", "seed")
    given = {name: options[name] for name in names}
    hear = listener(quiet=quiet)
    with new_folder(out, "study") as folder:
        with hear.bar(f"study {paper.value}") as progress:
            about = subjects.subject(model or subjects.DEFAULT, data, test, **given, progress=progress)
            from codebound_papers.study.guha import guha23

            found = guha23(
                about, prune=prune, d=d, levels=levels, rho=rho, eps=eps, lambda_=lambda_,
                constant=constant, widths=_numbers(widths), progress=progress,
            )  # fmt: skip
        found = found.at(folder)
        found.save_to(folder)
    emit(found.record(), output, found.screen())
    hear.note(f"Page with figures: {folder / 'study.html'}")


def _numbers(text: str | None) -> tuple[int, ...]:
    """Whole numbers, joined by commas."""
    parts = [] if text is None else text.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"widths are whole numbers of at least 1, joined by commas. Got {text!r}.")
    return tuple(map(int, parts))

"""``codebound study``: each of the three papers as a system, on a network of yours or on a small one."""

from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, listener
from codebound.cli.options import option
from codebound.run.errors import UsageError, did_you_mean
from codebound_papers.cli import options as own
from codebound_papers.study.settings import check_options

_GUHA, _ARORA = "guha23: pruning and sketching", "arora18: noise stability"
_SHIN = "shin21: heavy tails"
_PAPERS = "guha23 (pruning, sketching), arora18 (noise stability) or shin21 (heavy tails)."
_MODEL = """Zoo name such as mlp:depth=5,width=784, or package.module:factory (default: five layers of 128,
without biases)."""
_WEIGHTS = """Its trained weights, or the folder of train --keep-epochs, which adds the figure over epochs.
Without them the network is trained here."""
_HOLDOUT = """Keep this fraction of --data for tests (default, where the network is trained here and no test
split is known: 0.2)."""
_PRUNE = """Prune under caps on rows and columns (balanced, the default), by algorithm1, by magnitude, or in
rounds with rewinding (iterative)."""
_D = "Strength of pruning; larger prunes more (default: the strongest of a grid that costs 1 % accuracy)."
_SLACK = "of the theorem, for every layer (default: four times the number of layers)."
_EPOCHS = "Passes over the sample where a network is trained."
_SHARE = "Numbers of algorithm 1 for each weight of a layer."
_SHUFFLE = "Train a control on labels of which this share is redrawn, such as 1."
_EXAMPLES = "Examples for cushions and Jacobians, also of shin21."
_WIDTHS = "Widths of other networks like this one, joined by commas: the bound against width."


def command(
    paper: Annotated[str, typer.Argument(help=_PAPERS)],
    model: Annotated[str | None, option(_MODEL)] = None,
    weights: Annotated[Path | None, option(_WEIGHTS, None, "--network", exists=True)] = None,
    data: opt.Data = "digits",
    data_folder: opt.DataFolder = None,
    test: opt.Test = None,
    holdout: Annotated[float | None, option(_HOLDOUT)] = None,
    epochs: Annotated[int, option(_EPOCHS)] = 20,
    margin_share: Annotated[float, option(own.MARGIN_SHARE)] = 0.05,
    prune: Annotated[str, option(_PRUNE, _GUHA)] = "balanced",
    d: Annotated[float | None, option(_D, _GUHA, "--d")] = None,
    levels: Annotated[int, option("Values a weight can take, odd.", _GUHA)] = 15,
    rho: Annotated[float | None, option("Step of rounding, in place of --levels.", _GUHA)] = None,
    eps: Annotated[float | None, option(f"eps {_SLACK}", _GUHA)] = None,
    lambda_: Annotated[float | None, option(f"lambda {_SLACK}", _GUHA, "--lambda")] = None,
    widths: Annotated[str | None, option(_WIDTHS, _GUHA)] = None,
    share: Annotated[float, option(_SHARE, _ARORA)] = 0.25,
    shuffle_labels: Annotated[float | None, option(_SHUFFLE, _ARORA)] = None,
    examples: Annotated[int, option(_EXAMPLES, _ARORA)] = 1000,
    trials: Annotated[int, option("Times that the small weights are redrawn.", _SHIN)] = 10,
    resamples: Annotated[int, option("Samples behind a verdict on a power law.", _SHIN)] = 50,
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
    if weights is not None and model is None:
        raise UsageError("weights belong to an architecture: give it too (model).")
    if paper not in _OF_THE_PAPER:
        raise UsageError(
            f"the papers are {', '.join(_OF_THE_PAPER)}. Got {paper!r}.{did_you_mean(paper, _OF_THE_PAPER)}"
        )
    own_options = _OF_THE_PAPER[paper]
    for name, default in ((each.name, each.default) for each in signature(command).parameters.values()):
        is_foreign = name not in own_options and any(name in others for others in _OF_THE_PAPER.values())
        if is_foreign and options[name] != default:
            raise UsageError(f"{paper} takes no {name.strip('_').replace('_', '-')}: see --help.")
    given = {name: options[name] for name in _OF_THE_SUBJECT}
    chosen = {name: options[name] for name in own_options}
    if "widths" in chosen:
        chosen["widths"] = _numbers(widths)
    check_options(**given, **{name: options[name] for name in own_options})
    from codebound.run.extensions import resolve
    from codebound.run.files import new_folder
    from codebound_papers.study.subjects import DEFAULT, subject

    hear = listener(quiet=quiet)
    with new_folder(out, "study") as folder, hear.bar(f"study {paper}") as progress:
        about = subject(model or DEFAULT, data, test, **given, progress=progress)
        found = resolve(f"codebound_papers.study:{paper}")(about, **chosen, progress=progress)
        found = replace(found, place=str(folder))
        found.save_to(folder)
    emit(found.record(), output, found.screen())
    hear.note(f"Page with figures: {folder / 'study.html'}")


_OF_THE_SUBJECT = ("weights", "holdout", "data_folder", "epochs", "margin_share", "delta", "seed")
_OF_THE_PAPER = {
    "guha23": ("prune", "d", "levels", "rho", "eps", "lambda_", "widths"),
    "arora18": ("share", "shuffle_labels", "examples"),
    "shin21": ("trials", "resamples", "examples"),
}
"""Options of a study, by paper."""


def _numbers(text: str | None) -> tuple[int, ...]:
    """Whole numbers, joined by commas."""
    parts = [] if text is None else text.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"widths are whole numbers of at least 1, joined by commas. Got {text!r}.")
    return tuple(map(int, parts))

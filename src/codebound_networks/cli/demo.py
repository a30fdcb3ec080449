"""``codebound demo``: three guarantees on the same data side by side, in about a minute."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from codebound.cli import options as opt
from codebound.cli.certify import print_result
from codebound.cli.console import Format, note, print_table
from codebound.cli.options import option
from codebound.report.templates import tabulate
from codebound.run.errors import UsageError
from codebound.run.extensions import find_extensions, resolve
from codebound.run.progress import progress_bar

if TYPE_CHECKING:
    from typing import Any

    from codebound.report.folder import Result

_MODELS = {"digits": "linear:bias=false", "mnist": "mlp:widths=64x32", "fashion-mnist": "mlp:widths=64x32"}


def command(
    data: Annotated[str, option("digits (embedded), mnist or fashion-mnist.")] = "digits",
    out: opt.NewFolder = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Learn from picks, compress a trained network, hold out: three guarantees, with reports."""
    if data not in _MODELS:
        raise UsageError(
            f"the demo knows {', '.join(_MODELS)}. Got {data!r}; for other data use `codebound certify`."
        )
    from codebound.bounds.risk import percent
    from codebound.certification import certify
    from codebound.cli.actions import load_samples
    from codebound.request import Run
    from codebound.run.files import new_folder
    from codebound.sample.formats.download import fetch
    from codebound_networks.about_f.models import load_network
    from codebound_networks.train.config import TrainConfig
    from codebound_networks.train.harness import fit

    given: dict[str, object] = {"data": data, "data_folder": None, "test": None, "holdout": 0.2}
    if data != "digits":
        with progress_bar(f"fetch {data}", quiet=quiet) as progress:
            fetch(data, progress=progress)
        given |= {"test": data, "holdout": None}
    sample, test_set = load_samples(given)
    model = _MODELS[data]
    network = load_network(model, sample)
    if not quiet:
        held_out = test_set.n if test_set else 0
        note(f"Training {model} on {sample.n} examples of {data}; {held_out} are held out.")
    with new_folder(out) as folder:
        with progress_bar("train", quiet=quiet) as progress:
            config = TrainConfig(epochs=100 if data == "digits" else 3, learning_rate=0.003)
            trained = fit(network, sample, config, progress=progress)
        found = {}
        for method, network_of in (("picks", None), ("prune", trained.model)):
            with progress_bar(f"certify, {method}", quiet=quiet) as progress:
                found[method] = certify(
                    sample, network=network_of, method=method, test=test_set, run=Run(progress=progress)
                )
    settings = {"data": data, "effort": "standard", "seed": 0}
    where = "" if data == "digits" else data
    saved = found["picks"].save_to(
        folder, settings=settings | {"model": "none", "method": "picks"}, data=where
    )
    settings |= {"model": model, "method": "prune"}
    message = found["prune"].save_to(folder / "message", settings=settings, data=where)
    pages = []
    for name, step in find_extensions()["DEMO"].items():
        with progress_bar(name, quiet=quiet) as progress:
            pages.append(resolve(step)(trained.model, (sample, test_set), message.folder, settings, progress))
    guarantees = _guarantees(**found)
    print_result(replace(saved, result=saved.result | {"guarantees": guarantees}), output, quiet=quiet)
    if output is Format.table:
        rows = [(each["by"], percent(each["bound"]), each["words"]) for each in guarantees]
        print_table(tabulate(("guarantee", "error", "what it is"), rows))
    if not quiet:
        for page in pages:
            note(page)


def _guarantees(picks: Result, prune: Result) -> list[dict[str, Any]]:
    """The three ways to a guarantee on these data, with a sentence each."""
    from codebound.bounds.risk import HoldoutFacts

    assert picks.holdout is not None  # the demo has a test sample
    assert isinstance(picks.holdout.facts, HoldoutFacts)
    learned, message, limit = picks.certificate, prune.certificate, picks.certificate.limit
    return [
        {
            "by": "picks",
            "bound": learned.claim.bound,
            "words": f"Learned from {learned.known.rows} first examples and {limit.picks} picks; counted on "
            f"the {limit.n} after the first ones, each pick as an error.",
        },
        {
            "by": "message",
            "bound": message.claim.bound,
            "words": f"The network, compressed to {message.message.bits} bits: the message is the proof.",
        },
        {
            "by": "hold-out",
            "bound": picks.holdout.value,
            "words": f"Of the network of picks, on {picks.holdout.facts.n} labels that the rows above do not "
            "have; they may be used once.",
        },
    ]

"""``codebound demo``: three guarantees on the same data side by side, in under a minute."""

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
    """Certify a classifier that is learned here, compress a trained network, hold out: with reports."""
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

    is_small = data == "digits"
    given = {"data": data, "data_folder": None, "test": None, "holdout": 0.2}
    if not is_small:
        with progress_bar(f"fetch {data}", quiet=quiet) as progress:
            fetch(data, progress=progress)
        given |= {"test": data, "holdout": None}
    sample, test_set = load_samples(given)
    with new_folder(out) as folder:
        with progress_bar("certify", quiet=quiet) as progress:
            learned = certify(sample, method="split", test=test_set, run=Run(progress=progress))
        with progress_bar("train a network", quiet=quiet) as progress:
            config = TrainConfig(epochs=100 if is_small else 3, learning_rate=0.003)
            network = fit(load_network(_MODELS[data], sample), sample, config, progress=progress).model
        with progress_bar("compress it", quiet=quiet) as progress:
            run = Run(progress=progress)
            message = certify(sample, network=network, method="prune", test=test_set, run=run)
    settings, where = {"data": data, "effort": "standard", "seed": 0}, "" if is_small else data
    saved = learned.save_to(folder, settings=settings | {"model": "none", "method": "split"}, data=where)
    settings |= {"model": _MODELS[data], "method": "prune"}
    inner = message.save_to(folder / "message", settings=settings, data=where)
    lines = [saved.sentence, f"Check it: codebound verify {folder}"]
    for name, step in find_extensions()["DEMO"].items():
        with progress_bar(name, quiet=quiet) as progress:
            lines.append(resolve(step)(network, (sample, test_set), inner.folder, settings, progress))
    guarantees = _guarantees(learned, message)
    print_result(replace(saved, result=saved.result | {"guarantees": guarantees}), output, quiet=True)
    if output is Format.table:
        rows = [(each["by"], percent(each["bound"]), each["words"]) for each in guarantees]
        print_table(tabulate(("guarantee", "at most", "what it is"), rows))
    if not quiet:
        note("\n".join([*lines, f"Report: {folder / 'report.html'}"]))


def _guarantees(learned: Result, message: Result) -> list[dict[str, Any]]:
    """The three ways to a guarantee on these data, with a sentence each."""
    from codebound.bounds.risk import HoldoutFacts

    assert learned.holdout is not None  # the demo has a test sample
    assert isinstance(learned.holdout.facts, HoldoutFacts)
    certificate, bits = learned.certificate, message.certificate.message.bits
    known, counted, held = certificate.known.rows, certificate.limit.n, learned.holdout.facts.n
    words = {
        learned.method: f"Learned from {known:,} examples, counted on {counted:,}.",
        "message": f"A trained network, compressed to {bits:,} bits: the message is the proof.",
        "hold-out": f"The first classifier, on {held:,} labels that the rows above do not have.",
    }
    bounds = (learned.bound, message.bound, learned.holdout.value)
    return [
        {"by": by, "bound": bound, "words": said}
        for (by, said), bound in zip(words.items(), bounds, strict=True)
    ]

"""``codebound demo``: the whole way, from data to a verified certificate, in about a minute."""

from __future__ import annotations

from typing import Annotated

from codebound.cli import options as opt
from codebound.cli.certify import print_result
from codebound.cli.console import Format, note, progress_bar
from codebound.cli.options import option
from codebound.errors import UsageError
from codebound.extensions import find_extensions, loaded

_MODELS = {"digits": "linear:bias=false", "mnist": "mlp:widths=64x32", "fashion-mnist": "mlp:widths=64x32"}


def command(
    data: Annotated[str, option("digits (embedded), mnist or fashion-mnist.")] = "digits",
    out: opt.NewFolder = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Train a small network, compress it, certify it, verify the certificate, compare all bounds, report."""
    if data not in _MODELS:
        raise UsageError(
            f"the demo knows {', '.join(_MODELS)}. Got {data!r}; for other data use `codebound certify`."
        )
    from codebound.certification import certify
    from codebound.commands import load_network, load_samples, new_folder
    from codebound.data.download import fetch
    from codebound.train.config import TrainConfig
    from codebound.train.harness import fit

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
        with progress_bar("certify", quiet=quiet) as progress:
            found = certify(trained.model, sample, test_set=test_set, progress=progress)
    settings = {"model": model, "data": data, "effort": "standard", "method": "auto", "seed": 0}
    saved = found.save_to(folder, settings=settings, data="" if data == "digits" else data)
    pages = []
    for name, step in find_extensions()["DEMO"].items():
        with progress_bar(name, quiet=quiet) as progress:
            pages.append(loaded(step)(trained.model, (sample, test_set), folder, settings, progress))
    print_result(saved, output, quiet=quiet)
    if not quiet:
        for page in pages:
            note(page)

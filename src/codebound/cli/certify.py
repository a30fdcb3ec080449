"""``codebound certify``: a guarantee on the error of a network, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codebound.cli.console import Format, print_table, progress_bar
from codebound.cli.loading import given_base, load_samples, new_folder
from codebound.cli.options import BASE_HELP, BASE_SAYS_HELP, PARALLEL, Address, Workers, given_engine
from codebound.cli.results import print_result
from codebound.errors import UsageError
from codebound.search.methods import known_methods

_F = "Certificates for the original network, or with a learned helper"
_BASE = "Certificates of a fine-tuned network"
_METHODS = f"auto for the best of all, or {', '.join(known_methods())}; see --list."


def _show_methods(value: bool) -> None:
    if value:
        print_table(
            [{"method": name, "what it does": each.sentence} for name, each in known_methods().items()]
        )
        raise typer.Exit


def certify(
    model: Annotated[
        str, typer.Option(help="Zoo name such as mlp:depth=5,width=784, or package.module:factory.")
    ],
    data: Annotated[
        str, typer.Option(help="The sample: name, .npz file, image folder, or package.module:factory.")
    ],
    weights: Annotated[
        Path | None, typer.Option(help="Trained weights: safetensors, or a checkpoint (default: untrained).")
    ] = None,
    data_folder: Annotated[Path | None, typer.Option(help="Folder that holds the named dataset.")] = None,
    test: Annotated[
        str | None, typer.Option(help="Test sample, never used for any choice: adds the hold-out bound.")
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(help="Keep this fraction of --data away from the sample and use it like --test."),
    ] = None,
    method: Annotated[str, typer.Option(help=_METHODS)] = "auto",
    effort: Annotated[
        str, typer.Option(help="quick (no training), standard (minutes) or max (longer, tighter).")
    ] = "standard",
    delta: Annotated[float, typer.Option(help="Failure probability over the draw of the sample.")] = 0.05,
    unlabelled: Annotated[
        str | None,
        typer.Option(
            help="Fresh inputs, written like --data: certifies f itself (C-12b).", rich_help_panel=_F
        ),
    ] = None,
    input_range: Annotated[
        tuple[float, float] | None,
        typer.Option(
            help="Smallest and largest stored input value that can occur: certifies f itself (C-12a).",
            rich_help_panel=_F,
        ),
    ] = None,
    prior_fraction: Annotated[
        float | None,
        typer.Option(
            help="0.1, 0.2, ... 0.9: train a base on that part of the sample, count on the rest (C-10).",
            rich_help_panel=_F,
        ),
    ] = None,
    base: Annotated[Path | None, typer.Option(help=BASE_HELP, rich_help_panel=_BASE)] = None,
    base_says: Annotated[str | None, typer.Option(help=BASE_SAYS_HELP, rich_help_panel=_BASE)] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search; costs nothing.")] = 0,
    device: Annotated[
        str, typer.Option(help="Where networks are trained: cpu or cuda; errors are counted on the CPU.")
    ] = "cpu",
    engine: Annotated[
        str | None,
        typer.Option(
            help="Count errors in parallel: local (processes of this machine) or ray. The count is the same.",
            rich_help_panel=PARALLEL,
        ),
    ] = None,
    workers: Workers = None,
    address: Address = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; must be new (default: runs/certify-NUMBER).")
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="How to print the result.")] = Format.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing but the result.")] = False,
    list_methods: Annotated[
        bool, typer.Option("--list", callback=_show_methods, is_eager=True, help="Print the methods.")
    ] = False,
) -> None:
    """Compress a network into a short message; its length bounds the error on new data.

    Example: codebound certify --model linear --weights runs/w/model.safetensors --data digits --holdout 0.2
    """
    from codebound.certification import certify as run
    from codebound.data.load import load_dataset
    from codebound.nets.loading import load_model
    from codebound.nets.zoo import ZOO

    counting = given_engine(engine, workers, address)
    sample, test_set = load_samples(data, data_folder, test=test, holdout=holdout)
    network = load_model(model, input_shape=sample.input_shape, classes=sample.classes, weights=weights)
    pretrained = given_base(base, base_says, network, sample)
    if pretrained is not None and weights is None:
        network = pretrained.network
    is_zoo = model.partition(":")[0] in ZOO
    fresh = None if unlabelled is None else load_dataset(unlabelled, role="unlabelled", folder=data_folder)
    with (
        counting as counters,
        new_folder(out) as folder,
        progress_bar("certify", quiet=quiet) as progress,
    ):
        found = run(
            network,
            sample,
            method=method,
            effort=effort,  # type: ignore[arg-type]  # checked by certify
            delta=delta,
            test_set=test_set,
            unlabelled=fresh,
            input_range=input_range,
            prior_tenths=None if prior_fraction is None else _tenths(prior_fraction),
            base=pretrained,
            factory="" if is_zoo else model,
            seed=seed,
            device=device,
            engine=counters,
            progress=progress,
        )
    saved = found.save_to(
        folder,
        settings={
            "model": model,
            "weights": None if weights is None else str(weights),
            "data": data,
            "test": test,
            "holdout": holdout,
            "method": method,
            "effort": effort,
            "delta": delta,
            "unlabelled": unlabelled,
            "input_range": input_range,
            "prior_fraction": prior_fraction,
            "base": None if base is None else str(base),
            "base_says": base_says,
            "seed": seed,
            "device": device,
        },
        data="" if holdout is not None else data,
        data_folder=data_folder,
    )
    print_result(saved, output, quiet=quiet)


def _tenths(fraction: float) -> int:
    tenths = round(10 * fraction)
    if abs(tenths - 10 * fraction) > 1e-9 or not 1 <= tenths <= 9:
        raise UsageError(
            f"--prior-fraction is 0.1, 0.2, ... or 0.9: that grid is in the code. Got {fraction}."
        )
    return tenths

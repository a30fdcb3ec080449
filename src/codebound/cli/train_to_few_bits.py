"""``codebound train --for-certificate``: the trained network is the one that its certificate is about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from codebound.cli.console import Format, note, print_csv, print_json, print_table, progress_bar
from codebound.cli.loading import given_base, new_folder
from codebound.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from codebound.data.dataset import Dataset


def train_to_few_bits(
    arch: str | None,
    data: str,
    *,
    samples: tuple[Dataset, Dataset | None],
    is_part: bool,
    data_folder: Path | None,
    base: Path | None,
    base_says: str | None,
    effort: str,
    delta: float,
    seed: int,
    device: str,
    out: Path | None,
    output: Format,
    quiet: bool,
) -> None:
    """Trains, certifies, and writes what ``train`` writes, with the certificate beside it.

    With an architecture its weights are a few integers in a random subspace, around the base if there is one.
    Without, the network is a small one for the shape of the inputs.
    """
    from codebound.certification import certify
    from codebound.device import resolve_device
    from codebound.files import write_json
    from codebound.nets.loading import load_model
    from codebound.nets.zoo import ZOO
    from codebound.train import runs

    sample, test_set = samples
    if base is not None and arch is None:
        raise UsageError("--base needs the architecture of the base: give it as the argument ARCH.")
    place = resolve_device(device)
    model = arch or _stand_in(sample)
    network = load_model(model, input_shape=sample.input_shape, classes=sample.classes)
    pretrained = given_base(base, base_says, network, sample)
    method = _method(sample, device=place.type, has_architecture=arch is not None, has_base=base is not None)
    with new_folder(out, "train") as folder:
        if not quiet:
            note(f"Training to few bits by {method} on {sample.n} examples of {data}, {place}.")
        with progress_bar("training", quiet=quiet) as progress:
            found = certify(
                network,
                sample,
                method=method,
                effort=effort,  # type: ignore[arg-type]  # checked by certify
                delta=delta,
                test_set=test_set,
                base=pretrained,
                factory="" if model.partition(":")[0] in ZOO else model,
                seed=seed,
                device=str(place),
                progress=progress,
            )
    saved = replace(found, original_errors=None).save_to(
        folder,
        settings={
            "for_certificate": True,
            "model": arch or f"the network of the method {method}",
            "data": data,
            "method": method,
            "effort": effort,
            "delta": delta,
            "base": None if base is None else str(base),
            "base_says": base_says,
            "seed": seed,
            "device": str(place),
        },
        data="" if is_part else data,
        data_folder=data_folder,
        weights=runs.WEIGHTS,
    )
    test_n = None if test_set is None else test_set.n
    record = {
        "model": arch,
        "data": data,
        **saved.result,
        "train_error": found.certificate.facts.errors / sample.n,
        "test_errors": found.test_errors,
        "test_n": test_n,
        "test_error": None if test_n is None else (found.test_errors or 0) / test_n,
        "seed": seed,
        "device": str(place),
        "weights": str(folder / runs.WEIGHTS),
        "out": str(folder),
        "sentence": saved.sentence,
    }
    write_json(folder / runs.RESULT, record)
    _show(record, output)


def _stand_in(sample: Dataset) -> str:
    """A network of the zoo that has the shapes of the data; for images the method trains another one."""
    return "linear" if len(sample.input_shape) == 3 else "mlp"


def _method(sample: Dataset, *, device: str, has_architecture: bool, has_base: bool) -> str:
    """The method that makes the most of a network of this kind on this device."""
    from codebound.chains.few_bits import DICTIONARY_SIDE

    if has_base:
        return "subspace"
    if has_architecture:
        return "subspace-f"
    shape = sample.input_shape
    has_filters = len(shape) == 3 and min(shape[1:]) >= DICTIONARY_SIDE
    return "features" if has_filters and device == "cpu" else "subspace"


def _show(record: dict[str, Any], output: Format) -> None:
    from codebound.bounds.risk import percent

    if output is Format.json:
        print_json(record)
        return
    if output is Format.csv:
        print_csv([{key: value for key, value in record.items() if not isinstance(value, dict)}])
        return
    rows = [
        {
            "sample": name,
            "examples": record[size],
            "errors": record[f"{name}_errors"],
            "error": f"{record[f'{name}_error']:.2%}",
        }
        for name, size in (("train", "n"), ("test", "test_n"))
        if record[size] is not None
    ]
    print_table(rows)
    typer.echo(
        f"{record['sentence']}\n"
        f"Certified error: {percent(record['bound'])}, {record['code_bits']} bits by {record['method']}.\n"
        + (f"DECLARED, not checked: {record['base_declared']}\n" if "base_declared" in record else "")
        + f"Weights: {record['weights']}\nCheck it: {record['verify']}"
    )

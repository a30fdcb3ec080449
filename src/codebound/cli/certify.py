"""``codebound certify``: a guarantee on the error of a network, as a file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli.console import Format, note, print_csv, print_json, print_table, progress_bar
from codebound.cli.options import PARALLEL, Address, Workers, given_engine
from codebound.errors import UsageError
from codebound.files import write_text
from codebound.search.methods import known_methods

if TYPE_CHECKING:
    from torch import nn

    from codebound.certificate.base import Pretrained
    from codebound.certification import Certification
    from codebound.data.dataset import Dataset

_F = "Certificates for the original network, or with a learned helper"
_BASE = "Certificates of a fine-tuned network"
BASE_HELP = (
    "Weights of the same architecture that were neither trained nor selected on the sample; the last layer "
    "may be missing or of another size. Only the difference to them is coded."
)
BASE_SAYS_HELP = "Where the base comes from, in words: part of the certificate."
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
    place = save_results(
        found,
        folder,
        sample=sample,
        data=data,
        is_part=holdout is not None,
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
        extra_arguments=verifier_arguments(found, folder, unlabelled=fresh, data_folder=data_folder),
    )
    print_result(place, output, quiet=quiet)


def load_samples(
    data: str, folder: Path | None, *, test: str | None, holdout: float | None
) -> tuple[Dataset, Dataset | None]:
    """The sample, and the test sample if one was asked for."""
    from codebound.data.load import load_dataset
    from codebound.data.splits import split

    if test is not None and holdout is not None:
        raise UsageError("give --test or --holdout, not both.")
    sample = load_dataset(data, folder=folder)
    if holdout is not None:
        if not 0.0 < holdout < 1.0:
            raise UsageError(f"--holdout is a fraction between 0 and 1. Got {holdout}.")
        parts = split(sample, {"train": 1.0 - holdout, "test": holdout})
        return parts["train"], parts["test"]
    return sample, None if test is None else load_dataset(test, role="test", folder=folder)


def _tenths(fraction: float) -> int:
    tenths = round(10 * fraction)
    if abs(tenths - 10 * fraction) > 1e-9 or not 1 <= tenths <= 9:
        raise UsageError(
            f"--prior-fraction is 0.1, 0.2, ... or 0.9: that grid is in the code. Got {fraction}."
        )
    return tenths


@contextmanager
def new_folder(out: Path | None, verb: str = "certify") -> Iterator[Path]:
    """A folder that did not exist before, and does not if what follows fails."""
    folder = _made(out, verb)
    try:
        yield folder
    except BaseException:
        folder.rmdir()
        raise


def _made(out: Path | None, verb: str) -> Path:
    numbered = (Path("runs") / f"{verb}-{number}" for number in range(1, 10_000))
    for folder in [out] if out is not None else numbered:
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"the folder {folder} cannot be made: {error.strerror}.") from error
        return folder
    raise UsageError(f"{out} exists already; results are never overwritten. Choose another --out.")


def given_base(base: Path | None, says: str | None, network: nn.Module, sample: Dataset) -> Pretrained | None:
    """The base that was asked for."""
    from codebound.certificate.base import load_base

    if base is None:
        if says is not None:
            raise UsageError("--base-says describes a --base, and none was given.")
        return None
    return load_base(base, network, sample=sample, says=says or "")


def verifier_arguments(
    found: Certification, folder: Path, *, unlabelled: Dataset | None = None, data_folder: Path | None
) -> list[str]:
    """What the verifier has to be given beside the sample."""
    import numpy as np

    arguments = [] if data_folder is None else ["--data-folder", str(data_folder)]
    if (architecture := found.certificate.helper.architecture) is not None:
        arguments += ["--model", architecture.name]
    if unlabelled is not None:
        np.savez_compressed(folder / "unlabelled.npz", x=unlabelled.x)
        arguments += ["--unlabelled", str(folder / "unlabelled.npz")]
    return arguments


def _is_known_to_verifier(data: str) -> bool:
    """Whether the verifier finds the sample by itself; image folders and factories it does not read."""
    from codebound_verify.data import NAMES

    return data in NAMES or data.endswith(".npz")


@dataclass(frozen=True)
class Saved:
    """What was written, and the result as printed."""

    folder: Path
    result: dict[str, Any]
    command: str
    sentence: str


def save_results(
    found: Certification,
    folder: Path,
    *,
    sample: Dataset,
    data: str,
    is_part: bool,
    settings: dict[str, Any],
    extra_arguments: list[str],
    weights: str = "g.safetensors",
) -> Saved:
    """Writes certificate, decoded network, settings, result and report into the folder."""
    import numpy as np
    from safetensors.numpy import save_file as save_arrays
    from safetensors.torch import save_file

    from codebound.certificate.base import BASE_FILE
    from codebound.report.html import certificate_page, number_rows

    certificate = found.certificate
    path = certificate.save(folder / "certificate.cbound")
    save_file({name: t.contiguous() for name, t in found.network.state_dict().items()}, folder / weights)
    arguments = [*extra_arguments]
    if found.base is not None:
        save_arrays(found.base, folder / BASE_FILE)
        arguments += ["--base", str(folder / BASE_FILE)]
    if found.original is not None:
        save_arrays(found.original, folder / "f.safetensors")
        arguments += ["--subject-weights", str(folder / "f.safetensors")]
    source = data
    if is_part or not _is_known_to_verifier(data):
        source = str(folder / "sample.npz")
        np.savez_compressed(source, x=sample.x, y=sample.y)
    command = shlex.join(["codebound-verify", str(path), "--data", source, *arguments])
    claim, facts = certificate.claim, certificate.facts
    result = {
        "bound": claim.bound,
        "train_errors": facts.errors,
        "n": facts.n,
        "code_bits": facts.code_bits,
        "delta": claim.delta,
        "vacuous": claim.vacuous,
        "verdict": "ACCEPT",
        "certificate": str(path),
        "statement": claim.statement,
        "subject": claim.subject,
        "method": found.method,
        "methods_skipped": found.skipped,
        "kl": claim.kl,
        "hoeffding": claim.hoeffding,
        "original_train_errors": found.original_errors,
        "messages_tried": found.tried,
        "interrupted": found.is_interrupted,
        "seconds": round(found.seconds, 3),
        "data_sha256": facts.sample_sha256,
        "verify": command,
    }
    if found.holdout is not None:
        result["holdout"] = found.holdout.value
        result["test_errors"] = found.test_errors
        result["test_copies_in_sample"] = found.copies
    if found.base is not None:
        result["base_declared"] = certificate.base_declared
        result["base_is_g"] = found.is_base
    numbers = number_rows(
        certificate,
        original_errors=found.original_errors,
        holdout=None if found.holdout is None else found.holdout.value,
    )
    page = certificate_page(
        certificate,
        title=f"Certificate for {settings['model']} on {data}",
        subtitle=f"{facts.n:,} examples, {facts.classes} classes; made by codebound "
        f"{certificate.made_by['codebound']} on {certificate.made_by['date']}",
        numbers=numbers,
        verdict="ACCEPT",
        command=command,
    )
    for name, text in (
        ("config.json", json.dumps(settings, indent=2) + "\n"),
        ("result.json", json.dumps(result, indent=2) + "\n"),
        ("report.html", page),
    ):
        write_text(folder / name, text)
    return Saved(folder, result, command, certificate.sentence)


def print_result(saved: Saved, output: Format, *, quiet: bool) -> None:
    """Prints the result; the sentence and the way to check it go to stderr."""
    from codebound.bounds.risk import percent

    result = saved.result
    if output is Format.json:
        print_json(result)
        return
    if output is Format.csv:
        print_csv([result])
        return
    rows = [
        {
            "what": "certified error",
            "value": percent(result["bound"]),
            "note": f"{result['statement']}, for {result['subject']}"
            + (", VACUOUS: guessing does as well" if result["vacuous"] else ""),
        },
        {
            "what": "training errors",
            "value": f"{result['train_errors']} of {result['n']}",
            "note": f"of the decoded network; {result['original_train_errors']} before compression",
        },
        {
            "what": "message",
            "value": f"{result['code_bits']} bits",
            "note": f"by {result['method']}: everything the decoder needs to be told",
        },
        {"what": "verifier", "value": result["verdict"], "note": "the independent program agrees"},
    ]
    if "base_declared" in result:
        rows.append(
            {
                "what": "DECLARED",
                "value": "g is the base" if result["base_is_g"] else "a base",
                "note": f"{result['base_declared']} No program can check that; without it the bound is void.",
            }
        )
    if "holdout" in result:
        rows.insert(
            1,
            {
                "what": "hold-out bound",
                "value": percent(result["holdout"]),
                "note": f"C-11, {result['test_errors']} errors on the held-out examples "
                f"({result['test_copies_in_sample']} of them copies), for comparison",
            },
        )
    print_table(rows)
    if not quiet:
        if result["interrupted"]:
            note("The search was interrupted; this is the best message found until then.")
        for method, reason in result["methods_skipped"].items():
            note(f"Skipped {method}: {reason}")
        note(saved.sentence)
        note(f"Check it: {saved.command}")
        note(f"Report: {saved.folder / 'report.html'}")

"""Verbs on a certificate: to verify, show and export it."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note, printable
from codebound.cli.options import option
from codebound.report.templates import Table
from codebound.run.errors import UsageError

verify = typer.Typer(add_completion=False)


@verify.command(
    add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def _verify(context: typer.Context) -> None:
    """Decide whether a certificate is true; the same as the program codebound-verify.

    Example: codebound verify runs/certify-1/certificate.cbound --data digits
    """
    from codebound_verify.__main__ import main

    raise typer.Exit(main(context.args or ["--help"], prog="codebound verify"))


class ExportFormat(str, Enum):
    """Formats of a network, and of records for other programs."""

    safetensors = "safetensors"
    onnx = "onnx"
    intoto = "intoto"
    cyclonedx = "cyclonedx"
    card = "card"


def export(
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder that `codebound certify` wrote, or a ledger of `holdout`.", exists=True
        ),
    ],
    to: Annotated[
        ExportFormat,
        option(
            "The network: safetensors, or onnx to run it elsewhere. What other programs read: intoto (a "
            "statement), cyclonedx (a bill of materials), card (a model card of Hugging Face)."
        ),
    ],
    out: Annotated[Path | None, option("The file; must be new (default: named by the format).")] = None,
    max_error: Annotated[
        float | None, option("For intoto: the error that had to be shown, to say if it was.")
    ] = None,
    base: opt.BaseBeside = None,
    weights: opt.WeightsBeside = None,
) -> None:
    """Write the network, or what other programs read of a certificate.

    Example: codebound export runs/certify-1 --to onnx
    """
    if to in (ExportFormat.onnx, ExportFormat.safetensors):
        _export_network(source, to, Path(f"g.{to.value}") if out is None else out, base, weights)
        return
    from codebound.report.exports import export as write

    note(f"Written to {write(source, to.value, out=out, max_error=max_error)}.")


def _export_network(
    source: Path, to: ExportFormat, out: Path, base: Path | None, weights: Path | None
) -> None:
    from safetensors.torch import save

    from codebound.classifier import load_classifier
    from codebound.run.files import write_atomically

    if out.exists():
        raise UsageError(f"{out} exists already. Choose another --out.")
    if not out.parent.is_dir():
        raise UsageError(f"the folder {out.parent} does not exist. Choose another --out.")
    g = load_classifier(source, base=base, weights=weights)
    if to is ExportFormat.onnx:
        g.save_onnx(out)
    else:
        tensors = g.network.state_dict().items()
        write_atomically(out, save({name: tensor.contiguous() for name, tensor in tensors}))
    note(f"{g.network}")
    if g.encoder:
        note(
            f"This is the part behind the encoder {g.encoder}, which is not in the file: it takes rows of "
            f"shape {g.input_shape}, as codebound data encode --encoder {g.encoder} writes them."
        )
    note(f"{g.sentence}\nWritten to {out}.")


def show(file: opt.CertificateFolder, output: opt.Output = Format.table) -> None:
    """Print the claim, where the bits went, and what is declared; checks nothing (see verify)."""
    from codebound.certificate.file import Certificate

    certificate = Certificate.load(file / "certificate.cbound" if file.is_dir() else file)
    record = asdict(certificate)
    del record["bits"], record["witness"]
    record["counts"] = [asdict(each) for each in certificate.counts]
    ledger = [{"part": part, "bits": bits} for part, bits in certificate.message.ledger]
    emit(record, output, [str(certificate), Table("", ledger)], rows=ledger)
    if output is Format.table:
        note("Declared, and not checkable by any program:")
        for line in certificate.declarations:
            note(f"  - {printable(line)}")

"""What can be done with a certificate: ``codebound verify``, ``decode`` and ``show``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note
from codebound.cli.options import option
from codebound.errors import UsageError
from codebound.report.tables import Table

verify = typer.Typer(add_completion=False)


@verify.command(
    add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def _verify(context: typer.Context) -> None:
    """Decide whether a certificate is true; the same as the program codebound-verify.

    With --rerun FILE instead, a learner is run again: see docs/howto/any_learner.md.

    Example: codebound verify runs/certify-1/certificate.cbound --data digits
    """
    if any(each.split("=")[0] == "--rerun" for each in context.args):
        from codebound.cli import rerun

        raise typer.Exit(rerun.main(context.args))
    from codebound_verify.__main__ import main

    raise typer.Exit(main(context.args or ["--help"]))


check = typer.Typer(add_completion=False)


@check.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def _check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A certificate (.cbound) or a ledger of looks (.jsonl).")],
    max_error: Annotated[float, option("The error that has to be shown.")],
    delta: Annotated[float, option("The failure probability that has to be shown.")] = 0.05,
    fault: Annotated[str, option("The fault that it has to be shown for, as in certify.")] = "wrong",
) -> None:
    """Exit with 1 unless a file is true and shows an error; takes all options of verify besides.

    Example: codebound check cert/certificate.cbound --max-error 0.4 --data cert/sample.npz
    """
    from codebound_verify.__main__ import main

    demands = ["--max-error", str(max_error), "--max-delta", str(delta), "--fault", fault]
    raise typer.Exit(main([str(file), *demands, *context.args]))


def decode(
    file: opt.CertificateFile,
    out: Annotated[Path, option("Where to write the network g (.safetensors).")],
    model: Annotated[
        str | None, option("package.module:factory, if the architecture is outside the file.")
    ] = None,
    base: Annotated[
        Path | None, option("Safetensors file of the base, if the message codes differences.")
    ] = None,
    weights: Annotated[
        Path | None, option("The file g.safetensors beside the certificate, if g was learned from picks.")
    ] = None,
) -> None:
    """Write the network that a certificate is about."""
    from safetensors.torch import save

    from codebound.certificate import decoding
    from codebound.certificate.file import Certificate
    from codebound.files import write_atomically
    from codebound.nets.loading import load_arrays, load_model

    if out.exists():
        raise UsageError(f"{out} exists already. Choose another --out.")
    if not out.parent.is_dir():
        raise UsageError(f"the folder {out.parent} does not exist. Choose another --out.")
    certificate = Certificate.load(file)
    shape, classes = certificate.helper.input_shape, certificate.facts.classes
    module = None if model is None else load_model(model, input_shape=shape, classes=classes)
    network = decoding.decode(
        certificate, module=module, base=None if base is None else load_arrays(base), weights=weights
    )
    write_atomically(out, save({name: t.contiguous() for name, t in network.state_dict().items()}))
    note(f"{network}")
    note(f"{certificate}\nWritten to {out}.")


def show(file: opt.CertificateFile, output: opt.Output = Format.table) -> None:
    """Print the claim, where the bits went, and what is declared; checks nothing (see verify)."""
    from dataclasses import asdict

    from codebound.certificate.file import Certificate

    certificate = Certificate.load(file)
    record = asdict(certificate)
    del record["message"], record["witness"]
    record["counts"] = [asdict(each) for each in certificate.counts]
    ledger = [{"part": part, "bits": bits} for part, bits in certificate.ledger]
    emit(record, output, [str(certificate), Table("", ledger)], rows=ledger)
    if output is Format.table:
        note("Declared, and not checkable by any program:")
        for line in certificate.declarations:
            note(f"  - {printable(line)}")


def printable(text: str) -> str:
    """The text with control characters escaped: a stranger's file must not draw on the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)

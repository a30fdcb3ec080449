"""Verbs on a certificate: to check, show and decode it, and those of an auditor."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note, printable
from codebound.cli.options import option
from codebound.report.text_tables import Table, tabulate
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


check = typer.Typer(add_completion=False)


@check.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def _check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A certificate (.cbound) or a ledger of looks (.jsonl).")],
    max_error: Annotated[float, option("The error that has to be shown.")],
    delta: Annotated[float, option("The failure probability that has to be shown.")] = 0.05,
    loss: Annotated[str, option("The loss that it has to be shown for, as in certify.")] = "wrong",
) -> None:
    """Exit with 1 unless a file is true and shows an error; takes all options of verify besides.

    Example: codebound check cert/certificate.cbound --max-error 0.4 --data cert/sample.npz
    """
    from codebound_verify.__main__ import main

    demands = ["--max-error", str(max_error), "--max-delta", str(delta), "--loss", loss]
    raise typer.Exit(main([str(file), *demands, *context.args], prog="codebound check"))


def decode(
    file: opt.CertificateFolder,
    out: Annotated[Path, option("Where to write the network g: .safetensors, or .onnx to run it elsewhere.")],
    base: opt.BaseBeside = None,
    weights: opt.WeightsBeside = None,
) -> None:
    """Write the network that a certificate is about.

    Example: codebound decode runs/certify-1 --out g.onnx
    """
    from safetensors.torch import save

    from codebound.classifier import load_classifier
    from codebound.run.files import write_atomically

    if out.suffix not in (".safetensors", ".onnx"):
        raise UsageError(f"a network is written as .safetensors or .onnx. Got --out {out}.")
    if out.exists():
        raise UsageError(f"{out} exists already. Choose another --out.")
    if not out.parent.is_dir():
        raise UsageError(f"the folder {out.parent} does not exist. Choose another --out.")
    g = load_classifier(file, base=base, weights=weights)
    if out.suffix == ".onnx":
        g.save_onnx(out)
    else:
        tensors = g.network.state_dict().items()
        write_atomically(out, save({name: tensor.contiguous() for name, tensor in tensors}))
    note(f"{g.network}")
    if g.encoder:
        note(
            f"This is the part behind the encoder {g.encoder}, which is not in the file: it takes rows of "
            f"shape {g.input_shape}, as codebound encode --encoder {g.encoder} writes them."
        )
    note(f"{g.sentence}\nWritten to {out}.")


def export(
    source: Annotated[
        Path, typer.Argument(help="A folder that `codebound certify` wrote, or a ledger of `holdout`.")
    ],
    to: Annotated[
        str,
        option(
            "intoto (a Statement with an eval-result), cyclonedx (a bill of materials with a model card) or "
            "card (a model card as Hugging Face reads it)."
        ),
    ],
    out: Annotated[Path | None, option("The file to write (default: beside the certificate).")] = None,
    max_error: Annotated[
        float | None, option("The error that had to be shown: intoto says for each limit if it was.")
    ] = None,
) -> None:
    """Write what other programs read of a certificate; the second program is asked again before.

    Example: codebound export runs/certify-1 --to cyclonedx
    """
    from codebound.report.exports import export as write

    note(f"Written to {write(source, to, out=out, max_error=max_error)}.")


def show(file: opt.CertificateFile, output: opt.Output = Format.table) -> None:
    """Print the claim, where the bits went, and what is declared; checks nothing (see verify)."""
    from codebound.certificate.file import Certificate

    certificate = Certificate.load(file)
    record = asdict(certificate)
    del record["bits"], record["witness"]
    record["counts"] = [asdict(each) for each in certificate.counts]
    ledger = [{"part": part, "bits": bits} for part, bits in certificate.message.ledger]
    emit(record, output, [str(certificate), Table("", ledger)], rows=ledger)
    if output is Format.table:
        note("Declared, and not checkable by any program:")
        for line in certificate.declarations:
            note(f"  - {printable(line)}")


def joint(
    files: Annotated[
        list[Path], typer.Argument(help="Certificates (.cbound) and ledgers of looks (.jsonl).")
    ],
    output: opt.Output = Format.table,
) -> None:
    """Say with what probability all statements hold together; each is checked by verify, not here.

    Example: codebound joint a.cbound b.cbound test.ledger.jsonl
    """
    from codebound.audit.joint import joint_delta, read_statement

    made = [read_statement(file) for file in files]
    events = list(dict.fromkeys(each.event for each in made))
    rows = [
        (each.name, each.statement, each.delta, each.sample_sha256[:12], events.index(each.event) + 1)
        for each in made
    ]
    delta = joint_delta(made)
    table = tabulate(("file", "statement", "delta", "sample", "event"), rows)
    emit({"delta": delta, "statements": table.rows}, output, [table], rows=table.rows)
    if output is Format.table:
        note(
            f"All {len(made)} statements hold together with probability at least 1 - {delta!r}: the deltas "
            f"of {len(events)} different events are added."
        )


def report(
    folder: Annotated[Path, typer.Argument(help="A folder that `codebound certify` wrote.")],
    profile: Annotated[
        str, option("Whose requirements stand beside the items: plain, easa or eu-ai-act.")
    ] = "plain",
    ledger: Annotated[
        Path | None, option("The ledger of looks at the test data (`codebound holdout`).")
    ] = None,
) -> None:
    """Write one page for an auditor: dossier.html, with the author's words from dossier.toml.

    Example: codebound report cert --profile easa --ledger test.ledger.jsonl
    """
    from codebound.audit.dossier import PAGE, write_dossier

    verdict = write_dossier(folder, profile=profile, ledger=ledger)
    command = shlex.join(["codebound", "sign", str(folder / PAGE), "--key", "KEY"])
    note(f"Written: {folder / PAGE}. Sign it: {command}")
    if verdict["verdict"] != "ACCEPT":
        note("The independent program REFUSES the certificate today: " + " ".join(verdict["reasons"]))
        raise typer.Exit(1)


def sign(
    file: Annotated[Path, typer.Argument(help="A certificate, a ledger or a report.")],
    key: Annotated[
        Path, option("Private Ed25519 key in PEM form: openssl genpkey -algorithm ed25519 -out key.pem")
    ],
) -> None:
    """Write a detached signature over the bytes of a file; codebound verify --signed-by checks it.

    Example: codebound sign runs/certify-1/certificate.cbound --key key.pem
    """
    from codebound.audit.signature import sign_file

    note(f"Signed: {sign_file(file, key)}")
    note("Give away the public key: openssl pkey -in KEY -pubout -out PUBLIC; never the private one.")

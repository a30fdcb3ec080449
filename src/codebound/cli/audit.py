"""``codebound audit``: statements about certificates, and code that is run again on purpose."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note
from codebound.cli.options import option
from codebound.report.templates import tabulate
from codebound.run.errors import UsageError

app = typer.Typer(
    help="Check, report, sign and join certificates; score again.", no_args_is_help=True, add_completion=False
)


@app.command("check", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A certificate (.cbound) or a ledger (.jsonl).")],
    max_error: Annotated[float, option("The error that has to be shown.")],
    delta: Annotated[float, option("The failure probability that has to be shown.")] = 0.05,
    loss: Annotated[str, option("The loss that it has to be shown for, as in certify.")] = "wrong",
) -> None:
    """Exit with 1 unless a file is true and shows an error; takes all options of verify besides.

    Example: codebound audit check cert/certificate.cbound --max-error 0.4 --data cert/sample.npz
    """
    from codebound_verify.__main__ import main

    demands = ["--max-error", str(max_error), "--max-delta", str(delta), "--loss", loss]
    raise typer.Exit(main([str(file), *demands, *context.args], prog="codebound audit check"))


@app.command()
def joint(
    files: Annotated[list[Path], typer.Argument(help="Certificates (.cbound) and ledgers (.jsonl).")],
    output: opt.Output = Format.table,
) -> None:
    """Say with what probability all statements hold together; each is checked by verify, not here.

    Example: codebound audit joint a.cbound b.cbound test.ledger.jsonl
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


@app.command()
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

    Example: codebound audit report cert --profile easa --ledger test.ledger.jsonl
    """
    from codebound.audit.dossier import PAGE, write_dossier

    verdict = write_dossier(folder, profile=profile, ledger=ledger)
    command = shlex.join(["codebound", "audit", "sign", str(folder / PAGE), "--key", "KEY"])
    note(f"Written: {folder / PAGE}. Sign it: {command}")
    if verdict["verdict"] != "ACCEPT":
        note("The independent program REFUSES the certificate today: " + " ".join(verdict["reasons"]))
        raise typer.Exit(1)


@app.command()
def sign(
    file: Annotated[Path, typer.Argument(help="A certificate, a ledger or a report.")],
    key: Annotated[
        Path, option("Private Ed25519 key in PEM form: openssl genpkey -algorithm ed25519 -out key.pem")
    ],
) -> None:
    """Write a detached signature over the bytes of a file; codebound verify --signed-by checks it.

    Example: codebound audit sign runs/certify-1/certificate.cbound --key key.pem
    """
    from codebound.audit.signature import sign_file

    note(f"Signed: {sign_file(file, key)}")
    note("Give away the public key: openssl pkey -in KEY -pubout -out PUBLIC; never the private one.")


@app.command()
def rescore(
    folder: opt.CertificateFolder,
    data: Annotated[str | None, option("The sample, where it is not in the folder.")] = None,
    learner: Annotated[
        str | None,
        option("package.module:Class or function to fit again; by default the usual learner that it names."),
    ] = None,
    weights: Annotated[Path | None, option("Weights that are run again.", None, "--network")] = None,
    model: opt.SomeModel = None,
    seed: opt.Seed = 0,
    data_folder: opt.DataFolder = None,
    output: opt.Output = Format.table,
) -> None:
    """Run the code behind declared scores again, at your own risk.

    Example: codebound audit rescore runs/certify-1 --learner sklearn.ensemble:RandomForestClassifier
    """
    from dataclasses import asdict

    options = dict(locals())
    if (learner is not None and weights is not None) or (weights is None) != (model is None):
        raise UsageError("give --learner, or --network with the --model that it is of, or none for ours.")
    from codebound.audit.rescoring import rescore_from_options

    found = rescore_from_options(options)
    emit(asdict(found), output, [tabulate(("what", "value"), list(asdict(found).items()))])
    if output is Format.table:
        note(found.sentence)
    raise typer.Exit(int(found.differ > 0))

"""Verbs for auditors: ``codebound joint``, ``report`` and ``sign``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note
from codebound.cli.options import option
from codebound.report.tables import tabulate


def joint(
    files: Annotated[
        list[Path], typer.Argument(help="Certificates (.cbound) and ledgers of looks (.jsonl).")
    ],
    output: opt.Output = Format.table,
) -> None:
    """Say with what probability all statements hold together; each is checked by verify, not here.

    Example: codebound joint a.cbound b.cbound test.looks.jsonl
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

    Example: codebound report cert --profile easa --ledger test.looks.jsonl
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

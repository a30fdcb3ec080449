"""``codebound report``: one page for an auditor."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from codebound.cli.console import note
from codebound.cli.options import option

_Profiles = Annotated[str, option("Whose requirements stand beside the items: plain, easa or eu-ai-act.")]


def command(
    folder: Annotated[Path, typer.Argument(help="A folder that `codebound certify` wrote.")],
    profile: _Profiles = "plain",
    ledger: Annotated[
        Path | None, option("The ledger of looks at the test data (`codebound holdout`).")
    ] = None,
) -> None:
    """Write one page for an auditor: dossier.html, with the author's words from dossier.toml.

    Example: codebound report cert --profile easa --ledger test.looks.jsonl
    """
    from codebound.audit.dossier import PAGE, write_dossier

    verdict = write_dossier(folder, profile=profile, ledger=ledger)
    sign = shlex.join(["codebound", "sign", str(folder / PAGE), "--key", "KEY"])
    note(f"Written: {folder / PAGE}. Sign it: {sign}")
    if verdict["verdict"] != "ACCEPT":
        note("The independent program REFUSES the certificate today: " + " ".join(verdict["reasons"]))
        raise typer.Exit(1)

"""``codebound report``: one page for an auditor."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from codebound.cli.console import note
from codebound.cli.options import option
from codebound.errors import UsageError

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
    import datetime
    import shlex

    from codebound.certificate.file import Certificate
    from codebound.files import read_json, write_text
    from codebound.report.dossier import PAGE, PROFILES, Evidence, author_words, dossier_page, file_sha256

    if profile not in PROFILES:
        raise UsageError(f"--profile is {', '.join(PROFILES)}. Got {profile!r}.")
    path = folder / "certificate.cbound"
    certificate = Certificate.load(path)
    result = read_json(folder / "result.json", advice="`codebound certify` writes it beside a certificate.")
    result = {"verify_here": result["verify"], **result}  # older folders have one command
    words = author_words(folder, certificate)
    asked = shlex.split(result["verify_here"])[1:]  # the folder may have been moved
    verdict = _ask([str(folder / each) if (folder / each).is_file() else each for each in asked])
    evidence = Evidence(
        certificate=certificate,
        result=result,
        verdict=verdict,
        file_sha256=file_sha256(path),
        ledger=None if ledger is None else _ask([str(ledger)]),
        today=datetime.date.today().isoformat(),
    )
    write_text(folder / PAGE, dossier_page(evidence, words, profile=profile))
    note(f"Written: {folder / PAGE}. Sign it: codebound sign {folder / PAGE} --key KEY")
    if verdict["verdict"] != "ACCEPT":
        note("The independent program REFUSES the certificate today: " + " ".join(verdict["reasons"]))
        raise typer.Exit(1)


def _ask(arguments: list[str]) -> dict[str, Any]:
    """What the independent program answers."""
    from codebound_verify.__main__ import main

    answer = io.StringIO()
    with contextlib.redirect_stdout(answer):
        main([*arguments, "--format", "json"])
    found: dict[str, Any] = json.loads(answer.getvalue())
    return found

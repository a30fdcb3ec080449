"""``codebound report``: one page for an auditor."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import note
from codebound.cli.options import option
from codebound.errors import FormatError, UsageError

_Profiles = Annotated[str, option("Whose requirements stand beside the items: plain, easa or eu-ai-act.")]


def command(
    folder: Annotated[Path, typer.Argument(help="A folder that `codebound certify` wrote.")],
    profile: _Profiles = "plain",
    ledger: Annotated[
        Path | None, option("The ledger of looks at the test data (`codebound holdout`).")
    ] = None,
    model: Annotated[
        str | None, option("package.module:factory or file.py:factory, if the architecture of g is code.")
    ] = None,
    trust_code: opt.TrustCode = False,
) -> None:
    """Write one page for an auditor: dossier.html, with the author's words from dossier.toml.

    Example: codebound report cert --profile easa --ledger test.looks.jsonl
    """
    import datetime

    from codebound.certificate.asking import CERTIFICATE, answer, asked_by, ledger_answer
    from codebound.certificate.file import Certificate
    from codebound.files import read_json, write_text
    from codebound.report.dossier import PAGE, PROFILES, Evidence, author_words, dossier_page, file_sha256

    if profile not in PROFILES:
        raise UsageError(f"--profile is {', '.join(PROFILES)}. Got {profile!r}.")
    path = folder / CERTIFICATE
    certificate = Certificate.load(path)
    result = read_json(folder / "result.json", advice="`codebound certify` writes it beside a certificate.")
    words = author_words(folder, certificate)
    asked, told = asked_by(folder, result)
    if (architecture := certificate.helper.architecture) is not None and model is None:
        raise UsageError(
            f"the architecture of g is code, {architecture.name}, and none is run because a file names it. "
            "Read it, and name it with --model."
        )
    is_code = architecture is not None
    verdict = answer(folder, asked, model=model if is_code else None, trust_code=is_code and trust_code)
    evidence = Evidence(
        certificate=certificate,
        result={**result, "verify_here": told},
        verdict=verdict,
        file_sha256=file_sha256(path),
        ledger=None if ledger is None else ledger_answer(ledger),
        today=datetime.date.today().isoformat(),
    )
    try:
        page = dossier_page(evidence, words, profile=profile)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise FormatError(f"{folder}/result.json is not what certify writes: {error!r}.") from error
    write_text(folder / PAGE, page)
    sign = shlex.join(["codebound", "sign", str(folder / PAGE), "--key", "KEY"])
    note(f"Written: {folder / PAGE}. Sign it: {sign}")
    if verdict["verdict"] != "ACCEPT":
        note("The independent program REFUSES the certificate today: " + " ".join(verdict["reasons"]))
        raise typer.Exit(1)

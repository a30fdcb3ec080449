"""``codebound report``: one page for an auditor."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from codebound.cli.console import note
from codebound.cli.options import option
from codebound.errors import FormatError, UsageError

_CERTIFICATE = "certificate.cbound"
_FILES = ("--data", "--data-folder", "--base", "--unlabelled", "--subject-weights")
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
    trust_code: Annotated[bool, option("Accept a --model that cannot be traced, as in verify.")] = False,
) -> None:
    """Write one page for an auditor: dossier.html, with the author's words from dossier.toml.

    Example: codebound report cert --profile easa --ledger test.looks.jsonl
    """
    import datetime

    from codebound.certificate.file import Certificate
    from codebound.files import read_json, write_text
    from codebound.report.dossier import PAGE, PROFILES, Evidence, author_words, dossier_page
    from codebound.store import file_sha256

    if profile not in PROFILES:
        raise UsageError(f"--profile is {', '.join(PROFILES)}. Got {profile!r}.")
    path = folder / _CERTIFICATE
    certificate = Certificate.load(path)
    result = read_json(folder / "result.json", advice="`codebound certify` writes it beside a certificate.")
    result = {"verify_here": result.get("verify"), **result}  # older folders have one command
    words = author_words(folder, certificate)
    asked = _verifier_options(folder, str(result["verify_here"]))
    if certificate.helper.architecture is not None:
        if model is None:
            raise UsageError(
                f"the architecture of g is code, {certificate.helper.architecture.name}, and none is run "
                "because a file names it. Read it, and name it with --model."
            )
        asked += [f"--model={model}", *(["--trust-code"] if trust_code else [])]
    verdict = _ask([str(path), *asked])
    evidence = Evidence(
        certificate=certificate,
        result=result,
        verdict=verdict,
        file_sha256=file_sha256(path),
        ledger=None if ledger is None else _ask([str(ledger)]),
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


def _verifier_options(folder: Path, command: str) -> list[str]:
    """What the independent program is given beside the certificate: data and tensors, never code.

    The command is that of a file, which a stranger may have written: it decides which files are read, and
    neither which certificate nor what is run. The folder may have been moved.
    """
    unknown = FormatError(
        f"{folder / 'result.json'} does not say how to verify its certificate as certify writes it: {command}"
    )
    try:
        _, file, *words = shlex.split(command)
    except ValueError as error:
        raise unknown from error
    found, rest = [], iter(words)
    for word in rest:
        if word in _FILES or word == "--model":
            value = next(rest, "")
            place = str(folder / value) if (folder / value).is_file() else value
            found += [f"{word}={place}"] if word in _FILES else []
        elif word == "--allow-copies":
            found.append(word)
        elif word != "--trust-code":
            raise unknown
    if Path(file).name != _CERTIFICATE:
        raise unknown
    return found


def _ask(arguments: list[str]) -> dict[str, Any]:
    """What the independent program answers."""
    from codebound_verify.__main__ import main

    answer, complaint = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(answer), contextlib.redirect_stderr(complaint):
            main([*arguments, "--format", "json"])
    except SystemExit as end:
        raise UsageError(complaint.getvalue().strip()) from end
    found: dict[str, Any] = json.loads(answer.getvalue())
    return found

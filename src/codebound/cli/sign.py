"""``codebound sign``: who answers for a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codebound.cli.console import note
from codebound.cli.options import option


def command(
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

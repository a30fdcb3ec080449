"""``codebound verify``: asks the independent verifier, which shares no code with this program."""

from __future__ import annotations

import typer

app = typer.Typer(add_completion=False)


@app.command(
    add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def command(context: typer.Context) -> None:
    """Decide whether a certificate is true; the same as the program codebound-verify.

    Example: codebound verify runs/certify-1/certificate.cbound --data digits
    """
    from codebound_verify.__main__ import main

    raise typer.Exit(main(context.args or ["--help"]))

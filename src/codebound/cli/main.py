"""The command line: one file per verb; heavy libraries are imported inside the verb that needs them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from codebound import __version__
from codebound.cli import (
    bound,
    certify,
    compare,
    compress,
    data,
    decode,
    demo,
    doctor,
    measure,
    plan,
    reproduce,
    sketch,
    sweep,
    train,
    verify,
)
from codebound.cli.config import with_config
from codebound.errors import CodeboundError

app = typer.Typer(
    name="codebound",
    help="Compress a trained classifier into a short message; its length bounds the error on new data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"codebound {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options before the verb."""


app.command("demo")(demo.demo)
app.add_typer(data.app, name="data")
app.command("train")(with_config(train.train))
app.command("measure")(with_config(measure.measure))
app.command("compress")(with_config(compress.compress))
app.command("sketch")(with_config(sketch.sketch))
app.command("plan")(with_config(plan.plan))
app.command("certify")(with_config(certify.certify))
app.command(
    "verify",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)(verify.verify)
app.command("compare")(with_config(compare.compare))
app.command("decode")(decode.decode)
app.command("show")(decode.show)
app.command("bound")(bound.bound)
app.command("reproduce")(reproduce.reproduce)
app.command("sweep")(sweep.sweep)
app.command("doctor")(doctor.doctor)

_INTERRUPTED = 130


def main() -> None:
    """Entry point: a failure that a user can cause is one message and an exit code, never a traceback."""
    try:
        app()
    except CodeboundError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, SystemExit) as end:
        # typer ends a command that was interrupted with this code, and in silence
        if isinstance(end, SystemExit) and end.code != _INTERRUPTED:
            raise
        sys.stderr.write("Interrupted.\n")
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        sys.exit(0)

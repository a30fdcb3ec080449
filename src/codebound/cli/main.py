"""The command line: one file per verb; heavy libraries are imported inside the verb that needs them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from codebound import __version__
from codebound.cli import bound, certify, data, decode, demo, doctor, sweep, train, verify
from codebound.cli.config import with_config
from codebound.errors import CodeboundError
from codebound.extensions import extensions, loaded

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


_PASSED_ON: dict[str, Any] = {
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
    "add_help_option": False,
}
_VERBS: dict[str, Callable[[str], object]] = {
    "demo": lambda name: app.command(name)(demo.demo),
    "data": lambda name: app.add_typer(data.app, name=name),
    "train": lambda name: app.command(name)(with_config(train.train)),
    "certify": lambda name: app.command(name)(with_config(certify.certify)),
    "verify": lambda name: app.command(name, **_PASSED_ON)(verify.verify),
    "decode": lambda name: app.command(name)(decode.decode),
    "show": lambda name: app.command(name)(decode.show),
    "bound": lambda name: app.command(name)(bound.bound),
    "sweep": lambda name: app.command(name)(sweep.sweep),
    "doctor": lambda name: app.command(name)(doctor.doctor),
}


def _add_verbs() -> None:
    """Our own verbs and those of extensions, each after the one that it names."""
    order, added = list(_VERBS), extensions()["VERBS"]
    for name, verb in added.items():
        order.insert(order.index(verb.after) + 1, name)
    for name in order:
        if name in _VERBS:
            _VERBS[name](name)
        else:
            function = loaded(added[name].function)
            app.command(name)(with_config(function) if added[name].has_config else function)


_add_verbs()

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

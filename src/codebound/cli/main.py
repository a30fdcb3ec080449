"""The command line: verbs, each loaded when it is asked for.

``--config run.toml`` gives the options of a verb from a file; flags go on top. Its keys are the long options,
with hyphens or underscores, and the names of arguments; not what ends it at once, such as ``--help``.
"""

from __future__ import annotations

import functools
import inspect
import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from codebound import __version__
from codebound.cli.console import note
from codebound.cli.options import pairs_of
from codebound.run.errors import CodeboundError, UsageError
from codebound.run.extensions import Verb, find_extensions, resolve
from codebound.run.files import read_toml
from codebound.run.progress import INTERRUPTED, answer_interrupts, interrupt_on_signals

OWN_VERBS = {
    "certify": Verb("codebound.cli.certify:command"),
    "verify": Verb("codebound.cli.certificates:verify"),
    "show": Verb("codebound.cli.certificates:show", has_config=False),
    "export": Verb("codebound.cli.certificates:export", has_config=False),
    "bound": Verb("codebound.cli.bound:bound", has_config=False),
    "holdout": Verb("codebound.cli.holdout:app", has_config=False),
    "data": Verb("codebound.cli.data:app"),
    "audit": Verb("codebound.cli.audit:app", has_config=False, panel="For auditors"),
}


def add_config(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one option more, ``--config``."""

    @functools.wraps(command)
    def configured(*, config: Path | None, **options: object) -> None:
        command(**options)  # the file has been read by the callback of its option

    own = inspect.signature(command, eval_str=True).parameters.values()
    config = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Config)
    configured.__signature__ = inspect.Signature([*own, config])  # type: ignore[attr-defined]
    configured.__annotations__ = {each.name: each.annotation for each in (*own, config)}
    return configured


def _defaults_from(context: typer.Context, path: Path | None) -> None:
    if path is not None:
        context.default_map = _check_values(read_toml(path, "--config"), context.command.params, path)


_Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        callback=_defaults_from,
        is_eager=True,  # the other options look their defaults up after this
        help="TOML file with options of this command; flags go on top.",
    ),
]


def _check_values(table: dict[str, Any], parameters: Any, path: Path) -> dict[str, Any]:
    """Return the values by parameter, or refuse a key by its name."""
    known = {_key(each): each for each in parameters if not each.is_eager}
    found: dict[str, Any] = {}
    for written, value in table.items():
        key = written.replace("_", "-")
        if key not in known:
            import difflib

            (nearest,) = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
            raise UsageError(f"{path}: this command has no option {written!r}; the nearest is {nearest!r}.")
        parameter = known[key]
        if parameter.name in found:
            raise UsageError(f"{path}: {key!r} is given twice.")
        is_table = parameter.metavar == "KEY=VALUE"
        if is_table and isinstance(value, dict):
            value = list(pairs_of(value))
        is_flag = getattr(parameter, "is_flag", False)
        is_list = getattr(parameter, "multiple", False) or parameter.nargs != 1
        values = value if is_list and isinstance(value, list) else [value]
        if is_list != isinstance(value, list) or any(
            not isinstance(each, str | int | float) or isinstance(each, bool) != is_flag for each in values
        ):
            form = "true or false" if is_flag else "a list" if is_list else "a text or a number"
            form = f"a table: [{key}] and its keys below" if is_table else form
            raise UsageError(f"{path}: {key!r} is {form}. Got {value!r}.")
        found[parameter.name] = value
    return found


def _key(parameter: Any) -> str:
    """The long option, or the name of an argument."""
    long = [word for word in parameter.opts if word.startswith("--")]
    return long[0].removeprefix("--") if long else str(parameter.name).replace("_", "-")


class _Group(TyperGroup):
    """Our own verbs and those of extensions, in their order."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        others, order = find_extensions()["VERBS"], list(OWN_VERBS)
        for name, verb in others.items():
            if name not in OWN_VERBS:
                order.insert(order.index(verb.after) + 1 if verb.after in order else len(order), name)
        self._verbs: dict[str, Verb] = {**others, **OWN_VERBS}
        self.commands: dict[str, Any] = dict.fromkeys(order)  # typer has their names, and asks for one

    def get_command(self, ctx: Any, name: str) -> Any:
        if name in self._verbs:
            return self.commands[name] or self._command(name)
        if advice := find_extensions().advice:
            raise UsageError(f"there is no verb {name!r}.{advice}")
        return None  # then typer says which name is near

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for name in self.commands:  # most without their options: these take longer than the list
            found = self._load(name)
            is_group = isinstance(found, typer.Typer)
            summary = self._command(name) if is_group else TyperCommand(name, help=inspect.getdoc(found))
            summary.hidden = self._verbs[name].is_hidden
            summary.rich_help_panel = self._verbs[name].panel or None
            self.commands[name] = summary
        super().format_help(ctx, formatter)

    def _command(self, name: str) -> Any:
        found = self._load(name)
        if not isinstance(found, typer.Typer):
            function, found = found, typer.Typer(add_completion=False)
            found.command()(add_config(function) if self._verbs[name].has_config else function)
        command = typer.main.get_command(found)
        command.name = name
        return command

    def _load(self, name: str) -> Any:
        try:
            return resolve(self._verbs[name].function)
        except ImportError as error:
            raise UsageError(f"the verb {name!r} is not available: {error}.") from error


app = typer.Typer(
    cls=_Group,
    name="codebound",
    help="A classifier with a proven error on new data, and a file with which anybody can check it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:
    if value:
        from codebound.certificate.file import PAGE

        typer.echo(f"codebound {__version__} (certificates by {PAGE.named})")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options before the verb."""


def _open_streams() -> None:
    """Send output nowhere if nobody listens. Escape letters that a terminal does not have."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # whoever started the program has closed it
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """Entry point: a failure that a user can cause is one message and an exit code, never a traceback."""
    _open_streams()
    interrupt_on_signals()
    try:
        with answer_interrupts(note):
            app()
    except CodeboundError as error:
        note(f"{type(error).__name__}: {error}")
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, SystemExit) as end:
        # typer ends a command that was interrupted with this code, and in silence
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        sys.stderr.write("Interrupted.\n")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        if error.strerror is None:  # not from the system: a mistake of ours
            raise
        note(f"{error.filename or 'A file or the output'} cannot be read or written: {error.strerror}.")
        with suppress(OSError, ValueError):  # else the rest of the output fails again at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError as error:
        note(f"The memory is not enough: {error}. Take fewer examples or a smaller network.")
        sys.exit(1)

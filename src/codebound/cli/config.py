"""``--config run.toml``: the options of a command from a file; flags go on top.

The keys of the file are the long options of the command, with hyphens or underscores, and the names of its
arguments. What a file may not set is whatever ends the command at once, such as ``--help``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from codebound.run.errors import UsageError
from codebound.run.files import read_toml


def with_config(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one option more, ``--config``."""

    @functools.wraps(command)
    def configured(*, config: Path | None, **options: object) -> None:
        command(**options)  # the file has been read by the callback of its option

    hints = get_type_hints(command, include_extras=True) | {"config": _Config}
    own = inspect.signature(command).parameters.values()
    config = inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None)
    configured.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(annotation=hints[each.name]) for each in (*own, config)]
    )
    configured.__annotations__ = hints
    return configured


def _defaults_from(context: typer.Context, path: Path | None) -> None:
    if path is not None:
        context.default_map = _checked(read_toml(path, "--config"), context.command.params, path)


_Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        callback=_defaults_from,
        is_eager=True,  # the other options look their defaults up after this
        help="TOML file with options of this command; flags go on top.",
    ),
]


def _checked(table: dict[str, Any], parameters: Any, path: Path) -> dict[str, Any]:
    """The values by the names of the parameters, or a refusal that names the file and the key."""
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
        form = _form(parameter)
        values = value if form == "a list" and isinstance(value, list) else [value]
        is_flag = form == "true or false"
        if (form == "a list" and not isinstance(value, list)) or any(
            not isinstance(each, str | int | float) or isinstance(each, bool) != is_flag for each in values
        ):
            raise UsageError(f"{path}: {key!r} is {form}. Got {value!r}.")
        found[parameter.name] = value
    return found


def _key(parameter: Any) -> str:
    """The long option, or the name of an argument."""
    long = [word for word in parameter.opts if word.startswith("--")]
    return long[0].removeprefix("--") if long else str(parameter.name).replace("_", "-")


def _form(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return "true or false"
    return "a list" if getattr(parameter, "multiple", False) or parameter.nargs != 1 else "a text or a number"

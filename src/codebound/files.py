"""Small files, written in one step and checked when read. Nothing here loads torch."""

from __future__ import annotations

import json
import math
import os
import sys
import uuid
from typing import TYPE_CHECKING, Any

from codebound.errors import CodeboundError, FormatError, UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path

_UNFINISHED_WRITE = ".partial"
_MOST_JSON_BYTES = 64 << 20
_MOST_TOML_BYTES = 1 << 20


def make_folder(path: Path) -> None:
    """Makes a folder and those above it, unless it is there.

    Raises:
        UsageError: It cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {path} cannot be made: {error.strerror}.") from error


def write_atomically(path: Path, content: bytes) -> None:
    """Replaces a file in one step: whoever reads it, or is killed half-way, never meets half of it."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_UNFINISHED_WRITE}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # a file that is there must be whole, also after a power cut
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CodeboundError(f"{path} cannot be written: {error.strerror}.") from error


def write_text(path: Path, text: str) -> None:
    """The same for text."""
    write_atomically(path, text.encode())


def write_json(path: Path, record: object) -> None:
    """The same for a JSON value."""
    write_text(path, json.dumps(record, indent=2, allow_nan=False) + "\n")


def finite(value: Any) -> Any:
    """The value with None in place of every number that JSON cannot write.

    Example:
        >>> finite({"worst": [0.5, math.inf]})
        {'worst': [0.5, None]}
    """
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path, *, advice: str) -> dict[str, Any]:
    """Reads a JSON object; the advice says what to do if it cannot be read.

    Raises:
        FormatError: The file is too large, or holds none.
    """
    try:
        if path.stat().st_size > _MOST_JSON_BYTES:
            raise FormatError(
                f"{path} is larger than {_MOST_JSON_BYTES:,} bytes: not a file of ours. {advice}"
            )
        record = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read: {error}. {advice}") from error
    if not isinstance(record, dict):
        raise FormatError(f"{path} must hold a JSON object. Got a {type(record).__name__}. {advice}")
    return record


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Reads a short TOML file.

    Args:
        path: The file.
        what: What it is, for messages.

    Raises:
        UsageError: It cannot be read, or is none.
    """
    try:
        if path.stat().st_size > _MOST_TOML_BYTES:
            raise UsageError(f"{what} {path} has more than {_MOST_TOML_BYTES:,} bytes: too many for it.")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{what} {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # of TOML and of UTF-8
        raise UsageError(f"{what} {path} is no TOML: {error}.") from error


def is_unfinished_write(path: Path, names: tuple[str, ...]) -> bool:
    """Whether a file is what ``write_atomically`` leaves of one of ``names`` when it is killed."""
    return path.name.startswith(tuple(f".{name}." for name in names)) and path.suffix == _UNFINISHED_WRITE

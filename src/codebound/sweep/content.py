"""Content hashes: a job is named by everything that its result depends on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from codebound import __version__
from codebound.errors import UsageError
from codebound.user_code import current_directory_importable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BLOCK = 1 << 20


def content_key(
    verb: str, arguments: Mapping[str, object], *, inputs: Mapping[str, str], versions: str
) -> str:
    """SHA-256 over canonical JSON: the order of keys does not matter, every value does.

    Args:
        verb: The command.
        arguments: Its arguments, as JSON values.
        inputs: Hashes of the content that arguments name.
        versions: Of the software that runs the job, see :func:`versions`.

    Example:
        >>> def key(**arguments): return content_key("train", arguments, inputs={}, versions="1")
        >>> key(seed=0, epochs=2) == key(epochs=2, seed=0)
        True
        >>> key(seed=0) == key(seed=1)
        False
    """
    parts = {"verb": verb, "arguments": dict(arguments), "inputs": dict(inputs), "versions": versions}
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@cache
def versions() -> str:
    """What numbers depend on beside a plan: this package, and those it computes with.

    Builds of one version count as one, so that nodes with and without a GPU can work together.
    """
    others = {name: importlib.metadata.version(name).partition("+")[0] for name in ("numpy", "torch")}
    return ", ".join(f"{name} {number}" for name, number in {"codebound": __version__, **others}.items())


def named_sha256(value: object, hashed: Callable[[str], str]) -> str:
    """Hashes of all that a text, or a list of texts, names; empty where it names nothing."""
    texts = value if isinstance(value, list) else [value]
    return " ".join(hashed(text) if isinstance(text, str) else "" for text in texts).strip()


def source_sha256(value: str) -> str:
    """Hash of what a text names: a file, a folder, or the source file of ``package.module:factory``.

    Relative paths and modules are looked up in the current directory. Empty when it names none of them.

    Raises:
        UsageError: It is there and cannot be read.
    """
    try:
        path = Path(value).expanduser()
        if path.is_file():
            return _file_sha256(path)
        if path.is_dir():
            return _folder_sha256(path)
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody has that home directory
        raise UsageError(f"{value} cannot be read: {error}.") from error
    module, colon, name = value.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        return ""
    try:
        with current_directory_importable():
            spec = importlib.util.find_spec(module)
    except Exception:  # a package that fails to import: the job will say so
        return ""
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return ""
    return _file_sha256(Path(spec.origin))


def _folder_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(each for each in path.rglob("*") if each.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\n{_file_sha256(file)}\n".encode())
    return digest.hexdigest()


def _file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()

"""Content hashes: a job is named by everything that its result depends on."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING

from codebound.user_code import current_directory_importable

if TYPE_CHECKING:
    from collections.abc import Mapping

_BLOCK = 1 << 20


def content_key(
    verb: str, arguments: Mapping[str, object], *, inputs: Mapping[str, str], version: str
) -> str:
    """SHA-256 over canonical JSON: the order of keys does not matter, every value does.

    Args:
        verb: The command.
        arguments: Its arguments, as JSON values.
        inputs: Hashes of the content that arguments name.
        version: Of this package.

    Example:
        >>> def key(**arguments): return content_key("train", arguments, inputs={}, version="1")
        >>> key(seed=0, epochs=2) == key(epochs=2, seed=0)
        True
        >>> key(seed=0) == key(seed=1)
        False
    """
    parts = {"verb": verb, "arguments": dict(arguments), "inputs": dict(inputs), "codebound": version}
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def source_sha256(value: str) -> str:
    """Hash of what a text names: a file, a folder, or the source file of ``package.module:factory``.

    Relative paths and modules are looked up in the current directory. Empty when it names none of them.
    """
    path = Path(value).expanduser()
    if path.is_file():
        return _file_sha256(path)
    if path.is_dir():
        digest = hashlib.sha256()
        for file in sorted(each for each in path.rglob("*") if each.is_file()):
            digest.update(f"{file.relative_to(path).as_posix()}\n{_file_sha256(file)}\n".encode())
        return digest.hexdigest()
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


def _file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()

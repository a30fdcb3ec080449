"""Small files of a sweep. Nothing here loads torch: looking at a sweep and starting a worker is quick."""

from __future__ import annotations

import json
import os
import uuid
from typing import TYPE_CHECKING, Any

from codebound.errors import CodeboundError, FormatError

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES = 64 << 20


def write_text(path: Path, text: str) -> None:
    """Replaces a file in one step: whoever reads, or is killed, never meets half of it."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # a result that is there must be whole, also after a power cut
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CodeboundError(f"{path} cannot be written: {error.strerror}.") from error


def write_json(path: Path, record: object) -> None:
    """Writes one JSON document in one step."""
    write_text(path, json.dumps(record, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        FormatError: The file is too large, or holds none.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise FormatError(f"{path} is larger than {_MOST_BYTES} bytes: no result of a job is.")
        record = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise FormatError(
            f"{path} cannot be read: {error}. Remove its folder to run the job again."
        ) from error
    if not isinstance(record, dict):
        raise FormatError(f"{path} must hold a JSON object. Got a {type(record).__name__}.")
    return record

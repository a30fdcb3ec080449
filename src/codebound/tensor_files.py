"""Tensors in files, written atomically, checked when read, without pickle."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from codebound.errors import CodeboundError, FormatError
from codebound.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch import Tensor, nn

ADVICE = "Remove the run folder to train from the start."
"""What to do about a damaged file of a run."""


def save_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes tensors and nothing else into a safetensors file: equal tensors give equal bytes."""
    write_atomically(path, _safetensors().torch.save(dict(tensors), metadata={"format": "pt"}))


def save_tensors(path: Path, tensors: Mapping[str, Tensor], record: object) -> None:
    """Writes tensors and a JSON value into one safetensors file, with a checksum over both."""
    safetensors = _safetensors()
    text = json.dumps(record, allow_nan=False)
    metadata = {"format": "pt", "record": text, "sha256": tensors_sha256(tensors, text)}
    write_atomically(path, safetensors.torch.save(dict(tensors), metadata=metadata))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Reads what `save_tensors` wrote.

    Raises:
        FormatError: The file is missing, cut short or altered.
    """
    with _opened(path) as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    text = metadata.get("record", "")
    if metadata.get("sha256") != tensors_sha256(tensors, text):
        raise FormatError(f"{path} is damaged: its content does not match its checksum. {ADVICE}")
    return tensors, json.loads(text)


def peek_record(path: Path) -> Any:
    """The JSON value of a file that `save_tensors` wrote, without its tensors and unchecked."""
    with _opened(path) as file:
        return json.loads((file.metadata() or {}).get("record", "null"))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    safetensors = _safetensors()
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            yield file
    except (OSError, safetensors.SafetensorError, json.JSONDecodeError) as error:
        raise FormatError(f"{path} cannot be read: {error}. {ADVICE}") from error


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise CodeboundError(
            "run folders are kept in safetensors files, and safetensors is not installed. "
            "Install it, or train without a run folder."
        ) from error
    return safetensors


def state_tensors(model: nn.Module) -> dict[str, Tensor]:
    """A copy of all parameters and buffers in the CPU's memory."""
    return {
        name: value.detach().to("cpu", copy=True).contiguous() for name, value in model.state_dict().items()
    }


def tensors_sha256(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """SHA-256 over ``text`` and the names, types, shapes and bytes of tensors in the CPU's memory."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()

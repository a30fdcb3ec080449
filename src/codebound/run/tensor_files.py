"""Tensors in files, written atomically, checked when read, without pickle; and the hashes that name them."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound.run.errors import CertificateError, CodeboundError, FormatError
from codebound.run.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor, nn

ADVICE = "Remove the run folder to train from the start."
"""Advice on a damaged file of a run."""


def save_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes tensors and nothing else into a safetensors file: equal tensors give equal bytes."""
    write_atomically(path, _safetensors().torch.save(dict(tensors), metadata={"format": "pt"}))


def save_tensors(path: Path, tensors: Mapping[str, Tensor], record: object) -> None:
    """Writes tensors and a JSON value into one safetensors file, with a checksum over both."""
    safetensors = _safetensors()
    text = json.dumps(record, allow_nan=False)
    metadata = {"format": "pt", "record": text, "sha256": state_sha256(tensors, text)}
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
        if metadata.get("sha256") != state_sha256(tensors, text):
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
    except (OSError, safetensors.SafetensorError, ValueError, RecursionError) as error:
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


def state_sha256(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """The hash in run folders, of tensors of any type in the CPU's memory.

    SHA-256 over ``text`` and names, types, shapes and bytes.
    """
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def float32_sha256(tensors: Mapping[str, NDArray[np.float32]]) -> str:
    """The hash in certificates (docs/format.md, section 5.3), of tensors as little-endian float32.

    SHA-256 over names in sorted order, each as ``name|d0,d1,..|`` and its bytes.

    Names are of printable ASCII characters without a bar: else two sets of tensors could have one hash.

    Example:
        >>> float32_sha256({"a": np.zeros((2, 3), np.float32)})[:8]
        '205d4964'
    """
    digest = hashlib.sha256()
    for name in sorted(tensors):
        if "|" in name or not (name.isascii() and name.isprintable()):
            raise CertificateError(
                f"a tensor is called {name!r:.80}; its name must be of printable ASCII characters, without "
                "'|'. Rename it."
            )
        digest.update(f"{name}|{','.join(map(str, tensors[name].shape))}|".encode())
        digest.update(np.ascontiguousarray(tensors[name], dtype="<f4").tobytes())
    return digest.hexdigest()

"""Tensors in files, written atomically and checked when read; and the hashes that name them.

Nothing in a file can run code: neither in those of runs, nor in weights that somebody else has saved.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from codebound.run.errors import CertificateError, FormatError, ModelError, brief
from codebound.run.files import read_json, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray
    from torch import nn

ADVICE = "Remove the run folder to train from the start."
"""Advice on a damaged file of a run."""

MAX_BYTES = 8 << 30  # of a weights file and of the tensors in it, checked before they are read
_INDEX = ".index.json"  # of weights in several files
_WRAPPERS = ("state_dict", "model_state_dict", "model")
_REAL = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_COMPLEX = (torch.complex64, torch.complex128)
_WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def save_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors and nothing else into a safetensors file: equal tensors give equal bytes."""
    from safetensors.torch import save

    write_atomically(path, save(dict(tensors), metadata={"format": "pt"}))


def save_tensors(path: Path, tensors: Mapping[str, Tensor], record: object) -> None:
    """Write tensors and a JSON value into a safetensors file, with a checksum."""
    from safetensors.torch import save

    text = json.dumps(record, allow_nan=False)
    metadata = {"format": "pt", "record": text, "sha256": state_sha256(tensors, text)}
    write_atomically(path, save(dict(tensors), metadata=metadata))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Read a file of `save_tensors`."""
    with _open(path) as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        text = metadata.get("record", "")
        if metadata.get("sha256") != state_sha256(tensors, text):
            raise FormatError(f"{path} is damaged: its content does not match its checksum. {ADVICE}")
        return tensors, json.loads(text)


def peek_record(path: Path) -> Any:
    """Read the JSON value of such a file alone, unchecked."""
    with _open(path) as file:
        return json.loads((file.metadata() or {}).get("record", "null"))


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise FormatError(f"{path} cannot be read: {error}. {ADVICE}") from error


def state_tensors(model: nn.Module) -> dict[str, Tensor]:
    """A copy of all parameters and buffers in the CPU's memory."""
    return {
        name: value.detach().to("cpu", copy=True).contiguous() for name, value in model.state_dict().items()
    }


def state_sha256(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """SHA-256 over ``text`` and names, types, shapes and bytes of tensors."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        digest.update(
            tensor.reshape(-1).clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy().data
        )
    return digest.hexdigest()


def float32_sha256(tensors: Mapping[str, NDArray[np.float32]]) -> str:
    """SHA-256 of tensors as in certificates (docs/format.md, 4.4).

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


def load_arrays(path: Path | str) -> dict[str, NDArray[np.float32]]:
    """The tensors of a weights file as a decoder takes them."""
    return {name: tensor.float().numpy() for name, tensor in load_weights(path).items()}


def load_weights(path: Path | str, *, cells: str = "") -> dict[str, Tensor]:
    """The named tensors of :func:`read_weights`, all real and finite; ``cells`` may have words and gaps."""
    tensors = read_weights(path)
    _check_kinds(tensors, _REAL + _WHOLE, path)
    bad = (name for name, tensor in tensors.items() if not bool(tensor.isfinite().all()))
    require_finite([name for name in bad if name != cells or bool(tensors[name].isinf().any())], path)
    return tensors


def read_weights(path: Path | str) -> dict[str, Tensor]:
    """Read the named tensors of a weights file, in its dtypes.

    Reads ``.safetensors``, or a torch checkpoint with ``weights_only=True``; never runs code from a file. Of
    weights in several files give the index. A checkpoint may hold its tensors under ``state_dict``,
    ``model_state_dict``, ``model``, or a name without others; a prefix ``module.`` of all names is dropped.
    """
    path = Path(path)
    if path.suffix == ".pt2":
        raise ModelError(
            f"{path}: exported programs (.pt2) are not read, because they hold pickled parts. "
            "Save the weights with safetensors and give the network as package.module:function."
        )
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ModelError(f"{path}: not a file. Give a .safetensors file or a torch checkpoint.")
    except OSError as cause:
        raise ModelError(f"{path}: cannot be read ({cause.strerror}).") from cause
    if size > MAX_BYTES:
        raise ModelError(f"{path}: {size} bytes, more than the limit of {MAX_BYTES} bytes.")
    tensors = _read_parts(path) if path.name.endswith(_INDEX) else _read_file(path)
    if all(name.startswith("module.") for name in tensors):
        tensors = {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
    _check_kinds(tensors, _REAL + _COMPLEX + _WHOLE, path)
    # strides of zero let a small file describe a large tensor
    _check_total(sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()), path=path)
    return tensors


def _read_parts(path: Path) -> dict[str, Tensor]:
    """The tensors of the files that an index names; all of them lie beside it."""
    found = read_json(path, advice="Fetch or save it again.").get("weight_map")
    listed = found if isinstance(found, dict) else {}
    names = sorted(set(map(str, listed.values())))
    strange = [name for name in names if Path(name).name != name or name.endswith(_INDEX)]
    if strange or not names:
        raise ModelError(
            f"{path}: an index says in weight_map which file beside it has which tensor. "
            f"Found {some(strange) if strange else 'no such files'}."
        )
    parts = [path.with_name(name) for name in names]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise ModelError(f"{path}: its files {some(missing)} are not beside it. Fetch them too.")
    _check_total(sum(part.stat().st_size for part in parts), path=path)
    tensors: dict[str, Tensor] = {}
    for part in parts:
        tensors |= _read_file(part)
    if absent := listed.keys() - tensors.keys():
        raise ModelError(f"{path}: no file has {some(sorted(absent))}. Fetch or save them again.")
    return tensors


def _read_file(path: Path) -> dict[str, Tensor]:
    return _unwrap(_read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path), path)


def _read_safetensors(path: Path) -> dict[str, object]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except (SafetensorError, OSError, KeyError) as cause:
        raise ModelError(
            f"{path}: not a whole safetensors file ({cause}). Fetch or save it again."
        ) from cause


def _read_torch(path: Path) -> dict[str, object]:
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                _check_total(sum(entry.file_size for entry in archive.infolist()), path=path)
        payload: object = torch.load(path, map_location="cpu", weights_only=True)
    except ModelError:
        raise
    except pickle.UnpicklingError as cause:
        raise ModelError(
            f"{path}: holds more than tensors, or is no torch checkpoint; it is refused because reading it "
            "could run code.\n  Where you trust it, load it with torch and save the tensors alone: "
            "safetensors.torch.save_file(model.state_dict(), 'weights.safetensors')."
        ) from cause
    except Exception as cause:  # torch's reader raises many types on a damaged file
        raise ModelError(
            f"{path}: not a readable torch checkpoint ({brief(cause)}). Save it again."
        ) from cause
    if not isinstance(payload, dict) or not all(isinstance(name, str) for name in payload):
        raise ModelError(f"{path}: expected named tensors (a state dict). Got {type(payload).__name__}.")
    return dict(payload)


def _unwrap(payload: dict[str, object], path: Path) -> dict[str, Tensor]:
    for key in _WRAPPERS:
        inner = payload.get(key)
        if isinstance(inner, dict):
            return _unwrap(dict(inner), path)
    strangers = [str(name) for name, value in payload.items() if not isinstance(value, Tensor)]
    dicts = [inner for inner in payload.values() if isinstance(inner, dict)]
    held = [each for each in dicts if each and all(isinstance(value, Tensor) for value in each.values())]
    if len(held) == 1 and len(strangers) == len(payload):
        return _unwrap(held[0], path)
    if strangers or not payload:
        raise ModelError(f"{path}: expected named tensors. These are none: {some(strangers)}.")
    return {str(name): value for name, value in payload.items() if isinstance(value, Tensor)}


def _check_kinds(tensors: Mapping[str, Tensor], kinds: tuple[torch.dtype, ...], path: Path | str) -> None:
    odd = [
        f"{name} ({dtype_name(tensor)})"
        for name, tensor in tensors.items()
        if tensor.dtype not in kinds or tensor.layout is not torch.strided or tensor.is_meta
    ]
    if odd:
        raise ModelError(f"{path}: only dense real tensors are read. Found: {some(odd)}.")


def require_finite(infinite: list[str], path: Path | str) -> None:
    """Refuse a file of which some tensors are not finite."""
    if infinite:
        raise ModelError(f"{path}: NaN or infinity in {some(infinite)}. No claim holds for such a network.")


def _check_total(size: int, *, path: Path) -> None:
    if size > MAX_BYTES:
        raise ModelError(f"{path}: unpacks to {size} bytes, more than the limit of {MAX_BYTES} bytes.")


def some(names: Iterable[str], limit: int = 8) -> str:
    """The first few names and the number of the others."""
    known = list(names)
    rest = f" and {len(known) - limit} more" if len(known) > limit else ""
    return (", ".join(known[:limit]) or "none") + rest


def dtype_name(tensor: Tensor) -> str:
    """The type of its entries, such as ``float32``."""
    return str(tensor.dtype).removeprefix("torch.")

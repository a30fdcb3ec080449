"""Networks from a name or a user's factory, and their weights from files that cannot run code."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pickle
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from codebound.known.provenance import Origin, remember
from codebound.run.errors import ModelError, UsageError
from codebound.run.files import read_json
from codebound.run.user_code import current_directory_importable
from codebound_networks.views.rebuild import brief, dtype_name, forbidden_entries, tensors_of, unwrapped
from codebound_networks.views.zoo import FORMER_NAMES, ZOO, build, seeded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    import numpy as np
    from numpy.typing import NDArray

MAX_BYTES = 8 << 30  # of a weights file and of the tensors in it, checked before they are read
_INDEX = ".index.json"  # of weights in several files
_WRAPPERS = ("state_dict", "model_state_dict", "model")
_COUNTER = "num_batches_tracked"  # of batch norm: plays no part in evaluation, so a file may leave it out
_REAL = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_COMPLEX = (torch.complex64, torch.complex128)
_WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def load_model(
    spec: str,
    *,
    input_shape: tuple[int, ...],
    classes: int,
    weights: Path | None = None,
    seed: int = 0,
) -> nn.Module:
    """A network from the zoo or from a user's factory, with the weights of a file if one is given.

    Args:
        spec: A name of the zoo with options (``mlp:depth=5,width=784``), ``package.module:factory`` or
            ``file.py:factory``.
            The factory is imported, with the current directory importable, and called with those of the
            keywords ``input_shape`` and ``classes`` that it takes; it returns an ``nn.Module``.
        input_shape: Shape of one input, without the batch.
        classes: Number of outputs.
        weights: File for :func:`load_weights`; without it the network is freshly initialised.
        seed: Seed of the initialisation.

    Example:
        >>> load_model("linear", input_shape=(64,), classes=10).linear1
        Linear(in_features=64, out_features=10, bias=True)
    """
    spec = FORMER_NAMES.get(spec, spec)
    name, colon, tail = spec.partition(":")
    if name in ZOO:
        model = build(spec, input_shape=input_shape, classes=classes, seed=seed)
        remember(model, Origin())
    elif colon and _is_importable(name) and all(part.isidentifier() for part in tail.split(".")):
        model = _call_factory(spec, input_shape=input_shape, classes=classes, seed=seed)
    else:
        raise UsageError(
            f"unknown model {spec!r}. Give a name ({', '.join(ZOO)}), with options such as "
            "mlp:depth=5,width=784, or a function that returns a network as package.module:function."
        )
    if weights is not None:
        install(model, read_weights(weights), path=weights)
    return model


def load_file(path: Path) -> ModuleType:
    """The Python module in a file, imported under the name of the file; this runs its code.

    What runs is the text of the file, never a compiled copy that lies beside it.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or not path.is_file():
        raise ModelError(f"{path}: not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    exec(compile(path.read_bytes(), path, "exec"), module.__dict__)
    return module


def _is_importable(name: str) -> bool:
    """Return True if a name is that of a Python module or file."""
    return name.endswith(".py") or all(part.isidentifier() for part in name.split("."))


def factory_of(model: str) -> str:
    """The factory that the name of a model asks for; empty where the zoo has the network."""
    return "" if model.partition(":")[0] in ZOO else model


def load_arrays(path: Path | str) -> dict[str, NDArray[np.float32]]:
    """The tensors of a weights file as a decoder takes them."""
    return {name: tensor.float().numpy() for name, tensor in load_weights(path).items()}


def load_weights(path: Path | str) -> dict[str, Tensor]:
    """The named tensors of :func:`read_weights`, all of them real and finite."""
    tensors = read_weights(path)
    _check_kinds(tensors, _REAL + _WHOLE, path)
    _require_finite([name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())], path)
    return tensors


def read_weights(path: Path | str) -> dict[str, Tensor]:
    """The named tensors of a weights file, on the CPU, in the file's dtypes, as they are.

    Reads ``.safetensors``, or a torch checkpoint with ``weights_only=True``; never runs code from a file. Of
    weights in several files give the index, ``model.safetensors.index.json``.

    A torch checkpoint may be the tensors themselves or hold them under ``state_dict``, ``model_state_dict``
    or ``model``, or under another name if there are no others; a prefix ``module.`` that all names share is
    dropped.
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
    _check_tensors(tensors, path=path)
    return tensors


def install(model: nn.Module, found: Mapping[str, Tensor], *, path: Path) -> None:
    """Writes the tensors of a file into ``model``; names and shapes must match and no value may change.

    A tensor is converted to the dtype of the network when that is exact: float16 and bfloat16 widen to
    float32; float64 is refused where rounding to float32 would alter a value, because a claim about
    the network in the file would then be made about another one. Batch-norm counters may be missing, and
    masks may hold minus infinity.
    """
    model = unwrapped(model)[0]
    wanted = model.state_dict()
    found = _without_prefix(found, wanted)
    missing = [name for name in wanted if name not in found and not name.endswith(_COUNTER)]
    unexpected = [name for name in found if name not in wanted]
    if missing or unexpected:
        raise ModelError(
            f"{path}: the tensors are not those of the network.\n"
            f"  missing from the file: {_some(missing)}\n"
            f"  unknown to the network: {_some(unexpected)}\n"
            f"  {_remedy(missing, found)}"
        )
    misshapen = [
        f"{name} {tuple(tensor.shape)} instead of {tuple(wanted[name].shape)}"
        for name, tensor in found.items()
        if tensor.shape != wanted[name].shape
    ]
    if misshapen:
        raise ModelError(
            f"{path}: wrong shapes: {_some(misshapen)}. Check the model's options and the data's classes."
        )
    held = {name: each for each in tensors_of(model) for name in each.names}
    _require_finite([name for name, tensor in found.items() if forbidden_entries(held[name], tensor)], path)
    altered = [
        f"{name} ({dtype_name(tensor)} to {dtype_name(wanted[name])})"
        for name, tensor in found.items()
        if not _is_exact(tensor, wanted[name].dtype)
    ]
    if altered:
        raise ModelError(
            f"{path}: converting to the network's dtypes would change values: {_some(altered)}. "
            "Save the file in the dtype you want to make claims about, such as tensor.float()."
        )
    model.load_state_dict({**wanted, **found})


def _remedy(missing: list[str], found: Mapping[str, Tensor]) -> str:
    """Advise on a file that does not fit. It may hold the network beside other things."""
    firsts = dict.fromkeys(name.partition(".")[0] for name in found)
    whole = next((f for f in firsts if missing and all(f"{f}.{name}" in found for name in missing)), None)
    if whole is None:
        return "Choose the model (and its options) that the file was saved from."
    return f"All of them are there under {whole}, beside others: save the state_dict() of that part alone."


def _without_prefix(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The tensors without a prefix that all names share, such as that of a trainer's wrapper."""
    while found and not any(name in wanted for name in found):
        prefix = next(iter(found)).partition(".")[0] + "."
        if not all(name.startswith(prefix) for name in found):
            break
        found = {name.removeprefix(prefix): tensor for name, tensor in found.items()}
    return found


def _call_factory(spec: str, *, input_shape: tuple[int, ...], classes: int, seed: int) -> nn.Module:
    module_name, _, attribute = spec.partition(":")
    try:
        with current_directory_importable():
            with seeded(seed):  # apart from the call: a module draws numbers only when it is first imported
                is_file = module_name.endswith(".py")
                factory: object = (
                    load_file(Path(module_name)) if is_file else importlib.import_module(module_name)
                )
            for part in attribute.split("."):
                factory = getattr(factory, part)
            if isinstance(factory, nn.Module) or not callable(factory):
                raise ModelError(f"model {spec}: not a function that returns a network, but {type(factory)}.")
            taken = inspect.signature(factory).parameters
            offered = {"input_shape": input_shape, "classes": classes}
            with seeded(seed):
                model = factory(**{key: value for key, value in offered.items() if key in taken})
                if isinstance(model, nn.Module):
                    _settle_lazy(model, input_shape)
    except ModelError:
        raise
    except (Exception, SystemExit) as cause:  # whatever a user's code raises, also when it is imported
        raise ModelError(f"model {spec}: {type(cause).__name__} while loading it: {cause}") from cause
    if not isinstance(model, nn.Module):
        raise ModelError(f"model {spec}: must return a torch.nn.Module. Got {type(model).__name__}.")
    return model


def _settle_lazy(model: nn.Module, input_shape: tuple[int, ...]) -> None:
    """Gives lazy layers their weights, by one input as the data have them."""
    if not any(is_lazy(tensor) for tensor in (*model.parameters(), *model.buffers())):
        return
    was_training = model.training
    x = torch.zeros(1, *input_shape)
    with torch.no_grad():
        try:
            model.eval()(x)
        except (RuntimeError, TypeError):
            model(x.long())  # tokens
    model.train(was_training)


def _read_parts(path: Path) -> dict[str, Tensor]:
    """The tensors of the files that an index names; all of them lie beside it."""
    found = read_json(path, advice="Fetch or save it again.").get("weight_map")
    listed = found if isinstance(found, dict) else {}
    names = sorted(set(map(str, listed.values())))
    strange = [name for name in names if Path(name).name != name or name.endswith(_INDEX)]
    if strange or not names:
        raise ModelError(
            f"{path}: an index says in weight_map which file beside it has which tensor. "
            f"Found {_some(strange) if strange else 'no such files'}."
        )
    parts = [path.with_name(name) for name in names]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise ModelError(f"{path}: its files {_some(missing)} are not beside it. Fetch them too.")
    _check_total(sum(part.stat().st_size for part in parts), path=path)
    tensors: dict[str, Tensor] = {}
    for part in parts:
        tensors |= _read_file(part)
    if absent := listed.keys() - tensors.keys():
        raise ModelError(f"{path}: no file has {_some(sorted(absent))}. Fetch or save them again.")
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
    held = [inner for inner in payload.values() if isinstance(inner, dict) and _is_state(inner)]
    if len(held) == 1 and len(strangers) == len(payload):
        return _unwrap(held[0], path)
    if strangers or not payload:
        raise ModelError(f"{path}: expected named tensors. These are none: {_some(strangers)}.")
    return {str(name): value for name, value in payload.items() if isinstance(value, Tensor)}


def _is_state(inner: Mapping[object, object]) -> bool:
    return bool(inner) and all(isinstance(value, Tensor) for value in inner.values())


def _check_kinds(tensors: Mapping[str, Tensor], kinds: tuple[torch.dtype, ...], path: Path | str) -> None:
    odd = [
        f"{name} ({dtype_name(tensor)})"
        for name, tensor in tensors.items()
        if tensor.dtype not in kinds or tensor.layout is not torch.strided or tensor.is_meta
    ]
    if odd:
        raise ModelError(f"{path}: only dense real tensors are read. Found: {_some(odd)}.")


def _check_tensors(tensors: Mapping[str, Tensor], *, path: Path) -> None:
    _check_kinds(tensors, _REAL + _COMPLEX + _WHOLE, path)
    # strides of zero let a small file describe a large tensor
    _check_total(sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()), path=path)


def _require_finite(infinite: list[str], path: Path | str) -> None:
    if infinite:
        raise ModelError(f"{path}: NaN or infinity in {_some(infinite)}. No claim holds for such a network.")


def _check_total(size: int, *, path: Path) -> None:
    if size > MAX_BYTES:
        raise ModelError(f"{path}: unpacks to {size} bytes, more than the limit of {MAX_BYTES} bytes.")


def _is_exact(tensor: Tensor, dtype: torch.dtype) -> bool:
    if tensor.is_floating_point() != dtype.is_floating_point:
        return False
    return torch.equal(tensor.to(dtype).to(tensor.dtype), tensor)


def _some(names: Iterable[str], limit: int = 8) -> str:
    """The first few names and the number of the others."""
    known = list(names)
    rest = f" and {len(known) - limit} more" if len(known) > limit else ""
    return (", ".join(known[:limit]) or "none") + rest

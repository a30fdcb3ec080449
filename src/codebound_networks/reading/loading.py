"""Networks from a name or a user's factory, and their weights from files that cannot run code."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from codebound.known.provenance import Origin, remember
from codebound.run.errors import ModelError, UsageError, did_you_mean
from codebound.run.extensions import current_directory_importable
from codebound.run.tensor_files import dtype_name, read_weights, require_finite, some
from codebound_networks.views.rebuild import forbidden_entries, tensors_of, unwrap
from codebound_networks.views.zoo import ZOO, build, use_seed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType


_COUNTER = "num_batches_tracked"  # of batch norm: plays no part in evaluation, so a file may leave it out


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
        weights: File for ``read_weights``; without it the network is freshly initialised.
        seed: Seed of the initialisation.

    >>> load_model("linear", input_shape=(64,), classes=10).linear1
    Linear(in_features=64, out_features=10, bias=True)
    """
    name, colon, tail = spec.partition(":")
    if name in ZOO:
        model = build(spec, input_shape=input_shape, classes=classes, seed=seed)
        remember(model, Origin())
    elif colon and _is_importable(name) and all(part.isidentifier() for part in tail.split(".")):
        model = _call_factory(spec, input_shape=input_shape, classes=classes, seed=seed)
    else:
        meant = did_you_mean(name, ZOO)
        raise UsageError(
            f"unknown model {spec!r}.{meant} Give a name ({', '.join(ZOO)}), with options such as "
            "mlp:depth=5,width=784, or a function that returns a network as package.module:function."
        )
    if weights is not None:
        install(model, read_weights(weights), path=weights)
    return model


def load_file(path: Path) -> ModuleType:
    """The Python module in a file, imported under the name of the file. This runs its code.

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
    """The factory that the name of a model asks for. Empty where the zoo has the network."""
    return "" if model.partition(":")[0] in ZOO else model


def install(model: nn.Module, found: Mapping[str, Tensor], *, path: Path) -> None:
    """Writes the tensors of a file into ``model``. Names and shapes must match and no value may change.

    A tensor is converted to the dtype of the network when that is exact: float16 and bfloat16 widen to
    float32; float64 is refused where rounding to float32 would alter a value, because a claim about
    the network in the file would then be made about another one. Batch-norm counters may be missing, and
    masks may hold minus infinity.
    """
    model = unwrap(model)[0]
    wanted = model.state_dict()
    found = _without_prefix(found, wanted)
    missing = [name for name in wanted if name not in found and not name.endswith(_COUNTER)]
    unexpected = [name for name in found if name not in wanted]
    if missing or unexpected:
        raise ModelError(
            f"{path}: the tensors are not those of the network.\n"
            f"  missing from the file: {some(missing)}\n"
            f"  unknown to the network: {some(unexpected)}\n"
            f"  {_remedy(missing, found)}"
        )
    misshapen = [
        f"{name} {tuple(tensor.shape)} instead of {tuple(wanted[name].shape)}"
        for name, tensor in found.items()
        if tensor.shape != wanted[name].shape
    ]
    if misshapen:
        raise ModelError(
            f"{path}: wrong shapes: {some(misshapen)}. Check the model's options and the data's classes."
        )
    held = {name: each for each in tensors_of(model) for name in each.names}
    require_finite([name for name, tensor in found.items() if forbidden_entries(held[name], tensor)], path)
    altered = [
        f"{name} ({dtype_name(tensor)} to {dtype_name(wanted[name])})"
        for name, tensor in found.items()
        if not _is_exact(tensor, wanted[name].dtype)
    ]
    if altered:
        raise ModelError(
            f"{path}: converting to the network's dtypes would change values: {some(altered)}. "
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
            with use_seed(seed):  # apart from the call: a module draws numbers only when it is first imported
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
            with use_seed(seed):
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


def _is_exact(tensor: Tensor, dtype: torch.dtype) -> bool:
    if tensor.is_floating_point() != dtype.is_floating_point:
        return False
    return torch.equal(tensor.to(dtype).to(tensor.dtype), tensor)

"""Device of a training, and its global random state. Layers such as dropout draw from that."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal

from codebound.run.errors import UsageError
from codebound.run.extensions import LazyModule

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
else:
    torch = LazyModule("torch")

Precision = Literal["float32", "tensorfloat32", "bfloat16"]


def resolve_device(device: torch.device | str) -> torch.device:
    """The device of that name; ``"auto"`` is the current CUDA device if there is one, else the CPU."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise UsageError(f"unknown device {device!r}. Known: auto, cpu, cuda, cuda:0, cuda:1, ...") from error
    if place.type == "cpu":
        return place
    if place.type != "cuda":
        raise UsageError(f"training runs on cpu or cuda. Got device {str(place)!r}.")
    if (place.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"device {str(place)!r} is not there: PyTorch {torch.__version__} sees "
            f"{torch.cuda.device_count()} CUDA devices. Use device cpu, or auto."
        )
    return torch.device("cuda", torch.cuda.current_device() if place.index is None else place.index)


def device_name(device: torch.device) -> str:
    """The device in words, for people who read a result."""
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)


@contextmanager
def isolated_random_state(device: torch.device) -> Iterator[None]:
    """Restore the global generators of the CPU and of ``device`` on leaving."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


def seed_layers(seed: int, device: torch.device) -> None:
    """Seed those generators, and those of no other device."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


def lower_precision(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Compute products and convolutions in bfloat16, where that is the precision."""
    if precision != "bfloat16":
        return nullcontext()
    # each weight is cast once a step anyway, and a replayed step must not find the cast of an earlier one
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)


def rounded_products(precision: Precision, device: torch.device) -> AbstractContextManager[None]:
    """Products of float32 tensors inside round their factors to the 10 bits of TF32, if that is asked for, on
    GPUs that have it; everywhere else they are as they are.
    """
    is_rounded = precision == "tensorfloat32" and device.type == "cuda"
    return exact_products("high") if is_rounded else nullcontext()


@contextmanager
def exact_products(precision: str = "highest") -> Iterator[None]:
    """Compute float32 products in float32, whatever the program around allows."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)

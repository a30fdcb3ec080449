"""``codebound doctor``: what this installation has, what it would gain, and what a model looks like to us."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from codebound.cli.console import Format, emit_rows, note
from codebound.cli.options import Output, option
from codebound.errors import UsageError

_CORE = ("torch", "numpy", "safetensors", "scikit-learn", "pillow", "typer", "rich")
_EXTRAS = {
    "torchvision": ("vision", "models and transforms of torchvision as `--model` and `--data` factories")
}


def command(
    model: Annotated[
        str | None, option("Zoo name or package.module:factory; lists every tensor of it.")
    ] = None,
    weights: Annotated[Path | None, option("Safetensors file or checkpoint for --model.")] = None,
    input_shape: Annotated[
        str | None,
        option(
            "Shape of one input for --model, such as 1x28x28. Default: the zoo model's own; 3x32x32 for "
            "a factory that asks for it."
        ),
    ] = None,
    classes: Annotated[int, option("Number of classes for --model.")] = 10,
    strict: Annotated[
        bool, option("Fail (exit 1) when --model has a tensor we cannot handle.", None, "--strict")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Report versions, device, data found and extras; with --model, check a network tensor by tensor."""
    if model is not None:
        _check_model(model, weights, input_shape, classes, strict, output)
        return
    if weights is not None or input_shape is not None or strict:
        raise UsageError("--weights, --input-shape and --strict check a network: give --model too.")
    emit_rows([*_versions(), *_devices(), *_data(), *_extras()], output)


def _versions() -> list[dict[str, str]]:
    import platform
    from importlib.metadata import version

    from codebound import __version__

    found = {"codebound": __version__, "python": platform.python_version()}
    found.update({name: version(name) for name in _CORE})
    return [{"what": name, "found": value, "note": ""} for name, value in found.items()]


def _devices() -> list[dict[str, str]]:
    import os

    import torch

    cpu = {"what": "cpu", "found": f"{os.cpu_count()} cores, {torch.get_num_threads()} threads", "note": ""}
    if not torch.cuda.is_available():
        return [
            cpu,
            {"what": "cuda", "found": "none", "note": "everything runs on the CPU; training is slower"},
        ]
    return [cpu, {"what": "cuda", "found": torch.cuda.get_device_name(0), "note": "use --device cuda"}]


def _data() -> list[dict[str, str]]:
    from codebound.data.layouts import known_datasets

    return [
        {
            "what": f"data {entry.name}",
            "found": entry.found or "not here",
            "note": entry.remedy,
        }
        for entry in known_datasets()
    ]


def _extras() -> list[dict[str, str]]:
    from importlib.util import find_spec

    return [
        {
            "what": f"extra [{extra}]",
            "found": "installed" if find_spec(name) else "not installed",
            "note": f"adds {gain}",
        }
        for name, (extra, gain) in _EXTRAS.items()
    ]


def _check_model(
    model: str, weights: Path | None, input_shape: str | None, classes: int, strict: bool, output: Format
) -> None:
    import torch

    from codebound.nets.loading import load_model
    from codebound.nets.walk import wrap
    from codebound.nets.zoo import ZOO

    if input_shape is not None:
        shape = _parse_shape(input_shape)
    else:
        name = model.partition(":")[0]
        shape = ZOO[name].input_shape if name in ZOO else (3, 32, 32)
    loaded = load_model(model, input_shape=shape, classes=classes, weights=weights)
    coverage = wrap(loaded, example=torch.zeros((2, *shape)), strict=strict).coverage
    emit_rows(coverage.rows(), output)
    if output is Format.table:
        note(coverage.sentence)


def _parse_shape(text: str) -> tuple[int, ...]:
    sizes = text.lower().split("x")
    if not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise UsageError(f"--input-shape is positive sizes joined by x, such as 1x28x28. Got {text!r}.")
    return tuple(int(size) for size in sizes)

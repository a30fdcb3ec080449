"""``codebound doctor``: what this installation has, what it would gain, and what a model looks like to us."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, emit_rows, note
from codebound.cli.options import option
from codebound.errors import UsageError
from codebound.report.tables import Table, tabulate

if TYPE_CHECKING:
    from torch import Tensor

    from codebound.nets.graphs import Traced
    from codebound.nets.walk import Network

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
    output: opt.Output = Format.table,
) -> None:
    """Report versions, device, data found and extras; with --model, check a network tensor by tensor."""
    if model is None:
        if weights is not None or input_shape is not None or strict:
            raise UsageError("--weights, --input-shape and --strict check a network: give --model too.")
        emit_rows(tabulate(("what", "found", "note"), _environment()).rows, output)
        return
    from codebound.commands import load_layers, model_sizes
    from codebound.nets.loading import factory_of

    given = input_shape or ("3x32x32" if factory_of(model) else None)
    shape, classes = model_sizes(model, given, classes)
    network = load_layers(model, shape, classes, weights, strict=strict)
    rows = network.coverage.rows()
    emit(rows, output, [Table("", [_brief(row) for row in rows]), *_reasons(rows)], rows=rows)
    if output is Format.table:
        for sentence in (*network.notes, network.coverage.sentence, *_prospects(network, shape, classes)):
            note(sentence)


def _brief(row: Mapping[str, str | int]) -> dict[str, object]:
    """A tensor in a line of a terminal."""
    return {
        "tensor": row["name"],
        "of": row["module_type"],
        "shape": row["shape"] if row["dtype"] == "float32" else f"{row['shape']} {row['dtype']}",
        "numbers": row["elements"],
        "how": row["status"],
    }


def _reasons(rows: Sequence[Mapping[str, str | int]]) -> list[str]:
    """What seen, carried and the others mean here; a reason that many tensors have is said once."""
    grouped: dict[tuple[object, object], list[object]] = {}
    for row in rows:
        grouped.setdefault((row["status"], row["reason"]), []).append(row["name"])
    return [
        f"{status} ({names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}): {reason}."
        for (status, reason), names in grouped.items()
    ]


def _prospects(network: Network, shape: tuple[int, ...], classes: int) -> Iterator[str]:
    """What ``certify`` would make of a network that can be read."""
    import torch

    from codebound.errors import ModelError
    from codebound.nets.adapting import output_shape, require_logits
    from codebound.nets.rebuild import first_weight

    if not network.is_readable:
        return
    weight = first_weight(network.model)
    example = torch.zeros(1, *shape, dtype=weight.dtype, device=weight.device)
    outputs = output_shape(network.model, example)
    try:
        require_logits(outputs, max(2, outputs[1]) if len(outputs) == 2 else classes)
    except ModelError as error:
        yield f"A certificate cannot be about this network: {error}"
    else:
        yield _coding(network.traced, example)


def _coding(traced: Traced, example: Tensor) -> str:
    """How a message of ``certify`` says what the network is, before anybody searches for one."""
    from codebound.coding.reading import chain_of
    from codebound.errors import ModelError, UnsupportedLayerError
    from codebound.nets.layered import plain_layers

    plain = cache(partial(plain_layers, traced.model, example))
    try:
        chain, tensors = chain_of(traced, tuple(example.shape[1:]), plain=plain)
    except (ModelError, UnsupportedLayerError) as error:
        try:
            plain()
        except ModelError as unreadable:
            return f"A certificate cannot be about this network: {unreadable}"
        return f"In a certificate only its tensors are coded; a file beside it says what is computed: {error}"
    entries = sum(tensor.numel() for tensor in tensors.values())
    return (
        f"In a certificate the message describes all of it: {len(chain.operations)} operations with "
        f"{entries:,} numbers, batch norms folded, biases quantised like weights."
    )


def _environment() -> Iterator[tuple[str, str, str]]:
    """What there is, by name, with a note."""
    import os
    import platform
    from importlib.metadata import version
    from importlib.util import find_spec

    import torch

    from codebound import __version__
    from codebound.data.catalogue import KNOWN, known_datasets, remedy

    yield "codebound", __version__, ""
    yield "python", platform.python_version(), ""
    for name in _CORE:
        yield name, version(name), ""
    yield "cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads", ""
    if torch.cuda.is_available():
        yield "cuda", torch.cuda.get_device_name(0), "use --device cuda"
    else:
        yield "cuda", "none", "everything runs on the CPU; training is slower"
    for name, found in known_datasets().items():
        yield f"data {name}", found or "not here", "" if found else remedy(KNOWN[name])
    for name, (extra, gain) in _EXTRAS.items():
        yield f"extra [{extra}]", "installed" if find_spec(name) else "not installed", f"adds {gain}"

"""``codebound doctor``: what this installation has, what it would gain, and what a model looks like to us."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, emit_rows, note
from codebound.cli.options import option
from codebound.report.templates import Table, tabulate
from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def command(
    model: Annotated[
        str | None, option("Zoo name or package.module:factory; lists every tensor of it.")
    ] = None,
    weights: Annotated[
        Path | None, option("Safetensors file or checkpoint for --model.", None, "--network")
    ] = None,
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
    if model is None and (weights is not None or input_shape is not None or strict):
        raise UsageError("--network, --input-shape and --strict check a network: give --model too.")
    from codebound_networks.cli.diagnosis import describe_installation, examine

    if model is None:
        emit_rows(tabulate(("what", "found", "note"), describe_installation()).rows, output)
        return
    found = examine(model, weights=weights, input_shape=input_shape, classes=classes, strict=strict)
    rows = found.rows
    emit(rows, output, [Table("", [_brief(row) for row in rows]), *_reasons(rows)], rows=rows)
    if output is Format.table:
        for sentence in found.sentences:
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
    """Explain each status of the tensors. A reason that many tensors have is said once."""
    grouped: dict[tuple[object, object], list[object]] = {}
    for row in rows:
        grouped.setdefault((row["status"], row["reason"]), []).append(row["name"])
    return [
        f"{status} ({names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}): {reason}."
        for (status, reason), names in grouped.items()
    ]

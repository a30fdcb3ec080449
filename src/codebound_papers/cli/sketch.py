"""``codebound sketch``: pruned layers squeezed to small matrices and recovered, and what that costs."""

from typing import Annotated, Any

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, listener
from codebound.cli.options import option
from codebound.report.templates import Table
from codebound_papers.cli import options as own

_KEEPS = "Share of the weights to keep, the largest (default: 0.01)."
_SIDE = "Side of the sketch, or auto: the smallest that is known to work, then larger."
_STRENGTH = "Prune at random instead, small weights first, by this strength d."
_DEGREE = "Ones in each column of A and B (default: at most 5)."


def command(
    model: opt.Model,
    weights: opt.Weights = None,
    layer: Annotated[list[str] | None, option("A layer to sketch; may be repeated (default: all).")] = None,
    m: Annotated[str, option(_SIDE)] = "auto",
    keep: Annotated[float | None, option(_KEEPS)] = None,
    strength: Annotated[float | None, option(_STRENGTH)] = None,
    levels: Annotated[int, option("Values a weight can take, odd.")] = 15,
    degree: Annotated[int | None, typer.Option(min=1, max=16, help=_DEGREE)] = None,
    seed: own.NaturalSeed = 0,
    input_shape: own.InputShape = None,
    classes: own.Classes = None,
    out: opt.SomeFolder = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Sketch the pruned layers of a network, recover them exactly, and compare with plain codes.

    A sketch holds fewer numbers than the layer has, but more than its non-zeros: it is no way to save bits.

    Example: codebound sketch --model mlp:depth=5,width=784 --network runs/w/model.safetensors --keep 0.01
    """
    options = dict(locals())
    from codebound_papers.guha23.sketch.layers import sketch_from_options

    record = sketch_from_options(options, out=out, listener=listener(quiet=quiet))
    shown = [Table("", [_table_row(row) for row in record["layers"]]), record["finding"]]
    emit(record, output, shown, rows=record["layers"])


def _table_row(row: dict[str, Any]) -> dict[str, object]:
    per_nonzero, bits, m1, m2 = (row[name] for name in ("m_squared_over_nnz", "bits_sketch", "m1", "m2"))
    return {
        "layer": row["name"] or "(the network)",
        "p1 x p2": f"{row['rows']} x {row['columns']}",
        "non-zeros": row["nnz"],
        "j_r": row["j_r"],
        "j_c": row["j_c"],
        "m": m1 if m1 == m2 else f"{m1} x {m2}",
        "m^2 / nnz": "-" if per_nonzero is None else f"{per_nonzero:.2f}",
        "m^2 / p1 p2": f"{row['m_squared_over_dense']:.3f}",
        "seconds": f"{row['seconds']:.1f}",
        "bits: sketch": "-" if bits is None else bits,
        "sparse": row["bits_sparse"],
        "dense": row["bits_dense"],
        "status": row["status"],
    }

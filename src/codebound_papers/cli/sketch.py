"""``codebound sketch``: pruned layers squeezed to small matrices and recovered, and what that costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit
from codebound.cli.options import option
from codebound.errors import UsageError
from codebound.files import write_json
from codebound.progress import progress_bar
from codebound.report.tables import Table
from codebound_papers.cli import options as own

if TYPE_CHECKING:
    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.walk import Network
    from codebound.progress import Progress
    from codebound_papers.compress.compressors import AbstractCompressor
    from codebound_papers.guha23.sketch.layers import SketchedLayer

_KEEP = 0.01
_SIDE = "Side of the sketch, or auto: the smallest that is known to work, then larger."
_KEEPS = f"Share of the weights to keep, the largest (default: {_KEEP})."
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

    Example: codebound sketch --model mlp:depth=5,width=784 --weights runs/w/model.safetensors --keep 0.01
    """
    values = dict(locals())
    from codebound.commands import load_layers, model_sizes, record_options
    from codebound.store import optional_folder
    from codebound_papers.guha23.sketch.layers import finding, sketch_layer, status

    settings = record_options(values)
    side = _side(m)
    algorithm = _pruning(keep, strength, levels)
    shape, outputs = model_sizes(model, input_shape, classes)
    views = _chosen(load_layers(model, shape, outputs, weights), layer)
    with optional_folder(out) as folder:
        with progress_bar("sketch", quiet=quiet) as progress:
            rows = []
            for position, view in enumerate(views):
                tell = _part(progress, position, len(views), view.name)
                rows.append(sketch_layer(view, algorithm, side=side, degree=degree, seed=seed, progress=tell))
        found = [asdict(row) for row in rows]
        record: dict[str, Any] = {"layers": found, "status": status(rows), "finding": finding(rows)}
        if folder is not None:
            settings |= {"pruning": repr(algorithm), "input_shape": list(shape), "classes": outputs}
            write_json(folder / "config.json", settings)
            write_json(folder / "result.json", record)
    shown = [Table("", [_table_row(row) for row in rows]), record["finding"]]
    emit(record, output, shown, rows=record["layers"])


def _side(m: str) -> int | None:
    if m == "auto":
        return None
    if not m.isdecimal() or int(m) < 1:
        raise UsageError(f"--m is auto or a whole number of at least 1. Got {m!r}.")
    return int(m)


def _pruning(keep: float | None, strength: float | None, levels: int) -> AbstractCompressor:
    from codebound_papers.guha23.magnitude import LargestWeights, MagnitudePruning

    if keep is not None and strength is not None:
        raise UsageError("give --keep, the largest weights, or --strength, random pruning; not both.")
    if strength is not None:
        return MagnitudePruning(strength=strength, levels=levels)
    return LargestWeights(density=_KEEP if keep is None else keep, levels=levels)


def _chosen(network: Network, names: list[str] | None) -> list[AbstractLayerView]:
    known = {view.name: view for view in network.layers}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise UsageError(f"there is no layer {unknown[0]!r} to sketch. The network has: {', '.join(known)}.")
    return [known[name] for name in dict.fromkeys(names or known)]


def _part(progress: Progress, position: int, count: int, name: str) -> Progress:
    """The share of one layer in the progress of all."""

    def advance(done: int, total: int | None, note: str = "") -> None:
        progress(100 * position + 100 * done // (total or 1), 100 * count, f"layer {name}")

    advance(0, 1)
    return advance


def _table_row(row: SketchedLayer) -> dict[str, object]:
    return {
        "layer": row.name or "(the network)",
        "p1 x p2": f"{row.rows} x {row.columns}",
        "non-zeros": row.nnz,
        "j_r": row.j_r,
        "j_c": row.j_c,
        "m": row.m1 if row.m1 == row.m2 else f"{row.m1} x {row.m2}",
        "m^2 / nnz": "-" if row.m_squared_over_nnz is None else f"{row.m_squared_over_nnz:.2f}",
        "m^2 / p1 p2": f"{row.m_squared_over_dense:.3f}",
        "seconds": f"{row.seconds:.1f}",
        "bits: sketch": "-" if row.bits_sketch is None else row.bits_sketch,
        "sparse": row.bits_sparse,
        "dense": row.bits_dense,
        "status": row.status,
    }

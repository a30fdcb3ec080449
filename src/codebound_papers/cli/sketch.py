"""``codebound sketch``: pruned layers squeezed to small matrices and recovered, and what that costs."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, progress_bar
from codebound.cli.loading import model_sizes, optional_folder
from codebound.cli.options import option, record_options
from codebound.errors import UsageError
from codebound.files import write_json
from codebound.report.tables import Table
from codebound_papers.cli import options as own
from codebound_papers.cli.compress import wrapped

if TYPE_CHECKING:
    from codebound.nets.layers import AbstractLayerView
    from codebound.nets.walk import Network
    from codebound.progress import Progress
    from codebound_papers.compress.compressors import AbstractCompressor

_KEEP = 0.01


def command(
    model: opt.Model,
    weights: opt.Weights = None,
    layer: Annotated[list[str] | None, option("A layer to sketch; may be repeated (default: all).")] = None,
    m: Annotated[
        str, option("Side of the sketch, or auto: the smallest that is known to work, then larger.")
    ] = "auto",
    keep: Annotated[
        float | None, option(f"Share of the weights to keep, the largest (default: {_KEEP}).")
    ] = None,
    strength: Annotated[
        float | None, option("Prune at random instead, small weights first, by this strength d.")
    ] = None,
    levels: Annotated[int, option("Values a weight can take, odd.")] = 15,
    degree: Annotated[
        int | None, typer.Option(min=1, max=16, help="Ones in each column of A and B (default: at most 5).")
    ] = None,
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
    settings = record_options(locals())
    from codebound.nets.loading import load_model

    side = _side(m)
    algorithm = _pruning(keep, strength, levels)
    shape, outputs = model_sizes(model, input_shape, classes)
    network = wrapped(load_model(model, input_shape=shape, classes=outputs, weights=weights), shape)
    views = _chosen(network, layer)
    with optional_folder(out) as folder:
        with progress_bar("sketch", quiet=quiet) as progress:
            rows = [
                _sketched(
                    view, algorithm, side, degree, seed, _part(progress, position, len(views), view.name)
                )
                for position, view in enumerate(views)
            ]
        record = {"layers": [asdict(row) for row in rows], "status": _status(rows), "finding": _finding(rows)}
        if folder is not None:
            settings |= {"pruning": repr(algorithm), "input_shape": list(shape), "classes": outputs}
            write_json(folder / "config.json", settings)
            write_json(folder / "result.json", record)
    shown = [Table("", [_table_row(row) for row in rows]), _finding(rows)]
    emit(record, output, shown, rows=record["layers"])  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class SketchedLayer:
    """What became of one layer.

    Attributes:
        name: Qualified name.
        rows: Rows of its matrix, p1.
        columns: Columns of it, p2.
        nnz: Non-zeros after pruning and rounding.
        j_r: Most non-zeros in a column.
        j_c: Most non-zeros in a row.
        m1: Rows of the sketch.
        m2: Columns of it.
        m_squared_over_nnz: Numbers in the sketch for each non-zero.
        m_squared_over_dense: Numbers in the sketch for each weight.
        seconds: Time of all attempts.
        status: ``recovered``, or why not.
        bits_sketch: Length of the sketch as a code, if it decodes to the layer.
        bits_sparse: Length of naming the non-zeros and their values, K-NV.
        bits_dense: Length of naming all values, K-DN.
    """

    name: str
    rows: int
    columns: int
    nnz: int
    j_r: int
    j_c: int
    m1: int
    m2: int
    m_squared_over_nnz: float | None
    m_squared_over_dense: float
    seconds: float
    status: str
    bits_sketch: int | None
    bits_sparse: int
    bits_dense: int


def _side(m: str) -> int | None:
    if m == "auto":
        return None
    if not m.isdecimal() or int(m) < 1:
        raise UsageError(f"--m is auto or a whole number of at least 1. Got {m!r}.")
    return int(m)


def _pruning(keep: float | None, strength: float | None, levels: int) -> AbstractCompressor:
    from codebound_papers.guha23.largest import LargestWeights
    from codebound_papers.guha23.magnitude import MagnitudePruning

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


def _sketched(
    view: AbstractLayerView,
    algorithm: AbstractCompressor,
    side: int | None,
    degree: int | None,
    seed: int,
    progress: Progress,
) -> SketchedLayer:
    """Prunes, rounds, sketches and recovers one layer."""
    import torch

    from codebound.coding.inner import integers
    from codebound.coding.modes import encode_tensors
    from codebound.coding.tensors import matrix_shape
    from codebound_papers.guha23.sketch.codec import plain_bits, smallest_sketch
    from codebound_papers.guha23.sketch.sparsity import distributed_sparsity

    grid = integers(algorithm.compress(view, seed=seed).code)
    rows, columns = matrix_shape(grid.shape)
    sparsity = distributed_sparsity(torch.from_numpy(grid.levels.reshape(rows, columns)))
    plain = plain_bits(grid.levels, step=grid.step)
    start = time.perf_counter()
    found = smallest_sketch(grid.levels, step=grid.step, m=side, degree=degree, seed=seed, progress=progress)
    seconds = time.perf_counter() - start
    numbers = found.m1 * found.m2
    return SketchedLayer(
        name=view.name,
        rows=rows,
        columns=columns,
        nnz=sparsity.nonzeros,
        j_r=sparsity.j_r,
        j_c=sparsity.j_c,
        m1=found.m1,
        m2=found.m2,
        m_squared_over_nnz=numbers / sparsity.nonzeros if sparsity.nonzeros else None,
        m_squared_over_dense=numbers / (rows * columns),
        seconds=round(seconds, 3),
        status=f"not recovered: {found.reason}" if found.code is None else "recovered",
        bits_sketch=None if found.code is None else encode_tensors([found.code]).length,
        bits_sparse=plain.sparse,
        bits_dense=plain.dense,
    )


def _recovered(rows: list[SketchedLayer]) -> list[SketchedLayer]:
    return [row for row in rows if row.bits_sketch is not None]


def _status(rows: list[SketchedLayer]) -> str:
    count = len(_recovered(rows))
    return "recovered" if count == len(rows) else "partly recovered" if count else "not recovered"


def _finding(rows: list[SketchedLayer]) -> str:
    """What the sketches cost against plain codes, in a sentence."""
    found = _recovered(rows)
    if not found:
        return "No layer comes back from its sketch, so there is nothing to compare."
    sketch = sum(row.bits_sketch or 0 for row in found)
    sparse, dense = sum(row.bits_sparse for row in found), sum(row.bits_dense for row in found)
    ratio, numbers = sketch / sparse, sum(row.m1 * row.m2 for row in found) / sum(row.nnz for row in found)
    than_sparse = f"{ratio:.1f} times longer" if ratio > 1.0 else f"shorter, by a factor of {1.0 / ratio:.2f}"
    than_dense = "shorter" if sketch < dense else "longer"
    return (
        f"The sketches take {sketch:,} bits, {numbers:.1f} numbers for each non-zero; naming the non-zeros "
        f"and their values takes {sparse:,} bits, all values {dense:,}. Sketching is {than_sparse} than "
        f"plain sparse coding, and {than_dense} than dense coding."
    )


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

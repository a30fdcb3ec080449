"""Pruned layers as sketches: squeezed to small matrices and recovered, what that costs, and as messages."""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from codebound.cli.actions import record_options
from codebound.methods.guesses import consider
from codebound.methods.search import Search, UnsuitedError
from codebound.run.errors import UsageError
from codebound.run.files import optional_folder, write_json
from codebound.run.progress import NOBODY, Listener, Progress, silent
from codebound_networks.about_f.models import load_layers, model_sizes
from codebound_networks.chains.message import Message
from codebound_networks.codes.modes import encode_tensors, integers
from codebound_networks.codes.tensors import AbstractGridCode, AbstractTensorCode, matrix_shape
from codebound_networks.methods.pruned import quantise_tensor
from codebound_networks.reading.walk import Network
from codebound_networks.views.layers import AbstractLayerView
from codebound_papers.compress.compressors import AbstractCompressor
from codebound_papers.guha23.magnitude import LargestWeights, MagnitudePruning
from codebound_papers.guha23.sketch.codec import plain_bits, smallest_sketch
from codebound_papers.guha23.sketch.sparsity import distributed_sparsity

_OPTIONS = ((0.1, 7), (0.05, 3), (0.02, 3))  # density and levels
_KEEP = 0.01  # share of the weights, where nothing is said
_MOST_ELEMENTS = 1 << 22  # sketched in one message: half of what its decoder may be asked for


@dataclass(frozen=True, slots=True)
class SketchedLayer:
    """Outcome for one layer."""

    name: str
    rows: int  # rows of its matrix, p1; columns p2, and m1 and m2 those of the sketch
    columns: int
    nnz: int  # non-zeros after pruning and rounding
    j_r: int  # most non-zeros in a column
    j_c: int  # most non-zeros in a row
    m1: int
    m2: int
    m_squared_over_nnz: float | None  # numbers in the sketch for each non-zero
    m_squared_over_dense: float  # numbers in the sketch for each weight
    seconds: float  # time of all attempts
    status: str  # recovered, or why not
    bits_sketch: int | None  # length of the sketch as a code, if it decodes to the layer
    bits_sparse: int  # length of naming the non-zeros and their values, K-NV
    bits_dense: int  # length of naming all values, K-DN


def sketch_layer(
    view: AbstractLayerView,
    algorithm: AbstractCompressor,
    *,
    side: int | None = None,
    degree: int | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> SketchedLayer:
    """Prunes and rounds one layer by an algorithm, sketches and recovers it; see ``smallest_sketch``."""
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


def _select_recovered(rows: list[SketchedLayer]) -> list[SketchedLayer]:
    return [row for row in rows if row.bits_sketch is not None]


def status(rows: list[SketchedLayer]) -> str:
    """Summarise the layers: all recovered, some or none."""
    count = len(_select_recovered(rows))
    return "recovered" if count == len(rows) else "partly recovered" if count else "not recovered"


def compare(rows: list[SketchedLayer]) -> str:
    """Compare the bits of sketches with those of plain codes, in a sentence."""
    found = _select_recovered(rows)
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


def sketch_from_options(
    options: Mapping[str, Any], *, out: Path | None = None, listener: Listener = NOBODY
) -> dict[str, Any]:
    """Sketches the layers of a network; a new folder gets the settings and the record."""
    side, algorithm = _side(options["m"]), _pruning(options)
    shape, outputs = model_sizes(options["model"], options["input_shape"], options["classes"])
    network = load_layers(options["model"], shape, outputs, options["weights"])
    views, rows = _choose(network, options["layer"]), list[SketchedLayer]()
    asked = partial(sketch_layer, side=side, degree=options["degree"], seed=options["seed"])
    with optional_folder(out) as folder:
        with listener.bar("sketch") as progress:
            for position, view in enumerate(views):
                tell = _part(progress, position, len(views), view.name)
                rows.append(asked(view, algorithm, progress=tell))
        record = {"layers": [asdict(row) for row in rows], "status": status(rows), "finding": compare(rows)}
        if folder is not None:
            sizes = {"pruning": repr(algorithm), "input_shape": list(shape), "classes": outputs}
            write_json(folder / "config.json", record_options(options) | sizes)
            write_json(folder / "result.json", record)
    return record


def _side(m: str) -> int | None:
    if m != "auto" and (not m.isdecimal() or int(m) < 1):
        raise UsageError(f"--m is auto or a whole number of at least 1. Got {m!r}.")
    return None if m == "auto" else int(m)


def _pruning(options: Mapping[str, Any]) -> AbstractCompressor:
    keep, strength, levels = options["keep"], options["strength"], options["levels"]
    if keep is not None and strength is not None:
        raise UsageError("give keep, the largest weights, or strength, random pruning; not both.")
    if strength is not None:
        return MagnitudePruning(strength=strength, levels=levels)
    return LargestWeights(density=_KEEP if keep is None else keep, levels=levels)


def _choose(network: Network, names: list[str] | None) -> list[AbstractLayerView]:
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


def propose_sketched(search: Search) -> None:
    """Sketched layers where they can be recovered, plain codes for the others."""
    if search.task.stays_near_f:
        raise UnsuitedError("sketch prunes, which moves the network too far for a claim about f.")
    consider(search, [partial(_message, search, density, levels) for density, levels in _OPTIONS])
    if search.best is None:
        raise UnsuitedError(
            "sketch recovers no layer of this network from fewer numbers than it has; `codebound sketch` "
            "says why, layer by layer."
        )


def _message(search: Search, density: float, levels: int) -> Message | None:
    """The message at a density; None if it has no sketch in it."""
    codes: dict[str, AbstractTensorCode] = {}
    left, found = _MOST_ELEMENTS, False
    for name in search.task.f.tensors:
        plain = codes[name] = quantise_tensor(name, search.task, density=density, levels=levels)
        if len(plain.shape) < 2 or not isinstance(plain, AbstractGridCode) or plain.levels.size > left:
            continue
        # In competition a sketch that is longer is not worth solving; alone, sketches are what was asked for.
        naive = plain_bits(plain.levels, step=plain.step).sparse if search.best is not None else math.inf
        attempt = smallest_sketch(plain.levels, step=plain.step, most_bits=naive)
        if attempt.code is not None:
            codes[name], found = attempt.code, True
            left -= plain.levels.size
    return Message(search.task.options, search.task.chain, codes) if found else None

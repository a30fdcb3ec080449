"""``codebound measure``: norms, spectra, tails, noise stability and margins of a network, layer by layer."""

from typing import Annotated

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, listener
from codebound.cli.options import option, start_engine
from codebound_papers.cli import options as own
from codebound_papers.cli.options import STABILITY

_FAMILIES = "What to measure, separated by commas."
_TAILS_OF = "Fit tails to: eigenvalues, or absolute or positive weights (slow)."
_INTERLAYER = "Jacobians: none, output (each layer to the output) or all (each to all later ones)."
_JACOBIAN = "Norms of Jacobians: exact, probes (64 random ones), or auto: probes for large networks."
_SMOOTHNESS = "Noise for smoothness: gaussian, project (that of random projection; slow) or none."
_OUTLIERS = "Fraction of the examples that may be left out."


def command(
    model: opt.Model,
    data: opt.Data,
    weights: opt.Weights = None,
    data_folder: opt.DataFolder = None,
    examples: own.Examples = None,
    families: Annotated[str, option(_FAMILIES)] = "spectra,tails,stability,margins",
    tails_of: Annotated[str, option(_TAILS_OF)] = "eigenvalues",
    interlayer: Annotated[str, option(_INTERLAYER, STABILITY)] = "output",
    jacobian: Annotated[str, option(_JACOBIAN, STABILITY)] = "auto",
    smoothness: Annotated[str, option(_SMOOTHNESS, STABILITY)] = "gaussian",
    biases: own.Biases = "augmented",
    outliers: Annotated[float, option(_OUTLIERS, STABILITY)] = 0.0,
    initial: own.Initial = None,
    chunk_size: own.ChunkSize = 64,
    device: opt.Device = "auto",
    seed: opt.Seed = 0,
    engine: opt.EngineKind = None,
    workers: opt.Workers = None,
    address: opt.Address = None,
    out: opt.SomeFolder = None,
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Measure a network layer by layer: norms, spectra, tails, noise stability, margins.

    Example: codebound measure --model mlp --network runs/w/model.safetensors --data digits
    """
    options = dict(locals())
    from codebound_papers.measure.summary import measure_from_options
    from codebound_papers.report.measures import flat_rows, measure_tables

    hear = listener(quiet=quiet)
    with start_engine(engine, workers, address) as measurers:
        record = measure_from_options(options, out=out, engine=measurers, listener=hear)
    rows = flat_rows(record)
    emit(record, output, [*measure_tables(record), *record["notes"]], rows=rows)
    if output is Format.csv and record["margins"] is not None and "name" in rows[0]:
        hear.note("One line per layer; the margins of the whole network are in --format table and json.")
    if out is not None:
        hear.note(f"Page with figures: {out / 'measure.html'}")

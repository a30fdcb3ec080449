"""``codebound through``: a network of one's own, bounded through the certificate of another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note
from codebound.cli.options import option
from codebound.report.tables import tabulate


def command(
    file: Annotated[Path, typer.Argument(help="The folder that certify wrote, or the certificate in it.")],
    data: opt.Data,
    model: opt.Model,
    unlabelled: Annotated[
        str, option("Fresh inputs, written like --data; a known name gives its test split.")
    ],
    weights: opt.Weights = None,
    g_weights: Annotated[
        Path | None, option("The file g.safetensors, if it is needed and not beside the certificate.")
    ] = None,
    base: Annotated[
        Path | None, option("Safetensors file of the base, if the message codes differences.")
    ] = None,
    encoder: opt.EncoderName = None,
    delta: Annotated[
        float, option("Failure probability of the limit on the disagreement, beside that of the certificate.")
    ] = 0.025,
    allow_copies: Annotated[bool, option("Declare copies to be independent draws that are equal.")] = False,
    data_folder: opt.DataFolder = None,
    out: Annotated[Path | None, option("The .json file to write; it must not exist.")] = None,
    output: opt.Output = Format.table,
) -> None:
    """Bound the error of your own network by a certificate of another and by how often the two differ.

    Example: codebound through cert --data mnist --model lenet --weights f.safetensors --unlabelled mnist
    """
    from codebound.classifier import CERTIFICATE
    from codebound.commands import load_network
    from codebound.data.catalogue import KNOWN
    from codebound.data.load import load_dataset
    from codebound.encoders.known import load_encoder
    from codebound.encoders.tables import encoded
    from codebound.errors import UsageError
    from codebound.files import write_json
    from codebound.nets.loading import load_arrays
    from codebound.results import WEIGHTS
    from codebound.through import bound_through

    if out is not None and out.exists():
        raise UsageError(f"{out} exists already. Choose another --out.")
    path = file / CERTIFICATE if file.is_dir() else file
    beside = path.with_name(WEIGHTS)
    known = None if encoder is None else load_encoder(encoder)
    raw = load_dataset(data, folder=data_folder)
    sample = raw if known is None else encoded(known, raw)
    is_known = unlabelled.lower() in KNOWN
    fresh = load_dataset(unlabelled, role="test" if is_known else "unlabelled", folder=data_folder)
    found = bound_through(
        path,
        load_network(model, raw, weights),
        sample=sample,
        unlabelled=fresh.select(range(fresh.n), role="unlabelled"),
        delta=delta,
        base=None if base is None else load_arrays(base),
        weights=g_weights or (beside if beside.is_file() else None),
        encoder=known,
        allow_copies=allow_copies,
    )
    record = found.record()
    if out is not None:
        write_json(out, record)
    emit(record, output, [tabulate(("what", "value"), list(record.items()))], rows=[record])
    if output is Format.table:
        note(found.sentence)

"""``codebound through``: a network of one's own, bounded through the certificate of another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, note
from codebound.cli.options import option
from codebound.report.text_tables import tabulate


def command(
    file: opt.CertificateFolder,
    data: opt.Data,
    model: opt.Model,
    unlabelled: Annotated[
        str, option("Fresh inputs, written like --data; a known name gives its test split.")
    ],
    weights: opt.Weights = None,
    g_weights: opt.WeightsBeside = None,
    base: opt.BaseBeside = None,
    encoder: opt.EncoderName = None,
    delta: Annotated[
        float, option("Failure probability of the limit on the disagreement, beside that of the certificate.")
    ] = 0.025,
    data_folder: opt.DataFolder = None,
    out: Annotated[Path | None, option("The .json file to write; it must not exist.")] = None,
    output: opt.Output = Format.table,
) -> None:
    """Bound the error of your own network by a certificate of another and by how often the two differ.

    Example: codebound through cert --data mnist --model lenet --weights f.safetensors --unlabelled mnist
    """
    options = dict(locals())
    from codebound_networks.cli.actions import through_from_options

    found = through_from_options(options, out=out)
    record = found.record()
    emit(record, output, [tabulate(("what", "value"), list(record.items()))], rows=[record])
    if output is Format.table:
        note(found.sentence)

"""``codebound encode``: a sample as the table that a frozen encoder makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from codebound.cli import options as opt
from codebound.cli.console import Format, emit, listener, note
from codebound.cli.options import option
from codebound.report.tables import tabulate


def command(
    encoder: Annotated[str, option("The function that makes the encoder: package.module:factory.")],
    data: opt.Data,
    out: opt.SomeTable = None,
    compare: Annotated[Path | None, option("A table (.npz) to compare with: says what differs.")] = None,
    role: opt.Role = opt.SplitRole.train,
    data_folder: opt.DataFolder = None,
    device: opt.Device = "cpu",
    output: opt.Output = Format.table,
    quiet: opt.Quiet = False,
) -> None:
    """Turn a sample into the table of its encoded inputs, which is a sample like any other.

    Example: codebound encode --encoder efficientnet:features --data cifar10 --out table.npz
    """
    from codebound.known.encoder import differing, load_encoder, load_table, save_table
    from codebound.run.device import resolve_device
    from codebound.sample.load import load_dataset

    place = resolve_device(device)
    found = load_encoder(encoder, device=place)
    with listener(quiet=quiet).bar("encode") as progress:
        table = load_table(found, data, role=role.value, folder=data_folder, device=place, progress=progress)
    record = {
        "encoder": found.name,
        "encoder_sha256": found.sha256,
        "licence": found.licence,
        "data": data,
        "n": table.n,
        "columns": table.input_shape[0],
        "classes": table.classes,
        "sha256": table.sha256,
    }
    if compare is not None:
        record["differs"] = differing(table, load_dataset(str(compare)))
    if out is not None:
        save_table(out, table)
        record["out"] = str(out)
    emit(record, output, [tabulate(("what", "value"), list(record.items()))], rows=[record])
    if output is Format.table and not quiet:
        note(f"A certificate on this table declares: {table.encoder}")

"""``codebound decode`` and ``codebound show``: the network and the claim inside a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codebound.cli.console import Format, note, print_csv, print_json, print_table
from codebound.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def decode(
    file: Annotated[Path, typer.Argument(help="The certificate (.cbound).")],
    out: Annotated[Path, typer.Option(help="Where to write the network g (.safetensors).")],
    model: Annotated[
        str | None, typer.Option(help="package.module:factory, if the architecture is outside the file.")
    ] = None,
    base: Annotated[
        Path | None, typer.Option(help="Safetensors file of the base, if the message codes differences.")
    ] = None,
) -> None:
    """Write the network that a certificate is about."""
    from safetensors.torch import save_file

    from codebound.certificate.decoding import decode as decode_network
    from codebound.certificate.file import Certificate
    from codebound.nets.loading import load_model

    if out.exists():
        raise UsageError(f"{out} exists already. Choose another --out.")
    if not out.parent.is_dir():
        raise UsageError(f"the folder {out.parent} does not exist. Choose another --out.")
    certificate = Certificate.load(file)
    shape, classes = certificate.helper.input_shape, certificate.facts.classes
    module = None if model is None else load_model(model, input_shape=shape, classes=classes)
    network = decode_network(certificate, module=module, base=None if base is None else read_arrays(base))
    temporary = out.with_name(f".{out.name}")
    save_file({name: t.contiguous() for name, t in network.state_dict().items()}, temporary)
    temporary.replace(out)
    note(f"{network}")
    note(f"{certificate}\nWritten to {out}.")


def read_arrays(path: Path) -> dict[str, NDArray[np.float32]]:
    """The tensors of a weights file as the decoder takes them."""
    from codebound.nets.loading import load_weights

    return {name: tensor.float().numpy() for name, tensor in load_weights(path).items()}


def show(
    file: Annotated[Path, typer.Argument(help="The certificate (.cbound).")],
    output: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.table,
) -> None:
    """Print the claim, where the bits went, and what is declared; checks nothing (see verify)."""
    from dataclasses import asdict

    from codebound.certificate.file import Certificate

    certificate = Certificate.load(file)
    if output is Format.json:
        record = asdict(certificate)
        del record["message"]
        print_json(record)
        return
    ledger = [{"part": part, "bits": bits} for part, bits in certificate.ledger]
    if output is Format.csv:
        print_csv(ledger)
        return
    typer.echo(str(certificate))
    print_table(ledger)
    note("Declared, and not checkable by any program:")
    for line in certificate.declarations:
        note(f"  - {_printable(line)}")


def _printable(text: str) -> str:
    """The text with control characters escaped: a stranger's file must not draw on the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)

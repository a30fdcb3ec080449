"""``codebound decode``: the network inside a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from codebound.cli import options as opt
from codebound.cli.console import note
from codebound.cli.options import option
from codebound.errors import UsageError


def command(
    file: opt.CertificateFile,
    out: Annotated[Path, option("Where to write the network g (.safetensors).")],
    model: Annotated[
        str | None, option("package.module:factory, if the architecture is outside the file.")
    ] = None,
    base: Annotated[
        Path | None, option("Safetensors file of the base, if the message codes differences.")
    ] = None,
) -> None:
    """Write the network that a certificate is about."""
    from safetensors.torch import save_file

    from codebound.certificate.decoding import decode
    from codebound.certificate.file import Certificate
    from codebound.nets.loading import load_arrays, load_model

    if out.exists():
        raise UsageError(f"{out} exists already. Choose another --out.")
    if not out.parent.is_dir():
        raise UsageError(f"the folder {out.parent} does not exist. Choose another --out.")
    certificate = Certificate.load(file)
    shape, classes = certificate.helper.input_shape, certificate.facts.classes
    module = None if model is None else load_model(model, input_shape=shape, classes=classes)
    network = decode(certificate, module=module, base=None if base is None else load_arrays(base))
    temporary = out.with_name(f".{out.name}")
    save_file({name: t.contiguous() for name, t in network.state_dict().items()}, temporary)
    temporary.replace(out)
    note(f"{network}")
    note(f"{certificate}\nWritten to {out}.")

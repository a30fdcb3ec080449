"""Delivery: the guarantee is about g, so g is handed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from codebound.certificate.file import Certificate
from codebound.certificate.message import decode as decode_message
from codebound.certificate.tensors import tensors_sha256
from codebound.errors import CertificateError
from codebound.nets.rebuild import with_weights

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from torch import nn


def decode(
    source: Certificate | Path | str,
    *,
    module: nn.Module | None = None,
    base: Mapping[str, NDArray[np.float32]] | None = None,
) -> nn.Module:
    """The network g of a certificate, in evaluation mode; its weights are the same bits on every machine.

    Args:
        source: A certificate or its file.
        module: What the factory returns, where the architecture is a helper.
        base: The tensors of the base, where the message codes differences.
    """
    certificate = source if isinstance(source, Certificate) else Certificate.load(source)
    helper = certificate.helper
    if helper.architecture is not None and module is None:
        raise CertificateError(f"the architecture is a helper: give --model {helper.architecture.name}.")
    if helper.base is not None:
        if base is None:
            raise CertificateError(f"the message codes differences: give --base, {helper.base.name}.")
        if tensors_sha256(base) != helper.base.sha256:
            raise CertificateError(f"this base is not the one the certificate names ({helper.base.sha256}).")
    shapes = None if module is None else {name: tuple(t.shape) for name, t in module.state_dict().items()}
    message = decode_message(
        certificate.message,
        input_shape=helper.input_shape,
        classes=certificate.facts.classes,
        factory=shapes,
    )
    tensors = {name: torch.from_numpy(value) for name, value in message.weights(base).items()}
    if message.chain is not None:
        return message.chain.build(tensors)
    assert module is not None
    return with_weights(module, tensors)

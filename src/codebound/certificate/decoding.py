"""The decoder: from a certificate to its network g."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.certificate.declarations import MAX_CHARACTERS, require_learned
from codebound.certificate.file import Certificate
from codebound.run.errors import CertificateError
from codebound.run.extensions import form_of
from codebound.run.tensor_files import float32_sha256

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from codebound.bits.messages import AbstractMessage
    from codebound.known.encoder import Encoder
    from codebound.learn.rule import PickedMessage


def decode(
    source: Certificate | Path | str,
    *,
    base: Mapping[str, NDArray[np.float32]] | None = None,
    weights: Path | str | None = None,
    encoder: Encoder | None = None,
) -> nn.Module:
    """The network g of a certificate, in evaluation mode; its weights are the same bits on every machine.

    A network that was learned from picked examples (C-15) is not in the message. It takes inputs as they are
    stored, and stands in the file that was saved beside the certificate.

    Args:
        source: A certificate or its file.
        base: The tensors of the base, where the message codes differences.
        weights: The file of a network that was learned from picks.
        encoder: What ``load_encoder`` finds, where the certificate is about the table of an encoder: then g
            has it in front, and takes raw inputs.
    """
    certificate = source if isinstance(source, Certificate) else Certificate.load(source)
    helper, is_learned = certificate.helper, certificate.kind.is_learned
    if encoder is not None:
        require_declared(encoder, certificate)
        from codebound.known.encoder import Encoded

        return Encoded(encoder, decode(certificate, base=base, weights=weights), takes_stored=is_learned)
    if is_learned:
        return _load_learned(certificate, weights)
    if helper.base is None:
        if base is not None:
            raise CertificateError("the certificate names no base: leave out the base.")
    elif base is None:
        raise CertificateError(f"the message codes differences: give the base, {helper.base.name}.")
    elif float32_sha256(base) != helper.base.sha256:
        raise CertificateError(f"this base is not the one the certificate names ({helper.base.sha256}).")
    message: AbstractMessage = form_of("message")(
        certificate.message,
        input_shape=helper.input_shape,
        known=certificate.setting if certificate.version == 1 else None,
        short_classes=certificate.setting.classes if certificate.is_short else None,
        witness=None if certificate.version == 1 else certificate.witness,
    )
    _require_agreement(message, certificate)
    return message.build(base)


def require_declared(encoder: Encoder, certificate: Certificate) -> None:
    """Refuses an encoder that the certificate does not declare."""
    if encoder.declared[:MAX_CHARACTERS] not in certificate.declarations:
        raise CertificateError(
            f"this certificate does not declare the encoder {encoder.name} of SHA-256 {encoder.sha256}: "
            "see what it declares with codebound show."
        )


def _load_learned(certificate: Certificate, weights: Path | str | None) -> nn.Module:
    """The network that was learned by the rule of the message, from its file."""
    from codebound.learn.kernel_network import PickedNetwork
    from codebound.run.tensor_files import load_weights

    if weights is None:
        raise CertificateError(
            "g was learned from picked examples of the sample: give its weights, the file g.safetensors that "
            "was saved beside the certificate."
        )
    message = rule_message(certificate)
    _require_agreement(message, certificate)
    if certificate.witness != message.witness():
        raise CertificateError("the file has a witness, and a rule needs none.")
    tensors = load_weights(weights)
    require_learned(certificate, tensors)
    return PickedNetwork.load(message.rule, message.setting.scaling.divisor, tensors)


def _require_agreement(message: AbstractMessage | PickedMessage, certificate: Certificate) -> None:
    if message.setting != certificate.setting:
        raise CertificateError(
            f"the message is about {message.setting}, the header of the file about {certificate.setting}."
        )
    if message.version > max(2, certificate.version):
        raise CertificateError(f"files of version {certificate.version} have no such message.")


def rule_message(certificate: Certificate) -> PickedMessage:
    """The rule that the message of a certificate names."""
    from codebound.learn.rule import decode_rule

    first = certificate.facts.extra.get("first")
    if type(first) is not int:
        raise CertificateError("the certificate does not say how many examples its rule starts with.")
    known = (certificate.setting, first) if certificate.is_short else None
    return decode_rule(certificate.message, input_shape=certificate.helper.input_shape, known=known)

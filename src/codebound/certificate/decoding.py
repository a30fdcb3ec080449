"""The decoder: from a certificate to its classifier g."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.bits.plain_code import NETWORK, USUAL_SPLIT, PlainReader, bits_of
from codebound.certificate.file import Certificate
from codebound.certificate.words import require_learned
from codebound.known.score_tables import Biased
from codebound.run.errors import CertificateError
from codebound.run.extensions import find_extensions, form_of
from codebound.run.extensions import reader as reader_of
from codebound.run.tensor_files import float32_sha256
from codebound.sample.questions import code_start

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from codebound.known.encoder import Encoder
    from codebound.known.messages import AbstractMessage


def decode(
    source: Certificate | Path | str,
    *,
    base: Mapping[str, NDArray[np.float32]] | None = None,
    weights: Path | str | None = None,
    scored_by: nn.Module | None = None,
) -> nn.Module:
    """The classifier g of a certificate, in evaluation mode; its weights are the same bits on every machine.

    A classifier that was learned from the sample is not in the message. It takes inputs as they are stored,
    and stands in the file that was saved beside the certificate.

    Args:
        source: A certificate or its file.
        base: The tensors of the base, where the message codes differences.
        weights: The file of a classifier that was learned from the sample.
        scored_by: The classifier behind the declared scores, where those are counted and it is in no file.
    """
    certificate = source if isinstance(source, Certificate) else Certificate.load(source)
    if certificate.is_learned:
        return _load(certificate, weights)
    if certificate.has_table:
        choice = certificate.table_choice
        scored_by = _load(certificate, weights) if scored_by is None else scored_by
        if choice.table != 1:
            raise CertificateError(
                f"the message names table {choice.table}; give the classifier behind that one."
            )
        return Biased(scored_by, choice.biases) if choice.biases else scored_by
    known = certificate.known.base
    if known is None:
        if base is not None:
            raise CertificateError("the certificate names no base: leave out the base.")
    elif base is None:
        raise CertificateError(f"the message codes differences: give the base, {known.by}.")
    elif float32_sha256(base) != known.sha256:
        raise CertificateError(f"this base is not the one the certificate names ({known.sha256}).")
    return read_message(certificate).build(base)


def read_message(certificate: Certificate) -> AbstractMessage:
    """The message of a network."""
    reader = PlainReader(certificate.bits)
    code_start(reader, classes=certificate.sample.classes)
    found: AbstractMessage = form_of("message")(
        certificate.bits,
        input_shape=certificate.sample.input_shape,
        witness=certificate.witness,
        start=reader.place - bits_of(NETWORK),
    )
    return found


def _load(certificate: Certificate, weights: Path | str | None) -> nn.Module:
    """The classifier that a rule learned, or the one behind declared scores, from the file beside it."""
    from codebound.learn.learner import KernelNetwork
    from codebound.learn.rule import code_rule
    from codebound.run.tensor_files import load_weights

    if weights is None:
        raise CertificateError(
            "g was learned from examples of the sample: give its weights, the file g.safetensors that was "
            "saved beside the certificate."
            if certificate.is_learned
            else "this certificate counts declared scores: the classifier behind them is not in the file. "
            "Give it."
        )
    if certificate.is_learned and certificate.witness:
        raise CertificateError("the file has a witness, and a rule needs none.")
    tensors = load_weights(weights, cells="inputs")
    require_learned(certificate, tensors)
    if certificate.has_table:
        own = {name.removeprefix("classifier."): value for name, value in tensors.items() if name != "biases"}
        if certificate.known.tables[0].by in find_extensions()["LEARNERS"].values():
            network: nn.Module = reader_of("pictures")(own, certificate.sample.input_shape)
            return network
        if "said" not in own:  # of a network that somebody gave
            raise CertificateError(
                "this certificate counts declared scores of a network that was given, and no file says how "
                "that is computed: use it as it was, with its biases, if the message has some."
            )
        return KernelNetwork.load(None, own)
    reader = PlainReader(certificate.bits)
    form, _ = code_start(reader, classes=certificate.sample.classes)
    choice = code_rule(reader, form, input_shape=certificate.sample.input_shape)
    reader.finish()
    return KernelNetwork.load(None if form == USUAL_SPLIT else choice.rule, tensors)


def require_declared(encoder: Encoder, certificate: Certificate) -> None:
    """Refuses an encoder that the certificate does not declare."""
    made = certificate.known.features
    if made is None or made.sha256 != encoder.sha256:
        raise CertificateError(
            f"this certificate does not declare the encoder {encoder.name} of SHA-256 {encoder.sha256}: "
            "see what it declares with codebound show."
        )

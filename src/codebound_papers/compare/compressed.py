"""Compressed networks with their certificates: made here, or given and verified first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from codebound.bits.plain_code import NETWORK
from codebound.bounds.original import occam_margin
from codebound.bounds.risk import OccamFacts
from codebound.certificate.decoding import decode
from codebound.certificate.evaluate import count_errors
from codebound.certificate.file import Certificate
from codebound.certificate.offers import count_learned
from codebound.certificate.verification import verify
from codebound.learn.learner import KernelNetwork
from codebound.report.folder import WEIGHTS
from codebound.run.errors import CertificateError, CodeboundError
from codebound.run.job import Engine
from codebound.run.tensor_files import float32_sha256
from codebound.sample.dataset import Sample
from codebound_networks.chains.from_module import chain_of
from codebound_networks.chains.original import Original
from codebound_papers.compare.rows import Row, decimal_log, risk_row
from codebound_papers.measure.proximity import Closeness


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Compressed:
    """A network g that the verifier has accepted."""

    label: str  # what tells it from others: how it was made, or its file
    certificate: Certificate  # its certificate
    # g, in evaluation mode; None where it was learned from picks and its weights are not there
    network: nn.Module | None

    @property
    def name(self) -> str:
        """For tables."""
        return f"Certificate ({self.label})"

    @property
    def is_plain(self) -> bool:
        """Return True if the claim is about g, with all of the sample's errors."""
        return self.certificate.statement == "C-2" and self.certificate.question.is_plain

    def errors_on(self, data: Sample, *, device: str | torch.device, engine: Engine | None) -> int | None:
        """Count the errors of g. A network that was learned from picks takes inputs as they are stored."""
        if self.network is None:
            return None
        network = self.network.to(device)
        if isinstance(network, KernelNetwork):
            return count_learned(network, data)
        return count_errors(network, data.on(device), engine=engine)

    @property
    def declared(self) -> str:
        """Declaration about its base that no program can check. Empty without one."""
        words = self.certificate.condition
        return f"DECLARED, not checked: {words}." if words else ""

    def row(self) -> Row:
        """The claim."""
        claim, limit = self.certificate.claim, self.certificate.limit
        counts = f"{self.certificate.message.bits:,} bits, {limit.errors:,} errors on {limit.n:,} examples"
        return Row(
            name=self.name,
            reference=self.certificate.statement,
            value=claim.bound,
            log10=decimal_log(claim.bound),
            kind="certified",
            subject=claim.subject,
            guarantee=True,
            vacuous=claim.vacuous,
            note=f"{self.certificate.sentence} {counts}; accepted by the verifier. {self.declared}".rstrip(),
        )

    def margin_row(self, close: Closeness) -> Row:
        """Certify by code length through the margin of f (C-7). It is never tighter, but in the papers."""
        certificate = self.certificate
        theta, counted, outliers = close.best_theta()
        bits, delta, classes = certificate.message.bits, certificate.claim.delta, certificate.sample.classes
        occam = OccamFacts(errors=counted, n=close.n, code_bits=bits, delta=delta, classes=classes)
        bound = occam_margin(occam)
        note = (
            f"{bound.sentence} Counts the {counted:,} examples where f has a margin of at most {theta:.4g}, "
            f"or g is farther from f than that margin absorbs ({outliers:,} outliers). {self.declared}"
        ).rstrip()
        return risk_row(bound, name=f"{self.name}, through the margin of f", kind="certified", note=note)


def accept_certificate(
    source: Certificate | Path | str,
    model: nn.Module,
    sample: Sample,
    *,
    label: str,
    bases: Sequence[Mapping[str, NDArray[np.float32]]] = (),
    unlabelled: Sample | None = None,
) -> Compressed:
    """A certificate that somebody made, if the verifier accepts it for this sample.

    Of the bases, the one that the certificate names is taken. The message of a refusal has every reason.
    """
    certificate = source if isinstance(source, Certificate) else Certificate.load(source)
    base = _named_base(certificate, bases)
    original = _weights(model, sample) if certificate.claim.subject == "f" else None
    verdict = verify(certificate, sample, base=base, unlabelled=unlabelled, original=original)
    if not verdict.is_accepted:
        said = f"the certificate ({label}) is refused for the sample {sample.name}:"
        raise CertificateError("\n  ".join((said, *verdict.reasons)))
    network: nn.Module | None = None
    if certificate.form == NETWORK:
        network = decode(certificate, base=base)
    elif not isinstance(source, Certificate) and (weights := Path(source).with_name(WEIGHTS)).exists():
        network = decode(source, weights=weights)  # learned from the sample
    return Compressed(label=label, certificate=certificate, network=network)


def _named_base(
    certificate: Certificate, bases: Sequence[Mapping[str, NDArray[np.float32]]]
) -> Mapping[str, NDArray[np.float32]] | None:
    """The base that a certificate names; another one where it is not there, which the verifier refuses."""
    named = certificate.known.base
    if named is None or not bases:
        return None
    return next((base for base in bases if float32_sha256(base) == named.sha256), bases[0])


def labels(sources: Sequence[Certificate | Path | str]) -> list[str]:
    """A short name for each: that of its file, with as many of its folders as tell it from the others.

    >>> labels(["runs/a/certificate.cbound", "runs/b/certificate.cbound"])
    ['a/certificate.cbound', 'b/certificate.cbound']
    """
    paths = [
        Path(f"given {place}" if isinstance(source, Certificate) else source)
        for place, source in enumerate(sources, start=1)
    ]
    short = paths
    for depth in range(1, max((len(path.parts) for path in paths), default=0) + 1):
        short = [Path(*path.parts[-depth:]) for path in paths]
        if len(set(short)) == len(set(paths)):
            break
    return [str(path) for path in short]


def _weights(model: nn.Module, sample: Sample) -> Mapping[str, NDArray[np.float32]] | None:
    """The tensors of f as a claim about f names them; None where f is no chain, which the verifier says."""
    try:
        return Original(*chain_of(model, sample.input_shape)).arrays
    except CodeboundError:
        return None

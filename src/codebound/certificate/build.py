"""From a message to a certificate: encode, decode again, count on the decoded network, bound, verify."""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from codebound import __version__
from codebound.bounds.held_out import holdout, occam_split
from codebound.bounds.occam import occam_binomial, occam_hoeffding, occam_kl
from codebound.bounds.original import grid_theta, occam_disagreement, occam_domain
from codebound.certificate.decoding import built_module, decoded_module, verify
from codebound.certificate.domain import covering_theta
from codebound.certificate.evaluate import Count, count_disagreements, count_errors, estimated_error_rate
from codebound.certificate.file import Base, Certificate, CertificateFacts, Claim, Factory, Helper
from codebound.chains.message import Message, Options
from codebound.coding.stream import Stream
from codebound.errors import CertificateError, UsageError
from codebound.facts import DisagreementFacts, DomainFacts, HoldoutFacts, OccamFacts, SplitFacts
from codebound.progress import Progress, silent
from codebound.refs import implements
from codebound.tensors import float32_sha256

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

    from codebound.bounds.risk import RiskBound
    from codebound.chains.chain import Chain
    from codebound.coding.bits import Bits
    from codebound.data.dataset import Dataset
    from codebound.engine.job import Engine

Tensors = dict[str, "NDArray[np.float32]"]


@dataclass(frozen=True, slots=True, eq=False)
class Original:
    """The network f that was compressed, as a chain."""

    chain: Chain
    tensors: Tensors

    def __post_init__(self) -> None:
        for position, operation in enumerate(self.chain.operations):
            if not operation.describes_f:
                raise CertificateError(
                    f"no certificate is about a network f with such an operation: {position} ({operation}). "
                    "Certify the compressed network g instead, without --unlabelled and --input-range."
                )

    def build(self) -> nn.Module:
        """The network."""
        return self.chain.build(
            {name: torch.from_numpy(value.copy()) for name, value in self.tensors.items()}
        )


@dataclass(frozen=True, slots=True)
class AboutG:
    """C-2: the risk of g, from its errors on the whole sample."""


@dataclass(frozen=True, slots=True)
class AfterSplit:
    """C-10: the risk of g, from its errors on the part that the helper never saw."""

    tenths: int


@dataclass(frozen=True, slots=True, eq=False)
class OnDomain:
    """C-12a: the risk of f, where all stored input values lie in a declared range."""

    original: Original
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class ByDisagreement:
    """C-12b: the risk of f, through fresh unlabelled inputs."""

    original: Original
    unlabelled: Dataset


Statement = AboutG | AfterSplit | OnDomain | ByDisagreement


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Setting:
    """Everything that is fixed before the message is chosen.

    Attributes:
        sample: The sample.
        delta: Failure probability.
        statement: What is to be certified.
        architecture: The factory, where the network is no chain.
        module: The module that the factory made.
        base: Name and tensors of the base, where differences are coded.
    """

    sample: Dataset
    delta: float
    statement: Statement = AboutG()
    architecture: Factory | None = None
    module: nn.Module | None = None
    base: tuple[str, Tensors] | None = None

    def helper(self, message: Message) -> Helper:
        """The helper descriptor; the factory is none where the message describes a network by itself."""
        base = None if self.base is None else Base(self.base[0], float32_sha256(self.base[1]))
        return Helper(
            input_shape=self.sample.input_shape,
            scaling=self.sample.scaling,
            architecture=self.architecture if message.chain is None else None,
            base=base,
        )

    @property
    def base_tensors(self) -> Tensors | None:
        """The tensors of the base, if there is one."""
        return None if self.base is None else self.base[1]

    @property
    def options(self) -> Options:
        """The options that every message of this setting has; theta is found for each message."""
        tenths = self.statement.tenths if isinstance(self.statement, AfterSplit) else None
        return Options(tenths=tenths, has_base=self.base is not None)

    @property
    def counted(self) -> Dataset:
        """The examples that errors are counted on."""
        if not isinstance(self.statement, AfterSplit):
            return self.sample
        return prior_and_rest(self.sample, self.statement.tenths)[1]


@implements("I-06", kind="algorithm")
def prior_and_rest(sample: Dataset, tenths: int) -> tuple[Dataset, Dataset]:
    """The two parts of C-10, by a permutation that never looks at the data."""
    if not 1 <= tenths <= 9:
        raise UsageError(f"the prior takes 1 to 9 tenths of the sample. Got {tenths}.")
    order = np.argsort(Stream(0, "split").words(sample.n), kind="stable")
    first = tenths * sample.n // 10
    if not 0 < first < sample.n:
        raise UsageError(f"{sample.n} examples cannot be split into tenths.")
    return sample.select(order[:first], role="prior"), sample.select(order[first:], role="certify")


@dataclass(frozen=True, slots=True, eq=False)
class Assessed:
    """A message with what it proves.

    Attributes:
        message: The message, with the option theta filled in where the statement needs it.
        bits: Its bits.
        network: The network that the bits decode to.
        count: Errors of that network.
        facts: What the Occam bound inside the statement was told; its delta is that bound's share.
        disagreement: Certified limit on how often f and g disagree, for C-12b, else 0.
        bound: What follows.
    """

    message: Message
    bits: Bits
    network: nn.Module
    count: Count
    facts: OccamFacts
    disagreement: float
    bound: RiskBound


def assess(
    message: Message, setting: Setting, *, engine: Engine | None = None, progress: Progress = silent
) -> Assessed:
    """Encodes a message, decodes it, and bounds the risk from the errors of the decoded network."""
    statement = setting.statement
    theta = 0.0
    if isinstance(statement, OnDomain):
        index = covering_theta(
            message,
            statement.original.tensors,
            setting.sample,
            statement.low,
            statement.high,
            base=setting.base_tensors,
        )
        message = replace(message, options=replace(message.options, theta_index=index))
        theta = grid_theta(index).value
    bits, _ = message.encode()
    network = decoded_network(bits, setting)
    counted = setting.counted
    count = count_errors(network, counted.on("cpu"), theta=theta, engine=engine, progress=progress)
    facts = OccamFacts(
        errors=count.errors,
        n=counted.n,
        code_bits=bits.length,
        delta=setting.delta,
        classes=setting.sample.classes,
    )
    if isinstance(statement, ByDisagreement):
        facts = replace(facts, delta=setting.delta / 2.0)
        fresh = statement.unlabelled
        apart = count_disagreements(statement.original.build(), network, fresh.on("cpu"))
        other = HoldoutFacts(errors=apart, n=fresh.n, delta=facts.delta)
        bound = occam_disagreement(DisagreementFacts(risk=facts, disagreement=other))
        return Assessed(message, bits, network, count, facts, holdout(other).value, bound)
    return Assessed(message, bits, network, count, facts, 0.0, _bound(facts, message, setting))


def _bound(facts: OccamFacts, message: Message, setting: Setting) -> RiskBound:
    if isinstance(setting.statement, AfterSplit):
        return occam_split(SplitFacts(certify=facts, n_prior=setting.sample.n - facts.n))
    index = message.options.theta_index
    if index is not None:
        without_theta = replace(facts, code_bits=facts.code_bits - grid_theta(index).code_bits)
        return occam_domain(DomainFacts(at_theta=without_theta, theta_index=index))
    return occam_binomial(facts)


_GUESS_EXAMPLES = 500


def guess(message: Message, setting: Setting) -> float:
    """What the bound would be if the first examples were typical: for choosing among messages, no bound."""
    bits, _ = message.encode()
    counted = setting.counted
    part = counted.select(range(min(counted.n, _GUESS_EXAMPLES)), role=counted.role)
    network = built_module(message, module=setting.module, base=setting.base_tensors)
    rate = estimated_error_rate(network, part.on("cpu"))
    facts = OccamFacts(errors=int(rate * counted.n), n=counted.n, code_bits=bits.length, delta=setting.delta)
    value = occam_kl(facts).value
    return value + 1e-9 * rate if value < 1.0 else 1.0 + rate + bits.length / counted.n


def decoded_network(bits: Bits, setting: Setting) -> nn.Module:
    """The network g that the bits decode to, in evaluation mode."""
    return decoded_module(
        bits,
        input_shape=setting.sample.input_shape,
        classes=setting.sample.classes,
        module=setting.module,
        base=setting.base_tensors,
    )


@implements("I-05", kind="certificate")
def issue(assessed: Assessed, setting: Setting, *, progress: Progress = silent) -> Certificate:
    """The certificate of an assessed message, checked by the independent verifier before it is returned.

    Raises:
        CertificateError: The verifier refuses: the certificate was never issued.
    """
    bits, ledger = assessed.message.encode()
    helper = setting.helper(assessed.message)
    facts, bound, apart = assessed.facts, assessed.bound, assessed.disagreement
    certificate = Certificate(
        claim=Claim(
            statement=bound.ref,
            subject=bound.subject,
            delta=bound.delta,
            bound=bound.value,
            kl=max(bound.value, min(1.0, occam_kl(facts).value + apart)),
            hoeffding=max(bound.value, min(1.0, occam_hoeffding(facts).value + apart)),
            vacuous=bound.vacuous,
        ),
        facts=CertificateFacts(
            n=facts.n,
            errors=facts.errors,
            code_bits=bits.length,
            classes=setting.sample.classes,
            sample_sha256=setting.sample.sha256,
            message_sha256=hashlib.sha256(bits.data).hexdigest(),
            extra=_extra(assessed, setting),
        ),
        helper=helper,
        ledger=ledger,
        declarations=_declarations(assessed, setting, helper),
        made_by={"codebound": __version__, "date": datetime.date.today().isoformat()},
        message=bits,
    )
    statement = setting.statement
    verdict = verify(
        certificate,
        setting.sample,
        module=setting.module,
        base=setting.base_tensors,
        unlabelled=statement.unlabelled if isinstance(statement, ByDisagreement) else None,
        original=statement.original.tensors if isinstance(statement, OnDomain | ByDisagreement) else None,
        progress=progress,
    )
    if not verdict.is_accepted:
        raise CertificateError(
            "the independent verifier refuses this certificate, so it was not issued:\n  "
            + "\n  ".join(verdict.reasons)
        )
    return certificate


def _extra(assessed: Assessed, setting: Setting) -> dict[str, object]:
    """What a statement other than C-2 states beside the common facts."""
    statement, bound = setting.statement, assessed.bound
    if isinstance(statement, AfterSplit):
        return {"n_prior": setting.sample.n - assessed.facts.n}
    if isinstance(statement, OnDomain):
        return {
            "input_low": statement.low,
            "input_high": statement.high,
            "subject_sha256": float32_sha256(statement.original.tensors),
        }
    if isinstance(statement, ByDisagreement):
        facts = bound.facts
        assert isinstance(facts, DisagreementFacts)
        return {
            "disagreements": facts.disagreement.errors,
            "n_unlabelled": facts.disagreement.n,
            "unlabelled_sha256": statement.unlabelled.sha256,
            "subject_sha256": float32_sha256(statement.original.tensors),
            "subject_chain": statement.original.chain.described(),
            "delta_risk": facts.risk.delta,
            "delta_disagreement": facts.disagreement.delta,
        }
    return {}


def _declarations(assessed: Assessed, setting: Setting, helper: Helper) -> tuple[str, ...]:
    """What has to be true and cannot be computed: the assumptions, and the helper in words."""
    scaling = helper.scaling
    lines = [
        *([] if helper.base is None else [helper.base.declared(assessed.bound.ref)]),
        *assessed.bound.assumptions,
        f"Inputs are scaled as (x / {scaling.divisor:g} - {list(scaling.mean)}) / {list(scaling.std)}.",
    ]
    deviation = assessed.count.float32_deviation
    lines.append(
        "The network is run in float64, or in float32: there the largest deviation seen on the sample was "
        f"{deviation:.1e} of the largest logit."
    )
    if helper.architecture is not None:
        lines.append(f"The architecture {helper.architecture.name} was chosen without looking at the sample.")
    lines.extend(f"About the data: {warning}" for warning in setting.sample.warnings)
    return tuple(line[:400] for line in lines)

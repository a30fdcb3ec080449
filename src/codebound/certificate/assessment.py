"""What a message proves: it is encoded, decoded again, and judged by the errors of the decoded network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound.bounds.occam import occam_binomial, occam_kl
from codebound.bounds.original import grid_theta
from codebound.certificate.claims import Evidence
from codebound.certificate.decoding import build_network, decode_bits
from codebound.certificate.evaluate import count_errors, estimated_error_rate
from codebound.facts import OccamFacts
from codebound.progress import Progress, silent

if TYPE_CHECKING:
    from torch import nn

    from codebound.bounds.risk import RiskBound
    from codebound.certificate.claims import Conclusion
    from codebound.certificate.evaluate import Count
    from codebound.certificate.task import Task
    from codebound.chains.message import Message
    from codebound.coding.bits import Bits
    from codebound.engine.job import Engine


@dataclass(frozen=True, slots=True, eq=False)
class Assessed:
    """A message with what it proves.

    Attributes:
        message: The message, with all its options.
        bits: Its bits.
        ledger: Where they went.
        network: The network that the bits decode to.
        count: Errors of that network.
        facts: What the Occam bound inside the claim was told; its delta is that bound's share.
        conclusion: What follows.
    """

    message: Message
    bits: Bits
    ledger: tuple[tuple[str, int], ...]
    network: nn.Module
    count: Count
    facts: OccamFacts
    conclusion: Conclusion

    @property
    def bound(self) -> RiskBound:
        """The bound on the risk."""
        return self.conclusion.bound

    @property
    def rank(self) -> tuple[float, float]:
        """Smaller is better; among vacuous bounds the one nearer to saying something.

        For C-12b it is the bound of g alone: a choice that looked at the unlabelled inputs would have to be
        paid.
        """
        facts = self.facts
        return occam_binomial(facts).value, (facts.errors + facts.code_bits) / facts.n

    @property
    def score(self) -> float:
        """The rank on the scale of a guess."""
        value, distance = self.rank
        return value if value < 1.0 else 1.0 + distance


def assess(
    message: Message, task: Task, *, engine: Engine | None = None, progress: Progress = silent
) -> Assessed:
    """Encodes a message, decodes it, and bounds the risk from the errors of the decoded network."""
    message = task.claim.fitted(message, task)
    bits, ledger = message.encode()
    network = decode_bits(
        bits,
        input_shape=task.sample.input_shape,
        classes=task.sample.classes,
        module=task.module,
        base=task.base_tensors,
    )
    index = message.options.theta_index
    theta = 0.0 if index is None else grid_theta(index).value
    sample = task.counted_data
    count = count_errors(network, sample, theta=theta, engine=engine, progress=progress)
    facts = OccamFacts(
        errors=count.errors,
        n=sample.n,
        code_bits=bits.length,
        delta=task.claim.delta_share * task.delta,
        classes=task.sample.classes,
    )
    conclusion = task.claim.conclude(Evidence(facts, message, network), task)
    return Assessed(message, bits, ledger, network, count, facts, conclusion)


def guess(message: Message, task: Task) -> float:
    """What the bound would be if the first examples were typical: for choosing among messages, no bound."""
    n, sample = task.counted.n, task.first_data
    bits, _ = message.encode()
    network = build_network(message, module=task.module, base=task.base_tensors)
    rate = estimated_error_rate(network, sample)
    facts = OccamFacts(errors=int(rate * n), n=n, code_bits=bits.length, delta=task.delta)
    value = occam_kl(facts).value
    return value + 1e-9 * rate if value < 1.0 else 1.0 + rate + bits.length / n

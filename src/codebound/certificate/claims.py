"""Claims of certificates.

A claim knows which examples count, what its messages carry, how the bound follows, and what it states beside
the common facts. To add one: a class here, its bound in ``codebound.bounds``, and the same in the verifier.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from codebound.bits.messages import Options
from codebound.bounds.facts import HoldoutFacts, OccamFacts, PickedFacts
from codebound.bounds.held_out import holdout, occam_split
from codebound.bounds.occam import occam_binomial
from codebound.bounds.original import grid_theta, occam_disagreement, occam_domain, part_disagreement
from codebound.bounds.picked import picked_risk
from codebound.bounds.risk import PART_FIRST, TWO_DRAWS, count_of
from codebound.certificate.evaluate import count_disagreements, sure_share
from codebound.certificate.statement import AbstractStatement, Counted, Term
from codebound.learn.picking import permutation
from codebound.run.errors import CertificateError, DataError, UsageError
from codebound.run.extensions import form_of
from codebound.run.references import implements
from codebound.sample.caveats import count_copies, require_disjoint
from codebound.sample.losses import WRONG

if TYPE_CHECKING:
    from torch import nn

    from codebound.bits.messages import AbstractMessage
    from codebound.bounds.risk import RiskBound
    from codebound.certificate.file import Certificate, CertificateFacts
    from codebound.certificate.task import Task
    from codebound.sample.dataset import Dataset
    from codebound.sample.losses import Loss


_FEW = 64  # examples that show how sure predictions are
_THROUGH = (
    "Certify without this claim, and bound f through what is certified, by how often the two differ: on a "
    "test sample, or on fresh inputs (codebound.bound_through, codebound through)."
)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Bound on a decoded network, with the counts behind it.

    Attributes:
        bound: On the risk.
        added: What it is above the bound for g: a limit on how often f and g disagree, where it rests on one.
        counted: What was counted beside the errors, by its name in the certificate.
        part: What is stated of the part that the loss is about, ``tally`` in the certificate; or None.
    """

    bound: RiskBound
    added: float = 0.0
    counted: dict[str, Any] = field(default_factory=dict)
    part: dict[str, Any] | None = None


class AbstractClaim(AbstractStatement):
    """A guarantee that a message with weights can give.

    Attributes:
        delta_share: Share of the failure probability that the errors on the sample may use.
        is_about_f: Whether it is the risk of the original network.
        stays_near_f: Whether g must stay near f, so that nothing can be trained anew.
        allows_picks: Whether a network learned from picked examples will do.
        unlabelled: Fresh inputs that it counts on.
    """

    delta_share: ClassVar[float] = 1.0
    is_about_f: ClassVar[bool] = False
    stays_near_f: ClassVar[bool] = False
    allows_picks: ClassVar[bool] = False
    unlabelled: Dataset | None = None

    def check(self, task: Task) -> None:
        """Refuses a sample and a network for which there is no such claim."""

    def split(self, sample: Dataset) -> tuple[Dataset | None, Dataset]:
        """The part that a base is trained on, if any, and the part that errors are counted on."""
        return None, sample

    def options(self, *, has_base: bool) -> Options:
        """The options that all its messages have."""
        return Options(has_base=has_base)

    def complete(self, message: AbstractMessage, task: Task) -> AbstractMessage:
        """The message with the options that depend on what it says."""
        return message

    @abstractmethod
    def conclude(
        self, facts: OccamFacts, *, message: AbstractMessage, network: nn.Module, task: Task
    ) -> Conclusion:
        """The bound that follows.

        Args:
            facts: What the Occam bound is told; its delta is that bound's share.
            message: The message, with all its options.
            network: The network that its bits decode to.
            task: What it was made for.
        """

    def describe(self, task: Task) -> dict[str, Any]:
        """Further facts that it states, keyed as in the certificate."""
        return {}

    @classmethod
    def terms(cls, certificate: Certificate) -> list[Term]:
        """The limit for g, at its share of the failure probability."""
        facts = certificate.facts
        return [Term("binomial", facts.errors, facts.n, facts.code_bits, cls.delta_share)]


def _training_errors(facts: CertificateFacts) -> Counted:
    meaning = "of the decoded network, on the whole sample; ambiguous predictions count as errors"
    return Counted("train_errors", "training errors of g", facts.errors, facts.n, meaning)


@dataclass(frozen=True)
class AboutG(AbstractClaim):
    """C-2: the risk of g, from its errors on the whole sample; or of another loss, as C-17 says."""

    statement: ClassVar[str] = "C-2"
    losses_since: ClassVar[int] = 2
    allows_picks: ClassVar[bool] = True
    route: ClassVar[str] = "message"
    loss: Loss = field(default=WRONG, repr=False)

    def conclude(  # noqa: D102
        self, facts: OccamFacts, *, message: AbstractMessage, network: nn.Module, task: Task
    ) -> Conclusion:
        return Conclusion(occam_binomial(facts))

    @staticmethod
    def counts(facts: CertificateFacts) -> tuple[Counted, ...]:  # noqa: D102
        return (_training_errors(facts),)

    @staticmethod
    def is_held_out(certificate: Certificate) -> bool:
        """Return True if its encoder was made of examples left uncounted."""
        return certificate.first_part is not None

    @staticmethod
    def event(certificate: Certificate) -> str:
        """It holds for all messages of a code at once."""
        facts = certificate.facts
        return (
            f"code {certificate.version} {facts.sample_sha256} {facts.classes} {asdict(certificate.helper)}"
        )


class FromPicks(AbstractStatement):
    """C-15: the risk of a network that was learned from few picked examples, from what it gets wrong."""

    statement: ClassVar[str] = "C-15"
    errors_key: ClassVar[str] = "errors_not_picked"
    is_learned: ClassVar[bool] = True
    has_looser_forms: ClassVar[bool] = False

    @staticmethod
    def conclude(facts: PickedFacts, *, picks: int, part: dict[str, Any] | None = None) -> Conclusion:
        """The bound that follows from picks and errors.

        Args:
            facts: Picks and errors on the examples that the loss is about.
            picks: All that were picked.
            part: What is stated of the part that the loss is about.
        """
        return Conclusion(picked_risk(facts), counted={"first": facts.n_first, "picks": picks}, part=part)

    @staticmethod
    def counts(facts: CertificateFacts) -> tuple[Counted, ...]:  # noqa: D102
        first, picks = facts.extra["first"], (facts.tally or {}).get("picks", facts.extra["picks"])
        learned = f"examples that g was learned from, beside {first} first ones; each counts as an error"
        wrong = "of g, on the examples that it was not learned from"
        if not facts.extra["picks"]:
            wrong += f"; it was learned from {first} others, and nothing was picked"
            return (Counted("errors_not_picked", "errors of g", facts.errors, facts.n, wrong),)
        return (
            Counted("picks", "picked examples", picks, facts.n, learned),
            Counted("errors_not_picked", "errors of g", facts.errors, facts.n - picks, wrong),
        )

    @staticmethod
    def is_held_out(certificate: Certificate) -> bool:
        """Return True if a rule of version 3 picks nothing."""
        return certificate.version == 3 and not certificate.facts.extra["picks"]

    @classmethod
    def terms(cls, certificate: Certificate) -> list[Term]:  # noqa: D102
        facts = certificate.facts
        picks = (facts.tally or {}).get("picks", facts.extra["picks"])
        is_held_out, counted = cls.is_held_out(certificate), facts.errors + picks
        return [Term("binomial" if is_held_out else "picked", counted, facts.n, facts.code_bits)]


@dataclass(frozen=True)
class AfterSplit(AbstractClaim):
    """C-10: the risk of g, from its errors on the part that the base never saw.

    Attributes:
        tenths: How much of the sample the base is trained on.
    """

    statement: ClassVar[str] = "C-10"
    errors_key: ClassVar[str] = "errors_after_split"
    losses_since: ClassVar[int] = 2
    trains_base: ClassVar[bool] = True
    unseen: ClassVar[str] = "the examples after the split"
    route: ClassVar[str] = "linear helper"  # compared where nothing was asked for: then its base is linear
    tenths: int
    loss: Loss = field(default=WRONG, repr=False)

    def split(self, sample: Dataset) -> tuple[Dataset | None, Dataset]:  # noqa: D102
        return prior_and_rest(sample, self.tenths)

    def options(self, *, has_base: bool) -> Options:  # noqa: D102
        return Options(tenths=self.tenths, has_base=has_base)

    def conclude(  # noqa: D102
        self, facts: OccamFacts, *, message: AbstractMessage, network: nn.Module, task: Task
    ) -> Conclusion:
        return Conclusion(occam_split(facts), counted={"n_prior": task.sample.n - task.rest.n})

    @staticmethod
    def is_held_out(certificate: Certificate) -> bool:
        """Always: the base comes from the part before the split."""
        return True

    @staticmethod
    def counts(facts: CertificateFacts) -> tuple[Counted, ...]:  # noqa: D102
        whole = facts.n + facts.extra["n_prior"]
        meaning = (
            f"of the decoded network, on the {facts.n} of {whole} examples that the base never saw; "
            "ambiguous predictions count as errors"
        )
        return (Counted("errors_after_split", "errors of g after the split", facts.errors, facts.n, meaning),)


class AbstractClaimAboutF(AbstractClaim):
    """The risk of f itself, which has to be a chain that the verifier can run."""

    is_about_f: ClassVar[bool] = True

    def check(self, task: Task) -> None:
        """Refuses networks that are no chains, and operations that learn nothing."""
        if task.original is None or task.original.chain is None:
            why = "" if task.original is None else task.original.unchained
            raise CertificateError(
                f"a certificate for f needs a network that is a chain of known layers. {_THROUGH}"
                + (f"\n  {why}" if why else "")
            )
        for position, operation in enumerate(task.original.chain.operations):
            if not operation.describes_f:
                raise CertificateError(
                    f"no certificate is about a network f with such an operation: {position} ({operation}). "
                    + _THROUGH
                )
        if (
            sure_share(
                task.original.build(),
                task.sample.select(range(min(_FEW, task.sample.n)), role="train").on("cpu"),
            )
            < 0.5
        ):
            raise CertificateError(
                "no proof covers the rounding of f on most examples: at worst, rounding errors of so many "
                f"layers are larger than its margins, and each would count against it. {_THROUGH}"
            )


@dataclass(frozen=True)
class OnDomain(AbstractClaimAboutF):
    """C-12a: the risk of f, where all stored input values lie in a declared range.

    Attributes:
        low: Smallest stored value that any input can have.
        high: Largest stored value that any input can have.
    """

    statement: ClassVar[str] = "C-12a"
    errors_key: ClassVar[str] = "margins_within_theta"
    has_margin: ClassVar[bool] = True
    stays_near_f: ClassVar[bool] = True
    low: float
    high: float
    loss: Loss = field(default=WRONG, repr=False)

    def check(self, task: Task) -> None:  # noqa: D102
        super().check(task)
        least, most = float(task.sample.x.min()), float(task.sample.x.max())
        if not self.low < self.high or not self.low <= least <= most <= self.high:
            raise UsageError(
                "an input range needs low < high and contains every stored value; the sample has values from "
                f"{least:g} to {most:g}. Got {self.low:g} and {self.high:g}."
            )

    def complete(self, message: AbstractMessage, task: Task) -> AbstractMessage:  # noqa: D102
        index = form_of("theta")(
            message, task.f.arrays, task.sample, self.low, self.high, base=task.base_tensors
        )
        return message.with_options(replace(message.options, theta_index=index))

    def conclude(  # noqa: D102
        self, facts: OccamFacts, *, message: AbstractMessage, network: nn.Module, task: Task
    ) -> Conclusion:
        index = message.options.theta_index
        assert index is not None  # the message is fitted
        without_theta = replace(facts, code_bits=facts.code_bits - grid_theta(index).code_bits)
        return Conclusion(occam_domain(without_theta, theta_index=index))

    def describe(self, task: Task) -> dict[str, Any]:  # noqa: D102
        return {"input_low": float(self.low), "input_high": float(self.high), "subject_sha256": task.f.sha256}

    @staticmethod
    def counts(facts: CertificateFacts) -> tuple[Counted, ...]:  # noqa: D102
        meaning = (
            "examples that g gets wrong, or right by no more than theta, by which the margins of f and g can "
            "differ: no training errors, which are fewer"
        )
        return (Counted("margins_within_theta", "margins of g up to theta", facts.errors, facts.n, meaning),)

    @staticmethod
    def about(facts: CertificateFacts) -> str:  # noqa: D102
        low, high = facts.extra["input_low"], facts.extra["input_high"]
        return f"new data with stored values from {low:g} to {high:g}"


@dataclass(frozen=True, eq=False)
class ByDisagreement(AbstractClaimAboutF):
    """C-12b: the risk of f, through fresh unlabelled inputs.

    Attributes:
        unlabelled: The inputs, used for no choice whatsoever.
    """

    statement: ClassVar[str] = "C-12b"
    drawn: ClassVar[str] = TWO_DRAWS
    delta_share: ClassVar[float] = 0.5
    unlabelled: Dataset = field()  # no default, though the class above has a value
    loss: Loss = field(default=WRONG, repr=False)

    def check(self, task: Task) -> None:  # noqa: D102
        require_shape("unlabelled", self.unlabelled, task.sample)
        require_disjoint(self.unlabelled, task.sample)
        count_copies(self.unlabelled, allow_copies=task.allow_copies)
        super().check(task)

    def conclude(  # noqa: D102
        self, facts: OccamFacts, *, message: AbstractMessage, network: nn.Module, task: Task
    ) -> Conclusion:
        fresh, delta = self.unlabelled, task.delta / (4.0 if self.loss.has_part else 2.0)
        errors = count_disagreements(task.f.build(), network, fresh.on("cpu"), loss=self.loss)
        apart = HoldoutFacts(errors=errors, n=fresh.n, delta=delta)
        bound, added = occam_disagreement(risk=facts, disagreement=apart), holdout(apart).value
        part = None
        if self.loss.has_part:
            value, share = part_disagreement(risk=facts, disagreement=apart, examples=task.sample.n)
            if value is None:
                raise CertificateError(
                    f"with {facts.n} of {task.sample.n} examples that the loss {self.loss} is about, "
                    "such data may be arbitrarily rare, and f may differ from g on all of them. Collect more."
                )
            bound = replace(
                bound, value=value, delta=2.0 * facts.delta, assumptions=(*bound.assumptions, PART_FIRST)
            )
            added, part = added / share * (1.0 + 1e-15), {"examples": task.sample.n, "share": share}
        return Conclusion(
            bound,
            added=added,
            counted={
                "disagreements": errors,
                "n_unlabelled": fresh.n,
                "delta_risk": task.delta / 2.0,
                "delta_disagreement": delta,
            },
            part=part,
        )

    def describe(self, task: Task) -> dict[str, Any]:  # noqa: D102
        assert task.f.chain is not None  # checked
        return {
            "unlabelled_sha256": self.unlabelled.sha256,
            "subject_sha256": task.f.sha256,
            "subject_chain": task.f.chain.describe(),
        }

    @staticmethod
    def counts(facts: CertificateFacts) -> tuple[Counted, ...]:  # noqa: D102
        meaning = (
            "unlabelled inputs, a second draw, on which f and g predict differently or one of them is "
            "ambiguous: their share is bounded too, and added to the bound for g"
        )
        apart, fresh = facts.extra["disagreements"], facts.extra["n_unlabelled"]
        return (
            _training_errors(facts),
            Counted("disagreements", "disagreements of f and g", apart, fresh, meaning),
        )

    @classmethod
    def terms(cls, certificate: Certificate) -> list[Term]:
        """The limit for g, and that on how often f and g differ."""
        facts, loss, tally = certificate.facts, certificate.loss, certificate.facts.tally or {}
        (of_g,) = super().terms(certificate)
        apart = Term("binomial", facts.extra["disagreements"], facts.extra["n_unlabelled"], share=0.5)
        if loss.has_part:
            others = Term("binomial", tally["examples"] - facts.n, tally["examples"], share=0.25)
            apart = replace(apart, share=0.25, outside=others)
        return [of_g, apart]


CLAIMS: dict[str, type[AbstractStatement]] = {
    kind.statement: kind for kind in (AboutG, FromPicks, AfterSplit, OnDomain, ByDisagreement)
}
"""The claims by the statement that a file names."""


def require_shape(name: str, other: Dataset, sample: Dataset) -> None:
    """Refuses inputs that no network for the sample takes."""
    if other.input_shape != sample.input_shape:
        raise DataError(
            f"the {name} inputs have the shape {other.input_shape}; those of the sample have "
            f"{sample.input_shape}."
        )


@implements("I-06", kind="algorithm")
def prior_and_rest(sample: Dataset, tenths: int) -> tuple[Dataset, Dataset]:
    """The two parts of C-10, by a permutation that never looks at the data."""
    if not 1 <= tenths <= 9:
        raise UsageError(f"the prior takes 1 to 9 tenths of the sample. Got {tenths}.")
    order = permutation(sample.n)
    first = tenths * sample.n // 10
    if not 0 < first < sample.n:
        raise UsageError(f"{count_of(sample.n, 'example')} cannot be split into tenths.")
    return sample.select(order[:first], role="prior"), sample.select(order[first:], role="certify")

"""Published expressions: how one is registered, and its value, with all that keeps it from a guarantee."""

import inspect
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import wraps
from typing import Any, ClassVar, Literal, ParamSpec, TypeVar

from codebound.bounds.risk import Subject
from codebound.run.errors import UsageError
from codebound.run.files import finite
from codebound.run.references import Kind, implements
from codebound_papers.logs import safe_exp

Unit = Literal["risk", "capacity", "numbers", "deviation", "probability"]
"""Quantity that a published number measures.

``risk`` is read against an error rate; ``capacity`` is what a figure plots before it is divided by n and
square-rooted; ``numbers`` counts parameters, ``deviation`` is a distance between outputs, ``probability`` is
one.
"""


def one_line(text: str) -> str:
    """A sentence that was written over several lines."""
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant that a paper leaves open, and the value used here."""

    symbol: str
    value: float
    meaning: str


BIG_O = Constant("O(.)", 1.0, "constant factor that the theorem leaves open")


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A condition of a theorem, and whether it holds here."""

    statement: str  # the condition in words or symbols
    holds: bool | None  # whether it holds on this network; None if it was not measured or cannot be
    found: str = ""  # what was measured, in words; empty if nothing was


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedValue:
    """A paper's expression on one network. No guarantee: see ``errata`` and ``hypotheses`` for why."""

    guarantee: ClassVar[Literal["none"]] = "none"

    # ID of the statement in docs/references.md; this, name, unit and subject are set by ``expression``
    ref: str = ""
    name: str = ""  # short name for tables and figures
    log_value: float  # natural logarithm of the value; products over many layers stay finite here
    unit: Unit = "risk"  # what the number measures
    subject: Subject = "g"  # whose risk the statement is about
    sentence: str  # what the number is, in one plain sentence
    margin_loss: float | None = None  # the share of low-margin examples that is part of a risk value
    # failure probability that the paper states; None if it says "with high probability"
    failure_published: float | None = None
    # what its proof supports; from 1 on the statement is empty. None if no proof does
    failure_corrected: float | None = None
    hypotheses: tuple[Hypothesis, ...] = ()  # conditions, and whether they hold on this network
    constants: tuple[Constant, ...] = ()  # what the paper leaves open, with the value used
    errata: tuple[str, ...] = ()  # IDs of docs/errata.md that a reader of the number should know

    def __post_init__(self) -> None:
        object.__setattr__(self, "sentence", one_line(self.sentence))

    @property
    def value(self) -> float:
        """The value on its natural scale; infinite where a double overflows, while ``log10`` does not."""
        return safe_exp(self.log_value)

    @property
    def log10(self) -> float:
        """The value on a decimal logarithmic scale."""
        return self.log_value / math.log(10.0)

    @property
    def conditions(self) -> str:
        """Counts of the conditions met, not met and unknown, in words."""
        words = {True: "met", False: "NOT met", None: "unknown"}
        counts = Counter(each.holds for each in self.hypotheses)
        return ", ".join(f"{counts[key]} {word}" for key, word in words.items() if counts[key]) or "none"

    @property
    def unmet(self) -> tuple[Hypothesis, ...]:
        """The conditions that fail on this network."""
        return tuple(each for each in self.hypotheses if each.holds is False)

    def record(self) -> dict[str, object]:
        """Return the value and its conditions for JSON."""
        plain = asdict(self) | {"reference": self.ref, "value": self.value, "log10": self.log10}
        names = (
            *("name", "reference", "sentence", "unit", "value", "log10", "margin_loss"),
            *("failure_published", "failure_corrected", "hypotheses", "constants", "errata"),
        )
        return dict(finite({each: plain[each] for each in names}))

    def like_for_like(self, examples: int) -> "PublishedValue":
        """A ``capacity`` as an excess risk, ``sqrt(value / n)``; a ``risk`` as it is.

        >>> bar = PublishedValue(ref="I-17", name="bar", log_value=math.log(480_000.0), unit="capacity",
        ...                      subject="f", sentence="A bar of a figure.")
        >>> round(bar.like_for_like(48_000).value, 4)
        3.1623
        """
        if self.unit == "risk":
            return self
        if self.unit != "capacity":
            raise UsageError(f"{self.name} is a {self.unit}, which has no form like an error rate.")
        if examples < 1:
            raise UsageError(f"a sample has at least 1 example. Got {examples}.")
        sentence = f"{self.sentence} Shown divided by n and square-rooted, as an excess risk."
        log_value = 0.5 * (self.log_value - math.log(examples))
        return replace(self, log_value=log_value, unit="risk", sentence=sentence)


@dataclass(frozen=True, slots=True)
class Refused:
    """A statement that says nothing about this network, and why."""

    ref: str
    name: str
    unit: Unit
    subject: Subject
    reason: str

    def record(self) -> dict[str, object]:
        """The reason, for JSON."""
        return {"name": self.name, "reference": self.ref, "reason": self.reason}


FactsKind = Literal["all", "chain", "stability", "least margin", "distance", "without outliers",
                    "convolutions", "best of convolutions"]  # fmt: skip
"""Facts for an expression.

All of them; those of a chain of layers; with its noise stability; at the smallest margin; relative to the
distance from the initial weights; on the best examples alone; stability where there are convolutions.
"""
P = ParamSpec("P")
V = TypeVar("V", PublishedValue, tuple[PublishedValue, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A published statement about a network: its row, and what it is told."""

    ref: str  # ID of docs/references.md
    name: str  # short name, also of the row that says why it has no value
    unit: Unit  # what its value measures
    subject: Subject  # whose risk it is about
    facts: FactsKind  # the facts that it is a function of
    needs: Mapping[str, str] = field(default_factory=dict)  # its other arguments, the evidence that each is
    form: str = ""  # appended to the names of its values, where several forms of a bound share them
    refused: str = ""  # ID of the row that says why it has no value; empty: the same
    function: Callable[..., Any]  # its value, or several


EXPRESSIONS: list[Expression] = []


def expression(
    *refs: str,
    name: str,
    unit: Unit = "risk",
    subject: Subject = "g",
    facts: FactsKind = "chain",
    needs: Mapping[str, str] | None = None,
    form: str = "",
    refused: str = "",
    kind: Kind | None = "published-form",
) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """Registers a function of ``NetworkFacts`` as a published expression, and labels its value.

    A function that returns several values labels them itself. A value has the first of the IDs; ``kind`` is
    that of ``implements``, and None where the ID belongs to what measured the facts. The rest are fields of
    ``Expression``; a required argument that ``needs`` does not name is the evidence of its own name.
    """

    def register(function: Callable[P, V]) -> Callable[P, V]:
        @wraps(function)
        def labelled(*args: P.args, **kwargs: P.kwargs) -> V:
            value = function(*args, **kwargs)
            if isinstance(value, PublishedValue):
                return replace(value, ref=refs[0], name=name, unit=unit, subject=subject)
            return value

        if kind is not None:
            implements(*refs, kind=kind)(labelled)
        found = inspect.signature(function).parameters.values()
        required = [x.name for x in found if x.kind is x.KEYWORD_ONLY and x.default is x.empty]
        told = {**{each: each for each in required}, **(needs or {})}
        labels = Expression(
            ref=refs[0], name=name, unit=unit, subject=subject, facts=facts, function=labelled
        )
        EXPRESSIONS.append(replace(labels, needs=told, form=form, refused=refused))
        return labelled

    return register

"""Answer or abstain: a threshold on confidence for which few of the answers are wrong."""

import math
from dataclasses import dataclass, replace
from typing import Final

from codebound.bounds.numerics import binomial_inverse_upper
from codebound.bounds.risk import check_counts, check_delta, whole_number
from codebound.run.errors import UsageError
from codebound.run.references import implements

MAX_THRESHOLDS: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectiveFacts:
    """Answers and wrong answers at each threshold of a list, the safest first.

    Attributes:
        answered: Examples that are answered at each threshold: those at least so confident, which never fall.
        wrong: Answers among them that are wrong, which never fall either.
        n: Number of examples.
        risk: Wrong answers wanted at most, as a share of the answers. Fixed beforehand.
        delta: Failure probability over the draw of the examples.
    """

    answered: tuple[int, ...]
    wrong: tuple[int, ...]
    n: int
    risk: float
    delta: float

    def __post_init__(self) -> None:
        for name in ("answered", "wrong"):
            counts = tuple(whole_number(name, each) for each in getattr(self, name))
            object.__setattr__(self, name, counts)
        object.__setattr__(self, "n", whole_number("n", self.n))
        object.__setattr__(self, "delta", check_delta(self.delta))
        if not 0.0 < self.risk < 1.0:
            raise UsageError(f"`risk` is a share of wrong answers between 0 and 1. Got {self.risk}.")
        if len(self.answered) != len(self.wrong) or not 1 <= len(self.wrong) <= MAX_THRESHOLDS:
            raise UsageError(
                f"`answered` and `wrong` have one number for each threshold, of which there is at least one. "
                f"Got {len(self.answered)} and {len(self.wrong)}."
            )
        before = (0, 0)
        for answered, wrong in zip(self.answered, self.wrong, strict=True):
            check_counts(wrong, self.n)
            if not before[0] <= answered <= self.n or not before[1] <= wrong <= answered:
                raise UsageError(
                    "the safest threshold comes first: each one answers what the one before it answers. "
                    f"Got answered={self.answered}, wrong={self.wrong}."
                )
            before = (answered, wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdChoice:
    """A threshold at which few answers are wrong, with probability at least ``1 - delta``.

    Attributes:
        index: The last threshold that is shown to be safe; None where not even the first is.
        limits: Clopper-Pearson limits of the thresholds tested; the last is above the risk, unless all
            passed. A limit below the risk is no claim: it was chosen after the look.
        share_limit: At least this share of new data is answered at the index, where that is claimed too.
    """

    index: int | None
    limits: tuple[float, ...]
    share_limit: float | None = None


@implements("C-21", kind="certificate")
def choose_threshold(facts: SelectiveFacts) -> ThresholdChoice:
    r"""The least careful threshold that is shown to be safe: tests in a fixed order, each at the full delta.

    Statement.  Thresholds t_1, t_2, ... are fixed before the examples are seen. At each in turn, with m_i
                answers of which k_i are wrong, the test passes if ``P(Bin(m_i, risk) <= k_i) <= delta``; the
                first that does not pass is the last one tested. With probability at least ``1 - delta``,
                ``P(wrong | answered at t_i) <= risk`` for all that passed.
    Reference.  C-21: fixed sequence testing. Something false is claimed only if the first false claim of the
                list passes, and given its number of answers the wrong ones are binomial. docs/holdout.md.
    Differs.    Learn then Test (Angelopoulos et al. 2021) bounds losses; given what is answered, the exact
                binomial tail does, at full delta.
    Needs.      Thresholds, their order and the risk were fixed without the examples, nor are first ones left
                out because they answer few of them.
    Checked by. oracle (exact fractions), property, validity (teeth: the best of all thresholds, going on
                after a failure; the better of this and a paid choice).

    Example:
        >>> facts = SelectiveFacts(
        ...     answered=(300, 600, 900), wrong=(0, 3, 20), n=1000, risk=0.02, delta=0.05
        ... )
        >>> found = choose_threshold(facts)
        >>> found.index, [round(each, 4) for each in found.limits]
        (1, [0.0099, 0.0129, 0.0321])
    """
    limits: list[float] = []
    passed = 0
    for answered, wrong in zip(facts.answered, facts.wrong, strict=True):
        limit = binomial_inverse_upper(wrong, answered, math.log(facts.delta) - 1e-13) if answered else 1.0
        limits.append(limit)
        if limit > facts.risk:
            break
        passed += 1
    return ThresholdChoice(index=passed - 1 if passed else None, limits=tuple(limits))


@implements("C-21:share", kind="certificate")
def choose_with_share(facts: SelectiveFacts) -> ThresholdChoice:
    r"""The same with a lower limit of the share of new data that is answered. Half of delta each.

    Statement.  With probability at least ``1 - delta`` the claims of ``choose_threshold`` at ``delta/2``
                hold, and at least ``share_limit`` of new data is answered at the threshold chosen: one minus
                the Clopper-Pearson limit of the abstentions at ``delta/(2 K)``, K the number of thresholds.
    Reference.  C-21:share: a union bound over the list, since the threshold was chosen after the look. One
                threshold fixed beforehand would need ``delta/2``.
    Needs.      As C-21.
    Direction.  The risk from above, the share from below.
    Checked by. oracle, validity (teeth: the share that was seen).

    Example:
        >>> facts = SelectiveFacts(
        ...     answered=(300, 600, 900), wrong=(0, 3, 20), n=1000, risk=0.02, delta=0.05
        ... )
        >>> found = choose_with_share(facts)
        >>> found.index, round(found.share_limit, 4)
        (1, 0.5621)
    """
    half = facts.delta / 2.0
    found = choose_threshold(replace(facts, delta=half))
    share = 0.0
    if found.index is not None:
        level = math.log(half / len(facts.answered)) - 1e-13
        silent = binomial_inverse_upper(facts.n - facts.answered[found.index], facts.n, level)
        share = max(0.0, (1.0 - silent) * (1.0 - 1e-15))
    return replace(found, share_limit=share)

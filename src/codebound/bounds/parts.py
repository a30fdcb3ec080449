"""Hold-out limits for what a question is about: predictions, groups, clusters, the best of a list."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from codebound.bounds.facts import check_counts, check_delta
from codebound.bounds.numerics import binomial_inverse_upper
from codebound.run.errors import UsageError
from codebound.run.references import implements


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """Limits of all groups at once, and of all examples beside them.

    Attributes:
        overall: Limit for all examples.
        groups: Limit for each group; None for a group without examples.
        worst: Index of the group with the largest limit; None where no group has examples.
    """

    overall: float
    groups: tuple[float | None, ...]
    worst: int | None


@implements("C-17:precision", kind="certificate")
def precision_risk(*, wrong: int, predicted: int, delta: float) -> float:
    r"""Upper limit of ``P(wrong | predicted as c)``: one minus the precision of a class.

    Statement.  Of n examples ``predicted`` are predicted as class c, of which ``wrong`` belong to another.
                With probability at least ``1 - delta`` the probability of an error, given that c is
                predicted, is at most ``max{p : P(Bin(predicted, p) <= wrong) >= delta}``.
    Reference.  C-17: whether the loss is about an example is decided by its input. Given which examples are
                predicted as c, they are independent draws from what is predicted as c.
    Direction.  Upper; 1 where c was never predicted.
    Checked by. validity (teeth: all examples in place of those predicted).

    Example:
        >>> round(precision_risk(wrong=2, predicted=100, delta=0.05), 4)
        0.0616
    """
    if not predicted and not wrong:
        return 1.0
    return _limit(wrong, predicted, delta)


@implements("C-17:groups", kind="certificate")
def group_limits(counts: Sequence[tuple[int, int]], *, errors: int, n: int, delta: float) -> GroupLimits:
    r"""Limits for all groups and for all examples, all at once.

    Statement.  For all n examples the Clopper-Pearson limit at ``delta/2``, for each of G groups, with its
                own errors and examples, at ``delta/(2 G)``. All hold together with probability ``1 - delta``.
    Reference.  C-17:groups: given which group each example belongs to, those of a group are independent draws
                from it; then a union bound. G may be read from the examples, since it is fixed by what is
                conditioned on.
    Needs.      Groups were formed without regard to errors. They may overlap.
    Checked by. validity (teeth: the worst group at the whole delta).

    Args:
        counts: Errors and examples of each group.
        errors: Errors on all examples.
        n: Number of examples.
        delta: Failure probability of all limits together.

    Example:
        >>> limits = group_limits([(3, 100), (30, 200)], errors=33, n=300, delta=0.05)
        >>> [round(each, 4) for each in limits.groups], limits.worst
        ([0.0942, 0.2156], 1)
    """
    check_delta(delta)
    if not counts:
        raise UsageError("there is at least one group.")
    for wrong, size in counts:
        check_counts(size, n)
        check_counts(wrong, max(1, size))
    share = delta / (2 * len(counts))
    groups = tuple(_limit(wrong, size, share) if size else None for wrong, size in counts)
    known = [(limit, -index) for index, limit in enumerate(groups) if limit is not None]
    return GroupLimits(
        overall=_limit(errors, n, delta / 2), groups=groups, worst=-max(known)[1] if known else None
    )


@implements("C-17:clusters", kind="certificate")
def cluster_risk(*, lost: int, clusters: int, delta: float) -> float:
    r"""Upper limit for new clusters of rows, such as patients or documents: a cluster counts once.

    Statement.  Clusters are independent draws; rows of one need not be. A cluster is lost either if *any* of
                its rows is wrong, or if *one* is, chosen by a rule that ignores predictions and labels. With
                probability at least ``1 - delta`` the probability that a new cluster is lost is at most
                ``max{p : P(Bin(clusters, p) <= lost) >= delta}``.
    Reference.  C-17:clusters: C-11 with clusters as examples.
    Needs.      A choice of the row as good as uniform for "one random row of a new cluster". Neither claim is
                about the error per row: large clusters may be worse than small ones.
    Checked by. validity (teeth: rows counted as if they were independent; the error per row).

    Example:
        >>> round(cluster_risk(lost=3, clusters=120, delta=0.05), 4)
        0.0633
    """
    return _limit(lost, clusters, delta)


@implements("C-16:best", kind="certificate")
def best_risk(errors: Sequence[int], *, n: int, delta: float) -> tuple[int, float]:
    r"""The best of K classifiers, and a limit of its error that the choice does not spoil.

    Statement.  K classifiers are fixed before the examples are seen. With probability at least ``1 - delta``
                each errs at most with the Clopper-Pearson limit of its own errors at ``delta/K``; so does the
                one with the fewest.
    Needs.      All K existed before any outcome was seen.
    Checked by. validity (teeth: the limit of the best at the whole delta).

    Returns:
        The index of the best, the first of equals, and its limit.

    Example:
        >>> best, limit = best_risk([50, 41, 44], n=1000, delta=0.05)
        >>> best, round(limit, 4)
        (1, 0.0565)
    """
    if not errors:
        raise UsageError("there is at least one classifier to choose from.")
    best = min(range(len(errors)), key=errors.__getitem__)
    return best, _limit(errors[best], n, delta / len(errors))


@implements("C-12d:faithful", kind="certificate")
def faithful_risk(*, disagreements: int, n: int, delta: float) -> float:
    r"""Upper limit of how often a compressed classifier answers unlike the original. Without labels.

    Statement.  With probability at least ``1 - delta`` over n fresh inputs, ``P(g(x) is not f(x))`` is at
                most the Clopper-Pearson limit of the disagreements. On the distribution of these inputs
                ``err(g) <= err(f) + P(g(x) is not f(x))``, for any labels.
    Needs.      The inputs took no part in making or choosing g.
    Checked by. validity (teeth: inputs on which g was chosen among many).

    Example:
        >>> round(faithful_risk(disagreements=4, n=1000, delta=0.05), 4)
        0.0091
    """
    return _limit(disagreements, n, delta)


def _limit(errors: int, n: int, delta: float) -> float:
    """The Clopper-Pearson limit."""
    check_counts(errors, n)
    return binomial_inverse_upper(errors, n, math.log(check_delta(delta)) - 1e-13)

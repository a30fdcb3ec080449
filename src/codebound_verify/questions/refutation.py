"""Test errors, and a test that they refute the printed bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from ..checklist import Checklist
from ..counting import judge_block
from ..formulas import DIGITS, at_least
from ..header import Header
from ..losses import OF_CLUSTERS, Array, is_about
from ..message import Message
from ..order import count_shared
from ..refusal import Refused
from ..sample import Data, as_labels, as_stored

Blocks = Iterator[tuple[NDArray[np.int64], Array, Array]]

ROUNDING = mpf("1e-30")  # far above what rounding can do to a tail
LEVEL = 1e-3  # test errors less likely than this, were the bound true, refute it


@dataclass(frozen=True)
class Comparison:
    """Errors of the classifier that the bound is about, on examples that took no part in making it.

    ``shared`` of them occur in the sample too. ``tail`` is the probability of so many errors or more, were
    the risk as large as the bound; ``refuted`` says that it is below the level.
    """

    errors: int
    n: int
    shared: int
    tail: float
    refuted: bool
    sentence: str


def compare_with_test(checks: Checklist, message: Message, data: Data) -> Comparison:
    """Count errors on test examples as on the sample, and compare them with the printed bound.

    Of parts the bound is the largest limit, so it holds for all of their rows together.
    """
    question, scores, test = message.question, checks.scores, checks.given.test
    assert scores is not None  # else the file is refused
    assert test is not None  # else nobody asks
    if question.on in OF_CLUSTERS:
        raise Refused("Test data: the claim is about clusters, and test examples are not compared with it.")
    x = as_stored(test[0], is_cells=data.is_cells)
    if x.shape[1:] != data.x.shape[1:]:
        raise Refused(f"Test data: inputs have shape {x.shape[1:]}; {data.x.shape[1:]} is expected.")
    tested = Data(x, as_labels(test[1], len(x)), data.is_cells)
    about, right = is_about(question, tested.y), np.zeros(len(x), dtype=bool)
    for rows, values, room in _blocks(checks, tested):
        right[rows], is_possible, _ = judge_block(question, scores.classes, 0.0, tested.y[rows], values, room)
        about[rows] &= is_possible
    if not about.any():
        raise Refused(f"Test data: the loss {question.loss} on {question.on} is about none of the examples.")
    errors, shared = int((about & ~right).sum()), count_shared(data.x, x[about])
    return judge(checks.container.header, errors, int(about.sum()), shared)


def _blocks(checks: Checklist, data: Data) -> Blocks:
    """Scores of other data by the classifier that the claim is about."""
    rows = np.arange(len(data.y))
    if checks.learned is not None:
        yield from checks.learned.on(data).blocks(rows)
    elif checks.evaluator is not None:
        yield from checks.evaluator.blocks(data.x, rows)
    else:
        raise Refused("Test data: there is nothing to run on them: scores, or answers, are declared.")


def judge(header: Header, errors: int, n: int, shared: int) -> Comparison:
    """Compare test errors with the printed bound."""
    claim = header.claim
    does = "errs" if claim.loss == "wrong" else f"incurs the loss {claim.loss}"
    seen = f"{claim.subject} {does} on {errors} of {n} test examples, of which {shared} occur in the sample"
    tail = probability_of_more(errors, n, claim.bound)
    refuted = bool(tail < LEVEL)
    if refuted:
        meaning = (
            f". Were the bound true, so many would be seen with probability below {LEVEL:g}: the file is in "
            "order and what it claims is not to be believed. Look for copies (inside the sample, or of test "
            "examples in it), for tables, features or a base that saw the counted rows, for test data of "
            "another distribution, and for a network that does not answer for one example at a time."
        )
    else:
        meaning = "; that does not contradict the bound."
    return Comparison(errors, n, shared, float(tail), refuted, seen + meaning)


def probability_of_more(errors: int, n: int, risk: float) -> mpf:
    """P(Bin(n, risk) >= errors), rounded up: how likely so many test errors are, or more, at that risk.

    Example:
        >>> mpmath.nstr(probability_of_more(17, 50, 0.3), 8)
        '0.31612138'
    """
    with mpmath.workdps(DIGITS):
        p = mpf(risk)
        if errors > n * p or p >= 1:
            return min(mpf(1), at_least(errors, n, p) * (1 + ROUNDING))
        return 1 - at_least(n - errors + 1, n, 1 - p) * (1 - ROUNDING)  # right answers: the shorter sum

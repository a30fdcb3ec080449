"""Test errors, and a test that they refute the printed bound (docs/format.md, section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..formulas import probability_of_more
from ..losses import WRONG
from ..refusal import Refused
from ..sample import Inputs, canonical_inputs, canonical_labels, count_shared

if TYPE_CHECKING:
    from ..header import Header
    from ..learn.picking import LearnedNetwork
    from ..networks.evaluation import Evaluator

LEVEL = 1e-3  # test errors less likely than this, were the bound true, refute it


@dataclass(frozen=True)
class Comparison:
    """Errors of the network that the bound is about, on examples that took no part in making it.

    ``shared`` of them occur in the sample too. ``tail`` is the probability of so many errors or more, were
    the risk as large as the bound; ``refuted`` says that it is below the level.
    """

    errors: int
    n: int
    shared: int
    tail: float
    refuted: bool
    sentence: str


def compare_with_test(
    header: Header, network: Evaluator | LearnedNetwork, sample: Inputs, test: tuple[Inputs, Inputs]
) -> Comparison:
    """Count errors on test examples as on the sample, and compare them with the printed bound."""
    x = canonical_inputs(test[0])
    labels = canonical_labels(test[1], len(x))
    if x.shape[1:] != header.input_shape or labels.min() < 0 or labels.max() >= header.classes:
        raise Refused(
            f"Test data: inputs of shape {header.input_shape} with labels from 0 to {header.classes - 1} are "
            f"expected; found shape {x.shape[1:]} and labels from {labels.min()} to {labels.max()}."
        )
    possible = header.loss.possible(labels)
    if not possible.any():
        raise Refused(f"Test data: the loss {header.loss.text} is about none of the examples.")
    x, labels = x[possible], labels[possible]
    errors = network.count_errors(x, labels, loss=header.loss)
    return judge(header, errors, len(x), count_shared(sample, x))


def judge(header: Header, errors: int, n: int, shared: int) -> Comparison:
    """Compare test errors with the printed bound."""
    does = "errs" if header.loss == WRONG else f"incurs the loss {header.loss.text}"
    seen = f"{header.subject} {does} on {errors} of {n} test examples, of which {shared} occur in the sample"
    tail = probability_of_more(errors, n, header.bound)
    refuted = bool(tail < LEVEL)
    if refuted:
        meaning = (
            f". Were the bound true, so many would be seen with probability below {LEVEL:g}: the file is in "
            "order and what it claims is not to be believed. Look for copies (inside the sample, or of test "
            "examples in it), for a base that saw the sample, for test data of another distribution, and for "
            "a network that does not answer for one example at a time."
        )
    else:
        meaning = "; that does not contradict the bound."
    return Comparison(errors, n, shared, float(tail), refuted, seen + meaning)

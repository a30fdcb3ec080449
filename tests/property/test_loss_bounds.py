"""What bounds on losses must satisfy, whatever the counts are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from codebound.bounds.occam import occam_binomial, occam_loss, occam_table
from codebound.bounds.risk import OccamFacts
from codebound.run.errors import UsageError

COUNTS = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
DELTAS = st.floats(1e-12, 0.5)
BITS = st.floats(0, 1e5)


def clopper_pearson(errors: int, n: int, delta: float) -> float:
    return 1.0 if errors == n else float(beta.ppf(1.0 - delta, errors + 1, n - errors))


@given(COUNTS, BITS, DELTAS)
def test_a_loss_is_bounded_as_an_error_is(counts, bits, delta):
    facts = OccamFacts(errors=counts[0], n=counts[1], code_bits=bits, delta=delta)
    found = occam_loss(facts)
    assert (found.value, found.ref) == (occam_binomial(facts).value, "C-17")


@given(st.lists(COUNTS, min_size=1, max_size=5), BITS, DELTAS)
def test_rows_of_a_table_share_delta(counts, bits, delta):
    limits = occam_table(counts, code_bits=bits, delta=delta)
    for (errors, n), limit in zip(counts, limits, strict=True):
        alone = occam_binomial(OccamFacts(errors=errors, n=n, code_bits=bits, delta=delta)).value
        assert limit >= alone * (1.0 - 1e-9)


def test_a_table_against_clopper_and_pearson():
    counts = [(3, 100), (0, 50), (7, 7), (0, 0)]
    limits = occam_table(counts, code_bits=0, delta=0.04)
    assert limits[3] is None
    for (errors, n), limit in zip(counts[:3], limits[:3], strict=True):
        assert limit == pytest.approx(clopper_pearson(errors, n, 0.01), rel=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: occam_table([], code_bits=0, delta=0.05),
        lambda: occam_table([(2, 1)], code_bits=0, delta=0.05),
    ],
)
def test_counts_that_make_no_sense_are_refused(call):
    with pytest.raises(UsageError):
        call()

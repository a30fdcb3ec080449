"""What bounds on losses must satisfy, whatever the counts are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import OccamFacts
from codebound.sample.counting import Tally, terms_of

COUNTS = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
DELTAS = st.floats(1e-12, 0.5)
BITS = st.floats(0, 1e5)


def clopper_pearson(errors: int, n: int, delta: float) -> float:
    return 1.0 if errors == n else float(beta.ppf(1.0 - delta, errors + 1, n - errors))


@given(st.lists(COUNTS, min_size=1, max_size=5), BITS, DELTAS)
def test_rows_of_a_table_share_delta(counts, bits, delta):
    limits = terms_of(
        "binomial", "each class", [Tally("a class", *each) for each in counts], bits=bits
    ).limits(delta)
    for (errors, n), limit in zip(counts, limits, strict=True):
        alone = occam_binomial(OccamFacts(errors=errors, n=n, code_bits=bits, delta=delta)).value
        assert limit >= alone * (1.0 - 1e-9)


def test_a_table_against_clopper_and_pearson():
    counts = [(3, 100), (0, 50), (7, 7), (0, 0)]
    limits = terms_of("binomial", "each class", [Tally("a class", *each) for each in counts], bits=0).limits(
        0.04
    )
    assert limits[3] == 1.0
    for (errors, n), limit in zip(counts[:3], limits[:3], strict=True):
        assert limit == pytest.approx(clopper_pearson(errors, n, 0.01), rel=1e-9)

"""Every small mixed table gets a certificate by default, and nothing that was offered is refused."""

import json
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from worlds.tables import mixed_table

from codebound.certification import certify
from codebound.run.errors import CertificateError

QUICK, THOROUGH, SLOW = 20, 200, 2000
"""Tables; of the quick ones two were refused when a layer over columns could be offered as a split."""
TINY = 4
"""Rows below which no share is left to learn from."""


def is_certified(seed):
    table = mixed_table(seed)
    if len(table[1]) < TINY:
        with suppress(CertificateError):
            certify(table)
        return
    found = certify(table)
    assert found.certificate.claim.bound <= 1.0
    assert found.refusals == ()
    json.dumps(found.result)


@pytest.mark.few(5)
@pytest.mark.parametrize("seed", range(QUICK))
def test_a_mixed_table_is_certified_by_default(seed):
    is_certified(seed)


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(0, QUICK, 2))
def test_usual_learners_never_fail_on_a_mixed_table(seed):
    table = mixed_table(seed)
    with suppress(CertificateError):  # too few rows, or one class in the known share
        found = certify(table, method="scores")
        assert found.refusals == ()
        assert not [each for each in found.skipped.values() if "failed" in each]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(QUICK, THOROUGH))
def test_more_mixed_tables_are_certified_by_default(seed):
    is_certified(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(THOROUGH, SLOW, 50))
def test_many_mixed_tables_are_certified_by_default(start):
    for seed in range(start, start + 50):
        is_certified(seed)


def test_a_larger_table_with_words_is_certified_by_default():
    from sklearn.datasets import make_classification

    x, y = make_classification(
        1000, 8, n_informative=5, weights=[0.5], random_state=0, flip_y=0.02, class_sep=1.2
    )
    rng = np.random.default_rng(0)
    words = {f"w{at}": rng.choice(list("abcd"), 1000) for at in range(2)}
    found = certify((pd.DataFrame({f"x{at}": x[:, at] for at in range(8)} | words), y))
    assert found.method in ("split", "scores")
    assert found.refusals == ()

"""Losses, dates and lines of a ledger that nobody can write by mistake."""

import pytest

from codebound_verify.formulas import binomial
from codebound_verify.holdout import ledger
from codebound_verify.refusal import Refused

SEAL = {"version": 2, "data": {"classes": 10}, "by_class": None}
FINE = ["wrong", "class:0", "confused:1:2", "top:9", "cost-above:8:distance", f"cost-above:4:{'05' * 45}"]
BAD = ["class:\u0663", "class:03", "confused:1:1", "top:0", "top:10", "cost-above:9:distance"]
BAD += ["cost-above:00:distance", f"cost-above:0:{'0' * 90}", "cost-above:\u0661:distance"]


@pytest.mark.parametrize("loss", FINE + BAD)
def test_a_loss_is_written_in_one_way_and_can_happen(loss):
    if loss in FINE:
        ledger._check_loss(SEAL | {"fault": loss})
    else:
        with pytest.raises(Refused, match="does not fit 10 classes"):
            ledger._check_loss(SEAL | {"fault": loss})


@pytest.mark.parametrize("day", ["2026-02-29", "2026-13-01", "9999-99-99", "0000-01-01", "2026-1-01"])
def test_a_date_exists(day):
    assert ledger._is_date("2028-02-29T23:59:59Z")
    assert not ledger._is_date(f"{day}T00:00:00Z")
    assert not ledger._is_date("2028-02-29T24:00:00Z")


def test_looks_have_a_limit_and_equal_bounds_are_computed_once():
    assert "more than 65536 lines" in ledger.verify_ledger(b"\n" * ((1 << 16) + 1)).reasons[0]
    binomial.cache_clear()
    assert binomial(errors=1, n=9, bits=0, delta=0.05) is binomial(errors=1, n=9, bits=0, delta=0.05)

"""Rules that pick: an answer for odd samples, within the time, and kept when somebody interrupts."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from worlds.requests import request
from worlds.samples import clouds, random_labels

from codebound.bits.plain_code import PICKS
from codebound.certification import certify
from codebound.methods import picks
from codebound.methods.search import UnsuitedError
from codebound.request import Claim, Run
from codebound.sample.arrays import from_arrays


def certified(x, y, **asked):
    return certify(
        from_arrays(x, y, name="t"), method="picks", **request(**{"effort": "quick"} | asked)
    ).certificate


@pytest.mark.thorough
def test_breast_cancer_is_certified_at_twelve_percent():
    found = certified(*load_breast_cancer(return_X_y=True), effort="standard")
    assert found.claim.bound <= 0.12
    assert not found.claim.vacuous


@pytest.mark.parametrize("n", [12, 20, 60])
def test_a_tiny_sample_gets_an_answer(n):
    y = np.arange(n) % 2
    found = certified(np.random.default_rng(n).normal(size=(n, 2)) + 8.0 * y[:, None], y)
    assert found.form == PICKS
    assert found.limit.errors + found.limit.picks < n
    assert found.claim.vacuous == (n < 40)


@pytest.mark.thorough
def test_columns_that_say_nothing_are_weighted_down_where_that_pays(monkeypatch):
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 250)
    x = random.normal(size=(250, 40))
    x[:, :3] += 2.0 * y[:, None]
    weighted = certified(x, y, effort="standard").claim.bound
    monkeypatch.setitem(picks._STRENGTHS, "standard", ())
    assert weighted < certified(x, y, effort="standard").claim.bound


@pytest.mark.parametrize("part", ["comparison", "all"])
def test_who_interrupts_the_picking_ends_the_search(part, monkeypatch):
    """The rounds until then are kept, and nothing is begun after them."""
    carry_out, calls = picks.carry_out, []

    def interrupted(rule, arranged, **options):
        is_here = ("progress" in options) == (part == "all")
        calls.append(is_here)
        assert calls.count(True) < 2, "the search went on"
        return replace(carry_out(rule, arranged, **options), is_interrupted=is_here)

    monkeypatch.setattr(picks, "carry_out", interrupted)
    sample = clouds(90, classes=2, features=3)
    if part == "all":
        assert certify(sample, method="picks", run=Run(effort="quick")).is_interrupted
    else:
        with pytest.raises(KeyboardInterrupt):
            certify(sample, method="picks", run=Run(effort="quick"))


def test_however_short_the_time_the_first_answer_says_more_than_guessing():
    found = certify(clouds(400, features=5, apart=3.0), run=Run(minutes=1e-9))
    assert found.is_out_of_time
    assert not found.vacuous


def test_labels_that_nobody_can_tell_get_a_vacuous_answer_in_no_time():
    found = certify(random_labels(400), run=Run(minutes=1e-9))
    assert found.certificate.claim.vacuous
    assert found.is_out_of_time
    assert "more minutes" in found.result["advice"]


def test_clusters_have_no_picks():
    clusters = np.repeat(np.arange(60, dtype=np.int64), 2)
    with pytest.raises(UnsuitedError, match="of clusters one row counts"):
        certify(clouds(120), method="picks", claim=Claim(clusters=clusters), run=Run(effort="quick"))

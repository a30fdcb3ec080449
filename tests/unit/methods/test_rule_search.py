"""Rules for tables: as good as was asked for on one that everybody has, and an answer for odd samples."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from codebound.certification import certify
from codebound.methods import rule_search as picked
from codebound.sample.arrays import from_arrays


def certified(x, y):
    return certify(None, from_arrays(x, y, name="t"), method="picks", effort="standard").certificate


@pytest.mark.thorough
def test_breast_cancer_is_certified_at_eleven_percent_by_default():
    found = certified(*load_breast_cancer(return_X_y=True))
    assert found.claim.bound <= 0.11
    assert not found.claim.vacuous


@pytest.mark.parametrize("n", [12, 20, 45])
def test_a_tiny_sample_gets_an_answer(n):
    random = np.random.default_rng(n)
    y = np.arange(n) % 2
    found = certified(random.normal(size=(n, 2)) + 8.0 * y[:, None], y)
    assert found.facts.errors + found.facts.extra["picks"] < n
    assert found.claim.vacuous == (n < 40)


@pytest.mark.thorough
def test_columns_that_say_nothing_are_weighted_down_where_that_pays(monkeypatch):
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 250)
    x = random.normal(size=(250, 40))
    x[:, :3] += 2.0 * y[:, None]
    weighted = certified(x, y)
    monkeypatch.setitem(picked._STRENGTHS, "standard", ())
    plain = certified(x, y)
    assert (weighted.version, plain.version) == (3, 2)
    assert weighted.claim.bound < 0.9 * plain.claim.bound
    assert weighted.facts.code_bits > plain.facts.code_bits


@pytest.mark.parametrize("part", ["comparison", "all"])
def test_who_interrupts_the_picking_ends_the_search(part, monkeypatch):
    """The rounds until then are kept, and nothing is begun after them."""
    pick, calls = picked.pick, []

    def interrupted(rule, sample, **options):
        is_here = ("progress" in options) == (part == "all")
        calls.append(is_here)
        assert calls.count(True) < 2, "the search went on"
        return replace(pick(rule, sample, **options), is_interrupted=is_here)

    monkeypatch.setattr(picked, "pick", interrupted)
    random = np.random.default_rng(0)
    y = np.arange(90) % 2
    sample = from_arrays(random.normal(size=(90, 3)) + 2.0 * y[:, None], y, name="t")
    if part == "all":
        assert certify(None, sample, method="picks", effort="quick").is_interrupted
    else:
        with pytest.raises(KeyboardInterrupt):
            certify(None, sample, method="picks", effort="quick")


def test_however_short_the_time_the_first_answer_says_more_than_guessing():
    random = np.random.default_rng(0)
    y = np.arange(400) % 2
    pictures = random.integers(0, 100, (400, 1, 8, 8)) + 100 * y[:, None, None, None]
    sample = from_arrays(pictures.astype(np.uint8), y, name="t")
    found = certify(None, sample, minutes=1e-9)
    assert found.certificate.claim.statement == "C-15"
    assert not found.certificate.claim.vacuous
    assert found.certificate.facts.extra["picks"] == 0, "time was up after the first round"
    assert found.is_out_of_time


def test_labels_that_nobody_can_tell_cost_no_more_time_than_the_first_rule():
    random = np.random.default_rng(0)
    sample = from_arrays(random.normal(size=(400, 3)), random.integers(0, 2, 400), name="t")
    found = certify(None, sample, minutes=1e-9)
    assert found.certificate.claim.vacuous
    assert found.is_out_of_time

"""The calculator: which bounds follow from which counts, against SciPy, and what contradicts itself."""

from dataclasses import replace

import pytest
from scipy.stats import beta

from codebound.certificate.calculator import Counts, calculate
from codebound.run.errors import UsageError


def limit(errors, n, delta):
    """Clopper and Pearson, by SciPy."""
    return float(beta.isf(delta, errors + 1, n - errors))


def names(**counts):
    return [each.name for each in calculate(Counts(**counts)).forms]


def test_what_is_asked_for_comes_first_and_the_rest_stands_beside_it():
    assert names(n=1000, errors=5, bits=10) == ["binomial", "kl", "hoeffding"]
    assert names(n=1000, errors=5, is_holdout=True) == ["holdout", "binomial", "kl", "hoeffding"]
    assert names(n=1000, errors=5, is_holdout=True, looks=3) == ["looked", "fixed", "holdout"]
    assert names(n=1000, errors=5, is_holdout=True, looks=3, is_fixed_before=True) == ["looked", "holdout"]
    assert names(n=1000, errors=5, picks=20) == ["picked", "holdout"]


def test_every_price_is_part_of_delta():
    for counts, price in (
        ({"is_holdout": True}, 1.0),
        ({"bits": 12}, 2.0**-12),
        ({"is_holdout": True, "looks": 1}, 1.0),
        ({"is_holdout": True, "looks": 3}, 1 / (3 * 1001**2)),  # two answers of 0 to 1,000 before it
        ({"is_holdout": True, "looks": 50, "is_fixed_before": True}, 1 / 50),
        ({"is_holdout": True, "looks": 50, "bits": 3}, 1 / 400),
    ):
        first = calculate(Counts(n=1000, errors=30, delta=0.02, **counts)).forms[0]
        assert first.value == pytest.approx(limit(30, 1000, 0.02 * price), rel=1e-9)


def test_what_has_to_be_true_of_looks_is_said():
    counts = Counts(n=1000, errors=5, is_holdout=True, looks=20)
    for given, words in (
        ({}, "nothing was known of the examples when it was chosen but the numbers of errors of the other"),
        ({"bits": 7}, "all that was known of the examples when it was chosen is in answers of 7 bits"),
        ({"is_fixed_before": True}, "all 20 networks were fixed before the first was tried"),
    ):
        found = calculate(replace(counts, **given))
        assert f", provided that {words}" in found.sentence
        assert found.record()["provided"].startswith(words)
    alone = calculate(replace(counts, looks=1))
    assert "provided" not in alone.sentence
    assert "provided" not in alone.record()


def test_the_sentence_is_about_what_was_counted():
    for counts in ({"bits": 10}, {"picks": 20}, {"is_holdout": True}, {"is_holdout": True, "looks": 3}):
        assert "the classifier errs" in calculate(Counts(n=1000, errors=5, **counts)).sentence
    told = calculate(Counts(n=1000, errors=5, bits=10, classes=9, loss="class:3")).sentence
    assert "of new data of class 3." in told


def test_a_record_says_whether_guessing_does_as_well():
    assert calculate(Counts(n=10, errors=9, bits=0, classes=2)).record()["vacuous"] is True
    assert calculate(Counts(n=10, errors=1, bits=0)).record()["vacuous"] is False


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"errors": 1}, "bits is missing"),
        ({"errors": 1, "bits": 5, "is_holdout": True}, "leave out bits"),
        ({"errors": 1, "picks": 5, "is_holdout": True}, "leave out bits and picks"),
        ({"errors": 1, "bits": 5, "looks": 2}, "give holdout too"),
        ({"errors": 1, "is_fixed_before": True}, "give looks"),
        ({"errors": 1, "bits": 5, "looks": 2, "is_holdout": True, "is_fixed_before": True}, "leave out bits"),
        ({"errors": 1, "bits": 5, "loss": "abstain:0.5"}, "unknown loss"),
    ],
)
def test_counts_that_contradict_each_other_are_refused(counts, message):
    with pytest.raises(UsageError, match=message):
        calculate(Counts(n=100, **counts))

"""A quick run of the learners: what is tried, what is measured, and how it is carried over to all labels."""

import pytest
from worlds.samples import clouds, random_labels

from codebound import trial
from codebound.errors import DataError
from codebound.trial import try_learners


@pytest.fixture(scope="module")
def tried():
    """Easy clouds, of which no more than 120 examples are tried: nearly nothing is wrong."""
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "_MOST", 120)
        patch.setattr(trial, "_STEPS", 120)
        easy = clouds(300, apart=6.0)
        found = try_learners(easy, labels=480, delta=0.1, looks=3, progress=lambda *at: told.append(at))
    return found, told


def test_a_quarter_is_held_out_and_all_steps_are_told(tried):
    found, told = tried
    assert (found.tried, found.held_out) == (120, 30)
    assert [(done, total) for done, total, _ in told] == [(0, 3), (1, 3), (2, 3)]


def test_advice_gets_what_was_measured_for_all_labels(tried):
    found, _ = tried
    situation = found.situation
    assert (situation.n, situation.delta, situation.looks) == (480, 0.1, 3)
    measured = (found.errors + 0.5) / 31
    assert situation.error == pytest.approx(measured * (90 / 480) ** situation.slope)
    assert situation.error > 0.0  # however few were seen
    assert 0.0 <= situation.slope <= 1.0
    assert set(found.certified) == {"picks", "message"}
    assert situation.train_error <= found.certified["message"] < 0.5


@pytest.mark.thorough
def test_labels_that_say_nothing_are_found_out():
    found = try_learners(random_labels(120, shape=(3,), classes=2))
    assert found.errors >= 5
    assert min(found.certified.values()) > 0.3
    assert found.situation.n == 120


def test_too_few_examples_are_refused_with_a_way_out():
    with pytest.raises(DataError, match="59 examples are too few to try anything: at least 60"):
        try_learners(clouds(59))

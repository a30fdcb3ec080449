"""The usual kernel and ridge against fits without each group of equal inputs (section 7.7)."""

import numpy as np
import pytest

from codebound_verify.learn.features import feature_map
from codebound_verify.learn.ridge import choose_widths, score_widths, targets_of
from codebound_verify.learn.rule import Columns, Patches, Rule
from codebound_verify.refusal import Refused
from codebound_verify.sample import Data

SCALE = 4000.0**2


def kernel(one: np.ndarray, other: np.ndarray, gamma: float, scale: float) -> np.ndarray:
    one, other = one.astype(float), other.astype(float)
    squared = ((one[:, None] - other) ** 2).sum(axis=2)
    return (1 + gamma / 4 * squared / scale) ** -4.0


def refitted(vectors, inputs, targets, gamma: float, ridge: float, scale: float = SCALE) -> float:
    """Fit without each group, and look at the errors that are made on it."""
    errors = np.empty_like(targets)
    for number in {*inputs.tolist()}:
        out = inputs == number
        own = kernel(vectors[~out], vectors[~out], gamma, scale) + ridge * np.eye((~out).sum())
        fit = np.linalg.solve(own, targets[~out])
        errors[out] = targets[out] - kernel(vectors[out], vectors[~out], gamma, scale) @ fit
    return float((errors**2).mean())


def drawn(rows: int = 60, seed: int = 0):
    """Vectors, some of them several times, and labels that differ among equal ones."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, rows)
    vectors = np.rint(900 * (random.normal(size=(rows, 4)) + y[:, None])).astype(np.int16)
    inputs = np.arange(rows)
    for row, other in ((5, 2), (9, 2), (17, 40), (21, 40), (22, 40), (50, 51)):
        vectors[row], inputs[row] = vectors[other], inputs[other]
    return vectors, inputs, np.where(y[:, None] == np.arange(3), 1.0, -1.0)


@pytest.mark.parametrize("has_columns", [False, True])
def test_scores_are_those_of_fits_without_each_group(has_columns):
    vectors, inputs, targets = drawn()
    found = score_widths(vectors, inputs, targets, squared_scale=SCALE, has_columns=has_columns)
    gammas = (0.5, 1.0, 2.0, 4.0) if has_columns else (0.25, 0.5, 1.0)
    ridges = (1 / 64, 1 / 16, 1 / 4, 1.0) if has_columns else (1 / 64, 1 / 16, 1 / 4)
    assert [*found] == [(gamma, ridge) for gamma in gammas for ridge in ridges]
    for pair, score in found.items():
        assert score == pytest.approx(refitted(vectors, inputs, targets, *pair), rel=1e-10)


def test_teeth_a_group_is_left_out_as_a_whole():
    vectors, inputs, targets = drawn()
    together = score_widths(vectors, inputs, targets, squared_scale=SCALE, has_columns=True)
    alone = score_widths(vectors, np.arange(60), targets, squared_scale=SCALE, has_columns=True)
    assert all(abs(together[pair] - alone[pair]) > 1e-4 for pair in together)


def test_the_smallest_score_is_chosen_from_the_first_rows_as_they_are(monkeypatch):
    monkeypatch.setattr("codebound_verify.learn.ridge.LEFT_OUT_LIMIT", 70)
    random = np.random.default_rng(3)
    y = random.integers(0, 3, 120)
    data = Data(random.normal(size=(120, 3)) + y[:, None], y)
    first = random.permutation(120)[:90]
    rule = Rule(features=Columns(normalised=False), copies=0)
    features = feature_map(rule, data, first)
    targets = targets_of(y[first], np.arange(3))
    found = choose_widths(rule, features, data, first, inputs=np.arange(120), targets=targets)
    vectors = features.vectors(data.x[first[:70]])
    scale = features.squared_scale
    scores = {
        (gamma, ridge): refitted(vectors, np.arange(70), targets[:70], gamma, ridge, scale)
        for gamma in (0.5, 1.0, 2.0, 4.0)
        for ridge in (1 / 64, 1 / 16, 1 / 4, 1.0)
    }
    assert found == min(scores, key=scores.get)


def test_pairs_that_do_equally_well_are_refused(monkeypatch):
    rule = Rule(features=Columns(normalised=False), copies=0)
    data = Data(np.zeros((10, 1)), np.arange(10) % 2)
    features = feature_map(rule, data, np.arange(10))
    targets = targets_of(data.y, np.arange(2))

    def choose():
        inputs = np.zeros(10, np.int64)
        return choose_widths(rule, features, data, np.arange(10), inputs=inputs, targets=targets)

    with pytest.raises(Refused, match="do equally well on the known rows; form 1110"):
        choose()  # every pair has the score 1
    for more, is_refused in ((0.4e-9, True), (0.6e-9, False)):
        scores = {(1.0, 0.25): 0.7 * (1 + more), (2.0, 1.0): 0.7, (0.5, 1.0): 0.9}
        monkeypatch.setattr(
            "codebound_verify.learn.ridge.score_widths", lambda *given, scores=scores, **named: scores
        )
        if is_refused:
            with pytest.raises(Refused, match="do equally well"):
                choose()
        else:
            assert choose() == (2.0, 1.0)


def test_mirror_images_are_left_out_of_it():
    """Patches with a = 1: the vectors are those of the rows alone, of a map that has learned from both."""
    random = np.random.default_rng(0)
    data = Data(random.integers(0, 17, (40, 1, 8, 8)).astype(np.uint8), np.arange(40) % 2)
    features = Patches(size=3, filters=256, threshold=1, grid=2, whitening=2.0**-7, seed=0)
    rule = Rule(features=features, copies=1)
    made = feature_map(rule, data, np.arange(40))
    targets = targets_of(data.y, np.arange(2))
    vectors = made.vectors(made.prepare(data.x))
    scores = score_widths(
        vectors, np.arange(40), targets, squared_scale=made.squared_scale, has_columns=False
    )
    found = choose_widths(rule, made, data, np.arange(40), inputs=np.arange(40), targets=targets)
    assert found == min(scores, key=scores.get)

"""Weights against a slow reading of section 7.6."""

import numpy as np
import picked_oracle as oracle
import pytest

from codebound_verify.learn.features import compute_weights, feature_map
from codebound_verify.learn.maps import levels, mirror
from codebound_verify.learn.rule import Columns, Filters, Patches, Rule
from codebound_verify.refusal import Refused
from codebound_verify.sample import Data


@pytest.mark.parametrize("number", [1, 2, 3])
def test_weights(number):
    """A number at a time; the last columns say much, nothing and all."""
    random = np.random.default_rng(number)
    labels = random.integers(0, 4, 70)
    labels[labels == 2] = 1
    numbers = random.integers(-1024, 1025, (70, 6)).astype(float)
    numbers[:, 3] += 700 * labels
    numbers[:, 4], numbers[:, 5] = 5, 9 * labels
    wanted = oracle.computed_weights(numbers.astype(int).T.tolist(), labels.tolist(), number)
    found = compute_weights(number, labels, lambda chosen: np.array_split(numbers[chosen], 3))
    assert found.tolist() == wanted
    far = compute_weights(number, labels * 10**15, lambda chosen: [numbers[chosen]])  # and take no room
    assert far.tolist() == wanted
    assert wanted[5] == 8 > wanted[3] > wanted[0]
    assert wanted[4] == 0
    assert compute_weights(number, labels, lambda chosen: [np.ones((len(chosen), 2))]).tolist() == [1, 1]


def test_sums_that_are_not_exact_are_refused():
    numbers = np.full((4, 1), 2.0**26)
    with pytest.raises(Refused, match="too large for exact arithmetic"):
        compute_weights(1, np.arange(4) % 2, lambda chosen: [numbers[chosen]])


def pictures() -> Data:
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 40)
    x = random.integers(0, 9, (40, 1, 8, 9)) + 3 * (np.arange(9) // 3 == y[:, None, None, None])
    return Data(x.astype(np.uint8), y)


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("normalised", [False, True])
def test_weights_of_columns_are_from_the_first_rows(number, normalised):
    data, first = pictures(), np.arange(30)[::-1]
    rule = Rule(features=Columns(normalised=normalised), copies=0, weights=number, gamma=1.0, ridge=1.0)
    found = feature_map(rule, data, first)
    flat = data.x.reshape(40, -1)[first].astype(float)
    if normalised:
        numbers = np.rint(flat * 32767 / flat.max(axis=1)[:, None])
    else:
        ordered = np.sort(flat, axis=0)
        spread = ordered[27] - ordered[3]
        spread = np.where(spread == 0, ordered[-1] - ordered[0], spread)
        parts = (flat - ordered[15]) / np.where(spread == 0, 1, spread)
        numbers = np.rint(256 * np.clip(parts, -4, 4))
    wanted = oracle.computed_weights(numbers.astype(int).T.tolist(), data.y[first].tolist(), number)
    assert found.weights.tolist() == wanted
    assert len({*wanted}) > 2


def test_weights_of_filters_are_from_numbers_before_the_centre():
    data, first = pictures(), np.arange(30)
    features = Filters(straight=False, dictionary=3, pool=4)
    found = feature_map(Rule(features=features, copies=2, weights=2, gamma=1.0, ridge=1.0), data, first)
    values = [
        oracle.filter_values(picture, straight=False, dictionary=3, pool=4)
        for picture in levels(data.x[first], 16.0).tolist()
    ]
    wanted = oracle.computed_weights([*map(list, zip(*values, strict=True))], data.y[first].tolist(), 2)
    assert found.weights.tolist() == wanted


def test_weights_of_mirror_images_are_the_same():
    """Patches with mirror images: the kernel stays symmetric."""
    data, first = pictures(), np.arange(30)
    features = Patches(size=3, filters=256, threshold=1, grid=2, whitening=2.0**-7, seed=0)
    found = feature_map(Rule(features=features, copies=1, weights=2, gamma=1.0, ridge=1.0), data, first)
    assert len({*found.weights.tolist()}) > 2
    shown = levels(data.x, 16.0)
    assert (found.mirror(found.vectors(shown)) == found.vectors(mirror(shown))).all()

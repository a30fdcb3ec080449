"""Splits and picks, carried out, against slow readings of sections 7.7 to 7.9."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import picked_oracle as oracle
import pytest

from codebound_verify.learn import picking
from codebound_verify.learn.features import feature_map
from codebound_verify.learn.picking import carry_out, learn_split
from codebound_verify.learn.rule import Columns, Filters, Patches, PickRule, Rule, Split
from codebound_verify.order import arrange
from codebound_verify.refusal import Refused
from codebound_verify.sample import Data


def arranged_of(data: Data, known: int, *, order: str = "rows", copies: str = "any", clusters=None):
    from codebound_verify.sample import hash_arrays

    sample = SimpleNamespace(
        order=order,
        copies=copies,
        salt="",
        groups=None,
        clusters=None if clusters is None else hash_arrays(clusters),
    )
    header = SimpleNamespace(sample=sample, known=SimpleNamespace(rows=known))
    return arrange(data, header, clusters, None)


def blobs(rows: int = 200, seed: int = 0, labels=(0, 1, 2)) -> Data:
    random = np.random.default_rng(seed)
    y = random.integers(0, len(labels), rows)
    x = random.normal(size=(rows, 5)) + 1.5 * np.eye(5)[y]
    return Data(x, np.array(labels)[y])


def shapes(rows: int = 90, seed: int = 1, channels: int = 1) -> Data:
    """Pictures of bars, crosses and noise."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, rows)
    x = random.integers(0, 8, (rows, channels, 8, 7))
    for row, label in enumerate(y):
        place = random.integers(2, 5)
        if label != 1:
            x[row, :, place] += 6
        if label != 0:
            x[row, :, :, place] += 7
    return Data(x.astype(np.uint8), y)


def kernel_of(one, other, gamma: float, scale: float) -> np.ndarray:
    """Section 7.7 between rows of integers."""
    one, other = np.asarray(one, np.int64), np.asarray(other, np.int64)
    squared = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * one @ other.T
    v = 1 + gamma / 4 * (squared / scale)
    return 1 / ((v * v) * (v * v))


def slow_fit(rule: Rule, labels, classes, vectors, copies, scale: float) -> np.ndarray:
    """The scores of all rows, by numpy's solver; ``copies`` has the supports of each row learned from.

    Each support is a list of vectors whose kernels are added up.
    """

    def values(points):
        return sum(kernel_of(points, part, rule.gamma, scale) for part in zip(*copies, strict=True))

    matrix = values([each[0] for each in copies])
    targets = np.where(np.asarray(labels)[:, None] == np.asarray(classes), 1.0, -1.0)
    return values(vectors) @ np.linalg.solve(matrix + rule.ridge * np.eye(len(copies)), targets)


def scores_of(learned, rows) -> np.ndarray:
    found = [*learned.blocks(rows)]
    assert np.concatenate([each[0] for each in found]).tolist() == rows.tolist()
    values, room = (np.concatenate([each[k] for each in found]) for k in (1, 2))
    assert room.tolist() == np.maximum(0.5e-4 * np.abs(values).max(axis=1), 0.5e-6).tolist()
    return values


@pytest.mark.parametrize("labels", [(0, 1, 2), (3, 700, 65535)])
@pytest.mark.parametrize(("weights", "normalised"), [(0, False), (2, False), (3, True), (0, True)])
def test_splits_of_columns(labels, weights, normalised):
    data = blobs(labels=labels)
    arranged = arranged_of(data, 80)
    first, flat = arranged.known, data.x.tolist()
    rule = Rule(features=Columns(normalised=normalised), copies=0, weights=weights, gamma=0.5, ridge=0.25)
    learned = learn_split(Split(rule, np.array(labels)), data, arranged)
    weighed = feature_map(rule, data, first).weights.astype(int).tolist() if weights else None
    vectors = oracle.column_vectors([flat[i] for i in first], flat, normalised=normalised, weights=weighed)
    total = sum(w * w for w in weighed or [1] * 5)
    u = np.floor((4095 - np.sqrt(5.0) / 2) / (4 * np.sqrt(float(total))))
    scale = float(oracle.radius(5) ** 2 if normalised else total * u * u)
    copies = [[vectors[i]] for i in first]
    wanted = slow_fit(rule, data.y[first], labels, vectors, copies, scale)
    found = scores_of(learned, arranged.counted)
    assert np.abs(found - wanted[arranged.counted]).max() < 1e-9
    assert (learned.classes.tolist(), learned.theta, learned.picks.tolist()) == ([*labels], 0.0, [])
    assert 0.6 < (np.array(labels)[found.argmax(1)] == data.y[arranged.counted]).mean() < 1


def test_nothing_but_the_first_rows_is_learned_from():
    data = blobs()
    arranged = arranged_of(data, 80)
    other = Data(data.x.copy(), data.y.copy())
    other.x[arranged.counted] *= 9
    other.y[arranged.counted] = 5
    rule = Rule(features=Columns(normalised=False), copies=0)
    found, wanted = (
        scores_of(learn_split(Split(rule, np.arange(3)), given, arranged).on(data), arranged.counted)
        for given in (data, other)
    )
    assert (found == wanted).all()


@pytest.mark.parametrize("copies", [0, 2, 3, 4, 5, 6, 7])
def test_splits_of_filters_with_copies(copies):
    data = shapes()
    arranged = arranged_of(data, 20)
    features = Filters(straight=True, dictionary=3, pool=3)
    rule = Rule(features=features, copies=copies, gamma=0.5, ridge=0.25)
    learned = learn_split(Split(rule, np.arange(3)), data, arranged)
    made = feature_map(rule, data, arranged.known)
    vectors = made.vectors(made.prepare(data.x))
    supports, labels = [], []
    for i in arranged.known:
        shown = oracle.copies(made.prepare(data.x[i : i + 1])[0].tolist(), copies)
        supports += [[vector] for vector in made.vectors(np.array(shown, np.uint8))]
        labels += [data.y[i]] * len(shown)
    scale = float(oracle.radius(vectors.shape[1]) ** 2)
    wanted = slow_fit(rule, labels, range(3), vectors, supports, scale)
    found = scores_of(learned, arranged.counted)
    assert np.abs(found - wanted[arranged.counted]).max() < 1e-9


@pytest.mark.parametrize(("weights", "channels"), [(0, 1), (2, 3)])
def test_splits_of_patches_with_mirror_images(weights, channels):
    data = shapes(channels=channels)
    arranged = arranged_of(data, 50)
    features = Patches(size=3, filters=256, threshold=1, grid=2, whitening=2.0**-7, seed=0)
    rule = Rule(features=features, copies=1, weights=weights, gamma=1.0, ridge=0.25)
    learned = learn_split(Split(rule, np.arange(3)), data, arranged)
    made = feature_map(rule, data, arranged.known)
    shown = made.prepare(data.x)
    vectors, images = made.vectors(shown), made.vectors(shown[..., ::-1])
    supports = [[vectors[i], images[i]] for i in arranged.known]
    scale = float(oracle.radius(vectors.shape[1]) ** 2)
    wanted = slow_fit(rule, data.y[arranged.known], range(3), vectors, supports, scale)
    assert np.abs(scores_of(learned, arranged.counted) - wanted[arranged.counted]).max() < 1e-9


def test_with_clusters_the_known_rows_are_those_of_known_clusters():
    data, clusters = blobs(), np.arange(200) // 4
    arranged = arranged_of(data, 20, order="clusters", copies="independent", clusters=clusters)
    assert len(arranged.known) == 80
    rule = Rule(features=Columns(normalised=False), copies=0, gamma=1.0, ridge=0.25)
    learned = learn_split(Split(rule, np.arange(3)), data, arranged)
    flat = data.x.tolist()
    vectors = oracle.column_vectors([flat[i] for i in arranged.known], flat, normalised=False)
    scale = 5 * np.floor((4095 - np.sqrt(5.0) / 2) / (4 * np.sqrt(5.0))) ** 2
    copies = [[vectors[i]] for i in arranged.known]
    wanted = slow_fit(rule, data.y[arranged.known], range(3), vectors, copies, scale)
    assert np.abs(scores_of(learned, arranged.counted) - wanted[arranged.counted]).max() < 1e-9


def test_small_scores_leave_the_least_room():
    data = blobs()
    arranged = arranged_of(data, 80)
    rule = Rule(features=Columns(normalised=False), copies=0, gamma=1.0, ridge=0.25)
    learned = learn_split(Split(rule, np.arange(3)), data, arranged)
    small = replace(learned, coefficients=learned.coefficients * 1e-3)
    for _, values, room in small.blocks(arranged.counted):
        assert np.abs(values).max() < 1e-2
        assert (room == 0.5e-5).all()
    picks = replace(small, picks=arranged.counted[:1])
    assert all(
        (room >= 0.5e-6).all() and room.min() < 0.5e-5 for _, _, room in picks.blocks(arranged.counted)
    )


def test_scores_that_are_not_finite_leave_no_room():
    data = blobs()
    arranged = arranged_of(data, 80)
    rule = Rule(features=Columns(normalised=False), copies=0, gamma=1.0, ridge=0.25)
    learned = learn_split(Split(rule, np.arange(3)), data, arranged)
    learned.coefficients[3, 1] = np.nan
    for _, values, room in learned.blocks(arranged.counted):
        assert np.isnan(values[:, 1]).all()
        assert np.isinf(room).all()


def slow_picks(rule: PickRule, data: Data, arranged, vectors, copies, scale: float):
    """Section 7.9: all that was picked, in order, and the scores at the end."""
    picked, classes = arranged.known.tolist(), rule.classes
    for size in (*rule.batches, 0):
        supports = [each for i in picked for each in copies(i)]
        labels = [data.y[i] for i in picked for _ in copies(i)]
        found = slow_fit(rule.rule, labels, classes, vectors, supports, scale)
        if size:
            rest = [i for i in range(len(data.y)) if i not in picked and data.y[i] < len(classes)]
            margins = {i: found[i, data.y[i]] - np.delete(found[i], data.y[i]).max() for i in rest}
            picked += sorted(rest, key=lambda i: abs(margins[i] + rule.score))[:size]
    return picked, found


def columns_rule(batches, *, classes: int = 3, **others) -> PickRule:
    rule = Rule(**({"features": Columns(False), "copies": 0, "gamma": 1.0, "ridge": 0.25} | others))
    return PickRule(rule=rule, classes=np.arange(classes), score=0.5, batches=batches)


def vectors_of(data: Data, first) -> tuple[list, float]:
    flat, d = data.x.tolist(), data.x.shape[1]
    u = np.floor((4095 - np.sqrt(float(d)) / 2) / (4 * np.sqrt(float(d))))
    return oracle.column_vectors([flat[i] for i in first], flat, normalised=False), float(d * u * u)


@pytest.mark.parametrize("order", ["rows", "file"])
def test_picks_of_columns(order):
    data = blobs(150)
    arranged = arranged_of(data, 20, order=order)
    rule = columns_rule((4, 7, 4, 5))
    vectors, scale = vectors_of(data, arranged.known)
    wanted, scores = slow_picks(rule, data, arranged, vectors, lambda i: [[vectors[i]]], scale)
    learned = carry_out(rule, data, arranged)
    assert learned.rows.tolist() == wanted
    assert learned.picks.tolist() == wanted[20:]
    counted = np.setdiff1d(arranged.counted, learned.picks)
    assert np.abs(scores_of(learned, counted) - scores[counted]).max() < 1e-9
    other = Data(data.x[::-1], data.y[::-1])
    again = scores_of(learned.on(other), 149 - counted)
    assert np.abs(again - scores[counted]).max() < 1e-9


def test_rows_without_a_class_are_never_picked():
    data = blobs(150, labels=(0, 1, 3))
    arranged = arranged_of(data, 10)
    data.y[arranged.known] %= 2
    arranged = arranged_of(data, 10, order="file")
    data.y[:10] %= 2
    rule = columns_rule((4, 30), classes=2)
    vectors, scale = vectors_of(data, arranged.known)
    wanted, _ = slow_picks(rule, data, arranged, vectors, lambda i: [[vectors[i]]], scale)
    learned = carry_out(rule, data, arranged)
    assert learned.rows.tolist() == wanted
    assert data.y[learned.picks].max() == 1
    few = columns_rule((int((data.y < 2).sum()) - 10,), classes=2)
    assert sorted(carry_out(few, data, arranged).rows.tolist()) == np.flatnonzero(data.y < 2).tolist()
    with pytest.raises(Refused, match="are to be picked"):
        carry_out(columns_rule((few.batches[0] + 1,), classes=2), data, arranged)


@pytest.mark.parametrize("copies", [0, 2, 4, 7])
def test_picks_of_filters_with_copies(copies):
    data = shapes()
    arranged = arranged_of(data, 10)
    features = Filters(straight=True, dictionary=3, pool=3)
    rule = columns_rule((2, 3, 2), features=features, copies=copies, ridge=1.0)
    made = feature_map(rule.rule, data, arranged.known)
    vectors = made.vectors(made.prepare(data.x))

    def copies_of(i: int):
        shown = oracle.copies(made.prepare(data.x[i : i + 1])[0].tolist(), copies)
        return [[vector] for vector in made.vectors(np.array(shown, np.uint8))]

    scale = float(oracle.radius(vectors.shape[1]) ** 2)
    wanted, scores = slow_picks(rule, data, arranged, vectors, copies_of, scale)
    learned = carry_out(rule, data, arranged)
    assert learned.rows.tolist() == wanted
    counted = np.setdiff1d(arranged.counted, learned.picks)
    assert np.abs(scores_of(learned, counted) - scores[counted]).max() < 1e-9


def test_picks_of_patches_with_mirror_images():
    data = shapes()
    arranged = arranged_of(data, 50)
    features = Patches(size=3, filters=256, threshold=1, grid=2, whitening=2.0**-7, seed=0)
    rule = columns_rule((3, 3), features=features, copies=1, gamma=2.0)
    made = feature_map(rule.rule, data, arranged.known)
    shown = made.prepare(data.x)
    vectors, images = made.vectors(shown), made.vectors(shown[..., ::-1])
    scale = float(oracle.radius(vectors.shape[1]) ** 2)
    wanted, _ = slow_picks(rule, data, arranged, vectors, lambda i: [[vectors[i], images[i]]], scale)
    assert carry_out(rule, data, arranged).rows.tolist() == wanted


def test_supports_are_in_the_order_of_the_page():
    """Batch by batch, and in a batch copy by copy; coefficients say which support is which."""
    data = shapes()
    arranged = arranged_of(data, 10)
    features = Filters(straight=False, dictionary=3, pool=3)
    rule = columns_rule((2, 3), features=features, copies=7, ridge=1.0)
    learned = carry_out(rule, data, arranged)
    made, order = learned.kernel.features, []
    for batch in np.split(learned.rows, [10, 12]):
        shown = [oracle.copies(made.prepare(data.x[i : i + 1])[0].tolist(), 7) for i in batch]
        order += [each[k] for k in range(3) for each in shown]
    assert learned.supports.vectors.tolist() == made.vectors(np.array(order, np.uint8)).tolist()
    labels = np.concatenate([np.tile(data.y[batch], 3) for batch in np.split(learned.rows, [10, 12])])
    assert (learned.coefficients.argmax(axis=1) == labels).mean() > 0.9


def test_a_kernel_that_is_kept_as_integers_is_the_same(monkeypatch):
    data = shapes()
    arranged = arranged_of(data, 10)
    features = Filters(straight=True, dictionary=3, pool=3)
    rule = columns_rule((2, 3, 2), features=features, copies=2, ridge=1.0)
    whole = carry_out(rule, data, arranged)
    monkeypatch.setattr("codebound_verify.learn.kernel.KEPT", 0)
    short = carry_out(rule, data, arranged)
    assert (whole.found == short.found).all()


def scored(scores, *, equal=(), size: int = 2):
    """Choose of rows with such scores; rows named ``equal`` are equal."""
    rows = len(scores)
    x = np.arange(float(rows))[:, None]
    for row in equal:
        x[row] = x[equal[0]]
    data = Data(x, np.zeros(rows, np.int64))
    arranged = arranged_of(data, 0)
    rule, is_left = columns_rule((size,), classes=2), np.ones(rows, bool)
    found = np.zeros((rows, 2))
    found[:, 0] = np.array(scores) - 0.5
    return picking._choose(rule, data, arranged, found, is_left, size).tolist(), arranged.places.tolist()


def test_a_gap_that_is_too_small_is_refused():
    assert scored([0.3, 0.1, 0.2, 0.2 + 0.6e-6])[0] == [1, 2]
    with pytest.raises(Refused, match="are within 5e-07 of each other"):
        scored([0.3, 0.1, 0.2, 0.2 + 0.4e-6])
    assert scored([0.2, 0.2, 0.2, 0.2], size=4)[0]  # nothing is left out
    assert scored([0.1, 0.1, 0.3], size=2)[0]  # what is close lies on one side


def test_equal_rows_around_the_border_are_picked_in_the_order_of_the_sample():
    for least in (2, 3, 4):
        scores = [0.3, 0.1, 0.2, 0.2, 0.2]
        scores[least] -= 1e-12
        found, places = scored(scores, equal=(2, 3, 4))
        assert found == [1, min((2, 3, 4), key=places.index)]
    with pytest.raises(Refused, match="and some of them are picked"):
        scored([0.3, 0.1, 0.2, 0.2, 0.2 + 0.4e-6], equal=(2, 3))
    with pytest.raises(Refused, match="and some of them are picked"):
        scored([0.3, 0.2 - 0.4e-6, 0.2, 0.2], equal=(2, 3))
    assert scored([0.3, 0.2 - 0.6e-6, 0.2, 0.2], equal=(2, 3))[0][0] == 1


def test_whole_files_are_about_the_same_when_rows_are_stored_in_another_order():
    data = blobs(150)
    rule = columns_rule((4, 7))
    mixed = np.random.default_rng(5).permutation(150)
    other = Data(data.x[mixed], data.y[mixed])
    one, two = (carry_out(rule, each, arranged_of(each, 20)) for each in (data, other))
    assert mixed[two.rows].tolist() == one.rows.tolist()


def test_rows_of_two_groups_are_not_equal():
    """Equal scores at the border of a batch are no doubt only where input, label and group are equal."""
    equal, rows = np.zeros(4, int), np.arange(4)
    for groups, is_refused in ((None, False), (equal, False), (rows, True)):
        with pytest.raises(Refused, match="within") if is_refused else nullcontext():
            picking._settle(np.zeros(4), rows, rows.copy(), 2, (equal, equal, groups))

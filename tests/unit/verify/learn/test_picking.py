"""Whole certificates of picked networks: a slow reading of the page picks and counts the same."""

import os
import sys
from types import SimpleNamespace

import cbound_writer as writer
import numpy as np
import picked_oracle as oracle
import pytest
import rule_writer as rules
import torch
from worlds.commands import python

from codebound_verify import Refused, decode_network, verify
from codebound_verify.learn.kernel import Kernel, Points, feature_map
from codebound_verify.learn.patches import PatchMap
from codebound_verify.learn.picking import learn
from codebound_verify.learn.rule import Columns, Filters, Patches, Rule, check_sizes

X, Y = rules.shapes()
SETTING = SimpleNamespace(input_shape=X.shape[1:], classes=3, scaling=SimpleNamespace(divisor=16.0))


def kernel_of(one, other, message: rules.RuleMessage, squared_scale: float) -> np.ndarray:
    """The kernel of 10.5 between rows of integers."""
    one, other = np.asarray(one, np.int64), np.asarray(other, np.int64)
    distances = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * one @ other.T
    v = 1 + 2.0**message.gamma / 4 * (distances / squared_scale)
    return 1 / ((v * v) * (v * v))


def slow_run(message: rules.RuleMessage, x, y, vectors, copies, squared_scale) -> tuple[list[int], int]:
    """10.6 with numpy's solver, anew in every round.

    ``copies`` makes of an example the lists of vectors whose kernels are added up in one support.
    """
    longer, ridge = dict(message.longer), 2.0**message.ridge
    picked = rules.order(len(x))[: message.first]
    batches = [message.batch + longer.get(r, 0) for r in range(message.rounds)]
    for size in [*batches, 0]:
        supports = [(i, each) for i in picked for each in copies(i)]

        def values(points, supports=supports):
            parts = zip(*(each for _, each in supports), strict=True)
            return sum(kernel_of(points, part, message, squared_scale) for part in parts)

        matrix = values([each[0] for _, each in supports])
        targets = np.array([[1.0 if c == y[i] else -1.0 for c in range(3)] for i, _ in supports])
        found = values(vectors) @ np.linalg.solve(matrix + ridge * np.eye(len(supports)), targets)
        margins, scale = writer.margins(found, y)
        rest = [i for i in range(len(x)) if i not in picked]
        if size:
            picked = picked + sorted(rest, key=lambda i: abs(margins[i] + message.score / 8))[:size]
    return picked, sum(bool(margins[i] <= 1e-4 * scale[i]) for i in rest)


def rule_of(message: rules.RuleMessage, features) -> Rule:
    longer = dict(message.longer)
    return Rule(
        message.first,
        features,
        message.copies,
        2.0**message.gamma,
        2.0**message.ridge,
        message.score / 8,
        tuple(message.batch + longer.get(r, 0) for r in range(message.rounds)),
    )


def agrees(message: rules.RuleMessage, features, slow: tuple[list[int], int]) -> None:
    """The verifier picks what the slow run picks, and accepts exactly from its count on."""
    picked, errors = slow
    assert learn(rule_of(message, features), SETTING, X, Y).picked.tolist() == picked
    verdict = verify(rules.certificate(message, X, Y, errors=errors), X, Y)
    assert verdict.reasons == ()
    limit = rules.picked_limit(message.picks + errors, len(X) - message.first, len(message.bits), 0.05)
    assert verdict.bound == limit
    assert errors > 0
    fewer = verify(rules.certificate(message, X, Y, errors=errors - 1), X, Y)
    (reason,) = fewer.reasons
    assert f"makes {errors} errors" in reason
    assert f"states {errors - 1}" in reason


@pytest.mark.thorough
@pytest.mark.parametrize("normalised", [False, True])
def test_columns(normalised):
    message = rules.RuleMessage(
        features=rules.DIRECTIONS if normalised else rules.COLUMNS, gamma=1, longer=((1, 3), (4, 1))
    )
    flat = X.reshape(len(X), -1).astype(float).tolist()
    first = [flat[i] for i in rules.order(len(X))[: message.first]]
    vectors = oracle.column_vectors(first, flat, normalised=normalised)
    d = rules.SIDE**2
    scale = oracle.radius(d) ** 2 if normalised else d * ((4095 - 3) // 24) ** 2
    slow = slow_run(message, X, Y, vectors, lambda i: [[vectors[i]]], float(scale))
    agrees(message, Columns(normalised), slow)


def first_of(message: rules.RuleMessage) -> np.ndarray:
    return X[rules.order(len(X))[: message.first]]


@pytest.mark.few(1)
@pytest.mark.parametrize("copies", [0, 4, 6])
def test_filters_and_copies(copies):
    message = rules.RuleMessage(
        features=rules.filters(straight=1, dictionary=3, pool=3), copies=copies, first=10, batch=2, ridge=0
    )
    features = Filters(straight=True, dictionary=3, pool=3)
    made = feature_map(rule_of(message, features), first_of(message), divisor=16.0)
    vectors = made.vectors(made.prepare(X))

    def copies_of(i: int):
        shown = oracle.copies(made.prepare(X[i : i + 1])[0].tolist(), copies)
        return [[vector] for vector in made.vectors(np.array(shown, np.uint8))]

    scale = float(oracle.radius(vectors.shape[1]) ** 2)
    agrees(message, features, slow_run(message, X, Y, vectors, copies_of, scale))


def test_patches_with_mirror_images():
    message = rules.RuleMessage(
        features=rules.patches(size=3), copies=1, first=50, batch=3, rounds=2, gamma=2
    )
    features = Patches(size=3, filters=256, threshold=1, grid=2, whitening=2.0**-7, seed=0)
    made = feature_map(rule_of(message, features), first_of(message), divisor=16.0)
    shown = made.prepare(X)
    vectors, images = made.vectors(shown), made.vectors(shown[..., ::-1])
    scale = float(oracle.radius(vectors.shape[1]) ** 2)
    slow = slow_run(message, X, Y, vectors, lambda i: [[vectors[i], images[i]]], scale)
    agrees(message, features, slow)


def test_the_order_of_sums_does_not_matter():
    """Vectors with their numbers in another order have the same kernel, bit for bit."""
    random = np.random.default_rng(0)
    rule = Rule(10, Columns(normalised=True), 0, 1.0, 1.0, 0.5, ())
    kernel = Kernel(rule, SimpleNamespace(squared_scale=4000.0**2))
    directions = random.normal(size=(30, 3000))
    vectors = np.rint(directions / np.linalg.norm(directions, axis=1, keepdims=True) * 4000).astype(np.int16)
    first, second = torch.empty(10, 30).double(), torch.empty(10, 30).double()
    points = points_of(vectors)
    kernel.fill(first, points[:10], points)
    points = points_of(np.ascontiguousarray(vectors[:, random.permutation(3000)]))
    kernel.fill(second, points[:10], points)
    assert (first == second).all()
    assert (first[:, :10] == first[:, :10].T).all()


def points_of(vectors, blocks=1):
    points = Points.empty(*vectors.shape, blocks)
    points.set(slice(0, len(vectors)), vectors)
    return points


@pytest.mark.parametrize("is_long", [False, True])
def test_sums_and_differences_have_the_kernel_of_both_images(is_long):
    """Bit for bit, also where a block is too long for float32."""
    grid, scale = 2, 4000.0**2
    vectors = np.random.default_rng(1).integers(-700, 700, (12, 32)).astype(np.int16)
    if is_long:  # 2 x 2896^2 < 2^24 < (2 x 2896)^2
        vectors[3:6] = 0
        vectors[3:6, [0, 9]] = 2896, 2896
        vectors[4, 1] = 1
    images = PatchMap.mirror(SimpleNamespace(_choice=SimpleNamespace(grid=grid)), vectors)
    assert (images[3] == vectors[3]).all() or not is_long
    both = PatchMap.with_images(SimpleNamespace(_choice=SimpleNamespace(grid=grid)), vectors)
    points = points_of(both, blocks=4)
    assert (points.squares.max() > 2**24) == is_long
    rule = Rule(10, Patches(3, 256, 1, grid, 2.0**-10, 1), 1, 1.0, 1.0, 0.5, ())
    found = torch.empty(12, 12).double()
    Kernel(rule, SimpleNamespace(squared_scale=scale)).fill(found, points, points)
    for i, one in enumerate(vectors.astype(int)):
        for j in range(12):
            expected = 0.0
            for other in (vectors[j].astype(int), images[j].astype(int)):
                v = 1 + 0.25 * (float(((one - other) ** 2).sum()) / scale)
                expected += 1 / ((v * v) * (v * v))
            assert found[i, j] == expected


@pytest.mark.parametrize(
    ("features", "copies"),
    [(Columns(normalised=False), 0), (Filters(True, 3, 2), 2), (Patches(3, 256, 1, 2, 2.0**-10, 1), 1)],
)
def test_how_much_is_kept_and_done_at_a_time_changes_nothing(monkeypatch, features, copies):
    """The kernel as values or as integers, a factor that grows in large or small pieces: the same picks."""
    rule = Rule(50, features, copies, 2.0, 0.25, 0.5, (4,) * 6)
    usual = learn(rule, SETTING, X, Y)
    monkeypatch.setattr("codebound_verify.learn.kernel.KEPT", 0)
    monkeypatch.setattr("codebound_verify.learn.kernel.POINTS", 33)
    monkeypatch.setattr("codebound_verify.learn.ridge.PIECE", 7)
    monkeypatch.setattr("codebound_verify.learn.ridge.STEP", 19)
    small = learn(rule, SETTING, X, Y)
    assert small.picked.tolist() == usual.picked.tolist()
    assert np.allclose(small.outputs, usual.outputs, rtol=0, atol=1e-9)
    x, y = rules.shapes(90, seed=3)
    assert small.count_errors(x, y) == usual.count_errors(x, y)


def test_large_kernels_take_half_the_room_and_have_the_same_values(monkeypatch):
    vectors = np.random.default_rng(0).integers(-900, 900, (40, 9)).astype(np.int16)
    points = points_of(vectors)
    kernel = Kernel(
        Rule(10, Columns(normalised=True), 0, 0.5, 1, 0.5, ()), SimpleNamespace(squared_scale=3e6)
    )
    kept = {}
    for room in (8 * 12 * 40, 8 * 12 * 40 - 1):
        monkeypatch.setattr("codebound_verify.learn.kernel.KEPT", room)
        kept[room] = kernel.allocate(12, 40)
        kept[room].set(slice(12), slice(40), points[:12], points)
    large, small = kept.values()
    assert (large.numbers.element_size(), small.numbers.element_size()) == (8, 4)
    assert torch.equal(large[slice(12), slice(40)], small[slice(12), slice(40)])
    some = np.array([3, 39, 7])
    assert torch.equal(large[slice(2, 9), some], small[slice(2, 9), some])


SCRIPT = """
import hashlib
import numpy as np
from types import SimpleNamespace
import rule_writer as rules
import torch
from codebound_verify.learn.kernel import feature_map
from codebound_verify.learn.picking import learn
from codebound_verify.learn.rule import Filters, Patches, Rule
x, y = rules.shapes()
setting = SimpleNamespace(input_shape=x.shape[1:], classes=3, scaling=SimpleNamespace(divisor=16.0))
for features, copies in ((Patches(3, 256, 1, 2, 2.0**-10, 1), 1), (Filters(True, 3, 2), 2)):
    rule = Rule(50, features, copies, 2.0, 0.25, 0.5, (4,) * 6)
    made = feature_map(rule, x[:50], divisor=16.0)
    learned = learn(rule, setting, x, y)
    print(hashlib.sha256(made.vectors(made.prepare(x))).hexdigest(), learned.picked.tolist())
    print(learned.count(y, learned.picked), learned.count(y, np.arange(len(y))))
"""


@pytest.mark.thorough
def test_machines_agree_bit_for_bit_on_vectors_and_picks():
    """One core or two, fast instructions or those that every processor has."""

    def printed(**settings: str) -> str:
        places = os.pathsep.join(["tests/reference", *filter(None, sys.path)])
        return python(SCRIPT, env={**os.environ, "PYTHONPATH": places, **settings})

    fast = printed(OMP_NUM_THREADS="2")
    slow = printed(OMP_NUM_THREADS="1", MKL_CBWR="COMPATIBLE", ATEN_CPU_CAPABILITY="default")
    assert fast == slow
    assert len(fast.splitlines()) == 4


def accepted() -> tuple[rules.RuleMessage, bytes]:
    message = rules.RuleMessage(features=rules.DIRECTIONS, gamma=1)
    _, errors = learn(rule_of(message, Columns(normalised=True)), SETTING, X, Y).count(Y, np.arange(len(Y)))
    return message, rules.certificate(message, X, Y, errors=errors)


def test_the_verdict_says_what_was_counted_and_what_has_to_be_true():
    message, data = accepted()
    seen = []
    verdict = verify(data, X, Y, progress=lambda done, total: seen.append((done, total)))
    assert verdict.is_accepted
    assert (verdict.statement, verdict.subject, verdict.n) == ("C-15", "g", 140)
    assert [count.count for count in verdict.counts] == [message.picks, verdict.errors]
    assert [count.out_of for count in verdict.counts] == [140, 140 - message.picks]
    assert "rule" in verdict.checked[-1]
    assert any("in which order" in line for line in verdict.assumptions)
    assert any("140 examples after the 20 that the rule starts" in line for line in verdict.assumptions)
    assert (160, 160) in seen
    assert seen[-1] == (40, 40)


def test_test_data_can_refute_it():
    _, data = accepted()
    x, y = rules.shapes(200, seed=5)
    fine = verify(data, X, Y, test=(x, y))
    assert fine.refuted_by_test is False
    assert fine.test.n == 200
    assert verify(data, X, Y, test=(x, (y + 1) % 3)).refuted_by_test


def test_the_network_is_not_in_the_file():
    _, data = accepted()
    with pytest.raises(Refused, match="g is learned from the sample"):
        decode_network(data)


@pytest.mark.parametrize(
    ("rule", "shape", "examples", "because"),
    [
        (Rule(20, Columns(normalised=True), 0, 1, 1, 1, (1,)), (4,), 20, "the sample has 20"),
        (Rule(20, Columns(normalised=True), 0, 1, 1, 1, (30, 30)), (4,), 79, "the sample has 79"),
        (Rule(20, Columns(normalised=True), 0, 1, 1, 1, ()), (2**16 + 1,), 30, "length of a vector"),
        (Rule(3000, Filters(False, 3, 2), 5, 1, 1, 1, ()), (1, 28, 28), 10**4, "number of supports"),
        (Rule(30000, Columns(normalised=True), 0, 1, 1, 1, ()), (4,), 35_792, "numbers in the kernel"),
        (Rule(10, Columns(normalised=True), 0, 1, 1, 1, ()), (2**16,), 2**15, "numbers in all vectors"),
        (Rule(20, Filters(False, 3, 2), 0, 1, 1, 1, ()), (4,), 30, "pictures of 1 or 3 channels"),
        (Rule(20, Filters(False, 3, 2), 0, 1, 1, 1, ()), (2, 8, 8), 30, "pictures of 1 or 3 channels"),
        (Rule(20, Filters(False, 3, 2), 0, 1, 1, 1, ()), (1, 8, 129), 30, "pictures of 1 or 3 channels"),
        (Rule(20, Filters(False, 3, 5), 0, 1, 1, 1, ()), (1, 4, 8), 30, "windows of 5"),
        (Rule(20, Patches(5, 256, 1, 2, 0.1, 0), 0, 1, 1, 1, ()), (1, 4, 8), 30, "patches of 5"),
        (Rule(20, Patches(5, 256, 1, 3, 0.1, 0), 0, 1, 1, 1, ()), (1, 6, 8), 30, "fewer patches"),
        (Rule(20, Patches(10, 2048, 1, 2, 0.1, 0), 0, 1, 1, 1, ()), (3, 128, 128), 30, "a picture takes"),
        (Rule(15000, Patches(10, 256, 1, 2, 0.1, 0), 0, 1, 1, 1, ()), (3, 48, 48), 2**14, "whitening takes"),
    ],
)
def test_a_rule_that_asks_for_too_much_is_refused_before_anything_is_computed(rule, shape, examples, because):
    with pytest.raises(Refused, match=because):
        check_sizes(rule, shape, examples=examples, classes=10)


def test_the_largest_rules_of_the_page_fit():
    check_sizes(
        Rule(2000, Filters(False, 3, 4), 2, 1, 1, 1, (400,)), (1, 28, 28), examples=60_000, classes=10
    )
    large = Rule(15000, Patches(6, 1024, 1, 3, 0.1, 0), 1, 1, 1, 1, (5000,))
    check_sizes(large, (3, 32, 32), examples=50_000, classes=100)


def test_outputs_of_very_many_classes_are_refused():
    rule = Rule(20, Columns(normalised=True), 0, 1, 1, 1, (5,) * 160)
    with pytest.raises(Refused, match="the outputs would be"):
        check_sizes(rule, (4,), examples=2**14, classes=2**12)
    many = Rule(10000, Columns(normalised=True), 0, 1, 1, 1, (50,) * 160)
    with pytest.raises(Refused, match="multiplications for the outputs would be"):
        check_sizes(many, (4,), examples=40_000, classes=1000)

"""Sketched tensors (mode 13): the drawing, the recovery, and above all the proof, against brute force."""

import itertools

import cbound_writer as writer
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound_verify.networks.papers import recovery
from codebound_verify.networks.papers.rank import are_independent
from codebound_verify.networks.papers.recovery import recover
from codebound_verify.networks.papers.sketch import (
    ELEMENT_LIMIT,
    UNIT,
    WEIGHT_LIMIT,
    Sketch,
    draw,
    has_sketch,
    is_strict,
)
from codebound_verify.refusal import Refused
from codebound_verify.stream import Stream


def literal_columns(words, m: int, p: int, t: int) -> list[list[int]]:
    """The page, word by word: the positions of the t smallest of the next m outputs, if they are new."""
    columns: list[list[int]] = []
    for start in itertools.count(0, m):
        candidate = [int(word) for word in words(start, m)]
        ones: list[int] = []
        for _ in range(t):
            rest = [i for i in range(m) if i not in ones]
            ones.append(min(rest, key=lambda i: (candidate[i], i)))
        if sorted(ones) not in columns:
            columns.append(sorted(ones))
        if len(columns) == p:
            return columns
    raise AssertionError


class TestDraw:
    @pytest.mark.few(2)
    @pytest.mark.parametrize(
        ("m", "p", "t"),
        [(1, 1, 1), (5, 5, 1), (4, 6, 2), (6, 20, 3), (7, 35, 3), (17, 17, 16), (30, 50, 5)],
    )
    def test_is_that_of_the_page(self, m, p, t):
        """Also where nearly all columns that there are have to be found."""
        for seed in (0, 1, 2**41 - 2):
            stream = Stream(seed, "sketch/left")
            found = draw(stream, rows=m, columns=p, ones=t)
            assert found.tolist() == literal_columns(stream.words, m, p, t)
            assert found.tolist() == writer.sketch_columns(seed, "sketch/left", m, p, t)

    def test_goes_on_where_a_batch_ends(self, monkeypatch):
        monkeypatch.setattr("codebound_verify.networks.papers.sketch.BATCH", 20)
        stream = Stream(3, "sketch/right")
        found = draw(stream, rows=7, columns=30, ones=3)
        assert found.tolist() == literal_columns(stream.words, 7, 30, 3)

    @given(st.lists(st.integers(0, 3) | st.just(2**64 - 1), min_size=5, max_size=5))
    def test_equal_outputs_are_ranked_by_position(self, outputs):
        class Constant:
            def words(self, start, count):
                return np.array([outputs[(start + i) % 5] for i in range(count)], np.uint64)

        found = draw(Constant(), rows=5, columns=1, ones=2)
        assert found.tolist() == literal_columns(Constant().words, 5, 1, 2)


def sketch_of_seed(seed: int, shape, sizes, t: int) -> Sketch:
    left = draw(Stream(seed, "sketch/left"), rows=sizes[0], columns=shape[0], ones=t)
    right = draw(Stream(seed, "sketch/right"), rows=sizes[1], columns=shape[1], ones=t)
    return Sketch(left, right, sizes)


def dense(sketch: Sketch) -> tuple[np.ndarray, np.ndarray]:
    """A and B."""
    found = []
    for places, rows in zip((sketch.left, sketch.right), sketch.shape, strict=True):
        matrix = np.zeros((rows, len(places)), np.int64)
        for column, ones in enumerate(places):
            matrix[ones, column] = 1
        found.append(matrix)
    return found[0], found[1]


def sketched(sketch: Sketch, x: np.ndarray) -> np.ndarray:
    a, b = (matrix.astype(float) for matrix in dense(sketch))
    return (a @ x @ b.T).astype(np.int64)


def planted(seed: int, shape, count: int, limit=3) -> np.ndarray:
    random = np.random.default_rng(seed)
    x = np.zeros(shape, np.int64)
    where = random.choice(x.size, count, replace=False)
    x.ravel()[where] = random.choice([-1, 1], count) * random.integers(1, limit + 1, count)
    return x


def all_matrices(shape, total: int):
    """Every integer matrix whose absolute values add up to ``total``."""
    size = shape[0] * shape[1]
    for places in itertools.combinations_with_replacement(range(size), total):
        counts = np.bincount(places, minlength=size)
        support = np.flatnonzero(counts)
        for signs in itertools.product((-1, 1), repeat=len(support)):
            x = counts.copy()
            x[support] *= np.array(signs, np.int64)
            yield x.reshape(shape)


SMALL = (5, 6)


@pytest.fixture(scope="module")
def sketch() -> Sketch:
    """Of matrices that are small enough to list."""
    return sketch_of_seed(1, SMALL, (4, 4), 2)


@pytest.fixture(scope="module")
def minimisers(sketch):
    """For each sketch that a matrix with a sum of at most 3 has, its sum and all smallest matrices."""
    a, b = dense(sketch)
    found: dict[bytes, tuple[int, list[np.ndarray]]] = {}
    for total in range(4):
        for x in all_matrices(SMALL, total):
            entry = found.setdefault((a @ x @ b.T).tobytes(), (total, []))
            if entry[0] == total:
                entry[1].append(x)
    return found


class TestBruteForce:
    """All matrices up to a sum, and which of them are the only smallest one with their sketch."""

    @pytest.mark.thorough
    def test_what_is_proven_is_the_only_minimiser(self, sketch, minimisers):
        proven = refused = 0
        for index, (key, (_, smallest)) in enumerate(minimisers.items()):
            if len(smallest[0].nonzero()[0]) > 1 and index % 400:
                continue  # all with one non-zero, and some of the others
            y = np.frombuffer(key, np.int64)
            try:
                x = recover(sketch, y)
            except Refused:
                refused += 1
                continue
            assert len(smallest) == 1
            assert (x == smallest[0]).all()
            proven += 1
        assert proven > 20
        assert refused > 10

    def test_no_weights_prove_another_matrix_with_the_same_sketch(self, sketch, minimisers):
        """Neither a larger one nor one of two, whatever the weights are that the search proposes."""
        random = np.random.default_rng(0)
        a, b = dense(sketch)
        tried = 0
        for x in itertools.islice(all_matrices(SMALL, 3), 0, None, 97):
            total, smallest = minimisers[(a @ x @ b.T).tobytes()]
            if total == 3 and len(smallest) == 1:
                continue
            signs = UNIT * np.sign(x)
            exact = np.linalg.lstsq(np.kron(a.T, b.T)[x.ravel() != 0], signs[x != 0], rcond=None)[0]
            for noise in (0, 1, UNIT // 100):
                weights = np.rint(exact).astype(np.int64) + random.integers(-noise, noise + 1, 16)
                is_proof = is_strict(sketch, x, weights.reshape(4, 4))
                assert not (is_proof and are_independent(sketch.cells(x)))
                tried += 1
        assert tried > 100


def identity(size: int) -> Sketch:
    """X itself: every proof can be written down."""
    places = np.arange(size)[:, None]
    return Sketch(places, places, (size, size))


class TestProof:
    X = np.array([[3, 0], [0, -2]])
    SUM = 5

    def weights(self, on: int, off: int) -> np.ndarray:
        return np.array([[on, off], [-off, -on]])

    @pytest.mark.parametrize("eta", [0, 1, 1000, -1, -1000])
    def test_fails_by_the_smallest_amount(self, eta):
        allowed = UNIT - 2 * abs(eta) * self.SUM - 1  # off the non-zeros
        assert is_strict(identity(2), self.X, self.weights(UNIT + eta, allowed))
        assert not is_strict(identity(2), self.X, self.weights(UNIT + eta, allowed + 1))

    def test_one_wrong_sign(self):
        weights = self.weights(UNIT, 0)
        assert is_strict(identity(2), self.X, weights)
        weights[1, 1] *= -1
        assert not is_strict(identity(2), self.X, weights)

    def test_a_larger_matrix_needs_a_better_proof(self):
        weights = self.weights(UNIT - 1, UNIT - 11)
        assert is_strict(identity(2), self.X, weights)
        assert not is_strict(identity(2), self.X + np.array([[1, 0], [0, 0]]), weights)

    def test_sums_that_would_overflow(self):
        """2^64 / 4 in each of four places adds up to 0 in 64 bits: the limit comes first."""
        places = np.array([[0, 1]])
        sketch = Sketch(places, places, (2, 2))
        for value in (2**62, -(2**62), WEIGHT_LIMIT + 1, -(2**63)):
            assert not is_strict(sketch, np.zeros((1, 1), np.int64), np.full((2, 2), value))
        assert not is_strict(sketch, np.zeros((1, 1), np.int64), np.full((2, 2), WEIGHT_LIMIT))

    def test_the_sketch_of_a_proof_is_compared_exactly(self):
        sketch = sketch_of_seed(0, (6, 7), (5, 5), 2)
        x = planted(0, (6, 7), 4, limit=ELEMENT_LIMIT)
        y = sketched(sketch, x)
        assert has_sketch(sketch, x, y)
        for change in np.eye(25, dtype=np.int64).reshape(25, 5, 5):
            assert not has_sketch(sketch, x, y + change)
        other = x.copy()
        other[x != 0] = -(2**63)
        assert not has_sketch(sketch, other, y)
        x.ravel()[0] = ELEMENT_LIMIT + 1
        assert not has_sketch(sketch, x, sketched(sketch, x))

    def test_tampered_proofs_of_a_real_sketch(self, monkeypatch):
        sketch = sketch_of_seed(0, (40, 40), (22, 22), 5)
        x = planted(0, (40, 40), 80)
        y = sketched(sketch, x)
        proofs = []

        def recorded(*arguments):
            proofs.append(arguments)
            return is_strict(*arguments)

        monkeypatch.setattr(recovery, "is_strict", recorded)
        assert (recover(sketch, y) == x).all()
        weights = proofs[-1][2]
        a, b = dense(sketch)
        gradient = a.T @ weights @ b  # a second way to the same integers
        assert (sketch.adjoint(weights) == gradient).all()
        assert np.abs(gradient[x == 0]).max() < UNIT
        assert np.abs(gradient - UNIT * np.sign(x))[x != 0].max() < 10_000

        place = tuple(np.argwhere(x)[0])
        for change in (-x[place], -2 * x[place]):  # a non-zero less, or another sign
            other = x.copy()
            other[place] += change
            assert not has_sketch(sketch, other, y)
            assert not is_strict(sketch, other, weights)
        hot = np.unravel_index(np.abs(np.where(x == 0, gradient, 0)).argmax(), x.shape)
        missing = UNIT - abs(gradient[hot])
        pushed = weights.copy()
        pushed[sketch.left[hot[0]][0], sketch.right[hot[1]][0]] += np.sign(gradient[hot]) * missing
        assert not is_strict(sketch, x, pushed)
        assert not is_strict(sketch, x, np.zeros_like(weights))
        assert not is_strict(sketch, x, -weights)


def columns(cells, rows: int) -> np.ndarray:
    matrix = np.zeros((rows, len(cells)))
    for column, ones in enumerate(cells):
        matrix[ones, column] = 1
    return matrix


class TestIndependence:
    @given(
        st.integers(1, 4).flatmap(
            lambda d: st.lists(st.permutations(range(7)).map(lambda p: p[:d]), min_size=1, max_size=7)
        )
    )
    def test_is_the_rank_over_the_rationals(self, cells):
        cells = np.array(cells)
        full = np.linalg.matrix_rank(columns(cells, 7)) == len(cells)
        assert are_independent(cells) == full

    @pytest.mark.parametrize(("count", "rows"), [(100, 101), (300, 310), (129, 140)])
    def test_a_large_core(self, count, rows):
        """No row is touched once, and more columns than one block has."""
        random = np.random.default_rng(count)
        cells = np.array([np.sort(random.choice(rows, 8, replace=False)) for _ in range(count)])
        assert np.linalg.matrix_rank(columns(cells, rows)) == count
        assert are_independent(cells)
        cells[:4] = np.arange(16).reshape(4, 4)[[[0, 1], [2, 3], [0, 2], [1, 3]]].reshape(4, 8)
        assert not are_independent(cells)  # the first two have the same sum as the next two
        assert not are_independent(np.vstack([cells[4:], cells[-1:]]))

    def test_dependent_only_modulo_two(self):
        """A triangle: its determinant is 2."""
        assert are_independent(np.array([[0, 1], [1, 2], [0, 2]]))

    def test_more_columns_than_rows(self):
        cells = np.array(list(itertools.combinations(range(9), 3)))
        assert not are_independent(cells)

    def test_a_core_beyond_the_limit_is_not_tried(self, monkeypatch):
        cells = np.array([[0, 1], [1, 2], [0, 2]])
        monkeypatch.setattr("codebound_verify.networks.papers.rank.CORE_LIMIT", 2)
        assert not are_independent(cells)

    def test_dependent_non_zeros_are_refused_although_the_signs_are_proven(self, monkeypatch):
        """Four elements on a square of equal columns: half of each pair can be moved to the other."""
        twins = np.array([[0, 1], [0, 1]])
        sketch = Sketch(twins, np.array([[0]]), (2, 1))
        x = np.array([[1], [1]])
        weights = np.array([[UNIT], [0]])
        assert is_strict(sketch, x, weights)
        assert not are_independent(sketch.cells(x))
        with pytest.raises(Refused, match="not proven to be independent"):
            recover(sketch, sketched(sketch, x))


class TestSearch:
    @pytest.mark.parametrize(
        ("side", "size", "count", "limit"),
        [(40, 26, 80, 1), (40, 26, 80, 60), (100, 40, 200, 3), (100, 62, 900, 3), (30, 30, 150, 9)],
    )
    def test_finds_what_was_planted(self, side, size, count, limit):
        for seed in range(3):
            sketch = sketch_of_seed(seed, (side, side), (size, size), 5)
            x = planted(seed, (side, side), count, limit)
            assert (recover(sketch, sketched(sketch, x)) == x).all()

    def test_rectangles_and_vectors(self):
        for shape, sizes, t, count in (((20, 90), (16, 36), 4, 60), ((1, 60), (1, 60), 1, 30)):
            sketch, x = sketch_of_seed(0, shape, sizes, t), planted(0, shape, count)
            assert (recover(sketch, sketched(sketch, x)) == x).all()

    @pytest.mark.thorough
    def test_too_few_measurements_are_refused(self):
        sketch = sketch_of_seed(0, (100, 100), (24, 24), 5)
        with pytest.raises(Refused, match="proven"):
            recover(sketch, sketched(sketch, planted(0, (100, 100), 200)))

    def test_the_work_has_a_limit(self, monkeypatch):
        monkeypatch.setattr(recovery, "WORK_LIMIT", recovery.LEAST_WORK * 20)
        sketch = sketch_of_seed(0, (100, 100), (24, 24), 5)
        with pytest.raises(Refused, match="multiplications of a search"):
            recover(sketch, sketched(sketch, planted(0, (100, 100), 200)))

    def test_the_sides_have_a_limit(self, monkeypatch):
        monkeypatch.setattr(recovery, "SIDE_LIMIT", 5)
        with pytest.raises(Refused, match="too large"):
            recover(sketch_of_seed(0, (9, 9), (6, 6), 2), np.ones((6, 6), np.int64))

    @pytest.mark.thorough
    def test_a_layer_of_the_usual_size(self):
        """784 x 784 with 1 % non-zeros."""
        sketch = sketch_of_seed(0, (784, 784), (225, 225), 5)
        x = planted(0, (784, 784), 6147, limit=7)
        assert (recover(sketch, sketched(sketch, x)) == x).all()

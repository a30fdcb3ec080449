"""Closeness of g to f: the papers' test, and the margin that absorbs a deviation, against brute force."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from worlds.networks import linear_of
from worlds.samples import rows_of

from codebound.run.errors import UsageError
from codebound.sample.dataset import Sample
from codebound_papers.measure.proximity import Closeness, closeness, closeness_of_each


def few(x: list[list[float]], y: list[int], classes: int = 2) -> Sample:
    return rows_of(x, y, classes=classes, dtype=np.float32)


def values(sup: list[float], margins: list[float]) -> Closeness:
    exact = np.array(sup, dtype=np.float64)
    return Closeness(exact, exact * math.sqrt(2.0), np.array(margins, dtype=np.float64))


def test_closeness_is_measured_score_by_score():
    f, g = linear_of([[3.0, 0.0], [0.0, 4.0]]), linear_of([[0.0, 0.0], [0.0, 0.0]])
    found = closeness(f, g, few([[1.0, 1.0], [1.0, 0.0]], [1, 0]).on("cpu"), chunk_size=1)
    assert found.sup.tolist() == [4.0, 3.0]
    assert found.l2.tolist() == [5.0, 3.0]
    assert found.margins.tolist() == [1.0, 3.0]
    assert found.n == 2
    assert found.largest == 4.0


def test_f_is_evaluated_once_for_several_compressed_networks():
    class Watched(torch.nn.Linear):
        seen = 0

        def forward(self, x):
            Watched.seen += len(x)
            return super().forward(x)

    f, data = Watched(2, 2), few([[1.0, 1.0], [1.0, 0.0], [3.0, 2.0]], [1, 0, 1]).on("cpu")
    networks = [linear_of([[0.0, 1.0], [2.0, 0.0]]), linear_of([[1.0, 1.0], [0.0, 0.5]])]
    found = closeness_of_each(f, networks, data, chunk_size=2)
    assert Watched.seen == 3
    for one, g in zip(found, networks, strict=True):
        alone = closeness(f, g, data, chunk_size=2)
        for name in ("sup", "l2", "margins"):
            assert np.array_equal(getattr(one, name), getattr(alone, name))


def test_is_compressible_is_the_definition_and_not_what_the_papers_conclude_from_it():
    """G-E2: within gamma of f in every score, with a margin above gamma, and still wrong."""
    f, g = linear_of([[1.5], [0.0]]), linear_of([[0.55], [0.95]])
    data = few([[1.0]], [0])
    found = closeness(f, g, data.on("cpu"))
    assert found.is_compressible(1.0)
    assert found.margins[0] > 1.0
    with torch.no_grad():
        assert int(g(torch.ones(1, 1)).argmax()) == 1
    assert found.theta(norm="sup") > found.margins[0]  # the corrected rule promises nothing here
    assert not found.is_compressible(0.9)
    assert found.share_beyond(0.9) == 1.0


def test_theta_leaves_out_the_worst_share():
    found = values([1.0, 2.0, 3.0, 4.0], [9.0] * 4)
    assert found.theta(norm="sup") == 8.0
    assert found.theta(norm="sup", zeta=0.25) == 6.0
    assert found.theta(norm="sup", zeta=0.5) == 4.0
    assert found.theta(norm="l2", zeta=0.5) == pytest.approx(4.0)
    with pytest.raises(UsageError, match="outliers"):
        found.theta(norm="sup", zeta=1.0)


def test_an_output_that_is_not_finite_is_infinitely_far():
    f, g = linear_of([[1.0], [0.0]]), linear_of([[math.inf], [0.0]])
    found = closeness(f, g, few([[1.0]], [0]).on("cpu"))
    assert found.largest is None
    assert found.theta(norm="l2") == math.inf
    assert found.best_theta()[1] == 1


def test_networks_of_different_outputs_are_refused():
    with pytest.raises(UsageError, match="2 outputs and g has 3"):
        closeness(linear_of([[1.0], [0.0]]), linear_of([[1.0], [0.0], [2.0]]), few([[1.0]], [0]).on("cpu"))


EXAMPLES = st.lists(st.tuples(st.floats(0.0, 4.0), st.floats(-2.0, 8.0)), min_size=1, max_size=30)


@given(EXAMPLES)
def test_best_theta_is_the_best_of_all(pairs):
    found = values([sup for sup, _ in pairs], [margin for _, margin in pairs])
    needed = found.absorbed
    theta, counted, outliers = found.best_theta()
    assert counted == np.sum((found.margins <= theta) | (needed > theta))
    assert outliers == np.sum(needed > theta)
    for other in (0.0, *needed):
        assert counted <= np.sum((found.margins <= other) | (needed > other))


@given(st.integers(0, 10_000))
def test_what_best_theta_counts_contains_every_error_of_g(seed):
    stream = np.random.default_rng(seed)
    f = linear_of(stream.normal(size=(3, 4)).tolist())
    g = linear_of((f.weight.detach().numpy() + 0.3 * stream.normal(size=(3, 4))).tolist())
    data = few(stream.normal(size=(40, 4)).tolist(), stream.integers(3, size=40).tolist(), classes=3)
    with torch.no_grad():
        errors = int((g(torch.from_numpy(data.x)).argmax(dim=1).numpy() != data.y).sum())
    assert errors <= closeness(f, g, data.on("cpu")).best_theta()[1]


def test_that_check_has_teeth():
    """With the papers' slack, theta in place of theta / 2, errors of g go uncounted."""
    f, g = linear_of([[1.5], [0.0]]), linear_of([[0.55], [0.95]])
    found = closeness(f, g, few([[1.0]], [0]).on("cpu"))
    halved = Closeness(found.sup / 2.0, found.l2 / 2.0, found.margins)
    assert found.best_theta()[1] == 1
    assert halved.best_theta()[1] == 0

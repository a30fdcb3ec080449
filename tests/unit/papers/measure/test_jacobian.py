"""Jacobian norms against written-out Jacobians, and the interval of the probes against simulation."""

import math

import pytest
import torch
from torch import nn
from worlds import networks
from worlds.rates import exceeds

from codebound.run.errors import UsageError
from codebound_networks.reading.walk import wrap
from codebound_papers.measure.noise.batch import layout_of
from codebound_papers.measure.noise.jacobian import (
    LayerDerivative,
    SegmentDerivative,
    column_squares,
    probe_interval,
)
from codebound_papers.measure.steps import steps_of


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 3, 3, padding=1, bias=False)
        self.a, self.b = (nn.Conv2d(3, 3, 3, padding=1, bias=False) for _ in range(2))
        self.head = nn.Linear(3 * 4, 2, bias=False)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        y = self.b(torch.relu_(self.a(x)))
        y += x
        return self.head(self.pool(torch.relu(y)).flatten(1))


def mlp(*sizes, **options):
    return networks.mlp(*sizes, seed=3, **options)


NETS = {
    "mlp": (lambda: mlp(5, 7, 6, 3, bias=False), (5,)),
    "mlp with biases": (lambda: mlp(5, 7, 6, 3, bias=True), (5,)),
    "bottleneck": (lambda: mlp(5, 3, 8, 6, 7, bias=True), (5,)),
    "tanh": (lambda: mlp(5, 4, 6, 3, bias=True, activation=nn.Tanh), (5,)),
    "conv": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(2, 4, 2, bias=False),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(4, 6),
            nn.ReLU(),
            nn.Linear(6, 3),
        ),
        (1, 4, 4),
    ),
    "residual": (Residual, (1, 4, 4)),
    "pooled to a pixel": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(4),
            nn.Conv2d(2, 3, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(3, 2),
        ),
        (1, 4, 4),
    ),
}


def prepared(name):
    """The layout, the activations at its points, and the derivatives there."""
    make, shape = NETS[name]
    torch.manual_seed(3)
    steps = steps_of(wrap(make().double().requires_grad_(False)))
    layout = layout_of(steps, layers=None, augments=False)
    x = torch.randn(4, *shape, dtype=torch.float64)
    points = [steps.segment(0, place.cut)(x) for place in layout.points]
    derivatives = [
        link.at(a, tuple(b.shape[1:])) for link, a, b in zip(layout.links, points, points[1:], strict=False)
    ]
    return layout, points, derivatives


def written_out(layout, points, i, j):
    """Squared column norms from the whole Jacobian of each example."""
    function = layout.steps.segment(layout.points[i].cut, layout.points[j].cut)
    squares = []
    for example in points[i]:
        jacobian = torch.autograd.functional.jacobian(lambda v: function(v[None])[0], example)
        squares.append(jacobian.square().flatten(0, points[j].dim() - 2).sum(dim=0))
    return torch.stack(squares)


def pairs_of(points):
    return [(i, j) for j in range(len(points)) for i in range(j)]


@pytest.mark.few(6)
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("limit", [2**22, 1])
def test_exact_norms_are_those_of_the_written_out_jacobian(name, limit, monkeypatch):
    monkeypatch.setattr("codebound_papers.measure.noise.jacobian.MAX_ENTRIES", {"cpu": limit})
    monkeypatch.setattr(
        "codebound_papers.measure.noise.jacobian._MANY_ROWS", limit
    )  # 1: masked products, wherever possible
    layout, points, derivatives = prepared(name)
    found = column_squares(derivatives, pairs_of(points))
    for i, j in pairs_of(points):
        assert torch.allclose(found[i, j], written_out(layout, points, i, j), rtol=1e-10, atol=1e-14)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", NETS)
def test_pushing_and_pulling_are_adjoint_and_rows_are_pulled_units(name):
    _, _, derivatives = prepared(name)
    for step in derivatives:
        tangents = torch.randn(3, step.examples, *step.in_shape, dtype=torch.float64)
        cotangents = torch.randn(3, step.examples, *step.out_shape, dtype=torch.float64)
        forward = (step.push(tangents) * cotangents).flatten(2).sum(dim=2)
        backward = (tangents * step.pull(cotangents)).flatten(2).sum(dim=2)
        assert torch.allclose(forward, backward)
        size = math.prod(step.out_shape)
        units = torch.eye(size, dtype=torch.float64).view(size, 1, *step.out_shape)
        units = units.expand(-1, step.examples, *step.out_shape)
        assert torch.allclose(step.rows(1, size), step.pull(units)[1:])


def test_linear_layers_after_elementwise_activations_have_closed_forms():
    def closed(name):
        return [isinstance(step, LayerDerivative) for step in prepared(name)[2]]

    assert closed("tanh") == [True, True]
    assert closed("conv") == [False, False, True]  # pooling and flattening are not elementwise
    assert not any(closed("residual"))


def test_few_rows_or_columns_are_exact_in_spite_of_probes():
    layout, points, derivatives = prepared("mlp")
    found = column_squares(derivatives, [(0, 2), (1, 2)], probes=3)
    assert torch.allclose(found[0, 2], written_out(layout, points, 0, 2))


def linear(matrix):
    """The derivative of one linear map, for one example."""
    return LayerDerivative(matrix, torch.ones(1, matrix.shape[1], dtype=matrix.dtype))


def rank_one(size):
    ones = torch.ones(size, 1, dtype=torch.float64)
    return linear(ones @ ones.T / size)  # Frobenius norm 1


def misses(step, *, probes, confidence, repeats, broken=1.0):
    low, high = probe_interval(probes, confidence)
    true = 1.0
    count = 0
    for seed in range(repeats):
        estimate = broken * float(column_squares([step], [(0, 1)], probes=probes, seed=seed)[0, 1].sum())
        count += not low * true <= estimate <= high * true
    return count


def test_the_interval_of_the_probes_holds_at_its_level():
    step = rank_one(12)  # the hardest case: all probes see one direction
    assert not exceeds(misses(step, probes=8, confidence=0.8, repeats=400), reps=400, delta=0.2)


def test_the_interval_has_teeth():
    step = rank_one(12)
    assert exceeds(misses(step, probes=8, confidence=0.8, repeats=400, broken=2.5), reps=400, delta=0.2)


def test_probes_are_unbiased_and_close_for_a_large_stable_rank():
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(200, 150, generator=generator, dtype=torch.float64)
    estimate = float(column_squares([linear(matrix)], [(0, 1)], probes=64)[0, 1].sum())
    assert estimate == pytest.approx(float(matrix.square().sum()), rel=0.05)


def test_probes_sweep_back_through_every_step():
    layout, points, derivatives = prepared("conv")
    found = column_squares(derivatives, [(0, 1)], probes=3, seed=1)[0, 1]
    mean = torch.stack(
        [column_squares(derivatives, [(0, 1)], probes=3, seed=seed)[0, 1] for seed in range(300)]
    ).mean(dim=0)
    exact = written_out(layout, points, 0, 1)
    assert found.shape == exact.shape
    assert torch.allclose(mean.flatten(1).sum(1), exact.flatten(1).sum(1), rtol=0.15)


def test_a_general_map_needs_no_layers():
    step = SegmentDerivative(lambda x: x.square(), torch.tensor([[1.0, 3.0]]), (2,))
    assert column_squares([step], [(0, 1)])[0, 1].tolist() == [[4.0, 36.0]]


@pytest.mark.parametrize(("probes", "confidence"), [(0, 0.9), (3, 0.0), (3, 1.0)])
def test_no_interval_without_probes_or_confidence(probes, confidence):
    with pytest.raises(UsageError, match="at least 1 probe"):
        probe_interval(probes, confidence)


def test_more_probes_give_a_shorter_interval_around_one():
    ends = [probe_interval(probes, 0.9) for probes in (1, 4, 16, 64, 1024)]
    assert all(low < 1.0 < high for low, high in ends)
    assert sorted(ends) == ends
    assert sorted(high for _, high in ends) == [high for _, high in reversed(ends)]
    with pytest.raises(UsageError, match="at least 1 probe"):
        column_squares([rank_one(3)], [(0, 1)], probes=0)

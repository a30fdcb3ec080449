"""Tangents step by step, beside reverse mode twice."""

import pytest
import torch
from torch import nn

from codebound_networks.reading.loading import load_model
from codebound_networks.reading.walk import wrap
from codebound_networks.views.fold import fold_batch_norms
from codebound_papers.measure.noise.jacobian import SegmentDerivative
from codebound_papers.measure.noise.tangents import tangent_map
from codebound_papers.measure.steps import steps_of


class OwnConvolution(nn.Conv2d):
    def forward(self, x):
        return 2.0 * super().forward(x)


def segments(model, shape):
    """All maps between neighbouring cuts of a network, each with an activation that it is applied to."""
    torch.manual_seed(1)
    x = torch.randn(3, *shape)
    steps = steps_of(wrap(fold_batch_norms(model.eval()).model, example=x))
    for start in range(len(steps.cuts) - 1):
        segment = steps.segment(start, start + 1)
        yield segment, x
        with torch.no_grad():
            x = segment(x)


@torch.no_grad()
def taken(model, shape) -> int:
    """Segments whose tangents are taken step by step, each compared with reverse mode twice."""
    count = 0
    for segment, x in segments(model, shape):
        count += tangent_map(segment.module, x) is not None
        with torch.no_grad():
            out_shape = tuple(segment(x).shape[1:])
        tangents = torch.randn(2, *x.shape)
        twice = SegmentDerivative(lambda given, segment=segment: segment(given), x, out_shape)
        found = SegmentDerivative(segment, x, out_shape).push(tangents)
        assert torch.equal(found, twice.push(tangents))
        assert found.abs().max() > 0.0
        assert not found.requires_grad
    return count


def test_a_residual_network_gives_the_same_bits():
    torch.manual_seed(0)
    model = load_model("resnet20", input_shape=(3, 16, 16), classes=4)
    assert taken(model, (3, 16, 16)) >= 19  # all but what comes after the last block


def test_what_is_not_known_is_left_to_reverse_mode():
    torch.manual_seed(0)
    convolution = lambda kind=nn.Conv2d, **options: kind(2, 2, 3, padding=1, **options)  # noqa: E731
    relu, count = nn.ReLU(inplace=True), {}
    hooked = convolution()
    hooked.register_forward_hook(lambda module, given, output: 3.0 * output)
    for name, layer in (
        ("plain", convolution(stride=2)),
        ("own", convolution(OwnConvolution)),
        ("reflected", convolution(padding_mode="reflect")),
        ("pooling", nn.MaxPool2d(2)),
        ("hooked", hooked),
    ):
        graph = torch.fx.symbolic_trace(nn.Sequential(relu, layer))
        count[name] = tangent_map(graph, torch.randn(1, 2, 6, 6)) is not None
    assert count == {"plain": True, "own": False, "reflected": False, "pooling": False, "hooked": False}


@pytest.mark.parametrize("kind", [nn.Identity, nn.ReLU])
def test_the_activation_is_left_alone(kind):
    x = torch.randn(2, 2, 6, 6)
    before = x.clone()
    push = tangent_map(torch.fx.symbolic_trace(nn.Sequential(nn.ReLU(inplace=True), kind())), x)
    assert push is not None
    assert torch.equal(push(torch.ones_like(x)), (before > 0.0).float())
    assert torch.equal(x, before)

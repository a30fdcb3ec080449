"""Every architecture of the zoo is seen completely, cut into segments, and freed of its batch norms."""

import pytest
import torch
from torch import nn

from codebound_networks.reading.walk import wrap
from codebound_networks.views.fold import fold_batch_norms
from codebound_networks.views.zoo import ZOO, build
from codebound_papers.measure.steps import activations, steps_of


@pytest.fixture(params=ZOO, scope="module")
def case(request):
    shape = ZOO[request.param].input_shape
    model = build(request.param, input_shape=shape, classes=10)
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(generator=generator)
            module.running_var.uniform_(0.5, 2.0, generator=generator)
    x = torch.randn(2, *shape, generator=generator)
    with torch.no_grad():
        return model, x, model.eval()(x)


@pytest.mark.few(3)
def test_every_tensor_is_seen_or_carried(case):
    model, _, _ = case
    network = wrap(model, strict=True)
    held = [*model.parameters(), *model.buffers()]
    assert sum(network.coverage.totals.values()) == sum(tensor.numel() for tensor in held)
    assert len(network.layers) == sum(isinstance(m, nn.Linear | nn.Conv2d) for m in model.modules())


def test_the_last_activation_is_the_output(case):
    model, x, expected = case
    network = wrap(model)
    *_, last = activations(network, x)
    assert torch.equal(last.output, expected)


@torch.no_grad()
def test_segments_compose_to_the_forward_pass(case):
    model, x, expected = case
    steps = steps_of(wrap(model))
    value = x
    for start in range(len(steps.cuts) - 1):
        value = steps.segment(start, start + 1)(value)
    assert torch.equal(value, expected)
    assert all(step.kind.name != "other" for step in steps.sequence)


@torch.no_grad()
def test_batch_norms_fold(case):
    model, x, expected = case
    result = fold_batch_norms(model, strict=True)
    assert len(result.folded) == sum(isinstance(m, nn.BatchNorm2d) for m in model.modules())
    assert (result.model(x) - expected).norm() <= 1e-5 * expected.norm()

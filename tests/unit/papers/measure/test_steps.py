"""Composing segments is the forward pass, bit for bit; activations are what the layers saw."""

from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.nn import functional

from codebound.run.errors import ModelError, UsageError
from codebound_networks.reading.walk import wrap
from codebound_papers.measure.steps import activations, steps_of


class Block(nn.Module):
    """A residual block with a strided shortcut that pads channels, working in place."""

    def __init__(self, width, out, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.stride, self.extra = stride, out - width

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)), inplace=True)
        y = self.norm2(self.conv2(y))
        y += functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.extra))
        return functional.relu_(y)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 3)  # declared first, used last
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.blocks = nn.Sequential(Block(4, 4, 1), Block(4, 6, 2))
        self.shift = nn.Parameter(torch.ones(6))

    def forward(self, x):
        x = self.blocks(functional.relu(self.stem(x)))
        x = functional.avg_pool2d(x, x.size()[3])
        return self.head(x.view(x.size(0), -1) + self.shift)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 3, 3), nn.Conv2d(3, 4, 3)
        self.fc1, self.fc2 = nn.Linear(4 * 2 * 2, 8), nn.Linear(8, 3)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.relu(self.conv2(x))
        x = functional.max_pool2d(x, 2) if self.training else functional.avg_pool2d(x, 2)
        return self.fc2(functional.relu(self.fc1(x.view(x.size(0), -1))))


def mlp():
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(inplace=True), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))


MODELS = {"mlp": (mlp, (5,)), "lenet": (LeNet, (1, 14, 14)), "residual": (Residual, (1, 8, 8))}
every_model = pytest.mark.parametrize("name", MODELS)


def prepared(name):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = make()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return model.eval(), torch.randn(4, *shape)


@every_model
def test_composing_segments_is_the_forward_pass(name):
    model, x = prepared(name)
    steps = steps_of(wrap(model))
    expected = model(x.clone())
    last = len(steps.cuts) - 1
    value = x.clone()
    for start in range(last):
        before = value.clone()
        value = steps.segment(start, start + 1)(value)
        assert torch.equal(steps.segment(start + 1, last)(value), expected)
        assert torch.equal(steps.segment(0, start)(x), before)  # also: segments leave their argument alone
    assert torch.equal(value, expected)


def test_a_chain_is_cut_after_every_step():
    steps = steps_of(wrap(mlp()))
    assert steps.is_chain
    assert steps.cuts == tuple(range(6))
    assert [step.kind.name for step in steps.sequence] == [
        "input",
        "layer",
        "activation",
        "layer",
        "activation",
        "layer",
    ]
    assert [step.view.name for step in steps.sequence if step.view] == ["0", "2", "4"]


def test_sizes_of_tensors_do_not_break_a_chain():
    steps = steps_of(wrap(prepared("lenet")[0]))
    assert steps.is_chain
    layers = [place for place, cut in enumerate(steps.cuts) if steps.sequence[cut].view]
    assert layers == [1, 4, 8, 10]


def test_a_residual_network_is_cut_between_its_blocks():
    steps = steps_of(wrap(prepared("residual")[0]))
    assert not steps.is_chain
    assert "add" in {step.kind.name for step in steps.sequence}
    layers = {step.name for step in steps.sequence if step.view}
    cut_layers = {step.name for index, step in enumerate(steps.sequence) if index in steps.cuts and step.view}
    assert cut_layers == {"stem", "head"}
    assert layers - cut_layers == {f"blocks.{block}.conv{number}" for block in (0, 1) for number in (1, 2)}


def test_a_cut_inside_a_block_would_be_wrong():
    """The check that composing segments gives the forward pass can fail: half a block is not enough."""
    model, x = prepared("residual")
    steps = steps_of(wrap(model))
    inside = next(index for index, step in enumerate(steps.sequence) if step.name == "blocks.0.conv1")
    broken = type(steps)(steps.sequence, (0, inside, steps.cuts[-1]), steps.network, steps.nodes)
    with pytest.raises(KeyError):
        broken.segment(1, 2)(broken.segment(0, 1)(x))


def test_segments_follow_pre_activations_and_differentiate():
    model, x = prepared("mlp")
    steps = steps_of(wrap(model))
    start, stop = 1, 3  # after the first and after the second layer
    pre = model[0](x).detach()
    jacobian = torch.func.vmap(torch.func.jacrev(lambda v: steps.segment(start, stop)(v[None])[0]))(pre)
    expected = torch.einsum("oi,bi->boi", model[2].weight, (pre > 0).float())
    assert torch.allclose(jacobian, expected, atol=1e-6)


def test_what_has_no_steps_says_why():
    class Two(nn.Module):
        def forward(self, x, y):
            return x + y

    class Pair(nn.Module):
        def forward(self, x):
            return x, x

    class Branches(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(ModelError, match=r"takes 2 arguments \(x, y\)"):
        steps_of(wrap(Two()))
    with pytest.raises(ModelError, match=r"must take one tensor and return one"):
        steps_of(wrap(Pair()))
    with pytest.raises(ModelError, match="control flow"):
        steps_of(wrap(Branches(), example=torch.ones(1)))
    steps = steps_of(wrap(mlp()))
    with pytest.raises(UsageError, match="0 <= start <= stop < 6"):
        steps.segment(3, 2)


@pytest.mark.parametrize("inplace", [False, True])
def test_activations_are_inputs_and_pre_activations(inplace):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(inplace), nn.Flatten(), nn.Linear(8, 4), nn.ReLU(inplace)
    )
    x = torch.randn(5, 1, 4, 4)
    first, second = activations(wrap(model), x)
    assert torch.equal(first.input, x)
    assert torch.equal(first.output, model[0](x))
    assert (first.output < 0).any()
    assert torch.equal(second.input, torch.relu(first.output).flatten(1))
    assert torch.equal(second.output, model[3](second.input))
    assert not second.output.requires_grad


def test_activations_are_those_of_evaluation_mode():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.9), nn.Linear(3, 2)).train()
    first, second = activations(wrap(model), torch.ones(4, 3))
    assert torch.equal(second.input, first.output)
    assert model.training


def test_an_in_place_network_leaves_the_input_alone():
    network = wrap(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 2)))
    x = -torch.ones(2, 3)
    activations(network, x)
    assert torch.equal(x, -torch.ones(2, 3))


def test_a_layer_called_twice_has_two_activations():
    layer = nn.Linear(3, 3)
    x = torch.randn(2, 3)
    first, second, last = activations(wrap(nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(3, 2))), x)
    assert (first.name, second.name, last.name) == ("0", "0", "3")
    assert torch.equal(second.input, torch.relu(layer(x)))


@pytest.mark.parametrize("name", ['a"b', "a\nb"])
def test_a_name_that_is_no_code_is_refused_in_words(name):
    net = nn.Sequential(OrderedDict({name: nn.Linear(4, 3), "last": nn.Linear(3, 2)}))
    with pytest.raises(ModelError, match="Rename it"):
        steps_of(wrap(net)).segment(0, 1)

"""Both programs give a factory's module the same name, or none."""

import pytest
import torch
from attack.networks import ATTACKS, EachByItself, Residual
from torch import nn

from codebound.certificate.decoding import message_state as our_state
from codebound.run.errors import ModelError
from codebound_networks.about_f.tracing import sources_of, traced_sha256
from codebound_networks.views.zoo import ZOO, build
from codebound_verify.factories.factory import message_state, sources
from codebound_verify.factories.graph import trace
from codebound_verify.refusal import Refused

SHAPE = (1, 2, 2)
SMALL = {
    "residual": Residual,
    "norms": lambda: nn.Sequential(nn.Flatten(), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 3)),
    "pools": lambda: nn.Sequential(nn.Conv2d(1, 2, 1), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(2, 3)),
    "wide code": lambda: nn.Sequential(nn.Flatten(), nn.Softshrink(0.25), nn.ELU(0.3), nn.Linear(4, 3)),
    "each by itself": EachByItself,
    **{name: factory for name, (factory, _) in ATTACKS.items() if "is not saved" not in name},
}


def names_of(module: nn.Module, shape: tuple[int, ...]) -> tuple[str | None, str | None]:
    """What the two programs call a module."""
    torch.manual_seed(0)
    try:
        ours = traced_sha256(module, shape, tuple(our_state(module)))
    except ModelError:
        ours = None
    try:
        theirs = trace(module, input_shape=shape, carried=tuple(message_state(module))).sha256
    except Refused:
        theirs = None
    return ours, theirs


@pytest.mark.few(5)
@pytest.mark.parametrize("name", sorted(set(SMALL) - {"noise that torch does not see", "a counter of calls"}))
def test_small_networks(name):
    ours, theirs = names_of(SMALL[name]().eval(), SHAPE)
    assert ours == theirs


@pytest.mark.few(1)
@pytest.mark.parametrize("name", sorted(set(ZOO) - {"alexnet", "vgg19", "few-bits"}))  # a message is the last
def test_the_zoo(name):
    module = build(name, input_shape=ZOO[name].input_shape, classes=10).eval()
    ours, theirs = names_of(module, ZOO[name].input_shape)
    assert ours == theirs
    assert ours is not None


def test_our_tracer_leaves_the_network_alone():
    module = Residual()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    traced_sha256(module, SHAPE, tuple(our_state(module)))
    assert module.training
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert all(value.dtype == before[name].dtype for name, value in module.state_dict().items())


@pytest.mark.parametrize("factory", [Residual, lambda: nn.Sequential(nn.Linear(4, 3))])
def test_sources(factory):
    assert sources_of(factory()) == sources(factory())
    assert len(sources(factory())) == (factory is Residual)

"""Theta covers the distance of f and g on the domain, by both programs and on inputs that are tried."""

import math
import resource

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

import codebound_verify.networks.chain
import codebound_verify.networks.original
import codebound_verify.networks.scaling
from codebound.bounds.original import grid_theta
from codebound.known.messages import Options, Setting
from codebound.run.errors import CertificateError
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Scaling
from codebound_networks.about_f.domain import covering_theta
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import (
    AveragePool,
    Conv,
    Dictionary,
    GlobalAveragePool,
    Linear,
    LocalConv,
    MaxPool,
    NormalisedConv,
    Residual,
    Shifts,
)
from codebound_networks.codes.tensors import Dense, Raw


@st.composite
def cases(draw):
    """A chain without residuals, f, a g near it, and a domain."""
    shape = draw(st.sampled_from([(3,), (1, 4, 5), (2, 6, 5)]))
    small = st.integers(1, 3)
    operations = []
    if len(shape) == 3:
        conv = st.builds(Conv, small, st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.booleans())
        operations.append(draw(conv))
        operations += draw(
            st.lists(st.sampled_from([MaxPool(1), AveragePool(1), GlobalAveragePool()]), max_size=1)
        )
    operations += draw(st.lists(st.builds(Linear, small, st.booleans()), max_size=2))
    chain = Chain(shape, (*operations, Linear(3, draw(st.booleans()))))
    stream = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = 10.0 ** draw(st.integers(-6, 1))
    f = {name: stream.normal(size=s).astype(np.float32) for name, s in chain.tensor_shapes().items()}
    g = {
        name: (value + size * stream.normal(size=value.shape)).astype(np.float32) for name, value in f.items()
    }
    low = draw(st.sampled_from([-1.0, 0.0, 2.0]))
    channels = shape[0] if len(shape) == 3 else 1
    scaling = Scaling(
        divisor=draw(st.sampled_from([1.0, 16.0])),
        mean=tuple(stream.normal(size=draw(st.sampled_from([1, channels])))),
        std=(0.5,),
    )
    return chain, f, g, scaling, low, low + draw(st.sampled_from([0.5, 16.0]))


def sample_of(chain: Chain, scaling: Scaling):
    x = np.zeros((2, *chain.input_shape))
    return from_arrays(x, np.array([0, 1]), name="zeros", scaling=scaling)


def message_of(chain: Chain, g) -> Message:
    return Message(Options(Setting(chain.classes)), chain, {name: Raw(value) for name, value in g.items()})


def verifier_deviation(chain: Chain, f, g, scaling: Scaling, low: float, high: float) -> float:
    theirs = codebound_verify.networks.chain.make_chain(chain.describe(), chain.input_shape, chain.classes)
    return codebound_verify.networks.original.deviation(
        theirs,
        f,
        g,
        scaling=codebound_verify.networks.scaling.Scaling(scaling.divisor, scaling.mean, scaling.std),
        domain=(low, high),
    )


@given(cases())
@examples(80)
def test_theta_covers_what_the_verifier_finds_and_is_the_smallest_that_does(case):
    chain, f, g, scaling, low, high = case
    theta = covering_theta(message_of(chain, g), f, sample_of(chain, scaling), low, high)
    needed = math.sqrt(2.0) * verifier_deviation(*case)
    assert grid_theta(theta).value >= needed
    assert grid_theta(theta - 1).value <= needed * (1.0 + 1e-6)


@given(cases(), st.integers(0, 2**32))
@examples(60)
def test_no_input_of_the_domain_moves_a_margin_by_more(case, seed):
    chain, f, g, scaling, low, high = case
    theta = grid_theta(covering_theta(message_of(chain, g), f, sample_of(chain, scaling), low, high)).value
    stream = np.random.default_rng(seed)
    x = stream.uniform(low, high, size=(32, *chain.input_shape))
    x[:16] = np.where(stream.random(x[:16].shape) < 0.5, low, high)  # corners are the farthest
    inputs = scaling.apply(torch.from_numpy(x), torch.float64)
    with torch.no_grad():
        logits = [
            chain.build({name: torch.from_numpy(value.astype(np.float64)) for name, value in net.items()})(
                inputs
            )
            for net in (f, g)
        ]
    change = (logits[0] - logits[1]).numpy()
    assert (change.max(axis=1) - change.min(axis=1)).max() <= theta


def test_the_bound_is_attained_by_a_linear_map():
    """One output moves by 0.25 along an input of norm 2 * 16: the margin has to be sqrt(2) 8, no more."""
    chain = Chain((4,), (Linear(2, False),))
    f = {"0.weight": np.zeros((2, 4), np.float32)}
    g = Dense(np.array([[1, 1, 1, 1], [0, 0, 0, 0]], np.int32), -24, 1)  # 1/8 each: a row of norm 1/4
    message = Message(Options(Setting(chain.classes)), chain, {"0.weight": g})
    theta = grid_theta(covering_theta(message, f, sample_of(chain, Scaling()), -16.0, 16.0))
    needed = math.sqrt(2.0) * 0.25 * 32.0
    assert needed <= theta.value < needed * 2.0**0.126


def test_an_unchanged_network_has_the_smallest_margin():
    chain = Chain((2,), (Linear(2, True),))
    f = {"0.weight": np.ones((2, 2), np.float32), "0.bias": np.ones(2, np.float32)}
    assert covering_theta(message_of(chain, f), f, sample_of(chain, Scaling()), 0.0, 1.0) == -8000


def test_residuals_local_convolutions_and_other_shapes_are_refused():
    others = (
        Residual(2, False),
        LocalConv(2, 3, 1, 1, False),
        NormalisedConv(2, 3),
        Dictionary(1, 1),
        Shifts(1),
    )
    for operation in others:
        chain = Chain((2, 4, 4), (operation, Linear(2, False)))
        f = {name: np.zeros(shape, np.float32) for name, shape in chain.tensor_shapes().items()}
        data = sample_of(chain, Scaling())
        with pytest.raises(CertificateError, match="chain of linear"):
            covering_theta(message_of(chain, f), f, data, 0.0, 1.0)
    small = Chain((2, 4, 4), (Linear(2, False),))
    g = {"0.weight": np.zeros((2, 32), np.float32)}
    with pytest.raises(CertificateError, match="same shapes"):
        covering_theta(message_of(small, g), {"0.weight": g["0.weight"][:, :5]}, data, 0.0, 1.0)


@pytest.mark.thorough
def test_norms_of_wide_convolutions_do_not_need_the_whole_grid_at_once():
    """16 x 16 channels on 204 x 204 frequencies would be 170 MB, twice, and as much again in the norms."""
    chain = Chain((16, 200, 200), (Conv(16, 3, 1, 2, False), GlobalAveragePool(), Linear(2, False)))
    stream = np.random.default_rng(0)
    f = {n: stream.normal(size=s, scale=0.01).astype(np.float32) for n, s in chain.tensor_shapes().items()}
    g = {name: value + np.float32(1e-3) for name, value in f.items()}
    before = peak_mb()
    covering_theta(message_of(chain, g), f, sample_of(chain, Scaling()), 0.0, 1.0)
    assert peak_mb() - before < 100


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

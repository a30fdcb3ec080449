"""The bound that goes with logits, against logits in 60 digits: the same in both programs."""

import exact_chain
import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound.sample.dataset import Scaling
from codebound_networks.about_f.rounding import RoundingBound
from codebound_networks.chains.chain import Chain
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
from codebound_verify.networks.chain import fit
from codebound_verify.networks.evaluation import evaluate, prepare
from codebound_verify.networks.operations import Operation
from codebound_verify.networks.rounding import Rounded

PLAIN = Scaling(1.0, (0.0,), (1.0,))
CHAINS = {
    "linear": ((5,), [Linear(3, True)]),
    "three layers": ((6,), [Linear(7, True), Linear(5, False), Linear(3, True)]),
    "convolutions and pools": (
        (2, 7, 6),
        [Conv(3, 3, 1, 1, True), MaxPool(2), Conv(4, 2, 1, 0, False), AveragePool(2), Linear(3, True)],
    ),
    "strides": ((1, 7, 8), [Conv(3, 3, 2, 2, True), GlobalAveragePool(), Linear(3, False)]),
    "local convolution": ((2, 5, 4), [LocalConv(3, 3, 2, 1, True), Linear(3, True)]),
    "residuals": ((2, 5, 4), [Residual(2, True), Residual(5, False), GlobalAveragePool(), Linear(3, False)]),
    "normalised": ((2, 5, 4), [NormalisedConv(4, 3), MaxPool(2), NormalisedConv(3, 1), Linear(3, True)]),
    "dictionary": ((1, 4, 5), [Dictionary(3, 2), NormalisedConv(3, 3), Linear(3, False)]),
    "colours": ((3, 3, 3), [Dictionary(1, 2), Linear(3, False)]),
    "mirrored": ((2, 4, 3), [Shifts(1), Linear(4, True), Linear(3, True)]),
    "mirrored features": (
        (1, 2, 4),
        [Shifts(1), Dictionary(3, 2), NormalisedConv(3, 3), NormalisedConv(2, 1), Linear(3, False)],
    ),
    "moved": ((1, 4, 3), [Shifts(2), Linear(4, True), Linear(3, True)]),
    "straightened": ((2, 6, 5), [Shifts(3), Linear(4, True), Linear(3, True)]),
    "straightened and moved": ((1, 5, 5), [Shifts(4), NormalisedConv(2, 3), Linear(3, True)]),
}
SIZES = ("out", "kernel", "stride", "padding", "bias", "table", "pool")


def second(shape, operations):
    """The same chain in the second program."""
    found = []
    for operation in operations:
        sizes = {name: int(getattr(operation, name)) for name in SIZES if hasattr(operation, name)}
        views = {"views": operation.kind} if isinstance(operation, Shifts) else {}
        found.append(Operation(operation.name, **sizes, **views))
    return fit(found, shape, 3)


def drawn(name, seed, spread=0.0):
    """A chain of both programs with weights over so many powers of two, and a few inputs."""
    shape, operations = CHAINS[name]
    chain, random = Chain(shape, tuple(operations)), np.random.default_rng(seed)

    def numbers(size):
        scale = np.exp2(np.rint(random.uniform(-spread, spread, size)))
        return (random.normal(size=size) * scale).astype(np.float32)

    tensors = {key: numbers(size) for key, size in chain.tensor_shapes().items()}
    return chain, second(shape, operations), tensors, numbers((2, *shape)).astype(np.float64)


def carried(chain, tensors, x, dtype=torch.float64):
    """Logits of the writer with their bound."""
    network = chain.build({key: torch.from_numpy(value) for key, value in tensors.items()}).to(dtype)
    with torch.no_grad():
        return RoundingBound().logits(network, torch.from_numpy(x).to(dtype), PLAIN)


def checked(chain, tensors, x, error=None):
    """The same of the verifier."""
    batch = torch.from_numpy(x)
    steps = list(zip(chain.operations, prepare(chain, tensors), strict=True))
    return evaluate(
        steps, Rounded(batch, torch.zeros(len(x), dtype=torch.float64) if error is None else error)
    )


def excess(found, chain, tensors, x):
    """The largest error of a logit in units of its bound."""
    owns = [{} for _ in chain.operations]
    for name, values in tensors.items():
        place, own = name.split(".", 1)
        owns[int(place)][own] = torch.from_numpy(values)
    truth = np.stack([exact_chain.logits(chain, owns, exact_chain.exact(example)) for example in x])
    off = np.abs(exact_chain.exact(found.values.double().numpy()) - truth).max(axis=1)
    return max(
        float(each / bound) if bound else float(each > 0)
        for each, bound in zip(off, found.error.tolist(), strict=True)
    )


def both_excesses(name, seed, spread=0.0):
    ours, theirs, tensors, x = drawn(name, seed, spread)
    return [
        excess(found, theirs, tensors, x)
        for found in (carried(ours, tensors, x), checked(theirs, tensors, x))
    ]


@pytest.mark.few(4)
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("spread", [0.0, 9.0])
def test_no_logit_is_further_off_than_its_bound(name, spread):
    assert max(both_excesses(name, 0, spread)) <= 1.0


@given(st.sampled_from(["three layers", "normalised", "straightened", "residuals"]), st.integers(0, 10**6))
@examples(12)
def test_no_logit_is_ever_further_off_than_its_bound(name, seed):
    assert max(both_excesses(name, seed, spread=seed % 20)) <= 1.0


def test_the_bound_has_teeth():
    """Logits in float32 are further off than a bound for float64 says."""
    ours, theirs, tensors, x = drawn("three layers", 0)
    assert excess(carried(ours, tensors, x, torch.float32), theirs, tensors, x) > 1.0


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("spread", [0.0, 5.0])
def test_both_programs_carry_the_same_bound(name, spread):
    """So what the writer counts as right the verifier counts as right: its limit is twice as high."""
    ours, theirs, tensors, x = drawn(name, 3, spread)
    verifier = checked(theirs, tensors, x).error
    most = 1.5 * verifier + checked(theirs, tensors, x, inputs_error(x)).error
    for dtype in (torch.float64, torch.float32):  # the writer may take the lengths from float32
        found = carried(ours, tensors, x, dtype).error
        assert (found >= 0.99 * verifier).all()
        assert (found <= most).all()


def inputs_error(x):
    """What the rounding of inputs adds, which the writer always counts."""
    return 1.1 * 1.01 * 4 * 2.0**-53 * torch.from_numpy(x).flatten(1).norm(dim=1)

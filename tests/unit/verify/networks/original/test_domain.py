"""The distance of f and g on a domain: never below what is observed, norms never below the dense ones."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from codebound_verify.header import Domain, Scaling
from codebound_verify.networks.chain import described_chain, fit
from codebound_verify.networks.evaluate import forward
from codebound_verify.networks.operations import Operation
from codebound_verify.networks.original import deviation
from codebound_verify.refusal import Refused

PLAIN = Scaling(1.0, (0.0,), (1.0,))
UNIT = Domain(0.0, 1.0, "")


def random_weights(chain, seed, like=None, change=1.0):
    random = np.random.default_rng(seed)
    return {
        name: np.float32((like[name] if like else 0) + change * random.normal(size=shape))
        for name, shape in chain.layout()
    }


def logits(chain, tensors, x):
    weights = [{} for _ in chain.operations]
    for name, values in tensors.items():
        position, own = name.split(".", 1)
        weights[int(position)][own] = torch.from_numpy(values.astype(np.float64))
    return forward(chain, weights, torch.from_numpy(x)).numpy()


def test_one_linear_layer_by_hand():
    chain = described_chain([["linear", 2, True]], (3,), 2)
    f = {"0.weight": np.zeros((2, 3), np.float32), "0.bias": np.float32([1, 2])}
    g = {"0.weight": np.float32([[3, 0, 0], [0, 4, 0]]), "0.bias": np.float32([4, 6])}
    # input (x / 2 - 1) / 0.5 of [0, 4] is [-2, 2]: norm 2 sqrt(3); change of weight 4, of bias 5
    value = deviation(chain, f, g, scaling=Scaling(2.0, (1.0,), (0.5,)), domain=Domain(0.0, 4.0, ""))
    assert value == pytest.approx(4 * 2 * math.sqrt(3) + 5, rel=1e-8)


def test_channels_have_their_own_scaling():
    chain = described_chain([["linear", 2, False]], (2, 1, 3), 2)
    f = {"0.weight": np.zeros((2, 6), np.float32)}
    g = {"0.weight": np.eye(2, 6, dtype=np.float32)}
    value = deviation(chain, f, g, scaling=Scaling(1.0, (0.0, 3.0), (1.0, 2.0)), domain=UNIT)
    assert value == pytest.approx(math.sqrt(3 * 1.0 + 3 * 1.5**2), rel=1e-8)


@pytest.mark.parametrize(("kernel", "stride", "padding", "side"), [(3, 1, 1, 5), (2, 2, 0, 6), (3, 2, 2, 4)])
def test_the_norm_of_a_convolution_is_not_below_that_of_its_dense_matrix(kernel, stride, padding, side):
    chain = described_chain(
        [["conv", 3, kernel, stride, padding, False], ["linear", 2, False]], (2, side, side), 2
    )
    f = {name: np.zeros_like(values) for name, values in random_weights(chain, 0).items()}
    f["1.weight"][0, 0] = 1.0
    g = {**f, "0.weight": random_weights(chain, 1)["0.weight"]}
    weight = torch.from_numpy(g["0.weight"].astype(np.float64))
    basis = torch.eye(2 * side * side, dtype=torch.float64).reshape(-1, 2, side, side)
    dense = functional.conv2d(basis, weight, stride=stride, padding=padding).flatten(1).numpy()
    exact = np.linalg.norm(dense, 2)
    # |last| = 1, and the change of the first layer is its whole norm: e = norm of conv times the input norm
    norm = deviation(chain, f, g, scaling=PLAIN, domain=UNIT) / math.sqrt(2 * side * side)
    assert exact <= norm
    if stride == 1:
        assert norm <= 1.2 * exact  # the circular convolution is hardly larger


@pytest.mark.parametrize("seed", range(5))
def test_no_input_of_the_domain_is_further_apart(seed):
    entries = [
        ["conv", 3, 3, 1, 1, True],
        ["max pool", 2],
        ["conv", 4, 2, 1, 0, True],
        ["average pool", 2],
        ["linear", 5, True],
        ["linear", 3, True],
    ]
    chain = described_chain(entries, (2, 6, 6), 3)
    f = random_weights(chain, seed)
    g = random_weights(chain, seed + 100, like=f, change=0.1)
    bound = deviation(chain, f, g, scaling=PLAIN, domain=UNIT)
    x = np.random.default_rng(seed).choice([0.0, 1.0], (500, 2, 6, 6))
    observed = np.linalg.norm(logits(chain, f, x) - logits(chain, g, x), axis=1).max()
    assert 0 < observed <= bound
    assert deviation(chain, f, f, scaling=PLAIN, domain=UNIT) == 0


@pytest.mark.parametrize(
    "operation",
    [
        Operation("residual", out=2, bias=True),
        Operation("local conv", out=2, kernel=3, stride=1, bias=True),
        Operation("normalised conv", out=2, kernel=3),
        Operation("dictionary", table=1, pool=2),
        Operation("views", views=1),
    ],
)
def test_what_the_recursion_does_not_cover_is_refused(operation):
    chain = fit([operation, Operation("linear", out=2, bias=True)], (2, 4, 4), 2)
    f = random_weights(chain, 0)
    with pytest.raises(Refused, match=operation.kind):
        deviation(chain, f, f, scaling=PLAIN, domain=UNIT)

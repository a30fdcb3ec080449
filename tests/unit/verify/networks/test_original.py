"""The network f that was given: theta covers its distance from g, or is refused; its predictions."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from codebound_verify.header import Original, Unlabelled
from codebound_verify.networks.arithmetic import grid
from codebound_verify.networks.chain import fit
from codebound_verify.networks.evaluation import NetworkScores, evaluate, prepare
from codebound_verify.networks.network import Network
from codebound_verify.networks.operations import Operation
from codebound_verify.networks.original import check_domain, deviation, original_network
from codebound_verify.networks.rounding import Rounded
from codebound_verify.networks.scaling import Scaling
from codebound_verify.refusal import Refused
from codebound_verify.weights import tensors_sha256

WEIGHT = np.array([[1, 0, -1], [0, 2, 1]], np.float32)
BIAS = np.array([0.5, 0], np.float32)
CHAIN = (("linear", 2, 1),)
X = np.random.default_rng(0).uniform(0, 1, (8, 3)).astype(np.float32)


def original_of(f, *, domain=(0.0, 1.0), chain=CHAIN):
    unlabelled = None if domain else Unlabelled(0, 8, "0" * 64)
    return Original(chain, domain, tensors_sha256(f), unlabelled)


def domain_of(header, *, change=0.25, theta=0.0, x=X, f=None, **others):
    """A network g, a header that names f, and f, of which one element differs by ``change``."""
    g = {"0.weight": WEIGHT, "0.bias": BIAS}
    if f is None:
        f = {"0.weight": WEIGHT.copy(), "0.bias": BIAS.copy()}
        f["0.weight"][1, 2] += np.float32(change)
    chain = fit([Operation("linear", out=2, bias=1)], (3,), 2)
    made = header((3,), len(x), classes=2, original=original_of(f, **others))
    return made, Network(chain, g, Scaling(1.0), theta, x), f


def check(made, network, f):
    check_domain(original_network(made, network, f), network, made.original.domain)


def predict(made, network, f):
    return NetworkScores(original_network(made, network, f)).evaluator.predict(X)


class TestDomain:
    """9.2."""

    def test_theta_has_to_cover_the_distance(self, header):
        needed = math.sqrt(2) * 0.25 * math.sqrt(3)
        j = math.ceil(8 * math.log2(needed))
        check(*domain_of(header, theta=grid(j)))
        with pytest.raises(Refused, match="margin theta"):
            check(*domain_of(header, theta=grid(j - 1)))
        with pytest.raises(Refused, match="margin theta"):
            check(*domain_of(header))

    def test_the_largest_scaled_input_decides(self, header):
        made, network, f = domain_of(header, theta=grid(8), domain=(-10.0, 1.0))
        with pytest.raises(Refused, match=r"differ by 6\.12"):  # sqrt(2) 0.25 10 sqrt(3)
            check(made, network, f)
        scaled = replace(network, scaling=Scaling(2.0, (0.5,), (8.0,)))
        check(made, scaled, f)  # (10 / 2 + 0.5) / 8

    def test_a_stored_value_outside(self, header):
        for value in (-0.01, 1.01):
            x = X.copy()
            x[3, 1] = value
            with pytest.raises(Refused, match="stored values"):
                check(*domain_of(header, theta=100.0, x=x))

    def test_another_f(self, header):
        made, network, f = domain_of(header, theta=100.0)
        f["0.bias"][0] += 1
        with pytest.raises(Refused, match="SHA-256"):
            check(made, network, f)

    def test_other_tensors(self, header):
        for f in ({"0.weight": WEIGHT}, {"0.weight": WEIGHT.T, "0.bias": BIAS}):
            with pytest.raises(Refused, match="those of its chain"):
                check(*domain_of(header, theta=100.0, f=f))

    def test_another_chain(self, header):
        f = {"0.weight": WEIGHT}
        with pytest.raises(Refused, match="not that of g"):
            check(*domain_of(header, theta=100.0, f=f, chain=(("linear", 2, 0),)))

    def test_residuals_and_local_convs_are_not_allowed(self, header):
        for operation in (
            Operation("residual", out=1),
            Operation("local conv", out=1, kernel=2, stride=1),
        ):
            chain = fit([operation, Operation("linear", out=2)], (1, 4, 4), 2)
            tensors = {name: np.zeros(shape, np.float32) for name, shape in chain.layout()}
            with pytest.raises(Refused, match="may have no"):
                deviation(chain, tensors, tensors, scaling=Scaling(1.0), domain=(0.0, 1.0))

    def test_spectral_norms_that_take_too_long(self):
        chain = fit(
            [Operation("conv", out=2048, kernel=1, stride=1), Operation("linear", out=2)], (2048, 6, 6), 2
        )
        tensors = {name: np.zeros((1, 1), np.float32) for name, _ in chain.layout()}
        tensors["0.weight"] = np.broadcast_to(np.float32(0), (2048, 2048, 1, 1))
        with pytest.raises(Refused, match="spectral norms take"):
            deviation(chain, tensors, tensors, scaling=Scaling(1.0), domain=(0.0, 1.0))


def test_the_distance_is_never_too_small():
    """Of networks with convolutions and pools, on the corners of the domain that gradients lead to."""
    operations = [
        Operation("conv", out=3, kernel=3, stride=1, padding=1, bias=1),
        Operation("max pool", kernel=2),
        Operation("conv", out=4, kernel=2, stride=2, bias=1),
        Operation("average pool", kernel=1),
        Operation("linear", out=3, bias=1),
    ]
    chain = fit(operations, (2, 8, 8), 3)
    random, scaling = np.random.default_rng(0), Scaling(2.0, (0.1, -0.2), (0.5, 0.25))
    for size in (1e-3, 0.1, 1.0):
        f = {name: random.normal(size=shape).astype(np.float32) for name, shape in chain.layout()}
        g = {
            name: (value + size * random.normal(size=value.shape)).astype(np.float32)
            for name, value in f.items()
        }
        bound = deviation(chain, f, g, scaling=scaling, domain=(-1.0, 1.0))
        x = torch.from_numpy(random.choice([-1.0, 1.0], (200, 2, 8, 8)))
        mean, std = map(torch.from_numpy, scaling.constants((2, 8, 8)))
        scaled = (x / 2 - mean) / std
        logits = []
        for tensors in (f, g):
            steps = list(zip(chain.operations, prepare(chain, tensors), strict=True))
            logits.append(
                evaluate(steps, Rounded(scaled.clone(), torch.zeros(200, dtype=torch.float64))).values
            )
        distance = float((logits[0] - logits[1]).norm(dim=1).max())
        assert distance <= bound
        assert bound <= 1e4 * distance


def test_a_layer_by_hand():
    """e and m of two linear layers, from norms that are plain."""
    chain = fit([Operation("linear", out=2, bias=1), Operation("linear", out=2)], (2,), 2)
    f = {
        "0.weight": np.diag([3, 1]).astype(np.float32),
        "0.bias": np.array([0, 4], np.float32),
        "1.weight": np.diag([2, 1]).astype(np.float32),
    }
    g = {name: value.copy() for name, value in f.items()}
    g["0.weight"][1, 0], g["0.bias"][0], g["1.weight"][0, 1] = 0.5, 0.25, 1.0
    m = math.sqrt(2) * 3
    e = 0.5 * m + 0.25
    m = 3 * m + 4
    e = (2 + 1) * e + 1 * m
    found = deviation(chain, f, g, scaling=Scaling(1.0), domain=(-3.0, 2.0))
    assert e <= found <= e * (1 + 1e-7)


class TestPredictions:
    """9.1: f from its weights and chain."""

    def test_f_and_g(self, header):
        made, network, f = domain_of(header, domain=None)
        labels, is_in_doubt = predict(made, network, f)
        logits = X.astype(float) @ f["0.weight"].T.astype(float) + f["0.bias"]
        np.testing.assert_array_equal(labels, logits.argmax(1))
        assert not is_in_doubt.any()
        ((_, values, _),) = NetworkScores(network).blocks(np.arange(8))
        assert np.abs(values - logits).max() > 0.01

    def test_another_chain_than_that_of_g(self, header):
        f = {"0.weight": np.eye(3, dtype=np.float32), "1.weight": WEIGHT}
        made, network, f = domain_of(header, f=f, domain=None, chain=(("linear", 3, 0), ("linear", 2, 0)))
        labels, _ = predict(made, network, f)
        np.testing.assert_array_equal(labels, (X @ WEIGHT.T).argmax(1))

    def test_refused(self, header):
        made, network, f = domain_of(header, domain=None, chain=(("linear", 3, 1),))
        with pytest.raises(Refused, match="one per class"):
            predict(made, network, f)
        made, network, f = domain_of(header, domain=None)
        with pytest.raises(Refused, match="SHA-256"):
            predict(made, network, {**f, "0.bias": BIAS + 1})


def test_theta_of_a_message(read, header):
    steps = [1, (0, 4), "0", "1", 2 * 5, "0", "0", 1, 1, "0", 2]
    f = {"0.weight": WEIGHT}
    made = header((3,), 8, classes=2, original=original_of(f, chain=(("linear", 2, 0),)))
    network, _ = read(*steps, x=X, header=made)
    assert network.theta == grid(-5)
    assert NetworkScores(network).theta == grid(-5)
    with pytest.raises(Refused, match="margin theta"):
        read(*steps[:3], "0", "0", "0", 1, 1, "0", 2, x=X, header=made)
    with pytest.raises(Refused, match="exponent of theta"):
        read(*steps[:4], 2 * 8001, x=X, header=made)
    made = header((3,), 8, classes=2, original=original_of(f, domain=None, chain=None))
    with pytest.raises(Refused, match="margin theta"):  # unlabelled inputs need none
        read(*steps, x=X, header=made)

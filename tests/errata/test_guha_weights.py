"""Errata of Guha, Dubey, Huo 2023 on what is assumed of weights, and on what is left out of a description."""

import numpy as np
import pytest
import torch

from codebound.bits.stream import Stream
from codebound.known.messages import Options, Setting
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message, decode
from codebound_networks.chains.operations import Linear
from codebound_networks.codes.tensors import Dense, Raw
from codebound_networks.train.rng import torch_stream
from codebound_papers.compress.compressors import number_of_levels
from codebound_papers.guha23.magnitude import prune_randomly
from codebound_papers.guha23.pruning import expected_nonzeros, kept_share
from codebound_papers.guha23.sketch.operators import column_ensemble, sketch


def share_kept(matrix: torch.Tensor, *, variance: float, strength: float = 1.0) -> float:
    kept = prune_randomly(matrix, strength=strength, variance=variance, generator=torch_stream(0, "draws"))
    return float(kept.count_nonzero()) / matrix.numel()


def test_g_e4_the_diagonal_is_in_every_count():
    """At a strength of 100 a 60 x 60 matrix keeps 95 entries on average, and 35 by the printed formula."""
    kept = [
        int(
            prune_randomly(
                torch.randn(60, 60, generator=torch_stream(seed, "matrix")),
                strength=100.0,
                variance=1.0,
                generator=torch_stream(seed, "draws"),
            ).count_nonzero()
        )
        for seed in range(100)
    ]
    assert np.mean(kept) == pytest.approx(expected_nonzeros(60, 60, strength=100.0), abs=3.0)
    assert np.mean(kept) > 2 * kept_share(100.0) * 60 * 60


def test_g_e10_a_sketch_stores_sums_and_needs_their_levels():
    """The entries of Y exceed every entry of X, so the levels of X do not hold them."""
    stream = Stream(0, "g-e10")
    a, b = (column_ensemble(stream, m=8, p=30, degree=3) for _ in range(2))
    x = torch.ones(30, 30, dtype=torch.int64)
    largest = int(sketch(x, a, b).max())
    assert largest > 1
    assert number_of_levels(largest, 1.0) > number_of_levels(1.0, 1.0)
    assert largest <= a.dense().sum(axis=1).max() * b.dense().sum(axis=1).max()


def test_g_e24_one_variance_for_all_layers_empties_the_small_ones():
    """Two Gaussian layers, deviations 1 and 0.1: each with its own Psi keeps the share of the theory."""
    large = torch.randn(300, 300, generator=torch_stream(0, "large"))
    small = 0.1 * torch.randn(300, 300, generator=torch_stream(0, "small"))
    common = float(torch.cat([large, small]).var(correction=0))
    expected = kept_share(1.0)
    for layer in (large, small):
        assert share_kept(layer, variance=float(layer.var(correction=0))) == pytest.approx(expected, abs=0.01)
    assert share_kept(small, variance=common) < 0.1 * expected
    assert share_kept(large, variance=common) > 1.2 * expected


def test_g_e25_a_bias_decides_and_is_part_of_the_message():
    """Two networks with the same weights and different biases have one count in the theory, and differ."""
    chain = Chain((2,), (Linear(2, True),))
    weight = Dense(np.eye(2, dtype=np.int32), 0, 1)
    messages = [
        Message(
            Options(Setting(chain.classes)),
            chain,
            {"0.weight": weight, "0.bias": Raw(np.array([bias, 0.0], np.float32))},
        )
        for bias in (0.0, 5.0)
    ]
    bits, ledgers = zip(*(message.encode() for message in messages), strict=True)
    assert bits[0] != bits[1]
    assert all(dict(ledger)["0.bias"] >= 64 for ledger in ledgers)
    decoded = [decode(word, input_shape=(2,)).weights()["0.bias"].tolist() for word in bits]
    assert decoded == [[0.0, 0.0], [5.0, 0.0]]


def test_g_e26_weights_that_are_not_gaussian_are_pruned_in_another_share():
    """Student weights with three degrees of freedom: the closed form is off by far, the count never is."""
    strength = 10.0
    for name, draw, holds in (
        ("gaussian", torch.randn(400, 400, generator=torch_stream(0, "normal")), True),
        ("student", torch.from_numpy(np.random.default_rng(0).standard_t(3, size=(400, 400))), False),
    ):
        kept = share_kept(draw, variance=float(draw.var(correction=0)), strength=strength)
        assert (kept == pytest.approx(kept_share(strength), abs=0.004)) is holds, name

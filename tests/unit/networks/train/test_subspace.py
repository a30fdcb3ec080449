"""Training in a coded subspace: what is trained is what the decoder makes of the integers."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from codebound.sample.dataset import DeviceData, Scaling
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.operations import Dictionary, Linear, MaxPool, NormalisedConv, Shifts
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.train.subspace import (
    Expansion,
    Features,
    Learner,
    SubspaceSettings,
    _code_bits,
    _Training,
    train_in_subspace,
)

IMAGES = Chain((1, 14, 14), (Shifts(1), Dictionary(3, 2), NormalisedConv(4, 3), MaxPool(2), Linear(3, False)))
PLAIN = Chain((6,), (Linear(8, False), Linear(3, False)))


def separable(n: int, seed: int = 0) -> DeviceData:
    """Three classes that the first three numbers tell apart."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=generator)
    return DeviceData(x, x[:, :3].argmax(1), Scaling())


@pytest.mark.parametrize("chain", [IMAGES, PLAIN], ids=["images", "plain"])
@pytest.mark.parametrize("zero_head", [True, False])
def test_the_trainer_sees_the_weights_that_the_decoder_returns(chain, zero_head):
    plan = SubspaceSettings(dimension=17, step=-5, entries_log2=1, zero_head=zero_head, helper_seed=3)
    integers = np.random.default_rng(0).integers(-4, 5, 17)
    learner = Learner(chain)
    seen = Expansion(learner, plan).tensors(torch.from_numpy(integers).float())
    code = Subspace(best_tensor_code(integers, step=0), 1, -5, zero_head, 3)
    decoded = code.weights(chain.tensor_shapes(), learner.head)
    for name, value in decoded.items():
        np.testing.assert_allclose(seen[name].numpy(), value, rtol=1e-6, atol=1e-7)


def test_a_base_takes_the_place_of_the_random_start():
    plan = SubspaceSettings(dimension=5)
    base = {name: torch.full(shape, 0.5) for name, shape in PLAIN.tensor_shapes().items()}
    learner = Learner(PLAIN)
    found = Expansion(learner, plan, base=base).tensors(torch.zeros(5))
    assert all(torch.equal(found[name], value) for name, value in base.items())


def test_fixed_features_and_the_rest_make_the_network():
    learner = Learner(IMAGES)
    generator = torch.Generator().manual_seed(1)
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in learner.shapes.items()}
    x = torch.rand(5, 1, 14, 14, generator=generator)
    views = learner.features(x)
    assert len(views) == 2
    logits = torch.stack([learner.logits(view, tensors) for view in views]).mean(0)
    assert torch.allclose(logits, IMAGES.build(tensors)(x), atol=1e-5)


@pytest.mark.thorough
def test_training_finds_integers_that_classify():
    sample = separable(600)
    learner = Learner(PLAIN)
    features = Features.of(learner, sample)
    plan = SubspaceSettings(dimension=30, epochs=40, batch_size=50, rate=1.0)
    integers = train_in_subspace(features, plan)
    tensors = Expansion(learner, plan).tensors(torch.from_numpy(integers).float())
    assert integers.dtype == np.int32
    assert features.errors(tensors) < 90  # of 600; guessing makes 400
    untrained = Expansion(learner, plan).tensors(torch.zeros(30))
    assert features.errors(untrained) > 300


@pytest.mark.thorough
def test_the_same_plan_gives_the_same_integers_and_another_seed_does_not():
    learner = Learner(PLAIN)
    features = Features.of(learner, separable(200))
    plan = SubspaceSettings(dimension=12, epochs=3, batch_size=20)
    first, again = (train_in_subspace(features, plan) for _ in range(2))
    assert np.array_equal(first, again)
    other = SubspaceSettings(dimension=12, epochs=30, batch_size=20, seed=1)
    assert not np.array_equal(first, train_in_subspace(features, other))


@pytest.mark.thorough
def test_a_larger_rate_gives_shorter_integers():
    learner = Learner(PLAIN)
    features = Features.of(learner, separable(300))
    sizes = [
        np.abs(
            train_in_subspace(features, SubspaceSettings(dimension=40, epochs=40, batch_size=30, rate=rate))
        ).sum()
        for rate in (0.0, 60.0)
    ]
    assert sizes[1] < 0.7 * sizes[0]


def one_step(hardness: float, gain: float) -> tuple[float, torch.Tensor]:
    """The loss of a step on the whole sample, and the logits it was made of."""
    learner, sample = Learner(PLAIN), separable(50)
    features = Features.of(learner, sample)
    training = _Training(features, SubspaceSettings(dimension=12, batch_size=50), None)
    training.batch.copy_(torch.arange(50))
    training.hardness.fill_(hardness)
    training.gain.fill_(gain)
    rounded = training.values.detach().round()
    logits = learner.logits(features.shifts[0].float(), training.expansion.tensors(rounded))
    training.compute(is_rounded=True)
    return float(training.loss), gain * logits


def test_the_loss_goes_from_cross_entropy_to_a_smooth_count_of_errors():
    labels = separable(50).y
    soft, logits = one_step(1e-6, 3.0)
    assert soft == pytest.approx(float(nn.functional.cross_entropy(logits, labels)), rel=1e-4)
    hard, logits = one_step(1.0, 3.0)
    chances = torch.softmax(logits, 1).gather(1, labels[:, None])
    assert hard == pytest.approx(float(1.0 - chances.mean()), rel=1e-5)
    sharp, logits = one_step(1.0, 1e6)
    ranks = (logits > logits.gather(1, labels[:, None])).any(1)
    is_tied = (logits == logits.gather(1, labels[:, None])).sum(1) > 1
    assert abs(sharp - float(ranks.float().mean())) <= float(is_tied.float().mean()) + 1e-6


def test_hardness_gain_and_price_follow_the_schedule():
    learner = Learner(PLAIN)
    plan = SubspaceSettings(
        dimension=12, epochs=10, batch_size=50, rate=4.0, gain=3.0, hardness=1.0, sharpening=4.0, price=0.7
    )
    training = _Training(Features.of(learner, separable(50)), plan, None)
    seen = []
    for done in range(10):
        training.advance(done, torch.arange(50))
        seen.append([float(each) for each in (training.hardness, training.gain, training.weight)])
    assert seen[0] == pytest.approx([1e-6, 3.0, 0.0])  # bits weigh nothing yet
    assert seen[2] == pytest.approx([1e-6, 3.0, 4.0 * math.log(2.0) / 50], rel=1e-5)
    assert seen[4] == pytest.approx([0.5, 7.5, (2.0 * math.log(2.0) + 0.35) / 50], rel=1e-5)
    for row in seen[6:]:
        assert row == pytest.approx([1.0, 12.0, 0.7 / 50], rel=1e-5)


@pytest.mark.parametrize("spread", [-2.0, 0.0, 2.0])
def test_the_code_length_is_that_of_a_distribution_on_the_integers(spread):
    integers = torch.arange(-400, 401, dtype=torch.float64)[:, None]
    bits = torch.stack([_code_bits(value, torch.tensor(spread, dtype=torch.float64)) for value in integers])
    assert math.isclose(float(torch.exp2(-bits).sum()), 1.0, rel_tol=1e-6)


def test_features_that_half_precision_cannot_hold_stay_as_they_are(monkeypatch):
    monkeypatch.setattr("codebound_networks.train.subspace._CHUNK", 10)
    x = torch.randn(30, 6, generator=torch.Generator().manual_seed(0))
    x[15] *= 1e6
    learner = Learner(PLAIN)
    (kept,) = Features.of(learner, DeviceData(x, x[:, :3].argmax(1), Scaling())).shifts
    torch.testing.assert_close(kept, x, rtol=1e-3, atol=1e-6)
    assert torch.equal(kept[10:20], x[10:20])

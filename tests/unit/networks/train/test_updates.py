"""Steps of a training: rates, resumed epochs, and products in lower precision."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from codebound.run.device import rounded_products
from codebound.sample.dataset import Sample
from codebound_networks.train import updates
from codebound_networks.train.config import Constant, Cosine, TrainConfig
from codebound_networks.train.harness import fit


def two_shades(n=50):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    x = (rng.integers(0, 200, size=(n, 1, 6, 6)) + 50 * y[:, None, None, None]).astype(np.uint8)
    return Sample("images", "train", x, y, classes=2)


def normed_convnet():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.4), nn.Linear(48, 2)
    )


CONFIGS = [
    TrainConfig(optimizer="sgd", learning_rate=0.05, weight_decay=1e-3, batch_size=16, epochs=3),
    TrainConfig(learning_rate=0.01, batch_size=16, epochs=3, schedule=Cosine(warmup=1.0)),
]


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_learning_rate_is_changed_before_a_step(optimizer):
    model = nn.Linear(2, 2)
    made = updates.make_optimizer(model, TrainConfig(optimizer=optimizer, schedule=Constant()))
    updates.set_rate(made, 0.0)
    before = model.weight.detach().clone()
    model(torch.ones(1, 2)).sum().backward()
    made.step()
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_resumed_training_ends_the_same(config, tmp_path):
    def killed(epoch, network):
        if epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(normed_convnet(), two_shades(), config, out=tmp_path / "run", on_epoch=killed)
    resumed = fit(normed_convnet(), two_shades(), config, out=tmp_path / "run")
    assert resumed.resumed_from == 1
    assert resumed.weights_sha256 == fit(normed_convnet(), two_shades(), config).weights_sha256


def test_rounded_products_are_asked_for_on_gpus_alone_and_put_back():
    gpu, before = torch.device("cuda"), torch.get_float32_matmul_precision()
    inside = []

    def fails():
        with rounded_products("tensorfloat32", gpu):
            inside.append(torch.get_float32_matmul_precision())
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert inside == ["high"]
    for precision, device in (("float32", gpu), ("bfloat16", gpu), ("tensorfloat32", torch.device("cpu"))):
        with rounded_products(precision, device):
            assert torch.get_float32_matmul_precision() == before
    assert torch.get_float32_matmul_precision() == before


def test_rounding_covers_both_passes_and_no_more(monkeypatch):
    inside, seen = [False], []

    @contextmanager
    def watched(precision, device):
        assert precision == "tensorfloat32"
        inside[0] = True
        yield
        inside[0] = False

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(("forward", inside[0]))
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(("backward", inside[0]))
            return gradient

    class Watched(torch.nn.Linear):
        def forward(self, x):
            return Same.apply(super().forward(x.flatten(1)))

    monkeypatch.setattr(updates, "rounded_products", watched)
    fit(Watched(36, 2), two_shades(), TrainConfig(epochs=1, precision="tensorfloat32"))
    backward = [place for name, place in seen if name == "backward"]
    assert backward
    assert all(backward)
    assert sum(place for name, place in seen if name == "forward") == len(backward)  # not where errors count


def test_rounded_products_change_nothing_on_a_cpu():
    config = TrainConfig(learning_rate=0.01, epochs=2)
    plain, asked = (
        fit(normed_convnet(), two_shades(), replace(config, precision=precision))
        for precision in ("float32", "tensorfloat32")
    )
    assert asked.weights_sha256 == plain.weights_sha256

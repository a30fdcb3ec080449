"""A recorded step trains like a plain one. Without a GPU a recording is played by doing the work again."""

from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from codebound.run.device import rounded_products
from codebound.sample.dataset import Sample
from codebound_networks.train import harness, updates
from codebound_networks.train.config import Constant, Cosine, TrainConfig
from codebound_networks.train.harness import fit
from codebound_networks.train.updates import Picks, Replayed, StepOutputs, is_recordable


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


def play(work, device, *, generators=()):
    """Stands for `record`: as there, the work is done before, and later in place."""
    for _ in range(3):
        work()
    places = work()

    def again():
        for place, value in zip(places, work(), strict=True):
            place.copy_(value)

    return places, again


@pytest.fixture
def recorded(monkeypatch):
    """Makes every training a replayed one, and counts the replays."""
    replays = []

    def make(model, data, optimizer, config, *, dtype):
        return Replayed(updates.make_update(model, data, optimizer, config, dtype=dtype), model, optimizer)

    def record(work, device):
        places, again = play(work, device)
        return places, lambda: replays.append(again())

    monkeypatch.setattr(updates, "record", record)
    monkeypatch.setattr(harness, "make_update", make)
    return replays


CONFIGS = [
    TrainConfig(optimizer="sgd", learning_rate=0.05, weight_decay=1e-3, batch_size=16, epochs=3),
    TrainConfig(optimizer="sgd", learning_rate=0.05, momentum=0.0, batch_size=25, epochs=3),
    TrainConfig(learning_rate=0.01, batch_size=16, epochs=3, schedule=Cosine(warmup=1.0)),
    TrainConfig(learning_rate=0.01, batch_size=7, epochs=3, augment="flip-crop"),  # one joins the last batch
    TrainConfig(learning_rate=0.01, batch_size=16, epochs=3, precision="bfloat16"),
    TrainConfig(learning_rate=0.01, batch_size=64, epochs=3),  # more than there are examples
]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_replayed_steps_give_the_weights_of_plain_ones(config, monkeypatch, request):
    plain = fit(normed_convnet(), two_shades(), config)
    replays = request.getfixturevalue("recorded")
    again = fit(normed_convnet(), two_shades(), config)
    assert len(replays) >= config.epochs
    assert again.weights_sha256 == plain.weights_sha256
    assert [row.loss for row in again.history] == [row.loss for row in plain.history]
    assert [row.running_errors for row in again.history] == [row.running_errors for row in plain.history]


@pytest.mark.parametrize("config", CONFIGS[:4:3], ids=str)
def test_that_has_teeth_a_warm_up_that_is_not_undone_shows(config, recorded, monkeypatch):
    undone = fit(normed_convnet(), two_shades(), config)
    monkeypatch.setattr(updates, "_restore", lambda *given: nullcontext())
    assert fit(normed_convnet(), two_shades(), config).weights_sha256 != undone.weights_sha256


@pytest.mark.parametrize("config", CONFIGS[:4:3], ids=str)
def test_a_resumed_training_records_anew_and_ends_the_same(config, recorded, tmp_path):
    def killed(event):
        if event.row.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(normed_convnet(), two_shades(), config, out=tmp_path / "run", on_epoch=killed)
    resumed = fit(normed_convnet(), two_shades(), config, out=tmp_path / "run")
    assert resumed.resumed_from == 1
    assert resumed.weights_sha256 == fit(normed_convnet(), two_shades(), config).weights_sha256


def test_what_cannot_be_recorded_runs_as_it_is(recorded, monkeypatch):
    def fails(work, device, *, generators=()):
        work()
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(updates, "record", fails)
    found = fit(normed_convnet(), two_shades(), CONFIGS[0])
    assert not recorded
    monkeypatch.undo()
    assert found.weights_sha256 == fit(normed_convnet(), two_shades(), CONFIGS[0]).weights_sha256


def test_results_of_a_step_outlive_the_next_one(monkeypatch):
    monkeypatch.setattr(updates, "record", play)
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = Replayed(lambda picks: StepOutputs(picks.indices.sum(), picks.indices * 2.0), model, optimizer)
    seen = [step(Picks(torch.arange(start, start + 3), None)) for start in range(3)]
    assert [int(each.loss) for each in seen] == [3, 6, 9]
    assert [each.outputs.tolist() for each in seen] == [[0, 2, 4], [2, 4, 6], [4, 6, 8]]


class Counting(nn.Linear):
    """Does something else at every call, which a recording would not."""


def test_networks_of_others_and_hooks_are_not_recorded():
    assert is_recordable(normed_convnet())
    assert not is_recordable(nn.Sequential(nn.Linear(2, 2), Counting(2, 2)))
    hooked = nn.Sequential(nn.Linear(2, 2))
    hooked[0].register_forward_hook(lambda *given: None)
    assert not is_recordable(hooked)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_learning_rate_in_memory_is_changed_in_place(optimizer):
    config = TrainConfig(optimizer=optimizer, schedule=Constant())
    made = updates.make_optimizer(nn.Linear(2, 2), config, torch.device("cpu"))
    updates.set_rate(made, 0.5)
    assert made.param_groups[0]["lr"] == 0.5
    made.param_groups[0]["lr"] = place = torch.tensor(0.25)
    updates.set_rate(made, 0.125)
    assert made.param_groups[0]["lr"] is place
    assert float(place) == 0.125


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

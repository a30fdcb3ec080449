import copy
import json

import numpy as np
import pytest
import torch
from torch import nn
from worlds.networks import normed_and_dropped
from worlds.samples import clouds

from codebound.run.device import resolve_device
from codebound.run.errors import DataError, ModelError, UsageError
from codebound.sample.dataset import Sample, Scaling
from codebound.sample.load import load_sample
from codebound_networks.train.config import Cosine, Step, TrainConfig
from codebound_networks.train.harness import fit
from codebound_networks.train.updates import Epoch, shuffle_labels


def blobs(n: int = 203, *, seed: int = 0, noise: float = 1.0) -> Sample:
    """Three overlapping clouds in four dimensions."""
    return clouds(n, features=4, noise=noise, seed=seed, scaling=Scaling(2.0, (0.25,), (0.5,)))


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3))


def same(first: nn.Module, second: nn.Module) -> bool:
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.thorough
def test_learns_the_digits():
    digits = load_sample("digits")
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    result = fit(model, digits, TrainConfig(epochs=15, batch_size=64, learning_rate=3e-3))
    assert result.train_error < 0.03
    assert fit(model, digits, TrainConfig(epochs=0)).train_error > 0.7


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_takes_the_steps_of_a_loop_written_by_hand(optimizer):
    schedule = Step(every=1, multiply=0.5)
    config = TrainConfig(
        optimizer=optimizer,
        learning_rate=0.05,
        momentum=0.8,
        weight_decay=0.01,
        schedule=schedule,
        epochs=3,
        batch_size=50,
    )
    sample = blobs()
    model = linear()
    result = fit(model, sample, config)

    twin = copy.deepcopy(model)
    by_hand = (
        torch.optim.Adam(twin.parameters(), lr=0.05, betas=(0.8, 0.999), weight_decay=0.01)
        if optimizer == "adam"
        else torch.optim.SGD(twin.parameters(), lr=0.05, momentum=0.8, weight_decay=0.01)
    )
    x = (torch.from_numpy(sample.x) / 2.0 - 0.25) / 0.5
    for epoch in range(3):
        order = Epoch.draw(sample.on("cpu"), config, epoch=epoch).order
        by_hand.param_groups[0]["lr"] = 0.05 * 0.5**epoch
        losses = []
        for batch in (order[:50], order[50:100], order[100:150], order[150:200], order[200:]):
            loss = nn.functional.cross_entropy(twin(x[batch]), torch.from_numpy(sample.y)[batch])
            by_hand.zero_grad()
            loss.backward()
            by_hand.step()
            losses.append(loss.item() * len(batch))
        assert result.history[epoch].loss == pytest.approx(sum(losses) / 203, rel=1e-5)
        assert result.history[epoch].learning_rate == 0.05 * 0.5**epoch
    for ours, theirs in zip(result.model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    predicted = twin(x).argmax(dim=1).numpy()
    assert result.train_errors == int((predicted != sample.y).sum())


def test_the_same_seed_gives_the_same_weights_whatever_the_global_state():
    config = TrainConfig(epochs=2, batch_size=16)
    torch.manual_seed(1)
    first = fit(normed_and_dropped(), blobs(), config)
    torch.manual_seed(2)
    second = fit(normed_and_dropped(), blobs(), config)
    assert same(first.model, second.model)
    assert first.weights_sha256 == second.weights_sha256
    assert [row.loss for row in first.history] == [row.loss for row in second.history]


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_another_seed_gives_other_weights(dropout):
    first = fit(normed_and_dropped(dropout=dropout), blobs(), TrainConfig(epochs=1, seed=0, batch_size=16))
    second = fit(normed_and_dropped(dropout=dropout), blobs(), TrainConfig(epochs=1, seed=1, batch_size=16))
    assert not same(first.model, second.model)
    assert first.weights_sha256 != second.weights_sha256


def test_dropout_differs_between_epochs():
    masks = []

    class Watch(nn.Module):
        def forward(self, x):
            if self.training:
                masks.append((x == 0).sum().item())
            return x

    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), Watch(), nn.Linear(64, 3))
    fit(model, blobs(), TrainConfig(epochs=2, batch_size=203, learning_rate=1e-9))
    assert len(masks) == 2
    assert masks[0] != masks[1]


def test_the_callers_model_and_random_state_stay_as_they_were():
    model = normed_and_dropped().train()
    before = copy.deepcopy(model)
    state = torch.get_rng_state()
    result = fit(model, blobs(), TrainConfig(epochs=1))
    assert same(model, before)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    assert not same(result.model, before)
    assert not result.model.training


def test_the_random_state_is_restored_after_an_exception():
    def fail(epoch, network):
        torch.rand(3)
        raise KeyError("mine")

    state = torch.get_rng_state()
    with pytest.raises(KeyError, match="mine"):
        fit(normed_and_dropped(), blobs(), TrainConfig(epochs=1), on_epoch=fail)
    assert torch.equal(torch.get_rng_state(), state)


def test_hooks_see_every_epoch_and_do_not_disturb_the_training():
    seen = []

    def watch(epoch, network):
        torch.rand(7)  # must not shift the dropout of later epochs
        assert not network.training
        seen.append(epoch)
        network.train()

    result = fit(normed_and_dropped(), blobs(), TrainConfig(epochs=3, batch_size=16), on_epoch=watch)
    assert seen == [1, 2, 3]
    assert same(result.model, fit(normed_and_dropped(), blobs(), TrainConfig(epochs=3, batch_size=16)).model)


def test_errors_are_counted_with_ties_as_errors():
    undecided = linear()
    nn.init.zeros_(undecided[0].weight)
    nn.init.zeros_(undecided[0].bias)
    result = fit(undecided, blobs(), TrainConfig(epochs=0), test_set=blobs(50, seed=1))
    assert (result.train_errors, result.n, result.test_errors, result.test_n) == (203, 203, 50, 50)
    assert (result.train_error, result.test_error) == (1.0, 1.0)


def test_the_test_set_has_no_influence():
    config = TrainConfig(epochs=2)
    alone = fit(normed_and_dropped(), blobs(), config)
    watched = fit(normed_and_dropped(), blobs(), config, test_set=blobs(50, seed=1))
    assert same(alone.model, watched.model)
    assert alone.test_errors is alone.test_error is None
    assert watched.train_errors == alone.train_errors


def test_shuffled_labels_are_learnt_and_counted_as_such():
    sample = blobs(60, noise=0.01)
    wide = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    config = TrainConfig(epochs=5, batch_size=10, label_shuffle=1.0, learning_rate=0.01)
    result = fit(wide, sample, config)
    shuffled = shuffle_labels(sample, 1.0, seed=0)
    plain = fit(result.model, shuffled, TrainConfig(epochs=0))
    assert result.train_errors == plain.train_errors
    assert result.train_error > 0.3  # the clouds are separable, their random labels are not
    assert fit(wide, sample, TrainConfig(epochs=30, batch_size=10, learning_rate=0.01)).train_errors == 0
    assert result.data_sha256 == sample.sha256


def test_frozen_parameters_stay():
    model = normed_and_dropped()
    model[0].requires_grad_(False)
    result = fit(model, blobs(), TrainConfig(epochs=1, weight_decay=0.1))
    assert torch.equal(result.model[0].weight, model[0].weight)
    assert not torch.equal(result.model[4].weight, model[4].weight)
    with pytest.raises(ModelError, match="no parameter that can be trained"):
        fit(model.requires_grad_(False), blobs(), TrainConfig(epochs=1))


def test_a_single_left_over_example_does_not_break_batch_norm():
    assert blobs(201).n % 20 == 1
    assert fit(normed_and_dropped(), blobs(201), TrainConfig(epochs=1, batch_size=20)).epochs == 1
    with pytest.raises(ModelError, match=r"training failed in step 1 of epoch 1: Expected more than 1 value"):
        fit(normed_and_dropped(), blobs(), TrainConfig(epochs=1, batch_size=1))


def test_augmented_images_train_reproducibly():
    x = np.random.default_rng(0).integers(0, 256, size=(40, 3, 8, 8), dtype=np.uint8)
    images = Sample("noise", "train", x, np.arange(40) % 2, 2, Scaling(255.0))
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    first, second, plain = (
        fit(model, images, TrainConfig(epochs=2, augment=augment))
        for augment in ("flip-crop", "flip-crop", "none")
    )
    assert same(first.model, second.model)
    assert not same(first.model, plain.model)


def test_double_precision_models_get_double_precision_inputs():
    result = fit(normed_and_dropped().double(), blobs(), TrainConfig(epochs=1))
    assert all(parameter.dtype == torch.float64 for parameter in result.model.parameters())


def test_lower_precision_is_in_the_products_and_not_in_the_weights():
    x = np.random.default_rng(0).integers(0, 256, size=(60, 3, 8, 8), dtype=np.uint8)
    images = Sample("noise", "train", x, np.arange(60) % 2, 2, Scaling(255.0))
    seen = []
    convolution = nn.Conv2d(3, 4, 3)
    model = nn.Sequential(convolution, nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    first, second, plain = (
        fit(model, images, TrainConfig(epochs=3, learning_rate=0.01, precision=precision))
        for precision in ("bfloat16", "bfloat16", "float32")
    )
    assert same(first.model, second.model)
    assert not same(first.model, plain.model)
    for a, b in zip(first.model.parameters(), plain.model.parameters(), strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a, b, atol=0.02, rtol=0.0)  # 6 steps of Adam by 0.01, rounded gradients
    convolution.register_forward_hook(
        lambda module, inputs, output: seen.append((module.training, output.dtype))
    )
    fit(model, images, TrainConfig(epochs=1, precision="bfloat16"))
    assert set(seen) == {(True, torch.bfloat16), (False, torch.float32)}


def test_a_diverging_loss_is_reported_with_its_place():
    config = TrainConfig(optimizer="sgd", learning_rate=1e30, epochs=3, batch_size=64)
    with pytest.raises(
        ModelError, match=r"(step \d of epoch [123]|the last step).* Try a smaller learning rate"
    ):
        fit(nn.Sequential(nn.Linear(4, 9), nn.Linear(9, 3)), blobs(), config)


def test_weights_that_are_not_finite_are_refused_by_name():
    model = normed_and_dropped()
    with torch.no_grad():
        model[4].bias[1] = float("nan")
    with pytest.raises(ModelError, match=r"4\.bias.*NaN"):
        fit(model, blobs(), TrainConfig(epochs=1))


def test_models_and_samples_must_fit_together():
    config = TrainConfig(epochs=1)
    with pytest.raises(
        ModelError, match=r"one output for each of the 3 classes of clouds. Got outputs of shape \(2, 5\)"
    ):
        fit(nn.Linear(4, 5), blobs(), config)
    with pytest.raises(ModelError, match=r"cannot take the inputs of clouds, of shape \(4,\)"):
        fit(nn.Linear(7, 3), blobs(), config)
    with pytest.raises(DataError, match=r"augmentation needs images .* clouds has inputs of shape \(4,\)"):
        fit(linear(), blobs(), TrainConfig(epochs=1, augment="crop"))
    with pytest.raises(DataError, match="role 'test' is not for training"):
        fit(linear(), blobs().select([0, 1], role="test"), config)
    other = Sample("other", "test", np.zeros((2, 4), dtype=np.float32), np.zeros(2, dtype=np.int64), 3)
    with pytest.raises(DataError, match="differ in scaling"):
        fit(linear(), blobs(), config, test_set=other)


class Both(nn.Linear):
    """Returns its outputs, and something else."""

    def forward(self, x):
        return {"logits": super().forward(x), "inputs": x}


def test_the_scores_of_several_outputs_are_trained_as_if_they_were_alone(tmp_path):
    plain, config = nn.Sequential(nn.Linear(4, 3)), TrainConfig(epochs=2)
    model = Both(4, 3)
    model.load_state_dict(plain[0].state_dict())
    result = fit(model, blobs(), config, test_set=blobs(), out=tmp_path / "run")
    alone = fit(plain, blobs(), config, test_set=blobs())
    assert same(result.model, alone.model[0])
    assert (result.train_errors, result.test_errors) == (alone.train_errors, alone.test_errors)
    assert type(result.model) is Both
    assert result.notes == ("Both returns a dict: its logits is taken for the logits.",)
    assert alone.notes == ()
    assert fit(model, blobs(), config, test_set=blobs(), out=tmp_path / "run").notes == result.notes


def test_networks_of_integers_are_trained():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5, 3)

        def forward(self, x):
            return self.table(x).mean(1)

    x = np.random.default_rng(0).integers(0, 5, size=(60, 4)).astype(np.float32)
    words = Sample("words", "train", x, x[:, 0].astype(np.int64) % 3, 3)
    model = Words()
    result = fit(model, words, TrainConfig(epochs=1))
    assert result.notes == ("Words takes integers: inputs are rounded to the nearest.",)
    assert not same(result.model, model)


def test_outputs_without_a_word_which_are_the_scores_are_told():
    class Twins(nn.Linear):
        def forward(self, x):
            return super().forward(x), super().forward(x)

    with pytest.raises(
        ModelError, match=r"Twins returns a tuple .* Return them alone, or under the name log"
    ):
        fit(Twins(4, 3), blobs(), TrainConfig(epochs=1))


def test_outputs_of_the_training_mode_alone_are_told():
    class Aside(nn.Linear):
        def forward(self, x):
            return (super().forward(x), x) if self.training else super().forward(x)

    with pytest.raises(ModelError, match=r"in training mode the model returns a tuple.* aux_logits=False"):
        fit(Aside(4, 3), blobs(), TrainConfig(epochs=1))


def test_weights_of_several_precisions_are_refused_with_what_to_do():
    model = nn.Sequential(nn.Linear(4, 8).double(), nn.ReLU(), nn.Linear(8, 3))
    with pytest.raises(ModelError, match=r"double precision: .*model\.float\(\)"):
        fit(model, blobs(), TrainConfig(epochs=1))
    assert fit(model.float(), blobs(), TrainConfig(epochs=1)).epochs == 1


def test_devices():
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type in ("cpu", "cuda")
    for unknown in ("gpu", "mps", "meta", "cuda:99"):
        with pytest.raises(UsageError, match=f"device '{unknown}'"):
            resolve_device(unknown)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_cuda_device_is_named():
    with pytest.raises(UsageError, match=r"'cuda' is not there: .* sees 0 CUDA devices"):
        fit(linear(), blobs(), TrainConfig(epochs=1), device="cuda")


def test_progress_counts_steps_up_to_the_total():
    calls = []
    config = TrainConfig(epochs=3, batch_size=50, schedule=Cosine(warmup=1))
    fit(linear(), blobs(), config, progress=lambda done, total, note="": calls.append((done, total, note)))
    counts = [done for done, _, _ in calls]
    assert counts == sorted(counts)
    assert calls[-1][:2] == (15, 15)
    assert calls[-1][2].startswith("epoch 3/3, loss ")


def test_the_record_is_json_and_tells_where_the_weights_came_from():
    sample = blobs()
    record = json.loads(json.dumps(fit(linear(), sample, TrainConfig(epochs=1, seed=3)).record()))
    assert record["data_sha256"] == sample.sha256
    assert (record["seed"], record["device"], record["torch"]) == (3, "cpu", torch.__version__)
    assert record["train_error"] == record["train_errors"] / record["n"]

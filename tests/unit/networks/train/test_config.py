import json
from dataclasses import replace

import pytest

from codebound.run.errors import UsageError
from codebound_networks.train.config import Constant, Cosine, Step, TrainConfig, preset


def test_arora18_is_what_the_paper_says():
    # 2.8: SGD, batch 128, weight decay 5e-4, momentum 0.9, lr 0.05 halved every 30 epochs, 299 epochs
    config = preset("arora18")
    assert (config.optimizer, config.batch_size, config.weight_decay) == ("sgd", 128, 5e-4)
    assert (config.momentum, config.learning_rate, config.epochs) == (0.9, 0.05, 299)
    assert config.schedule == Step(every=30, multiply=0.5)


@pytest.mark.parametrize(("name", "batch_size"), [("guha23", 256), ("guha23-cifar10", 4)])
def test_guha23_is_what_the_text_says(name, batch_size):
    """G-E29, the text."""
    # 1.3: Adam, learning rate 0.02, 300 epochs; batch 256 (MNIST), 4 (CIFAR10)
    config = preset(name)
    assert (config.optimizer, config.learning_rate, config.epochs) == ("adam", 0.02, 300)
    assert config.batch_size == batch_size
    assert config.schedule == Constant()


def test_guha23_released_is_what_the_code_runs():
    """G-E29, the configuration that was run."""
    # 1.4: SGD momentum 0.9, weight decay 1e-4; lr 0.01 with steps at 40, 80, ..., 240
    config = preset("guha23-released")
    assert (config.optimizer, config.momentum, config.weight_decay) == ("sgd", 0.9, 1e-4)
    rates = [
        config.learning_rate * config.schedule.factor(epoch, config.epochs) for epoch in (0, 39, 40, 80, 299)
    ]
    assert rates == pytest.approx([1e-2, 1e-2, 1e-3, 1e-4, 1e-8])


def test_unknown_preset_lists_the_known_ones():
    with pytest.raises(UsageError, match=r"'arora'. Known: arora18, guha23"):
        preset("arora")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("optimizer", "lion"),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("learning_rate", float("inf")),
        ("momentum", 1.0),
        ("momentum", -0.1),
        ("weight_decay", -1e-4),
        ("epochs", -1),
        ("batch_size", 0),
        ("label_shuffle", 1.5),
        ("label_shuffle", float("nan")),
        ("augment", "mixup"),
        ("precision", "float16"),
        ("checkpoint_every", 0),
    ],
)
def test_values_out_of_range_are_refused_by_name(field, value):
    with pytest.raises(UsageError, match=f"`{field}` must be .* Got {value!r}"):
        TrainConfig(**{field: value})


def test_contradictions_are_refused():
    with pytest.raises(UsageError, match="warm-up"):
        TrainConfig(epochs=5, schedule=Cosine(warmup=5))


def test_record_is_json_and_leaves_out_what_cannot_change_the_weights():
    config = TrainConfig(schedule=Step(30, 0.5))
    assert json.loads(json.dumps(config.record())) == config.record()
    assert replace(config, keep_every=3, checkpoint_every=2).record() == config.record()
    assert replace(config, seed=1).record() != config.record()
    assert replace(config, precision="bfloat16").record()["precision"] == "bfloat16"

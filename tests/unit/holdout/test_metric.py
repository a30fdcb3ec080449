"""The metric against the calculator, whatever the batches, and callbacks with the real libraries."""

import math
import sys
from types import SimpleNamespace

import pytest
import torch
from scipy.stats import beta
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import codebound as cb
from codebound.holdout.metric import RiskBoundMetric, lightning_callback, measured, trainer_callback
from codebound.run.errors import UsageError


def batches(seed: int = 0, n: int = 200):
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, 3, generator=draw)
    labels = torch.randint(3, (n,), generator=draw)
    return scores, labels


def test_batches_add_up_to_the_limit_of_all():
    scores, labels = batches()
    metric = RiskBoundMetric(classes=3)
    for part in torch.arange(200).split(33):
        metric(scores[part], labels[part])
    errors = int((scores.argmax(1) != labels).sum())
    found = metric.compute()
    assert (found.errors, found.n) == (errors, 200)
    assert found.upper == pytest.approx(beta.ppf(0.95, errors + 1, 200 - errors), rel=1e-9)
    assert metric.compute() == found  # the same look


def test_classes_have_a_table_that_shares_delta():
    scores, labels = batches(1)
    metric = RiskBoundMetric(classes=4, has_classes=True)
    wide = torch.nn.functional.pad(scores, (0, 1), value=-9.0)
    metric.update(wide, labels)
    table = metric.compute().by_class
    assert table[3] is None
    for c in range(3):
        n = int((labels == c).sum())
        errors = int(((scores.argmax(1) != labels) & (labels == c)).sum())
        assert table[c] == pytest.approx(beta.ppf(1 - 0.05 / 4, errors + 1, n - errors), rel=1e-9)


def test_predicted_classes_and_other_faults():
    metric = RiskBoundMetric(classes=3, fault="confused:0:2")
    metric.update(torch.tensor([2, 1, 0, 2]), torch.tensor([0, 0, 0, 1]))
    assert (metric.compute().errors, metric.compute().n) == (1, 3)


def test_every_network_is_a_look_and_looks_are_planned():
    metric = RiskBoundMetric(classes=3, looks=2)
    for _ in range(2):
        metric.update(*batches())
        metric.compute()
        metric.reset()
    metric.update(*batches())
    with pytest.raises(UsageError, match="look 3 of 2"):
        metric.compute()
    one = RiskBoundMetric(classes=3)
    one.update(*batches())
    two = RiskBoundMetric(classes=3, looks=2)
    two.update(*batches())
    assert two.compute().upper > one.compute().upper


def test_nothing_counted_says_nothing():
    metric = cb.RiskBoundMetric(classes=3, fault="class:2")
    metric.update(torch.tensor([0]), torch.tensor([0]))
    found = metric.compute()
    assert (found.n, found.upper) == (0, 1.0)
    assert math.isnan(found.error_rate)


def test_what_no_batch_is_is_refused():
    metric = RiskBoundMetric(classes=3)
    with pytest.raises(UsageError, match="shape"):
        metric.update(torch.zeros(2, 4), torch.tensor([0, 1]))
    with pytest.raises(UsageError, match="as integers"):
        metric.update(torch.zeros(2), torch.tensor([0, 1]))
    with pytest.raises(UsageError, match="looks"):
        RiskBoundMetric(classes=3, looks=0)


N = 60


def loaded():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(N, 3, generator=draw)
    return DataLoader(TensorDataset(x, x.argmax(1)), batch_size=25)


def test_the_network_is_measured_in_evaluation_mode_and_left_as_it_was():
    network = nn.Sequential(nn.Dropout(0.9), nn.Linear(3, 3, bias=False))
    with torch.no_grad():
        network[1].weight.copy_(torch.eye(3))
    found = measured(network, RiskBoundMetric(classes=3), loaded())
    assert (found.errors, found.n) == (0, N)
    assert network.training


class Opposite(nn.Module):
    """Always wrong: the inputs as logits, with another sign."""

    def forward(self, x, mask=-1.0):
        return SimpleNamespace(logits=x * mask)


@pytest.mark.parametrize(
    "given", [loaded(), [{"x": x, "mask": -torch.ones(3), "labels": y} for x, y in loaded()]]
)
def test_outputs_may_carry_logits_and_batches_may_have_names(given):
    found = measured(Opposite(), RiskBoundMetric(classes=3), given)
    assert (found.errors, found.n) == (N, N)


@pytest.mark.parametrize(
    ("package", "modules", "make"),
    [
        ("lightning", ("lightning.pytorch", "pytorch_lightning"), lightning_callback),
        ("transformers", ("transformers",), trainer_callback),
    ],
)
def test_a_library_that_is_not_there_is_named(monkeypatch, package, modules, make):
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=f"{package} is not installed"):
        make(RiskBoundMetric(classes=3), loaded())


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning(tmp_path, name):
    lightning = pytest.importorskip(name)

    class Task(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(x)

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callback = lightning_callback(RiskBoundMetric(classes=3), loaded())
    trainer = lightning.Trainer(
        max_epochs=1,
        callbacks=[callback],
        logger=lightning.loggers.CSVLogger(tmp_path),
        accelerator="cpu",
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    )
    model = Task()
    trainer.fit(model, loaded())
    errors = sum(int((model(x).argmax(1) != y).sum()) for x, y in loaded())
    assert (callback.found.errors, callback.found.n) == (errors, N)
    trainer.logger.save()
    assert "certified_error" in next(tmp_path.rglob("metrics.csv")).read_text()


@pytest.mark.thorough
def test_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x, labels=None):
            logits = self.layer(x)
            loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
            return transformers.modeling_outputs.SequenceClassifierOutput(loss=loss, logits=logits)

    examples = [{"x": x, "labels": y} for x, y in loaded().dataset]
    callback = trainer_callback(RiskBoundMetric(classes=3), loaded())
    settings = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
    )
    trainer = transformers.Trainer(Model(), settings, train_dataset=examples, callbacks=[callback])
    trainer.train()
    assert callback.found.n == N
    assert any("certified_error" in line for line in trainer.state.log_history)

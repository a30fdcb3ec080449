"""Callbacks with the real libraries where they are installed, and what is measured without any."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from codebound.holdout.callbacks import lightning_callback, measured, trainer_callback
from codebound.holdout.metric import RiskBoundMetric
from codebound.run.errors import UsageError

N = 60


def batches():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(N, 3, generator=draw)
    return DataLoader(TensorDataset(x, x.argmax(1)), batch_size=25)


def test_the_network_is_measured_in_evaluation_mode_and_left_as_it_was():
    network = nn.Sequential(nn.Dropout(0.9), nn.Linear(3, 3, bias=False))
    with torch.no_grad():
        network[1].weight.copy_(torch.eye(3))
    found = measured(network, RiskBoundMetric(classes=3), batches())
    assert (found.errors, found.n) == (0, N)
    assert network.training


class Opposite(nn.Module):
    """Always wrong: the inputs as logits, with another sign."""

    def forward(self, x, mask=-1.0):
        return SimpleNamespace(logits=x * mask)


@pytest.mark.parametrize(
    "given", [batches(), [{"x": x, "mask": -torch.ones(3), "labels": y} for x, y in batches()]]
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
        make(RiskBoundMetric(classes=3), batches())


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

    callback = lightning_callback(RiskBoundMetric(classes=3), batches())
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
    trainer.fit(model, batches())
    errors = sum(int((model(x).argmax(1) != y).sum()) for x, y in batches())
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

    examples = [{"x": x, "labels": y} for x, y in batches().dataset]
    callback = trainer_callback(RiskBoundMetric(classes=3), batches())
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

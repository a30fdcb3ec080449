"""The error that a training loop of another library ends with, and what test examples prove about it.

One look, after the last step: at the end the network is fixed, and the examples were used for no choice. The
libraries are imported when they are asked for; neither is needed otherwise.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor, nn

    from codebound.holdout.metric import MeasuredRisk, RiskBoundMetric

    Batches = Iterable[tuple[Tensor, Tensor] | Mapping[str, Tensor]]

_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
"""Two names of one library, whose trainers take callbacks of their own name alone."""


def lightning_callback(metric: RiskBoundMetric, batches: Batches) -> Any:
    """A callback for a ``Trainer`` of Lightning: after fitting, it measures the network on test batches.

    What was found is its attribute ``found``; ``certified_error`` and ``error_rate`` go to the loggers. It
    fits ``lightning`` and ``pytorch_lightning``, whichever is imported.

    Args:
        metric: What to count; its looks are planned.
        batches: Inputs and labels that took no part in training or choosing, such as a ``DataLoader``: pairs,
            or mappings with ``labels``, whose other entries are arguments of the network.
    """
    callback_types = _bases(_LIGHTNING, "Callback", "lightning")

    class RiskBoundCallback(*callback_types):  # type: ignore[misc]
        """Measures once, when fitting ends."""

        found: MeasuredRisk | None = None

        def on_fit_end(self, trainer: Any, pl_module: nn.Module) -> None:
            """Measures, and tells every logger."""
            self.found = measured(pl_module, metric, batches)
            for logger in trainer.loggers:
                logger.log_metrics(_numbers(self.found), step=trainer.global_step)

    return RiskBoundCallback()


def trainer_callback(metric: RiskBoundMetric, batches: Batches) -> Any:
    """The same for the ``Trainer`` of Hugging Face's transformers; the numbers go to its log history."""
    (callback_type,) = _bases(("transformers",), "TrainerCallback", "transformers")

    class RiskBoundCallback(callback_type):  # type: ignore[misc, valid-type]
        """Measures once, when training ends."""

        found: MeasuredRisk | None = None

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Measures, and adds to the history."""
            self.found = measured(kwargs["model"], metric, batches)
            state.log_history.append({**_numbers(self.found), "step": state.global_step})

    return RiskBoundCallback()


@torch.no_grad()
def measured(network: nn.Module, metric: RiskBoundMetric, batches: Batches) -> MeasuredRisk:
    """Measure a network on batches, in evaluation mode on its own device. Outputs may carry logits."""
    place = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    was_training = network.training
    network.eval()
    try:
        metric.reset()
        for batch in batches:
            if isinstance(batch, Mapping):
                named = {name: value.to(place) for name, value in batch.items() if name != "labels"}
                outputs, labels = network(**named), batch["labels"]
            else:
                inputs, labels = batch
                outputs = network(inputs.to(place))
            metric.update(getattr(outputs, "logits", outputs), labels)
        return metric.compute()
    finally:
        network.train(was_training)


def _numbers(found: MeasuredRisk) -> dict[str, float]:
    return {"certified_error": found.upper, "error_rate": found.error_rate}


def _bases(modules: Sequence[str], name: str, package: str) -> tuple[type, ...]:
    """The classes that a library's callbacks are made from: all that are imported, or one that can be."""
    found = [module for module in modules if sys.modules.get(module)] or modules
    bases = []
    for module in found:
        with suppress(ImportError):
            bases.append(getattr(importlib.import_module(module), name))
    if not bases:
        raise UsageError(f"{package} is not installed: pip install {package}.")
    return tuple(bases)

"""Settings of training: optimiser, schedule, batches, labels, seed; and those of the papers.

A schedule is the factor on the learning rate as a closed form of the training time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias, get_args

from codebound.run.device import Precision
from codebound.run.errors import UsageError

OptimizerName = Literal["adam", "sgd"]
Augment = Literal["none", "crop", "flip-crop"]


class _Schedule:
    """Factor on the learning rate, with a text that ``parse_schedule`` reads."""

    def __str__(self) -> str:
        values = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        given = ",".join(f"{key}={value}" for key, value in values.items() if value is not None)
        return f"{type(self).__name__.lower()}:{given}".rstrip(":")


@dataclass(frozen=True)
class Constant(_Schedule):
    """The same learning rate throughout."""

    def factor(self, time: float, epochs: int) -> float:
        """Factor at ``time`` epochs after the start."""
        return 1.0


@dataclass(frozen=True)
class Step(_Schedule):
    """Multiplies the learning rate by ``multiply`` every ``every`` epochs, for the last time at ``last``.

    >>> halving = Step(every=30, multiply=0.5)
    >>> [halving.factor(time, 299) for time in (0.0, 29.9, 30.0, 60.0)]
    [1.0, 1.0, 0.5, 0.25]
    """

    every: int
    multiply: float
    last: int | None = None

    def __post_init__(self) -> None:
        if self.every < 1:
            raise UsageError(
                f"schedule step: `every` counts epochs and must be at least 1. Got {self.every}."
            )
        if not 0.0 < self.multiply <= 1.0:
            raise UsageError(f"schedule step: `multiply` must lie in (0, 1]. Got {self.multiply}.")
        if self.last is not None and self.last < self.every:
            raise UsageError(
                f"schedule step: `last` must be at least `every`. Got {self.last} < {self.every}."
            )

    def factor(self, time: float, epochs: int) -> float:
        """Factor at ``time`` epochs after the start."""
        until = time if self.last is None else min(time, self.last)
        return self.multiply ** math.floor(until / self.every)


@dataclass(frozen=True)
class Cosine(_Schedule):
    """Rises linearly during ``warmup`` epochs, then falls to zero along half a cosine.

    >>> [round(Cosine(warmup=2).factor(time, 10), 3) for time in (0, 1, 2, 6, 10)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    warmup: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.warmup < math.inf:
            raise UsageError(f"schedule cosine: `warmup` counts epochs, at least 0. Got {self.warmup}.")

    def factor(self, time: float, epochs: int) -> float:
        """Factor at ``time`` epochs after the start of a training of ``epochs`` epochs."""
        if time < self.warmup:
            return time / self.warmup
        return 0.5 * (1.0 + math.cos(math.pi * (time - self.warmup) / (epochs - self.warmup)))


Schedule: TypeAlias = Constant | Step | Cosine

_FORMS = "constant | step:every=30,multiply=0.5[,last=240] | cosine[:warmup=5]"


def parse_schedule(spec: str) -> Schedule:
    """Reads a schedule as the command line writes it. ``str(schedule)`` is the inverse.

    >>> parse_schedule("step:every=30,multiply=0.5")
    Step(every=30, multiply=0.5, last=None)
    >>> str(parse_schedule("cosine:warmup=5"))
    'cosine:warmup=5.0'
    """
    name, _, tail = spec.partition(":")
    try:
        values = dict(item.split("=") for item in tail.split(",")) if tail else {}
        match name, sorted(values):
            case "constant", []:
                return Constant()
            case "cosine", [] | ["warmup"]:
                return Cosine(warmup=float(values.get("warmup", 0.0)))
            case "step", ["every", "multiply"]:
                return Step(every=int(values["every"]), multiply=float(values["multiply"]))
            case "step", ["every", "last", "multiply"]:
                return Step(int(values["every"]), float(values["multiply"]), int(values["last"]))
    except UsageError:
        raise
    except ValueError:
        pass  # not of the form name=number: answered below like every other misspelling
    raise UsageError(f"unknown schedule {spec!r}. Write one of: {_FORMS}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """Settings of a training run with cross-entropy loss."""

    optimizer: OptimizerName = "adam"  # ``"adam"`` or ``"sgd"``
    learning_rate: float = 1e-3  # learning rate before the schedule, > 0
    momentum: float = 0.9  # SGD's momentum, Adam's beta1; in [0, 1)
    weight_decay: float = 0.0  # coefficient of the L2 penalty that is added to the gradient, >= 0
    schedule: Schedule = field(default_factory=Constant)  # factor on the learning rate over time
    epochs: int = 20  # passes over the training set, >= 0
    batch_size: int = 128  # examples a step, >= 1
    # fraction of the training labels that is redrawn uniformly; see ``shuffle_labels``
    label_shuffle: float = 0.0
    # ``"crop"`` shifts each image by up to 4 pixels, ``"flip-crop"`` also mirrors half of them
    augment: Augment = "none"
    # ``"bfloat16"`` has products and convolutions of the forward and backward pass in that format, which is
    # several times as fast on recent GPUs; ``"tensorfloat32"`` rounds the factors of products to 10 bits, on
    # GPUs alone. Weights stay as they are, and so do the passes that count errors
    precision: Precision = "float32"
    seed: int = 0  # seed of the batch order, dropout, augmentation and label shuffling; in [0, 2^63)
    checkpoint_every: int = 1  # epochs between two checkpoints, where there is a run folder, >= 1
    keep_every: int = 0  # weights are kept in the run folder every so many epochs; 0: only those at the end

    def __post_init__(self) -> None:
        def require(holds: bool, name: str, range_: str) -> None:
            if not holds:
                raise UsageError(f"`{name}` must be {range_}. Got {getattr(self, name)!r}.")

        require(self.optimizer in get_args(OptimizerName), "optimizer", "'adam' or 'sgd'")
        require(0.0 < self.learning_rate < math.inf, "learning_rate", "a positive number")
        require(0.0 <= self.momentum < 1.0, "momentum", "in [0, 1)")
        require(0.0 <= self.weight_decay < math.inf, "weight_decay", "a number of at least 0")
        require(self.epochs >= 0, "epochs", "at least 0")
        require(self.batch_size >= 1, "batch_size", "at least 1")
        require(0.0 <= self.label_shuffle <= 1.0, "label_shuffle", "a fraction in [0, 1]")
        require(self.augment in get_args(Augment), "augment", f"one of {', '.join(get_args(Augment))}")
        require(
            self.precision in get_args(Precision), "precision", f"one of {', '.join(get_args(Precision))}"
        )
        require(0 <= self.seed < 2**63, "seed", "in [0, 2^63)")
        require(self.checkpoint_every >= 1, "checkpoint_every", "at least 1")
        require(self.keep_every >= 0, "keep_every", "at least 0 (0: only at the end)")
        if isinstance(self.schedule, Cosine) and 0 < self.epochs <= self.schedule.warmup:
            raise UsageError(
                f"the warm-up must be shorter than the training. "
                f"Got {self.schedule.warmup} of {self.epochs} epochs."
            )

    def record(self) -> dict[str, object]:
        """The settings that determine the trained weights, as JSON values."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        del values["checkpoint_every"], values["keep_every"]
        return {**values, "schedule": str(self.schedule)}


PRESETS: dict[str, TrainConfig] = {
    # A 2.8: VGG-19 and AlexNet on CIFAR-10
    "arora18": TrainConfig(
        optimizer="sgd",
        learning_rate=0.05,
        momentum=0.9,
        weight_decay=5e-4,
        schedule=Step(every=30, multiply=0.5),
        epochs=299,
        batch_size=128,
    ),
    # G 1.3, the text: MLPs on MNIST
    "guha23": TrainConfig(optimizer="adam", learning_rate=0.02, epochs=300, batch_size=256),
    # G 1.3, the text: MLPs on CIFAR-10
    "guha23-cifar10": TrainConfig(optimizer="adam", learning_rate=0.02, epochs=300, batch_size=4),
    # G 1.4, what the released code runs on CIFAR-10 (batch size of its second version)
    "guha23-released": TrainConfig(
        optimizer="sgd",
        learning_rate=0.01,
        momentum=0.9,
        weight_decay=1e-4,
        schedule=Step(every=40, multiply=0.1, last=240),
        epochs=300,
        batch_size=64,
    ),
}
"""The papers' settings by name; change a field with ``dataclasses.replace``."""


def preset(name: str) -> TrainConfig:
    """The settings of a paper.

    >>> preset("arora18").learning_rate
    0.05
    """
    if name not in PRESETS:
        raise UsageError(f"unknown preset {name!r}. Known: {', '.join(PRESETS)}.")
    return PRESETS[name]

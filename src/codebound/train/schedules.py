"""Learning-rate schedules: the factor on the learning rate as a closed form of the training time."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TypeAlias

from codebound.errors import UsageError


@dataclass(frozen=True, slots=True)
class Constant:
    """The same learning rate throughout."""

    def factor(self, time: float, epochs: int) -> float:
        """Factor at ``time`` epochs after the start."""
        return 1.0

    def __str__(self) -> str:
        return _spec("constant", self)


@dataclass(frozen=True, slots=True)
class Step:
    """Multiplies the learning rate by ``multiply`` every ``every`` epochs, for the last time at ``last``.

    Example:
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

    def __str__(self) -> str:
        return _spec("step", self)


@dataclass(frozen=True, slots=True)
class Cosine:
    """Rises linearly during ``warmup`` epochs, then falls to zero along half a cosine.

    Example:
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

    def __str__(self) -> str:
        return _spec("cosine", self)


Schedule: TypeAlias = Constant | Step | Cosine

_FORMS = "constant | step:every=30,multiply=0.5[,last=240] | cosine[:warmup=5]"


def parse_schedule(spec: str) -> Schedule:
    """Reads a schedule as the command line writes it; ``str(schedule)`` is the inverse.

    Example:
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


def _spec(name: str, schedule: Schedule) -> str:
    values = {field.name: getattr(schedule, field.name) for field in fields(schedule)}
    given = ",".join(f"{key}={value}" for key, value in values.items() if value is not None)
    return f"{name}:{given}" if given else name

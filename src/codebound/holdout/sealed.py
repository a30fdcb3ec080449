"""Sealing a test set, and looking at it: the only two ways in which a ledger changes."""

from __future__ import annotations

import datetime
import hashlib
import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import torch

from codebound.bounds.facts import LookFacts, check_delta
from codebound.bounds.held_out import ladder_bits, looked_risk
from codebound.bounds.lengths import log2_up
from codebound.bounds.risk import count_of
from codebound.holdout.ledger import (
    Ledger,
    examples_sha256,
    read_ledger,
    require_latest,
    require_unsealed,
    with_line,
    write_ledger,
)
from codebound.run.errors import CertificateError, DataError, UsageError
from codebound.run.store import hold_lock, lock_beside
from codebound.sample.arrays import from_arrays
from codebound.sample.caveats import find_copies
from codebound.sample.dataset import arrays_sha256
from codebound.sample.losses import WRONG, Loss, counted_examples, parse_loss

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from codebound.sample.dataset import Dataset

Answers = Literal["levels", "exact", "pass"]
"""Kinds of answers: level below the best, number of errors, target met."""
MOST_LOOKS = 1 << 32
_MOST_COPIES = 100  # one example in so many may be a copy of an earlier one
_NEW = ("cost-above",)  # losses that the first version of the ledger had no word for


@dataclass(frozen=True, slots=True)
class SealSettings:
    """Settings that are fixed before the first look.

    Attributes:
        looks: Looks intended; None for no end, where later ones cost more.
        answers: What a look tells, for which every later look at a network that is not listed pays. By
            default exact where there is no such look, else by levels.
        delta: Failure probability of all looks together.
        target: Error that the limit should not exceed; needed for ``pass``.
        step: Distance of two levels as a share of the examples; by default a quarter of ``1/sqrt(n)``.
        loss: What is counted.
        by_class: Whether every answer, where answers are exact, and the final one tell the errors on each
            class; all limits hold at once.
        models: Identities (:func:`identity`) of networks that are fixed already: they pay for no answers.
    """

    looks: int | None = 1
    answers: Answers | None = None
    delta: float = 0.05
    target: float | None = None
    step: float | None = None
    loss: Loss = WRONG
    models: tuple[str, ...] = ()
    by_class: bool = False

    def __post_init__(self) -> None:
        check_delta(self.delta)
        if self.looks is not None and not 1 <= self.looks <= MOST_LOOKS:
            raise UsageError(f"`looks` counts the looks intended, from 1 on. Got {self.looks}.")
        if self.answers is None:
            is_free = self.looks is not None and self.looks in (1, len(self.models))
            object.__setattr__(self, "answers", "exact" if is_free and self.step is None else "levels")
        if self.by_class and self.loss.is_of_values:
            raise UsageError("values have no classes: leave out by_class.")
        if self.answers not in get_args(Answers):
            raise UsageError(f"`answers` is {', '.join(get_args(Answers))}. Got {self.answers!r}.")
        if self.target is not None and not 0.0 < self.target < 1.0:
            raise UsageError(f"`target` is an error strictly between 0 and 1. Got {self.target}.")
        if self.answers == "pass" and self.target is None:
            raise UsageError("answers that say whether the target is met need a target.")
        if self.step is not None and (self.answers != "levels" or not 0.0 < self.step < 1.0):
            raise UsageError(f"`step` is a share in (0, 1), for answers by levels. Got {self.step}.")
        if len(set(self.models)) != len(self.models) or len(self.models) > (self.looks or 0):
            raise UsageError(
                f"{len(self.models)} listed networks need as many looks, planned in number and none twice. "
                f"Got looks={'open' if self.looks is None else self.looks}."
            )

    def levels(self, n: int) -> list[int] | None:
        """The levels of its answers for n examples; None where answers are exact.

        Raises:
            UsageError: The target cannot be met, not even without errors.
        """
        if self.answers == "exact":
            return None
        if self.answers == "pass":
            return [self._most_errors(n)]
        step = math.ceil(n * self.step) if self.step is not None else math.ceil(math.sqrt(n) / 4.0)
        return list(range((n - 1) // step * step, -1, -step))

    def _most_errors(self, n: int) -> int:
        """The most errors with which the last look still meets the target, if all before failed."""
        assert self.target is not None
        if self.looks is None:
            raise UsageError("answers that say whether the target is met need a number of looks.")
        last = self.looks - len(self.models)
        bits = ladder_bits([None] * (self.looks - 1), [0]) + (1.0 if self.by_class else 0.0)

        def limit(errors: int) -> float:
            facts = LookFacts(
                errors=errors, n=n, delta=self.delta, looks=self.looks, number=max(1, last), answer_bits=bits
            )
            return looked_risk(facts).value

        if limit(0) > self.target:
            raise UsageError(
                f"{n} examples cannot show an error of at most {self.target} after "
                f"{count_of(self.looks, 'look')}, not even without an error. Take more examples, fewer "
                "looks, or a larger target."
            )
        return bisect_right(range(1, n), self.target, key=limit)


@dataclass(frozen=True, eq=False)
class Values:
    """A sample with values.

    Attributes:
        name: What it is called.
        x: The inputs, as a sample of classes has them.
        y: The values, in float64.
    """

    name: str
    x: NDArray[np.generic]
    y: NDArray[np.float64]
    classes: ClassVar[None] = None

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.y)

    @cached_property
    def sha256(self) -> str:
        """Hash of inputs and values (docs/looks.md)."""
        return arrays_sha256(self.x, self.y)

    def rank(self) -> Dataset:
        """The same with the rank of each value as its label: equal ones stay equal."""
        return from_arrays(self.x, np.unique(self.y, return_inverse=True)[1], name=self.name, role="test")


def seal(data: Dataset | Values, settings: SealSettings, path: Path, *, allow_copies: bool = False) -> Ledger:
    """Freezes a test set: writes the first line of its ledger.

    Args:
        data: The examples.
        settings: What is fixed before the first look.
        path: Where the ledger goes; a new file.
        allow_copies: Whether more than one example in a hundred may be an exact copy of an earlier one:
            whoever says so declares that they are independent draws.

    Raises:
        CertificateError: Too many are copies: no bound holds for examples that were repeated.
        UsageError: The file exists, or these examples were sealed on this machine before, in any order and
            type of number.
    """
    if data.classes is not None:
        settings.loss.check_labels(range(data.classes))
    n = counted_examples(settings.loss, torch.from_numpy(data.y))
    if path.exists():
        raise UsageError(f"{path} exists already; a seal is never replaced. Choose another file.")
    examples = data.rank() if isinstance(data, Values) else data
    rows = examples_sha256(examples)
    require_unsealed(data.sha256, rows)
    _require_few_copies(examples, allow_copies=allow_copies)
    record: dict[str, Any] = {
        "kind": "seal",
        "version": 1,
        "date": _now(),
        "data": {"name": data.name[:400], "sha256": data.sha256, "examples": data.n, "classes": data.classes},
        "fault": str(settings.loss),  # the word of docs/looks.md
        "n": n,
        "delta": settings.delta,
        "looks": settings.looks,
        "models": list(settings.models),
        "levels": settings.levels(n),
        "target": settings.target,
    }
    if settings.by_class or settings.loss.kind in _NEW or data.classes is None:
        sizes = np.bincount(data.y, minlength=data.classes or 0).tolist() if settings.by_class else None
        record |= {"version": 2, "by_class": sizes}
    ledger = with_line(path, record)
    write_ledger(ledger, rows)
    return ledger


def _require_few_copies(data: Dataset, *, allow_copies: bool) -> None:
    copies = int(find_copies(data).sum())
    if _MOST_COPIES * copies > data.n and not allow_copies:
        raise CertificateError(
            f"{data.name}: {count_of(copies, 'example')} of {data.n} occur before, more than one in "
            f"{_MOST_COPIES}. Where examples were repeated no bound holds: leave out what was repeated. "
            f"Where they are independent draws that happen to be equal, declare that (allow_copies)."
        )


def look(
    path: Path, data: Dataset | Values, scores: Tensor, *, name: str, identity: str, is_final: bool = False
) -> Ledger:
    """Tries a network on sealed examples, once, and writes the answer before anybody hears it.

    Args:
        path: The ledger.
        data: The sealed examples.
        scores: What the network says of each example, a row of scores or a value.
        name: What the network is called, in words.
        identity: What names the network, by :func:`identity`.
        is_final: Whether this is the last look: it tells the exact number of errors.

    Raises:
        UsageError: The seal does not allow this look.
        DataError: These are not the sealed examples.
    """
    # between reading a ledger and adding to it no line may come in
    with hold_lock(lock_beside(path), f"a look through {path}", is_kept=False):
        ledger = read_ledger(path)
        require_latest(ledger)
        told = ledger.seal
        if data.sha256 != told["data"]["sha256"]:
            raise DataError(
                f"{data.name} is not what {path} seals: its SHA-256 is {data.sha256}, "
                f"sealed was {told['data']['sha256']}. A look is made with the sealed examples only."
            )
        is_listed = identity in told["models"]
        _require_allowed(ledger, identity, is_listed=is_listed, is_final=is_final)
        labels = torch.from_numpy(data.y)
        if len(scores) != data.n:
            raise DataError(f"there are scores of {len(scores)} examples, and {data.n} were sealed.")
        errors = int(parse_loss(told["fault"]).is_incurred(scores, labels).sum())  # ties and NaN are losses
        bits = 0.0 if is_listed else ledger.answer_bits
        answer = _answer(ledger, errors, is_final=is_final)
        record: dict[str, Any] = {
            "kind": "look",
            "date": max(_now(), (ledger.looks or (told,))[-1]["date"]),
            "model": {"name": name[:400], "sha256": identity},
            "listed": is_listed,
            "final": is_final,
            "answer": answer,
            "answer_bits": bits,
            "bound": None,
            "meets": None,
        }
        if told["version"] > 1:
            record |= {"tally": None, "by_class": None}
        if answer is not None:
            facts = LookFacts(
                errors=answer,
                n=told["n"],
                delta=told["delta"],
                looks=told["looks"],
                number=1 if is_listed else ledger.unlisted + 1,
                answer_bits=bits,
            )
            record |= _limits(told, facts, scores, labels, is_final=is_final)
            record["meets"] = None if told["target"] is None else record["bound"] <= told["target"]
        grown = with_line(path, record, ledger)
        write_ledger(grown, examples_sha256(data.rank() if isinstance(data, Values) else data))
        return grown


def _limits(
    seal: Mapping[str, Any], facts: LookFacts, scores: Tensor, labels: Tensor, *, is_final: bool
) -> dict[str, Any]:
    """The limits that one look proves, by their names in the line. They share its level (docs/looks.md)."""
    sizes = seal.get("by_class")
    if not sizes:
        return {"bound": looked_risk(facts).value}
    # in bits: half of the level is for the table
    found: dict[str, Any] = {"bound": looked_risk(replace(facts, answer_bits=facts.answer_bits + 1.0)).value}
    if is_final or seal["levels"] is None:
        wrong = torch.bincount(labels[WRONG.is_incurred(scores, labels)], minlength=len(sizes)).tolist()
        apart = replace(facts, answer_bits=facts.answer_bits + (1.0 + log2_up(len(sizes))))
        found["by_class"] = [
            [errors, looked_risk(replace(apart, errors=errors, n=size)).value if size else None]
            for errors, size in zip(wrong, sizes, strict=True)
        ]
    return found


def _require_allowed(ledger: Ledger, identity: str, *, is_listed: bool, is_final: bool) -> None:
    told, looks = ledger.seal, ledger.looks
    if looks and looks[-1]["final"]:
        raise UsageError(f"{ledger.path} is closed: its final look was made. Seal fresh examples.")
    for number, before in enumerate(looks, start=1):
        if before["model"]["sha256"] == identity and not is_final:
            raise UsageError(
                f"look {number} was at this very network: see its line. A final look may repeat it."
            )
    planned = told["looks"]
    if not is_listed and planned is not None and ledger.unlisted >= planned - len(told["models"]):
        looks_are = count_of(planned, "look that was planned is", "looks that were planned are")
        raise UsageError(
            f"the {looks_are} spent or kept for listed networks: nothing more can be said with "
            "these examples. Seal fresh ones, with more looks or with looks=open."
        )


def _answer(ledger: Ledger, errors: int, *, is_final: bool) -> int | None:
    """Return the answer of a look for a count of losses."""
    levels = ledger.seal["levels"]
    if levels is None or is_final:
        return errors
    best = min((each["answer"] for each in ledger.looks if each["answer"] is not None), default=math.inf)
    return min((level for level in levels if errors <= level < best), default=None)


def identity(path: Path, *, model: str = "") -> str:
    """Return the identity of a network in a ledger.

    It is the hash of how the network is built and of the bytes of its file.
    """
    try:
        return hashlib.sha256(f"{model}\n".encode() + path.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

"""Counting on the decoded network, in float64, so that no two machines can disagree (docs/format.md, 6)."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from codebound.run.extensions import form_of
from codebound.run.job import over_shards
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.losses import WRONG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor, nn

    from codebound.run.job import Engine
    from codebound.sample.dataset import Dataset, DeviceData, Scaling
    from codebound.sample.losses import Loss

TOLERANCE = 1e-4
"""Share of the largest absolute logit that a margin must exceed; the verifier uses half of it."""
ROUNDING = 0.5e-5
"""Share of the largest absolute logit that the bound of its error may be; the verifier uses twice as much."""
_FLOAT32_SHARE = 2.0**-10
"""Share of what float32 is off that is taken for the error of float64, where no bound is known."""
_SCREEN = 100.0 * TOLERANCE
"""Share of the largest absolute logit beyond which a margin is decided in float32."""
_COMPARED_EXAMPLES = 4096
_LARGEST_CHUNK = 2048
_ROWS = 500  # of a table, at a time
_CHUNK_NUMBERS = 1 << 18  # in the inputs of a chunk: convolutions hold some hundred times as many


@dataclass(frozen=True, slots=True)
class Count:
    """Result of an evaluation.

    Attributes:
        errors: Examples that are wrong, ambiguous or not finite.
        float32_deviation: Largest difference between float32 and float64 logits, as a share of the largest
            absolute logit of the example, over the first examples.
    """

    errors: int
    float32_deviation: float


@torch.no_grad()
def count_errors(
    network: nn.Module,
    sample: DeviceData,
    *,
    theta: float = 0.0,
    loss: Loss = WRONG,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Count:
    """Counts the examples whose float64 margin is at most ``theta`` plus the tolerance, or not sure to be.

    Convolutions are several times slower in float64. Margins far from the limit, a hundred tolerances and
    more, are therefore decided in float32, unless the two differ too much on the first examples.

    Args:
        network: Evaluated in both; float32 when this returns.
        sample: The examples, on the device of the network.
        theta: Margin to exceed.
        loss: What counts, where it is no plain error; it has to be about all of the examples.
        engine: Where to count, one part of the sample on each of its workers; None: here.
        progress: Told the examples done.
    """
    chunk_size = chunk_size_of(sample)
    deviation = _float32_deviation(network, sample, chunk_size)
    screen = _SCREEN if deviation < _SCREEN / 10.0 else math.inf
    settings = {"theta": theta, "loss": loss, "screen": screen, "chunk_size": chunk_size}
    arguments: dict[str, Any] = {"network": network, "sample": sample, **settings}
    if engine is None:
        errors = errors_in(**arguments, progress=progress)
    else:
        parts = over_shards(f"{__name__}:errors_in", arguments, of="sample", engine=engine, progress=progress)
        errors = sum(parts)
    network.float()
    return Count(errors, deviation)


@torch.no_grad()
def errors_in(
    network: nn.Module,
    sample: DeviceData,
    *,
    theta: float,
    loss: Loss,
    screen: float,
    chunk_size: int,
    progress: Progress = silent,
) -> int:
    """Losses in one part of a sample; margins within ``screen`` of the limit are those of float64."""
    evaluate = _Evaluation(network, sample.scaling)
    errors = done = 0
    for x, y in sample.chunks(chunk_size, torch.float64):
        if math.isfinite(screen):
            logits, is_sure = evaluate.narrow(x)
            leads = loss.leads(logits, y) - theta
            # negated, so that NaN is not clear
            is_close = ~(leads.abs() > screen * logits.abs().amax(dim=1))
            errors += int((((leads < 0.0) | ~is_sure) & ~is_close).sum())
            x, y = x[is_close], y[is_close]
        if len(y):
            logits, is_sure = evaluate.wide(x)
            errors += int((_are_losses(logits, y, theta, loss) | ~is_sure).sum())
        done += chunk_size
        progress(min(done, sample.n), sample.n)
    return errors


class _Evaluation:
    """A network in both precisions: logits, and whether float64 is sure to have them right.

    For a chain that is a theorem; for other networks it is judged by what float32 makes of them.
    """

    def __init__(self, network: nn.Module, scaling: Scaling) -> None:
        self._network, self._scaling = network, scaling
        self._wide = copy.deepcopy(network).double()
        rounding = form_of("rounding")
        self._bound = rounding() if rounding.knows(network) else None

    def narrow(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """In float32, which does not differ much if it is asked."""
        if self._bound is None:
            logits = self._network.float()(x.float())
            return logits, torch.ones(len(x), dtype=torch.bool, device=x.device)
        return self._evaluate_bounded(self._network.float(), x.float())

    def wide(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """In float64."""
        if self._bound is not None:
            return self._evaluate_bounded(self._wide, x)
        logits = self._wide(x)
        off = (self._network.float()(x.float()).double() - logits).abs().amax(dim=1)
        return logits, _FLOAT32_SHARE * off <= ROUNDING * logits.abs().amax(dim=1)

    def _evaluate_bounded(self, network: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        assert self._bound is not None
        logits, error = self._bound.logits(network, x, self._scaling)
        return logits, error <= ROUNDING * logits.abs().amax(dim=1)


@torch.no_grad()
def sure_share(network: nn.Module, sample: DeviceData) -> float:
    """Share of the examples whose float64 logits are sure to be right, among those whose logits differ.

    Whatever is not sure counts as an error; so do equal logits, sure or not.
    """
    evaluate = _Evaluation(network, sample.scaling)
    found = [evaluate.wide(x) for x, _ in sample.chunks(chunk_size_of(sample), torch.float64)]
    differ = torch.cat([logits.amin(dim=1) < logits.amax(dim=1) for logits, _ in found])
    is_sure = torch.cat([each for _, each in found])[differ]
    return float(is_sure.double().mean()) if len(is_sure) else 1.0


@torch.no_grad()
def estimate_error_rate(network: nn.Module, sample: DeviceData) -> float:
    """Share of the examples that are errors in float32: fast, for choosing among networks, for no claim."""
    narrow = network.float()
    chunks = sample.chunks(chunk_size_of(sample), torch.float32)
    return sum(int(_are_losses(narrow(x), y, 0.0).sum()) for x, y in chunks) / sample.n


def chunk_size_of(sample: DeviceData) -> int:
    """As many examples at a time as fit into a few hundred megabytes."""
    return max(1, min(_LARGEST_CHUNK, _CHUNK_NUMBERS // sample.x[0].numel()))


def _are_losses(logits: Tensor, labels: Tensor, theta: float, loss: Loss = WRONG) -> Tensor:
    # negated, so that NaN is a loss
    return ~(loss.leads(logits, labels) - theta > TOLERANCE * logits.abs().amax(dim=1))


def _float32_deviation(network: nn.Module, sample: DeviceData, chunk_size: int) -> float:
    worst, done = 0.0, 0
    for (narrow, _), (wide, _) in zip(
        sample.chunks(chunk_size, torch.float32), sample.chunks(chunk_size, torch.float64), strict=True
    ):
        exact = network.double()(wide)
        difference = (network.float()(narrow).double() - exact).abs().amax(dim=1)
        share = difference / exact.abs().amax(dim=1).clamp(min=1e-300)
        worst = max(worst, float(share.nan_to_num(nan=math.inf, posinf=math.inf).max()))
        done += len(exact)
        if done >= _COMPARED_EXAMPLES:
            break
    return worst


@implements("I-07", kind="algorithm")
@torch.no_grad()
def count_disagreements(
    first: nn.Module, second: nn.Module, sample: DeviceData, *, loss: Loss = WRONG
) -> int:
    """Inputs on which the answers of two networks differ, or are ambiguous for one of them.

    Args:
        first: One network.
        second: The other.
        sample: The inputs.
        loss: What is asked: as many guesses as it allows, whose order does not matter.
    """
    total = 0
    networks = [_Evaluation(network, sample.scaling) for network in (first, second)]
    for x, _ in sample.chunks(chunk_size_of(sample), torch.float64):
        (a, is_sound_a), (b, is_sound_b) = (_answers(*network.wide(x), loss) for network in networks)
        total += int((~(is_sound_a & is_sound_b & (a == b).all(dim=1))).sum())
    return total


def _answers(logits: Tensor, is_sure: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """The classes that win, in their own order, and whether that is so beyond the tolerance."""
    best = logits.topk(1 + loss.guesses, dim=1)
    lead = best.values[:, -2] - best.values[:, -1]
    is_sound = is_sure & logits.isfinite().all(dim=1) & (lead > TOLERANCE * logits.abs().amax(dim=1))
    return best.indices[:, :-1].sort(dim=1).values, is_sound


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of a network on every example of a sample.

    Attributes:
        labels: The class that wins.
        is_clear: Whether it does beyond the tolerance of counting.
        errors: Examples that count as errors, where there are labels to compare with.
    """

    labels: Tensor
    is_clear: Tensor
    errors: int = 0


def collect_answers(f: nn.Module, sample: DeviceData, *, engine: Engine | None = None) -> Answers:
    """The answers of a network, and its errors: one evaluation in float64, of every example.

    For whoever needs all answers anyway: ``count_errors`` saves the float64 where float32 tells. There are
    never fewer errors than it counts, and as many wherever float32 and float64 agree.
    """
    given: dict[str, Any] = {"f": f, "sample": sample, "chunk_size": chunk_size_of(sample)}
    if engine is None:
        return answers_in(**given)
    return join_answers(over_shards(f"{__name__}:answers_in", given, of="sample", engine=engine))


@torch.no_grad()
def answers_in(f: nn.Module, sample: DeviceData, *, chunk_size: int) -> Answers:
    """The answers in one part of a sample, and the errors in it."""
    evaluate, parts = _Evaluation(f, sample.scaling), []
    for x, y in sample.chunks(chunk_size, torch.float64):
        logits, is_sure = evaluate.wide(x)
        labels, is_clear = winners(logits)
        errors = int((_are_losses(logits, y, 0.0) | ~is_sure).sum())
        parts.append(Answers(labels, is_clear & is_sure, errors))
    return join_answers(parts)


def join_answers(parts: Sequence[Answers]) -> Answers:
    """The answers of all parts, in their order."""
    labels, is_clear = (torch.cat([getattr(each, name) for each in parts]) for name in ("labels", "is_clear"))
    return Answers(labels, is_clear, sum(each.errors for each in parts))


@torch.no_grad()
def count_differences(said: Answers, g: nn.Module, rows: Dataset, *, takes_stored: bool) -> int:
    """Inputs on which g predicts something else, or one of them not clearly; g takes the rows of them."""
    g = g if takes_stored else g.double().eval()
    total = 0
    for at in parts_of(rows):
        own = torch.from_numpy(rows.x[at])
        labels, is_clear = winners(g(own if takes_stored else rows.scaling.apply(own, torch.float64)))
        total += int((~(said.is_clear[at] & is_clear & (said.labels[at] == labels))).sum())
    return total


def parts_of(sample: Dataset) -> Iterator[slice]:
    """Slices of a sample that are evaluated at once."""
    return (slice(start, start + _ROWS) for start in range(0, sample.n, _ROWS))


def winners(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """The class that wins, and whether it does beyond the tolerance of counting."""
    from codebound.learn.picking import is_wrong  # a message needs no picks

    labels = outputs.argmax(1)
    return labels, ~is_wrong(outputs, labels)

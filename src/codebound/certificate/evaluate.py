"""Judging examples by a network in float64, so that no two machines disagree (docs/format.md, 8.10)."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound.run.extensions import form_of
from codebound.run.job import over_shards
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.counting import Verdicts, judge
from codebound.sample.losses import WRONG
from codebound.sample.questions import Question

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from codebound.run.job import Engine
    from codebound.sample.dataset import DeviceData, Sample, Scaling
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


@torch.no_grad()
def judge_network(
    network: nn.Module,
    data: DeviceData,
    *,
    question: Question | None = None,
    theta: float = 0.0,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Verdicts:
    """Judge every example by float64 scores; what is not clear beyond the tolerance is wrong.

    Convolutions are several times slower in float64. Differences far from the limit, a hundred tolerances and
    more, are therefore decided in float32, unless the two differ too much on the first examples. The network
    is in float32 when this returns. A difference has to exceed ``theta``; an engine evaluates one part of the
    sample on each of its workers.
    """
    question, chunk_size = question or Question(), chunk_size_of(data)
    is_far = _float32_deviation(network, data, chunk_size) < _SCREEN / 10.0
    has_choice = question.on.startswith(("answered", "predicted"))
    screen = _SCREEN if is_far and not has_choice else math.inf
    settings = {"question": question, "theta": theta, "screen": screen, "chunk_size": chunk_size}
    given: dict[str, Any] = {"network": network, "sample": data, **settings}
    if engine is None:
        found = judge_part(**given, progress=progress)
    else:
        parts = over_shards(f"{__name__}:judge_part", given, of="sample", engine=engine, progress=progress)
        found = Verdicts.join(parts)
    network.float()
    return found


@torch.no_grad()
def judge_part(
    network: nn.Module,
    sample: DeviceData,
    *,
    question: Question,
    theta: float,
    screen: float,
    chunk_size: int,
    progress: Progress = silent,
) -> Verdicts:
    """Verdicts on one part of a sample; differences within ``screen`` of the limit are those of float64."""
    evaluate, parts, done = _Evaluation(network, sample.scaling), [], 0
    for x, y in sample.chunks(chunk_size, torch.float64):
        is_close = torch.ones(len(y), dtype=torch.bool, device=y.device)
        is_right = ~is_close
        if math.isfinite(screen):
            logits, is_sure = evaluate.narrow(x)
            differences = question.loss.differences(logits, y) - theta
            # negated, so that NaN is not clear
            is_close = ~(differences.abs() > screen * logits.abs().amax(dim=1))
            is_right = (differences > 0.0) & is_sure
        found = Verdicts(is_right.cpu().numpy(), *(np.ones(len(y), bool) for _ in range(2)))
        if is_close.any():
            logits, is_sure = evaluate.wide(x[is_close])
            room = torch.where(is_sure, TOLERANCE * logits.abs().amax(dim=1), torch.inf)
            own, places = judge(question, logits, y[is_close], room=room, theta=theta), is_close.cpu().numpy()
            for name in ("right", "counts", "speaks"):
                getattr(found, name)[places] = getattr(own, name)
        parts.append(found)
        done += chunk_size
        progress(min(done, sample.n), sample.n)
    return Verdicts.join(parts)


def count_errors(
    network: nn.Module,
    data: DeviceData,
    *,
    loss: Loss = WRONG,
    engine: Engine | None = None,
) -> int:
    """Count the examples that a loss is about and that are not clearly right."""
    found = judge_network(network, data, question=Question(loss), engine=engine)
    is_about = np.asarray(loss.is_about(data.y.cpu().numpy()))
    return int((is_about & ~found.right).sum())


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
    return sum(int(_are_errors(narrow(x), y).sum()) for x, y in chunks) / sample.n


def chunk_size_of(sample: DeviceData) -> int:
    """As many examples at a time as fit into a few hundred megabytes."""
    return max(1, min(_LARGEST_CHUNK, _CHUNK_NUMBERS // sample.x[0].numel()))


def _are_errors(logits: Tensor, labels: Tensor) -> Tensor:
    # negated, so that NaN is an error
    return ~(WRONG.differences(logits, labels) > TOLERANCE * logits.abs().amax(dim=1))


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
def find_agreements(first: nn.Module, second: nn.Module, data: DeviceData) -> NDArray[np.bool_]:
    """Mask of the inputs on which two networks clearly predict the same."""
    return collect_answers(first, data).agreements(collect_answers(second, data)).cpu().numpy()


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of a network on every example of a sample, and its errors where there are labels."""

    labels: Tensor
    is_clear: Tensor
    errors: int = 0

    def agreements(self, other: Answers) -> Tensor:
        """Mask of the examples to which both clearly give the same answer."""
        return self.is_clear & other.is_clear & (self.labels == other.labels)


@torch.no_grad()
def collect_answers(f: nn.Module, sample: DeviceData) -> Answers:
    """The answers of a network, and its errors: one evaluation in float64, of every example.

    For whoever needs all answers anyway: ``judge_network`` saves the float64 where float32 tells.
    """
    evaluate, parts, errors = _Evaluation(f, sample.scaling), [], 0
    for x, y in sample.chunks(chunk_size_of(sample), torch.float64):
        logits, is_sure = evaluate.wide(x)
        errors += int((_are_errors(logits, y) | ~is_sure).sum())
        parts.append(_winners(logits, is_sure))
    labels, is_clear = map(torch.cat, zip(*parts, strict=True))
    return Answers(labels, is_clear, errors)


@torch.no_grad()
def count_differences(said: Answers, g: nn.Module, rows: Sample, *, takes_stored: bool) -> int:
    """Inputs on which g predicts something else, or one of them not clearly; g takes the rows of them."""
    if takes_stored:
        parts = [g(torch.from_numpy(rows.x[at : at + _ROWS])) for at in range(0, rows.n, _ROWS)]
        own = Answers(*_winners(torch.cat(parts)))
    else:
        own = collect_answers(g, rows.on("cpu"))
    return int((~said.agreements(own)).sum())


def _winners(outputs: Tensor, is_sure: Tensor | bool = True) -> tuple[Tensor, Tensor]:
    """The class that wins, and whether it does beyond the tolerance of counting."""
    labels = outputs.argmax(1)
    return labels, ~_are_errors(outputs, labels) & is_sure

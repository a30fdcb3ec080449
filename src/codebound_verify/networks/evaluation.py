"""Evaluating networks in float64 and counting (docs/format.md, sections 5.1, 6 and 7).

Float32 decides first, where its own error bound leaves no doubt; whatever it leaves open is for float64.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..checks import check_count, counted_part
from ..cores import one_core, side_by_side
from ..header import Header, Split
from ..losses import WRONG, Loss
from ..refusal import Refused
from .operations import KINDS, NormalisedConv, relu
from .rounding import Rounded, Whole, exact, gamma, lengths, with_lead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..header import Scaling
    from ..sample import Inputs, Labels, Progress
    from ..weights import Floats
    from .chain import Chain
    from .network import Network
    from .operations import Layers, Operation, Weights
    from .tensors import Shape

TOLERANCE = 0.5e-4  # half of the writer's: rounding cannot make the verifier count more
ROUNDING = 1e-5  # share of the largest logit that the error bound may have; twice the writer's
NUMBERS = 1 << 25  # numbers in the largest intermediate result of a batch: 256 MiB
BATCH = 4096  # the largest batch
CACHED = 3 << 22  # numbers in an intermediate result of a batch that is fast; more where weights are many
WARM_UP = 8  # examples that say nothing: the first time takes longer
FEW = 8  # operations: leading digits are tried in every number of them below, then in powers of two
NO_TRANSFORMS = partial(
    torch.backends.nnpack.flags, enabled=False
)  # whose convolutions are no sums of products
PILOT = 64  # examples that say how much of a network float32 may compute

Result = TypeVar("Result")


class Logits(NamedTuple):
    """Logits of a batch in float64, (batch, classes), with a bound of the error of every one, (batch,)."""

    values: Tensor
    error: Tensor


Carrying: TypeAlias = Callable[[Rounded], Logits]


class Evaluator:
    """A network with its scaling: batches of stored inputs in, float64 logits out.

    Args:
        wide: The network as float64 evaluates it.
        narrow: Faster ways to do so, the fastest first.
        scaling: Its scaling.
        widest: The most numbers that one example takes up.
        largest: The largest batch.
        workers: How many batches may be computed at the same time, by one core each.
        progress: Called with the examples done and their total.
    """

    def __init__(
        self,
        wide: Carrying,
        narrow: Sequence[Carrying] = (),
        *,
        scaling: Scaling,
        widest: int,
        largest: int = BATCH,
        workers: int = 1,
        progress: Progress | None = None,
    ) -> None:
        self._wide, self._narrow, self._scaling = wide, narrow, scaling
        self._workers = max(1, min(workers, NUMBERS // widest))
        self._batch = max(1, min(BATCH, largest, NUMBERS // widest // self._workers))
        self._progress = progress or (lambda done, total: None)

    def logits(self, x: Inputs) -> Iterator[tuple[slice, Logits]]:
        """The logits of consecutive batches of x, in float64."""
        for part, found in self._over(len(x), lambda part: self._evaluate(self._wide, x[part])):
            yield part, found
            self._progress(min(part.stop, len(x)), len(x))

    def predictions(self, x: Inputs, loss: Loss = WRONG) -> Iterator[Tensor]:
        """The classes of the largest logits of consecutive batches, -1 where they are ambiguous (section 7).

        Their order among each other does not count: they are in that of their numbers.
        """
        asked = loss if loss.kind == "top" else WRONG
        for _, logits in self.logits(x):
            where = logits.values.topk(asked.named[0] if asked.kind == "top" else 1, dim=1).indices
            clear = _is_right(logits, where[:, -1], 0.0, asked)
            yield torch.where(clear[:, None], where.sort(1).values, -1)

    def count_errors(
        self,
        x: Inputs,
        y: Labels,
        loss: Loss = WRONG,
        *,
        theta: float = 0.0,
        stated: int | None = None,
    ) -> int:
        """Errors by section 6, at margin ``theta``; or other losses, on examples that they are about.

        Args:
            x: Inputs.
            y: Their labels.
            loss: The loss that is counted.
            theta: The margin.
            stated: The number is only compared with this one: where it is not above it, counting ends as soon
                as that is certain, with all that was not looked at as errors.
        """
        right = done = 0
        ways = self._decide(x, y, theta, loss)
        with NO_TRANSFORMS(), closing(ways):
            for found, decided in ways:
                right, done = right + int(found.sum()), done + decided
                if stated is not None and len(x) - right <= stated:
                    self._progress(len(x), len(x))  # the others make no difference
                    break
                self._progress(done, len(x))
        return len(x) - right

    def _decide(
        self, x: Inputs, y: Labels, theta: float, loss: Loss
    ) -> Generator[tuple[Tensor, int], None, None]:
        """Masks of examples that are certainly no errors, each with the number decided.

        What the screen leaves open comes again at the end, and is right there alone: float64 takes as many at
        once as it can, and first what seems right.
        """

        def wide(part: slice | Labels) -> Tensor:
            logits = self._evaluate(self._wide, x[part])
            return _is_right(logits, torch.from_numpy(y[part]), theta, loss)

        with one_core():
            narrow = self._fastest(x[:PILOT], y[:PILOT], theta, loss)
        if narrow is None:
            yield from ((found, len(found)) for _, found in self._over(len(x), wide))
            return

        def screened(part: slice) -> tuple[Tensor, Tensor, Tensor]:
            logits, labels = self._evaluate(narrow, x[part]), torch.from_numpy(y[part])
            return _screen(logits, labels, theta, loss)

        likely: list[Labels] = []
        others: list[Labels] = []
        for part, (found, is_open, seem_right) in self._over(len(x), screened):
            yield found & ~is_open, int((~is_open).sum())
            for places, which in ((likely, seem_right), (others, ~seem_right)):
                places.append(part.start + np.flatnonzero((is_open & which).numpy()))
        rest = np.concatenate(likely + others)
        again = self._over(len(rest), lambda part: wide(rest[part]))
        yield from ((found, len(found)) for _, found in again)

    def _fastest(self, x: Inputs, y: Labels, theta: float, loss: Loss) -> Carrying | None:
        """The way that seems to be the fastest, float64 for what it leaves open included; None is float64.

        What is open and seems wrong is left out: it is seldom looked at again.
        """
        if not self._narrow or not float32_is_sound():
            return None
        best, (_, least) = None, self._time(self._wide, x)
        whole = least
        for function in self._narrow:
            logits, seconds = self._time(function, x)
            labels = torch.from_numpy(y)
            _, is_open, seems_right = _screen(logits, labels, theta, loss)
            again = is_open & seems_right
            seconds += whole * float(again.double().mean())
            if seconds < least:
                best, least = function, seconds
        return best

    def _time(self, function: Carrying, x: Inputs) -> tuple[Logits, float]:
        self._evaluate(function, x[: min(WARM_UP, self._batch)])
        start = time.perf_counter()
        parts = [self._evaluate(function, x[at : at + self._batch]) for at in range(0, len(x), self._batch)]
        seconds = time.perf_counter() - start
        return Logits(*map(torch.cat, zip(*parts, strict=True))), seconds

    def _over(self, count: int, function: Callable[[slice], Result]) -> Iterator[tuple[slice, Result]]:
        """Results of ``function`` for consecutive batches of so many examples."""
        parts = [slice(start, start + self._batch) for start in range(0, count, self._batch)]
        found = side_by_side(function, parts, self._workers) if self._workers > 1 else map(function, parts)
        yield from zip(parts, found, strict=True)

    def _evaluate(self, carrying: Carrying, x: Inputs) -> Logits:
        with torch.inference_mode():
            return carrying(self._scale(x))

    def _scale(self, x: Inputs) -> Rounded:
        """(x / divisor - mean) / std in float64 (section 6)."""
        ones = (1,) * (x.ndim - 2)
        mean = np.array(self._scaling.mean).reshape(-1, *ones)
        std = np.array(self._scaling.std).reshape(-1, *ones)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite will be counted as an error
            shares = x.astype(np.float64)
            shares /= self._scaling.divisor
            if mean.any() or (std != 1.0).any():
                values = exact(torch.from_numpy((shares - mean) / std))
                sizes = exact(torch.from_numpy((np.abs(shares) + np.abs(mean)) / std))
            else:  # the same numbers, up to signs
                values = sizes = exact(torch.from_numpy(shares))
        whole = None
        is_whole = x.dtype == np.uint8 and not mean.any() and (std == std.flat[0]).all()
        if is_whole and float32_is_sound():  # else its sums of integers are not exact
            whole = Whole(torch.from_numpy(x).float(), 1 / (self._scaling.divisor * float(std.flat[0])))
        error = gamma(4, torch.float64) * lengths(sizes.values)
        return Rounded(values.values, error, whole, is_relative=not mean.any())


def _is_right(logits: Logits, y: Tensor, theta: float, loss: Loss = WRONG) -> Tensor:
    """Mask of the examples that are no errors (section 6); logits that are not finite are errors."""
    largest = logits.values.abs().amax(1)
    is_wide = loss.distances(logits.values, y) - theta > TOLERANCE * largest
    is_sure = (logits.error <= ROUNDING * largest) & logits.values.isfinite().all(1)
    return is_wide & is_sure


def _screen(logits: Logits, y: Tensor, theta: float, loss: Loss = WRONG) -> tuple[Tensor, Tensor, Tensor]:
    """Masks of examples: certainly no errors, undecided, and no errors if nothing was rounded."""
    largest, lead = logits.values.abs().amax(1), loss.distances(logits.values, y) - theta
    error = logits.error
    doubt = 1.43 * error  # two logits are off by no more than the root of 2 times all of them
    is_sound = logits.values.isfinite().all(1) & (error <= largest / 4)
    right = is_sound & (lead - doubt > (TOLERANCE + 4 * ROUNDING) * (largest + error))
    return right, ~(right | (is_sound & (lead + doubt < 0))), lead > 0


@lru_cache(maxsize=1)
def float32_is_sound() -> bool:
    """Return True if float32 sums of integers below 2^24 are exact on this machine.

    Settings of torch and its libraries may replace it by shorter numbers, or sums of products by transforms.
    """
    random = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randint(-99, 100, shape, generator=random).float()

    with NO_TRANSFORMS(), torch.inference_mode():
        for kernel in (3, 5):
            x, weight = drawn(32, 8, 9, 9), drawn(16, 8, kernel, kernel)
            if not torch.equal(
                functional.conv2d(x, weight).double(), functional.conv2d(x.double(), weight.double())
            ):
                return False
        x, weight = drawn(64, 256), drawn(16, 256)
        return torch.equal(
            functional.linear(x, weight).double(), functional.linear(x.double(), weight.double())
        )


def chain_evaluator(
    chain: Chain,
    tensors: Mapping[str, Floats],
    *,
    header: Header,
    progress: Progress | None = None,
) -> Evaluator:
    """An evaluator of a chain with these weights."""
    weights: list[dict[str, Tensor]] = [{} for _ in chain.operations]
    for name, values in tensors.items():
        position, own = name.split(".", 1)
        weights[int(position)][own] = torch.from_numpy(values)
    layers = prepare(chain, weights)
    narrow = [partial(evaluate, chain, some, dtype=torch.float32) for some in lead_layers(layers)]
    return Evaluator(
        partial(evaluate, chain, layers),
        narrow,
        scaling=header.scaling,
        widest=chain.widest(),
        largest=max(CACHED, 16 * max(map(np.size, tensors.values()))) // chain.widest(),
        workers=torch.get_num_threads(),
        progress=progress,
    )


def prepare(chain: Chain, weights: Sequence[Weights]) -> Sequence[Layers]:
    """The layers of each operation, from its tensors."""

    def layers(step: tuple[Operation, Shape, Weights]) -> Layers:
        operation, seen, own = step
        kind = KINDS[operation.kind]
        names = [name.removesuffix("weight") for name in kind.tensors(operation, seen)]
        return {
            name: kind.layer(operation, seen, own[f"{name}weight"], own.get(f"{name}bias")) for name in names
        }

    return list(side_by_side(layers, zip(chain.operations, chain.inputs, weights, strict=True)))


def lead_layers(layers: Sequence[Layers]) -> list[Sequence[Layers]]:
    """The layers with leading digits in none of them, and in the first few, or the first 8, 16, 32, ..

    What the first are off grows with every layer behind them. Layers of one operation count as one.
    """
    ahead = [{name: with_lead(layer) for name, layer in own.items()} for own in layers]
    last = [at for at, own in enumerate(layers) if own]
    counts = [count for count in range(len(last) + 1) if count < FEW or count.bit_count() == 1]
    stops = [last[count - 1] + 1 if count else 0 for count in counts]
    return [[*ahead[:stop], *layers[stop:]] for stop in stops]


def evaluate(
    chain: Chain, layers: Sequence[Layers], x: Rounded, *, dtype: torch.dtype = torch.float64
) -> Logits:
    """The logits of a batch (5.1), with their error.

    Args:
        chain: The operations.
        layers: Their layers; only weights in use become float64.
        x: The scaled inputs.
        dtype: What all operations but views are computed in.
    """
    steps = list(zip(chain.operations, layers, strict=True))
    if chain.operations[0].kind != "views":
        return logits_of(steps, x.to(dtype))
    return _average_views(steps, x, dtype)


def logits_of(steps: Sequence[tuple[Operation, Layers]], x: Rounded) -> Logits:
    """Logits of a batch after all operations, the last of them without a ReLU."""
    for operation, own in steps[:-1]:
        kind = KINDS[operation.kind]
        x = kind.apply(operation, own, x)
        if kind.has_relu:
            x = relu(x)
    last, own = steps[-1]
    x = KINDS[last.kind].apply(last, own, x)
    return Logits(x.values.double(), x.error)


def _average_views(steps: Sequence[tuple[Operation, Layers]], x: Rounded, dtype: torch.dtype) -> Logits:
    """The logits of a chain that begins with views, which are taken before anything becomes ``dtype``."""
    from .images.batches import views
    from .images.dictionary import features_of_views, mirror_indices

    kind, (second, _) = steps[0][0].views, steps[1]
    order = mirror_indices(second.table, second.pool, x.values.shape) if kind == 1 and second.table else None
    if order is not None and steps[2][0].kind == "normalised conv":
        found = _logits_of_both(steps[1:], x.to(dtype), order)
    elif second.kind == "dictionary":
        seen = features_of_views(second.table, second.pool, kind, x, dtype)
        found = [logits_of(steps[2:], view) for view in seen]
    else:
        found = [logits_of(steps[1:], view.to(dtype)) for view in views(kind, x)]
    largest = torch.stack([view.values.abs().amax(1) for view in found]).mean(dim=0)
    error = torch.stack([view.error for view in found]).mean(dim=0)
    values = torch.stack([view.values for view in found]).mean(dim=0)
    return Logits(values, error + gamma(len(found) + 1, torch.float64) * largest)


def _logits_of_both(
    steps: Sequence[tuple[Operation, Layers]], x: Rounded, order: Sequence[int]
) -> list[Logits]:
    """Logits of images and of their mirror images; features are computed for the former alone."""
    from .images.dictionary import features

    (dictionary, _), (convolution, own), *rest = steps
    (seen,) = features(dictionary.table, dictionary.pool, x)
    found = logits_of(rest, relu(NormalisedConv().of_both(convolution, own, seen, order)))
    return [Logits(*view) for view in zip(*(part.tensor_split(2) for part in found), strict=True)]


def count_disagreements(first: Evaluator, second: Evaluator, x: Inputs, loss: Loss = WRONG) -> int:
    """Inputs on which the answers differ or one of the two networks is ambiguous (section 7)."""
    one, other = (torch.cat(list(network.predictions(x, loss))) for network in (first, second))
    return int(((one != other) | (one < 0)).any(1).sum())


def check_errors(header: Header, network: Network, evaluator: Evaluator, x: Inputs, y: Labels) -> None:
    """Check that the decoded network makes no more errors than stated (section 6)."""
    if isinstance(header.extra, Split) and network.split is not None:
        prior = network.split * len(x) // 10
        if header.extra.n_prior != prior:
            raise Refused(
                f"Facts: n_prior is {header.extra.n_prior}; "
                f"{network.split}/10 of {len(x)} examples are {prior}."
            )
    part = counted_part(header, y)
    x, y = x[part], y[part]
    theta, stated = network.theta or 0.0, header.errors
    errors = evaluator.count_errors(x, y, header.loss, theta=theta, stated=stated)
    check_count(header, errors, len(x), "the decoded network")

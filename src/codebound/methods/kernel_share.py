"""Helpers that are ready made: networks of the first part of a sample, whatever is chosen inside of it.

Nothing of the rest enters, so nothing of what is chosen here is paid for: ``kernel_helper`` as
the helper of ``certify`` is the hold-out bound of a kernel learner and 7 bits.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from codebound.known.encoder import Encoder, digest
from codebound.known.first_share import Scores
from codebound.known.provenance import declared_name
from codebound.learn.features import FEATURES, ColumnFeatures, FeatureMap, RoomError
from codebound.learn.picking import feature_map_of, permutation, vectors_of
from codebound.learn.ridge import fold
from codebound.learn.rule import Rule
from codebound.methods.rule_search import families_of, move_while
from codebound.run.device import exact_products
from codebound.run.errors import FormatError, ModelError, UsageError
from codebound.run.progress import Progress, silent
from codebound.run.tensor_files import load_weights
from codebound.sample.dataset import Dataset, Scaling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

_RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
_FIFTH = 5
_MEMORY = 13e9  # bytes of kernel, vectors and what is made on the way
_OF_ALL = 0.6  # of the memory of a machine, which may be less
_ON_THE_WAY = 0.6e9
_PART = 6000  # examples that learners are compared on
_LEARNED = 0.7  # of them
_KNOWN = 3000  # examples that features are made of
_LEAST = 12  # examples that learners can be compared on
_COPIED = 12_000  # supports up to which changed copies are learned from too
_NEAR = 1.2  # times the fewest errors: what makes no more is moved too
_CLEARLY = 0.9  # of a sum of squares
_MOVED = 2  # kinds of features whose numbers are moved
_NEXT, _FAR = (-1, 1), (-1, 1, -3, 3)  # steps on the grids of width and ridge
_OF_RULE = ("first", "copies", "gamma_index", "ridge_index")
_SAID = "said"  # the tensor that says what a network is
_FIRST_OF = "networks.0."  # of those whose scores are taken
_LICENCE, _ORIGIN = "yours", "nothing else went into it"  # declared by default
_BLOCK = 1024  # rows of a kernel at a time
_REFINED = 3  # times, what a factor in float32 solves


class KernelNetwork(nn.Module):
    """Kernel ridge regression: takes scaled inputs, and returns one number for each class.

    Args:
        rule: Features, copies and width of the kernel.
        scaling: Of the inputs as they are stored.
        supports: Inputs that were learned from: as they are stored where a divisor is all that scales them.
        coefficients: What was learned for each copy of them, copy by copy.
        features: What the features know.
        vectors: Features of all copies, in 16 bits; None: computed when they are needed.
    """

    supports: Tensor
    coefficients: Tensor

    def __init__(
        self,
        rule: Rule,
        scaling: Scaling,
        *,
        supports: Tensor,
        coefficients: Tensor,
        features: FeatureMap,
        vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.rule, self.scaling, self._features, self._vectors = rule, scaling, features, vectors
        self.register_buffer("supports", supports)
        self.register_buffer("coefficients", coefficients)
        for name, value in features.tensors.items():
            self.register_buffer(name, value)
        said = {name: getattr(rule, name) for name in _OF_RULE} | {"scaling": asdict(scaling)}
        said |= {"kind": rule.features.kind, "features": asdict(rule.features.plain)}  # type: ignore[call-overload]
        self.register_buffer(
            _SAID, torch.tensor(list(json.dumps(said, sort_keys=True).encode()), dtype=torch.uint8)
        )

    @staticmethod
    def load(tensors: Mapping[str, Tensor]) -> KernelNetwork:
        """The network from its tensors, of which one says what it is."""
        said = json.loads(bytes(tensors[_SAID].tolist()))
        divisor, mean, std = (said["scaling"][name] for name in ("divisor", "mean", "std"))
        scaling = Scaling(divisor, tuple(mean), tuple(std))
        settings = FEATURES[said["kind"]](**said["features"])
        rule = Rule(settings, **{name: said[name] for name in _OF_RULE})
        own = {name: tensors[name] for name in ("supports", "coefficients")}
        known = {name: value for name, value in tensors.items() if name not in (*own, _SAID)}
        divisor = _stored_factor(scaling)
        features = settings.map_with(known, own["supports"], divisor)
        return KernelNetwork(rule, scaling, **own, features=features)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        place = self.coefficients.device
        tensors = {name: getattr(self, name) for name in self._features.tensors}
        features = replace(self._features, tensors=tensors)
        if self._vectors is None:
            self._vectors = _vectors(self.rule, features, self.supports, device=place)
        self._vectors = self._vectors.to(place)
        with exact_products():
            found = features(x.to(place).double() * _stored_factor(self.scaling)).to(torch.int16)
            found = fold(*features.settings.halves(found)) if self.rule.is_mirrored else found
            outputs = self.coefficients.new_zeros(len(x), self.coefficients.shape[1])
            for some in _blocks(len(self._vectors)):
                apart = _distances(found, self._vectors[some], is_joined=self.rule.is_mirrored)
                outputs += _kernel(apart, self.rule, features.unit).double() @ self.coefficients[some]
        return outputs


@torch.no_grad()
def kernel_helper(
    first: Dataset, *, device: str | torch.device = "cpu", progress: Progress = silent
) -> nn.Module:
    """Kernel ridge regression from a first part, or from as much of it as memory allows.

    Features, width and ridge are those with the fewest errors on three tenths of a part of it. Memory is that
    of the kernel in float32, 13 GB at most and six tenths of the machine's: some 55,000 examples.
    """
    known = _as_stored(first)
    with exact_products():
        rule = best_rule(known, device, progress)
        features = feature_map_of(rule, known, device=device)
        size = features(torch.from_numpy(known.x[:1]).to(device)).shape[1]
        rows = permutation(known.n)[: most_supports(size)]
        supports = torch.from_numpy(np.ascontiguousarray(known.x[rows]))
        vectors = _vectors(rule, features, supports, device=device, progress=progress)
        targets = _targets(known, rows, rule.supports_each, vectors.device)
        coefficients = _fit(vectors, targets, rule, features.unit, progress)
    return KernelNetwork(
        rule,
        first.scaling,
        supports=supports.to(vectors.device),
        coefficients=coefficients,
        features=features,
        vectors=vectors,
    )


def most_supports(size: int) -> int:
    """Most vectors that fit into memory. The kernel takes 4 m^2 bytes, and the vectors 2 m D.

    Example:
        >>> most_supports(8192) > 40_000 or _memory() < 1e10
        True
    """
    room = max(0.0, _memory() - _ON_THE_WAY)
    return max(1, int((math.sqrt(size * size + 4.0 * room) - size) / 4.0))


def _memory() -> float:
    """Bytes that may be used."""
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # on some machines nobody says
        return _MEMORY
    return min(_MEMORY, _OF_ALL * there)


def _stored_factor(scaling: Scaling) -> float:
    """Factor from scaled inputs to stored ones. It is 1 where more than a divisor scales them."""
    return scaling.divisor if replace(scaling, divisor=1.0) == Scaling() else 1.0


def _as_stored(first: Dataset) -> Dataset:
    """The examples as they are stored, or scaled where more than a divisor scales them."""
    if replace(first.scaling, divisor=1.0) == Scaling():
        return first
    x = first.scaling.apply(torch.from_numpy(first.x)).numpy()
    return Dataset(first.name, first.role, x, first.y, first.classes)


def load_helper(path: Path, declared: str) -> tuple[Encoder, KernelNetwork]:
    """The kernel helper whose tensors were saved beside a certificate, as the encoder that it declares."""
    tensors = {name.removeprefix(_FIRST_OF): value for name, value in load_weights(path).items()}
    try:
        network = KernelNetwork.load(tensors)
    except Exception as error:  # a crafted file can make it raise nearly anything
        raise FormatError(f"{path} is no helper that certify wrote: {error!r}.") from error
    scores = Scores([network])
    made_of = declared.partition("), ")[2].removesuffix(".")
    name = declared_name([declared])
    sha256 = digest(name.encode(), scores)
    encoder = Encoder(
        name, scores, sha256, licence=_LICENCE, origin=_ORIGIN, made_of=made_of, has_scores=True
    )
    return encoder, network


def _vectors(
    rule: Rule,
    features: FeatureMap,
    supports: Tensor,
    *,
    device: str | torch.device,
    progress: Progress = silent,
) -> Tensor:
    """Features of all copies of inputs, copy by copy."""
    own = vectors_of(rule, features, supports, device=device, progress=progress)
    if rule.supports_each == 1:
        return own
    others = (
        features(supports[some].to(device), change).to(torch.int16)
        for change in rule.changes()[1:]
        for some in _blocks(len(supports))
    )
    return torch.cat([own, *others])


def _targets(sample: Dataset, rows: NDArray[np.int64], copies: int, device: torch.device) -> Tensor:
    """+1 for the class of an example and -1 for the others, for each of its copies."""
    labels = torch.from_numpy(sample.y[rows]).to(device)
    targets = 2.0 * nn.functional.one_hot(labels, sample.classes).double() - 1.0
    return targets.repeat(copies, 1)


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, min(n, start + _BLOCK)) for start in range(0, n, _BLOCK))


def _distances(left: Tensor, right: Tensor, *, is_joined: bool) -> tuple[Tensor, ...]:
    """Squared distances of vectors; of folded ones those to the mirror images as well (``fold``)."""
    left, right = left.float(), right.float()
    halves = 2.0 if is_joined else 1.0
    lengths = (left.square().sum(1)[:, None] + right.square().sum(1)) / halves
    if not is_joined:
        return (lengths.sub_(left @ right.T, alpha=2.0),)
    half = left.shape[1] // 2
    even, odd = left[:, :half] @ right[:, :half].T, left[:, half:] @ right[:, half:].T
    return lengths - even - odd, lengths - even + odd


def _kernel(apart: tuple[Tensor, ...], rule: Rule, unit: float) -> Tensor:
    """The kernel of squared distances, summed over mirror images."""
    parts = [
        each.mul(rule.gamma / (4.0 * unit)).add_(1.0).square_().square_().reciprocal_() for each in apart
    ]
    return parts[0] if len(parts) == 1 else parts[0].add_(parts[1])


def _fit(vectors: Tensor, targets: Tensor, rule: Rule, unit: float, progress: Progress) -> Tensor:
    """Coefficients from all vectors."""
    n = len(vectors)
    inner = torch.empty(n, n, dtype=torch.float32, device=vectors.device)
    for low in _blocks(n):
        progress(low.start, 2 * n, f"the kernel of {n} examples")
        for high in _blocks(low.stop):
            found = _kernel(_distances(vectors[low], vectors[high], is_joined=rule.is_mirrored), rule, unit)
            inner[low, high], inner[high, low] = found, found.T
    return solve(inner, targets, rule.ridge, progress)


def solve(
    inner: Tensor, targets: Tensor, ridge: float, progress: Progress = silent, *, refined: int = _REFINED
) -> Tensor:
    """The solution c of (inner + ridge) c = targets, for a symmetric matrix in float32, which is overwritten.

    Its Cholesky factor takes the place of the lower half; the upper one stays, by which the solution is
    refined to what float64 would say. Where rounding is larger than the ridge, more is added.
    """
    diagonal = inner.diagonal().clone()
    while True:
        inner.diagonal().copy_(diagonal + ridge)
        try:
            _factorise(inner, progress)
            break
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            for low in _blocks(len(inner)):
                inner[low.stop :, low] = inner[low, low.stop :].T
                inner[low, low] = inner[low, low].triu(1) + inner[low, low].triu(1).T
            ridge *= 4.0
    exact = (diagonal.double() + ridge)[:, None]
    found = torch.zeros_like(targets)
    for _ in range(refined):
        found += _solve_by_factor(inner, (targets - _multiply(inner, exact, found)).float()).double()
    return found


def _factorise(inner: Tensor, progress: Progress) -> None:
    """The Cholesky factor in place of the lower half, block by block."""
    n = len(inner)
    for some in _blocks(n):
        progress(n + some.start, 2 * n, f"solving for {n} examples")
        upper = inner[some, some].triu(1)
        panel = inner[some.start :, some]
        if some.start:
            panel = panel - inner[some.start :, : some.start] @ inner[some, : some.start].T
        size = some.stop - some.start
        corner = torch.linalg.cholesky(panel[:size])
        inner[some.stop :, some] = torch.linalg.solve_triangular(corner, panel[size:].T, upper=False).T
        inner[some, some] = corner.tril() + upper


def _multiply(inner: Tensor, diagonal: Tensor, right: Tensor) -> Tensor:
    """The symmetric matrix, of which the upper half is left, times another; in float64."""
    found = diagonal * right
    for some in _blocks(len(inner)):
        rows = inner[some, some.start :].double().triu_(1)
        found[some] += rows @ right[some.start :]
        found[some.start :] += rows.T @ right[some]
    return found


def _solve_by_factor(inner: Tensor, right: Tensor) -> Tensor:
    """The solution by the factor in the lower half."""
    found, blocks = right.clone(), list(_blocks(len(inner)))
    for some in blocks:
        found[some] -= inner[some, : some.start] @ found[: some.start]
        found[some] = torch.linalg.solve_triangular(inner[some, some].tril(), found[some], upper=False)
    for some in reversed(blocks):
        found[some] -= inner[some.stop :, some].T @ found[some.stop :]
        found[some] = torch.linalg.solve_triangular(inner[some, some].tril().T, found[some], upper=True)
    return found


@torch.no_grad()
def best_rule(sample: Dataset, device: str | torch.device = "cpu", progress: Progress = silent) -> Rule:
    """The learner with the fewest errors on three tenths of a part of the examples."""
    if sample.n < _LEAST:
        raise UsageError(f"a kernel is learned from at least {_LEAST} examples. Got {sample.n}.")
    part = sample
    if sample.n > _PART:
        part = sample.select(permutation(sample.n)[:_PART], role="train")
    tried: list[_Trial] = []
    for rule in _list_learners(part, sample.n):
        progress(len(tried), None, f"comparing learners on {part.n} examples")
        try:
            tried.append(_Trial(rule, part, device))
        except (ModelError, RoomError):
            continue
    if not tried:
        raise UsageError("no kernel suits these inputs. Give a helper of your own.")
    tried.sort(key=_Trial.best)
    fewest = tried[0].best()[0]
    for trial in tried[:_MOVED]:
        if trial.best()[0] <= _NEAR * fewest:
            trial.improve()
    best = min(tried, key=_Trial.best)
    return replace(best.rule, first=min(_KNOWN, sample.n))


def _list_learners(part: Dataset, n: int) -> Iterator[Rule]:
    """Learners to compare: with changed copies where there is room for them."""
    for rule in families_of(part):
        yield rule if rule.is_mirrored else replace(rule, copies=0)
        if rule.supports_each > 1 and rule.supports_each * n <= _COPIED:
            yield rule
    if not rule.features.has_pictures:
        yield Rule(ColumnFeatures(True), gamma_index=11, ridge_index=5)


class _Trial:
    """One kind of features on a part of the first part: what is left out says which width and ridge suit."""

    def __init__(self, rule: Rule, part: Dataset, device: str | torch.device) -> None:
        size = max(1, int(_LEARNED * part.n))
        self.rule = replace(rule, first=min(_KNOWN, size))
        order = permutation(part.n)
        features = feature_map_of(self.rule, part, device=device)
        stored = torch.from_numpy(np.ascontiguousarray(part.x[order]))
        learned = _vectors(self.rule, features, stored[:size], device=device)
        others = vectors_of(self.rule, features, stored[size:], device=device)
        self.unit, self.labels = features.unit, torch.from_numpy(part.y[order[size:]]).to(learned.device)
        self.targets = _targets(part, order[:size], rule.supports_each, learned.device)
        self.inner = _distances(learned, learned, is_joined=rule.is_mirrored)
        self.outer = _distances(others, learned, is_joined=rule.is_mirrored)
        self.found: dict[Rule, tuple[int, float]] = {}
        self._try(self.rule)

    def best(self) -> tuple[int, float]:
        """Errors and squared deviation at the best width and ridge."""
        return self.found[self.rule]

    def _try(self, rule: Rule) -> tuple[int, float]:
        """Errors on what is left out; and where these are the same, how far outputs are off."""
        if rule not in self.found:
            inner = _kernel(self.inner, rule, self.unit)
            coefficients = solve(inner, self.targets, rule.ridge, refined=1)
            outputs = _kernel(self.outer, rule, self.unit).double() @ coefficients
            wanted = 2.0 * nn.functional.one_hot(self.labels, outputs.shape[1]) - 1.0
            errors = int((outputs.argmax(1) != self.labels).sum())
            self.found[rule] = errors, float((outputs - wanted).square().sum())
        return self.found[rule]

    def improve(self) -> None:
        """Moves width and ridge as long as errors become fewer, or outputs are clearly less far off.

        For tables, whose scale tells little of the width, farther too and until nothing helps: where one
        error more or less, which is rounding, ends a way, another one leads there.
        """

        def helps(moved: Rule, rule: Rule) -> bool:
            (errors, apart), (fewest, least) = self._try(moved), self.found[rule]
            return not (errors > fewest or (errors == fewest and apart > _CLEARLY * least))

        is_table, before = not self.rule.features.has_pictures, None
        while before != self.rule:
            before = self.rule
            steps = _FAR if is_table else _NEXT
            self.rule = move_while(helps, before, itertools.product(("ridge_index", "gamma_index"), steps))
            if not is_table:
                break


def linear_helper(first: Dataset) -> nn.Module:
    """A linear network by ridge regression from a first part, whose ridge is chosen inside that part."""
    x = first.scaling.apply(torch.from_numpy(first.x), torch.float64).flatten(1)
    middle = x.mean(0)
    targets = torch.full((first.n, first.classes), -1.0, dtype=torch.float64)
    targets[torch.arange(first.n), torch.from_numpy(first.y)] = 1.0
    x = x - middle
    is_kept = torch.arange(first.n) % _FIFTH == 0
    unit = float(x.square().sum(1).mean()) or 1.0

    def errors(ridge: float) -> int:
        weight, bias = _ridge(x[~is_kept], targets[~is_kept], ridge * unit)
        scores = x[is_kept] @ weight + bias
        return int((scores.argmax(1) != targets[is_kept].argmax(1)).sum())

    ridge = min(_RIDGES, key=errors) if first.n > _FIFTH else _RIDGES[-1]
    weight, bias = _ridge(x, targets, ridge * unit)
    network = nn.Sequential(nn.Flatten(), nn.Linear(x.shape[1], first.classes))
    linear = network[1]
    assert isinstance(linear, nn.Linear)
    with torch.no_grad():
        # numbers too large or too small for its arithmetic teach it nothing, and stop no other method
        linear.weight.copy_(weight.T.float().nan_to_num(0.0, 0.0, 0.0))
        linear.bias.copy_((bias - middle @ weight).float().nan_to_num(0.0, 0.0, 0.0))
    return network.eval()


def _ridge(x: Tensor, targets: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Weights and biases; the smaller of the two systems is solved."""
    bias = targets.mean(0)
    if len(x) < x.shape[1]:
        inner = x @ x.T + ridge * torch.eye(len(x), dtype=x.dtype)
        return x.T @ torch.linalg.solve(inner, targets - bias), bias
    inner = x.T @ x + ridge * torch.eye(x.shape[1], dtype=x.dtype)
    return torch.linalg.solve(inner, x.T @ (targets - bias)), bias

"""Line-balanced pruning: the largest weights under a cap on every row and column, trained under the mask.

Definition 5.1 of Guha et al. 2023 asks for few non-zeros in every row and column; random pruning leaves full
lines, which no sketch recovers. Here the caps hold by construction: docs/howto/study.md has what comes back.
"""

import copy
import functools
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from codebound.run.errors import UsageError
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.dataset import DeviceData
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.quantization import MAX_STEP, nearest_step, step_size
from codebound_networks.codes.tensors import AbstractTensorCode
from codebound_networks.reading.walk import Network
from codebound_networks.train.passes import Passes, adam, half_cosine
from codebound_networks.train.rng import torch_stream
from codebound_networks.views.layers import AbstractLayerView
from codebound_networks.views.rebuild import with_weights
from codebound_papers.compress import compressors
from codebound_papers.guha23.magnitude import kept_count

_LEAST_CAP = 8  # a line of so few non-zeros hinders no sketch
_FIRST = 0.04  # share that the first of several steps keeps, if that is more than the last one keeps
_SPARSE = 0.1  # share of non-zeros below which products with a list of them are faster
_BATCH = 128
_CHUNK = 1000
_STEPS_PER_GRID = 10


@implements("G-Def5.1:mask", kind="algorithm")
def balanced_mask(matrix: Tensor, count: int, *, row_cap: int, column_cap: int) -> Tensor:
    """True at the ``count`` largest magnitudes, of equals the first, while no line gets more than its cap.

    >>> matrix = torch.tensor([[3.0, 2.0, 1.0], [0.5, 0.4, 0.0]])
    >>> balanced_mask(matrix, 4, row_cap=1, column_cap=2).int().tolist()
    [[1, 0, 0], [1, 0, 0]]
    """
    if min(count, row_cap, column_cap) < 1:
        raise UsageError(f"count and caps are at least 1. Got {count}, {row_cap} and {column_cap}.")
    rows, columns = matrix.shape
    sizes = matrix.detach().abs().flatten().cpu()
    order = sizes.argsort(descending=True, stable=True)[: int(sizes.count_nonzero())].tolist()
    left_in_row, left_in_column, kept = [row_cap] * rows, [column_cap] * columns, list[int]()
    for entry in order:
        row, column = divmod(entry, columns)
        if left_in_row[row] and left_in_column[column]:
            left_in_row[row] -= 1
            left_in_column[column] -= 1
            kept.append(entry)
            if len(kept) == count:
                break
    mask = torch.zeros(rows * columns, dtype=torch.bool)
    mask[kept] = True
    return mask.view(rows, columns).to(matrix.device)


@implements("G-Def5.1:pruning", kind="algorithm")
@dataclass(frozen=True, kw_only=True)
class BalancedPruning(compressors.AbstractCompressor):
    """Keeps the largest weights under caps on rows and columns; trains them where a sample is given.

    In each step the masks shrink, and all that is left, biases included, is trained towards the outputs of
    the given network. Some of the smallest weights make room for those with the largest gradients, as in
    RigL. Half of the passes come after the last step, and half of those round the weights.
    Earlier layers keep more. The last layer has few and long rows, so it is sketched on one side: its rows
    all keep the same number. The seed, of the order of examples, is free.
    """

    density: float = 0.006  # share of the weights to keep, on geometric average over all layers but the last
    taper: float = 1.5  # how many times more a layer keeps than the next one
    output_density: float = 0.025  # share of the last layer to keep; 8 in a row at least
    row_cap: float = 2.0  # most non-zeros in a row, as a multiple of their mean; 8 are always allowed
    column_cap: float = 2.0  # the same of columns
    levels: int = 63  # values a weight can take, odd
    regrowth: float = 0.3  # share of a mask that gradients choose, in the first steps; it falls to 0
    steps: int = 16  # times that weights are dropped; at most the passes
    epochs: int = 48  # passes over the sample in all, if there is one
    temperature: float = 2.0  # divides the outputs of both networks when they are compared
    learning_rate: float = 4e-3  # of Adam, at the start of each step

    def __post_init__(self) -> None:
        factors = self.taper, self.row_cap, self.column_cap, self.temperature, self.learning_rate
        if not all(0.0 < each < math.inf for each in factors):
            raise UsageError(f"taper, caps, temperature and learning rate are positive. Got {factors}.")
        if not (0.0 < self.density <= 1.0 and 0.0 < self.output_density <= 1.0):
            raise UsageError(f"a share to keep is in (0, 1]. Got {self.density} and {self.output_density}.")
        if not 0.0 <= self.regrowth < 1.0:
            raise UsageError(f"the share that grows again is in [0, 1). Got {self.regrowth}.")
        if min(self.steps, self.epochs) < 1:
            raise UsageError(f"steps and epochs are at least 1. Got {self.steps} and {self.epochs}.")

    def shares(self, names: list[str]) -> dict[str, float]:
        """The share that each layer keeps in the end."""
        middle = (len(names) - 2) / 2
        shares = {name: self.density * self.taper ** (middle - i) for i, name in enumerate(names[:-1])}
        return {name: min(1.0, shares.get(name, self.output_density)) for name in names}

    def share_at(self, step: int, share: float) -> float:
        """The share that a layer keeps after a step: it falls by the same factor each time."""
        first = max(_FIRST, share)
        return first * (share / first) ** ((step - 1) / (self.steps - 1)) if self.steps > 1 else share

    def mask(
        self,
        weight: Tensor,
        share: float,
        *,
        is_last: bool = False,
        growth: tuple[Tensor, float] | None = None,
    ) -> Tensor:
        """The mask of a weight, in its shape, that keeps at most a share of it.

        With growth, a gradient and a share, that share of the mask is where the gradient is largest.
        """
        matrix, count = weight.detach().flatten(1), kept_count(weight.numel(), share)
        rows, columns = matrix.shape
        if is_last:
            row_cap, column_cap = min(columns, max(_LEAST_CAP, math.ceil(count / rows))), rows
            count = row_cap * rows
        else:
            row_cap = max(_LEAST_CAP, math.ceil(self.row_cap * count / rows))
            column_cap = max(_LEAST_CAP, math.ceil(self.column_cap * count / columns))
        choose = functools.partial(balanced_mask, row_cap=row_cap, column_cap=column_cap)
        if growth is not None:
            gradient, part = growth[0].flatten(1).abs(), growth[1]
            largest = choose(matrix, max(1, round((1.0 - part) * count)))
            matrix = torch.where(largest, 1.0 + matrix.abs(), gradient / (1.0 + gradient))
        return choose(matrix, count).view(weight.shape)

    def compress(self, layer: AbstractLayerView, *, seed: int) -> compressors.CompressedLayer:
        """The largest weights under the caps, on a grid; nothing is random."""
        weight = compressors.weight_of(layer)
        kept = weight * self.mask(weight, self.density)
        return compressors.CompressedLayer(layer.name, on_grid(kept, self.levels))

    def run(self, job: compressors.Job) -> compressors.CompressedNetwork:  # noqa: D102
        if job.layers is not None:
            raise UsageError("this method prunes all layers together, so it cannot be given some of them.")
        pruned = prune_balanced(job.network, job.sample, self, seed=job.seed, progress=job.progress)
        state = pruned.module.state_dict()
        layers = tuple(
            compressors.CompressedLayer(name, on_grid(state[compressors.weight_name(name)], self.levels))
            for name in pruned.masks
        )
        weights = {layer.tensor for layer in layers}
        trained = {} if job.sample is None else {n: each for n, each in state.items() if n not in weights}
        return compressors.CompressedNetwork(job.network, layers, pruned.carried, trained)


@dataclass(frozen=True, eq=False)
class BalancedNetwork:
    """A network that was trained under masks."""

    module: nn.Module  # the pruned network, not rounded
    masks: Mapping[str, Tensor]  # the mask of each layer, by its name, bool, in the shape of its weight
    carried: dict[str, str]  # layers without a mask, with the reason


def prune_balanced(
    network: Network,
    sample: DeviceData | None,
    options: BalancedPruning,
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> BalancedNetwork:
    """Prunes a network in steps under caps, and trains it after each; without a sample in one, untrained."""
    options = replace(options, steps=min(options.steps, options.epochs))
    weights, carried = compressors.weights_of(network)
    shares = options.shares([*weights])
    state = {name: each.detach().clone() for name, each in network.model.state_dict().items()}
    module = with_weights(network.model, state).eval()
    outputs = None if sample is None else _outputs(module, sample)
    masks = dict[str, Tensor]()
    for step in range(1 if sample is not None else options.steps, options.steps + 1):
        growth = dict[str, tuple[Tensor, float]]()
        if sample is not None and outputs is not None and 1 < step < options.steps:
            part = options.regrowth * (options.steps - step) / (options.steps - 1)
            gradients = _gradients(module, [*shares], sample, outputs / options.temperature)
            growth = {name: (gradient, part) for name, gradient in gradients.items()}
        for name, share in shares.items():
            weight, is_last = module.get_parameter(compressors.weight_name(name)), name == [*shares][-1]
            kept = options.share_at(step, share)
            masks[name] = options.mask(weight, kept, is_last=is_last, growth=growth.get(name))
            with torch.no_grad():
                weight.mul_(masks[name])
        if sample is not None and outputs is not None:
            inputs = sample, outputs
            _train(module, masks, inputs, options, seed=seed, step=step, progress=progress)
    return BalancedNetwork(module, masks, carried)


@torch.no_grad()
def _outputs(module: nn.Module, sample: DeviceData) -> Tensor:
    module = module.to(sample.x.device)
    return torch.cat([module(x) for x, _ in sample.chunks(_CHUNK)])


def _gradients(
    module: nn.Module, layers: list[str], sample: DeviceData, outputs: Tensor
) -> dict[str, Tensor]:
    """Gradients of the loss on the first examples by all weights of some layers, by name."""
    names = map(compressors.weight_name, layers)
    tensors = {name: module.get_parameter(name).detach().requires_grad_() for name in names}
    x, _ = next(sample.chunks(_CHUNK))
    found = functional_call(module, tensors, (x,))
    loss = functional.cross_entropy(found, outputs[: len(x)].softmax(1))
    return dict(zip(layers, torch.autograd.grad(loss, [*tensors.values()]), strict=True))


def _train(
    module: nn.Module,
    masks: Mapping[str, Tensor],
    taught: tuple[DeviceData, Tensor],
    options: BalancedPruning,
    *,
    seed: int,
    step: int,
    progress: Progress,
) -> None:
    """Trains all parameters in place towards given outputs, those outside the masks excepted."""
    sample, outputs = taught
    others = options.steps - 1
    each = max(1, options.epochs // (2 * others)) if others else 0
    epochs = each if step < options.steps else options.epochs - others * each
    inner = copy.deepcopy(module).requires_grad_(True)
    is_tied = len(list(inner.parameters())) < len(list(inner.named_parameters(remove_duplicate=False)))
    sparse, kept = dict[str, _SparseLinear](), dict[str, Tensor | None]()
    for name, mask in masks.items():
        layer = inner.get_submodule(name)
        if name and not is_tied and _is_sparse(layer, mask):
            sparse[name] = _SparseLinear(layer, mask)
            inner.set_submodule(name, sparse[name])
            kept[f"{name}.values"] = None
        else:
            kept[compressors.weight_name(name)] = mask
    update = adam(inner.parameters())
    order = torch_stream(seed, f"balanced {step}")
    passes = Passes(n=sample.n, epochs=epochs, batch_size=min(_BATCH, max(32, sample.n // 28)), order=order)
    heat, grids = options.temperature, dict[str, int]()

    def used(name: str, *, done: int) -> Tensor:
        """A tensor under its mask, from the middle of the last step on rounded; its gradient goes through."""
        mask, weight = kept[name], torch.as_tensor(inner.get_parameter(name))
        if mask is not None:
            weight = weight * mask
        if step < options.steps or 2 * done < passes.steps:
            return weight
        with torch.no_grad():
            if name not in grids or done % _STEPS_PER_GRID == 0:
                grids[name] = _best_step(weight, options.levels)
            change = _integers(weight, grids[name], options.levels) * step_size(grids[name]) - weight
        return weight + change

    def descend(done: int, indices: Tensor) -> Tensor:
        wanted = (outputs[indices] / heat).softmax(1)
        tensors = {name: used(name, done=done) for name in kept}
        found = functional_call(inner, tensors, (sample.batch(indices)[0],))
        loss = functional.cross_entropy(found / heat, wanted)
        torch.autograd.backward(loss * heat)
        update(options.learning_rate * half_cosine(done / passes.steps))
        return loss

    def tell(done: int, total: int | None, note: str = "") -> None:
        progress(100 * (step - 1) + 100 * done // (total or 1), 100 * options.steps, note)

    passes.run(descend, device=sample.x.device, activity="under the mask", progress=tell)
    for name, layer in sparse.items():
        inner.set_submodule(name, layer.dense())
    module.load_state_dict(inner.state_dict())
    with torch.no_grad():
        for name, mask in masks.items():
            module.get_parameter(compressors.weight_name(name)).mul_(mask)


def on_grid(weight: Tensor, levels: int) -> AbstractTensorCode:
    """The weight on ``levels`` = 2L + 1 multiples of the coded step that is nearest to it in squared error.

    >>> on_grid(torch.tensor([[4.0, -1.0, 1.0, 0.0]]), 3).values().round(2).tolist()
    [[4.0, 0.0, 0.0, 0.0]]
    """
    step = _best_step(weight, levels)
    return best_tensor_code(_integers(weight, step, levels).cpu().numpy().astype(np.int32), step=step)


def _best_step(weight: Tensor, levels: int) -> int:
    """The step with the least squared error, of those that reach from an eighth of the weights to all."""
    if levels < 3 or levels % 2 == 0:
        raise UsageError(f"a grid around zero has an odd number of levels, at least 3. Got {levels}.")
    values = weight.detach()[weight.detach() != 0]
    if len(values) == 0:
        return 0
    top = nearest_step(float(values.abs().max()) / (levels // 2))
    steps = range(max(top - 24, -MAX_STEP), top + 1)
    errors = [float((_integers(values, j, levels) * step_size(j) - values).square().sum()) for j in steps]
    return steps[errors.index(min(errors))]


def _integers(values: Tensor, step: int, levels: int) -> Tensor:
    return (values / step_size(step)).round().clamp(-(levels // 2), levels // 2)


def _is_sparse(layer: nn.Module, mask: Tensor) -> bool:
    has_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    is_plain = type(layer) is nn.Linear and mask.device.type == "cpu" and has_mkl
    return is_plain and float(mask.float().mean()) < _SPARSE


class _SparseLinear(nn.Module):
    """A linear layer as the list of its non-zeros: ten times faster where one weight in a hundred is left."""

    def __init__(self, layer: Any, mask: Tensor) -> None:
        super().__init__()
        self.bias = layer.bias
        self.shape = tuple(mask.shape)
        self.places = tuple(mask.nonzero().T)
        self.values = nn.Parameter(layer.weight.detach()[self.places])
        self.order = torch.argsort(self.places[1], stable=True)
        with warnings.catch_warnings():  # torch says once that such tensors are in beta
            warnings.simplefilter("ignore")
            both = [each.float().to_sparse_csr() for each in (mask, mask.T)]
        self.by_row, self.by_column = ((each.crow_indices(), each.col_indices()) for each in both)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        product: Tensor = _SparseProduct.apply(self.values, rows, self)  # type: ignore[no-untyped-call]
        return product.view(*x.shape[:-1], -1) + (0.0 if self.bias is None else self.bias)

    def dense(self) -> nn.Linear:
        layer = nn.Linear(self.shape[1], self.shape[0], bias=self.bias is not None)
        layer.bias = self.bias
        with torch.no_grad():
            layer.weight.zero_()[self.places] = self.values
        return layer


class _SparseProduct(torch.autograd.Function):
    """``x W^T`` for a sparse W, with gradients by its values and by x."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, x: Tensor, layer: _SparseLinear) -> Tensor:
        ctx.save_for_backward(values, x)
        ctx.layer = layer
        return (_matrix(layer.by_row, values, layer.shape) @ x.T).T

    @staticmethod
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor, Tensor, None]:
        values, x = ctx.saved_tensors
        layer: _SparseLinear = ctx.layer
        matrix = _matrix(layer.by_row, values, layer.shape)
        by_values = torch.sparse.sampled_addmm(matrix, change.T.contiguous(), x, beta=0.0).values()
        transposed = _matrix(layer.by_column, values[layer.order], layer.shape[::-1])
        return by_values, (transposed @ change.T).T, None


def _matrix(places: tuple[Tensor, Tensor], values: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.sparse_csr_tensor(*places, values.detach(), shape, check_invariants=False)

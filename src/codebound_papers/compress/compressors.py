"""Compressors: options, results on a network, and proposals for ``certify``.

To add a compressor: write one frozen subclass of ``AbstractCompressor``, its fields the options, and name it
in ``compress/catalogue.py``. The command line and ``certify`` find it there.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from codebound.methods.guesses import consider
from codebound.methods.search import Search, UnsuitedError
from codebound.run.errors import UnsupportedLayerError, UsageError
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.dataset import DeviceData
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.modes import encode_tensors
from codebound_networks.codes.quantization import quantize, step_for_levels, step_size
from codebound_networks.codes.tensors import AbstractTensorCode, Raw
from codebound_networks.methods.pruned import VECTOR_LEVELS, quantise_tensor
from codebound_networks.reading.walk import Network
from codebound_networks.views.layers import AbstractLayerView
from codebound_networks.views.rebuild import tensors_of, with_weights
from codebound_papers.compress.catalogue import COMPRESSORS

MAX_ENTRIES = 1 << 25
"""Most elements of a tensor in a message."""
_FALLBACK_LEVELS = 255  # of a layer that a compressor refuses


@dataclass(frozen=True, eq=False)
class CompressedLayer:
    """The weight of a layer as a code; the network g uses what the code decodes to, bit for bit."""

    name: str  # qualified name of the layer
    code: AbstractTensorCode = field(repr=False)  # of the weight tensor, or of its difference to the base
    # what the paper's theorem predicts for the spectral norm of the change, if it does
    predicted_error: float | None = None
    predicted_by: str = ""  # the statement behind the prediction and the constants it was given
    # what the decoder adds to the code: a weight that was fixed before the sample was seen
    base: NDArray[np.float32] | None = field(default=None, repr=False)

    @property
    def tensor(self) -> str:
        """Name of the weight in the state of the network."""
        return weight_name(self.name)

    @property
    def weight(self) -> Tensor:
        """The decoded weight, in the layer's shape."""
        return torch.from_numpy(self.code.weights(base=self.base))


def weight_name(layer: str) -> str:
    """Name of a layer's weight in the state of its network; a network that is one layer has no prefix."""
    return f"{layer}.weight".lstrip(".")


def first_names(module: nn.Module) -> dict[str, str]:
    """The first name of every tensor, by each of its names: modules may share a tensor."""
    return {name: held.name for held in tensors_of(module) for name in held.names}


def find_sharing(network: Network) -> dict[str, str]:
    """Layers whose weight is that of a layer before, with the reason not to compress it again."""
    first, seen, sharing = first_names(network.model), dict[str, str](), dict[str, str]()
    for view in network.layers:
        tensor = weight_name(view.name)
        before = seen.setdefault(first.get(tensor, tensor), view.name)
        if before != view.name:
            sharing[view.name] = f"its weight is that of {before}, and goes with it"
    return sharing


@dataclass(frozen=True, eq=False)
class CompressedNetwork:
    """A network whose layers are compressed; everything else is carried as it is."""

    network: Network = field(repr=False)  # the original
    layers: tuple[CompressedLayer, ...]  # the compressed layers, in forward order
    carried: dict[str, str]  # layers that the method cannot take, with the reason
    # tensors of other kinds, such as biases, where they were trained together with the layers
    trained: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    chain: ClassVar[None] = None  # g has the architecture of f

    def module(self) -> nn.Module:
        """The compressed network g, on the device of the original."""
        first = first_names(self.network.model)
        weights = {first[layer.tensor]: layer.weight for layer in self.layers}
        state = {name: weights.get(first.get(name, name), old) for name, old in self._state().items()}
        return with_weights(self.network.model, {name: value.detach() for name, value in state.items()})

    def _state(self) -> dict[str, Tensor]:
        return {**self.network.model.state_dict(), **self.trained}

    @property
    def names(self) -> dict[str, str]:
        """The weights, and the layer that each one is of; the first one where layers share it."""
        first = first_names(self.network.model)
        views = reversed(self.network.layers)
        return {first[tensor]: view.name for view in views if (tensor := weight_name(view.name)) in first}

    @cached_property
    def codes(self) -> Mapping[str, AbstractTensorCode]:
        """The codes of all tensors that evaluation reads; refused where one is not float32, or hidden."""
        coverage = self.network.coverage
        coverage.require_complete()
        state, first = self._state(), first_names(self.network.model)
        done = {first[layer.tensor]: layer.code for layer in self.layers}
        codes: dict[str, AbstractTensorCode] = {}
        for row in coverage.tensors:
            if row.name in done:
                codes[row.name] = done[row.name]
            elif row.dtype == "float32":
                codes[row.name] = Raw(state[row.name].cpu().numpy())
            elif state[row.name].is_floating_point():
                raise UnsupportedLayerError(
                    f"tensor {row.name}: it is {row.dtype}, and codes decode to float32. Convert the network "
                    "with .float() first."
                )
        return codes


@dataclass(frozen=True, eq=False)
class LocalNetwork:
    """A network of another architecture: some convolutions have filters of their own at every location."""

    network: Network = field(repr=False)  # the original
    chain: Chain  # the new architecture; batch norms are folded
    # the codes of all its tensors, in the order of a message
    codes: Mapping[str, AbstractTensorCode] = field(repr=False)
    # the weights among them, and the layer of the original that each one is
    names: Mapping[str, str] = field(repr=False)
    layers: tuple[CompressedLayer, ...]  # the compressed layers, under their names in the original
    carried: dict[str, str]  # layers that are as they were, with the reason

    def module(self) -> nn.Module:
        """The compressed network g, on the CPU."""
        return self.chain.build({name: torch.from_numpy(code.weights()) for name, code in self.codes.items()})


Compressed = CompressedNetwork | LocalNetwork
"""Result of a compressor on a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Input of a compressor."""

    network: Network = field(repr=False)  # the wrapped network
    input_shape: tuple[int, ...] = ()  # shape of one input
    sample: DeviceData | None = None  # examples, for compressors that train
    layers: tuple[str, ...] | None = None  # names of the layers to compress; all when None
    seed: int = 0  # names all random choices
    progress: Progress = silent  # told how far it is

    def select(self, names: Iterable[str]) -> set[str]:
        """The layers to compress among these; refuses unknown ones."""
        known = list(names)
        unknown = sorted(set(self.layers or ()) - set(known))
        if unknown:
            raise UsageError(f"no layer is called {', '.join(unknown)}. The layers are {', '.join(known)}.")
        return set(known if self.layers is None else self.layers)


class AbstractNetworkCompressor(ABC):
    """A compression algorithm with its options. Deterministic: the seed names every random choice."""

    trains: ClassVar[bool] = False  # whether it trains all layers together, on the sample of the job
    words: ClassVar[Mapping[str, str]] = {}  # options that can be a word too, which the whole network decides
    is_seed_coded: ClassVar[bool] = False  # whether the decoder needs the seed; small ones are then cheapest

    @abstractmethod
    def run(self, job: Job) -> Compressed:
        """The compressed network; what the algorithm cannot take is carried, with the reason."""

    @classmethod
    @abstractmethod
    def propose(cls, search: Search) -> None:
        """Shows messages to a search, over the options that are worth trying; looking at many is free.

        ``UnsuitedError`` says that the algorithm can do nothing for this network or this statement.
        """


class AbstractRule(ABC):
    """An option that is a rule: a word on a command line, with its numbers behind it: scale-free:0.1:0.05."""

    word: ClassVar[str] = ""
    form: ClassVar[str]  # how the rules of this kind are written, in words
    known: ClassVar[Mapping[str, type["AbstractRule"]]]  # those of this kind, by their words

    def __str__(self) -> str:
        return ":".join([self.word, *map(str, astuple(self))])  # type: ignore[call-overload]


class AbstractCompressor(AbstractNetworkCompressor):
    """An algorithm that takes one layer after the other."""

    @abstractmethod
    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:
        """The compressed layer; ``UnsupportedLayerError`` says why the algorithm cannot take it.

        The seed names its random choices; where the decoder needs them too, it is a field of the code.
        """

    @classmethod
    def grid(cls) -> "tuple[AbstractCompressor, ...]":
        """The options that ``certify`` tries; the defaults, unless a compressor says more."""
        return (cls(),)

    @classmethod
    def near(cls) -> "tuple[AbstractCompressor, ...]":
        """Options that stay near f in spectral norm, for statements about f itself."""
        return ()

    def adapt_to(self, network: Network) -> "AbstractCompressor":
        """The same with the options that only the whole network decides."""
        return self

    def run(self, job: Job) -> CompressedNetwork:
        """Compresses every layer, or the named ones, each from the seed of the job plus its position."""
        algorithm, views = self.adapt_to(job.network), job.network.layers
        wanted = job.select(view.name for view in views)
        done: list[CompressedLayer] = []
        carried = find_sharing(job.network)
        for position, view in enumerate(views):
            job.progress(position, len(views), view.name)
            if view.name in carried:
                continue
            if view.name not in wanted:
                carried[view.name] = "not asked for"
                continue
            try:
                done.append(algorithm.compress(view, seed=job.seed + position))
            except UnsupportedLayerError as refusal:
                carried[view.name] = str(refusal)
        job.progress(len(views), len(views), "")
        return CompressedNetwork(job.network, tuple(done), carried)

    @classmethod
    def propose(cls, search: Search) -> None:
        """f stays as it is, and a part of the sample chooses the options."""
        grid = cls.near() if search.task.stays_near_f else cls.grid()
        if not grid:
            raise UnsuitedError("g would be too far from f for a claim about f on a whole domain.")
        network, initial = search.task.network, search.task.base_network
        if initial is not None:
            grid = tuple(FromInitial(algorithm, initial) for algorithm in grid)
        seed = 0 if cls.is_seed_coded else search.seed
        consider(search, [partial(_message, search, network, algorithm, seed) for algorithm in grid])


def compress(
    network: Network,
    algorithm: AbstractCompressor,
    *,
    seed: int = 0,
    layers: Iterable[str] | None = None,
    progress: Progress = silent,
) -> CompressedNetwork:
    """Compresses every layer, or the named ones, each from its own seed: ``seed`` plus its position."""
    names = None if layers is None else tuple(layers)
    return algorithm.run(Job(network=network, layers=names, seed=seed, progress=progress))


def propose_compressed(search: Search) -> None:
    """Shows the networks that the running compressor makes."""
    COMPRESSORS[search.running].algorithm.propose(search)


def _message(search: Search, network: Network, algorithm: AbstractCompressor, seed: int) -> Message | None:
    """The message of a compressed network; None as soon as it is too long to be the best."""
    codes, bits = {}, 0
    for position, view in enumerate(network.layers):
        name = weight_name(view.name)
        try:
            code = algorithm.compress(view, seed=seed + position).code
        except UnsupportedLayerError:
            code = quantise_tensor(name, search.task, levels=_FALLBACK_LEVELS)
        codes[name] = code
        if search.best is not None:
            bits += encode_tensors([code]).length
            if bits > search.most_bits:
                return None
    return message_with(search, codes)


def message_with(search: Search, codes: Mapping[str, AbstractTensorCode]) -> Message:
    """A message in the architecture of f; what has no code yet is rounded finely."""
    whole = {
        name: codes[name] if name in codes else quantise_tensor(name, search.task, levels=VECTOR_LEVELS)
        for name in search.task.f.tensors
    }
    return Message(search.task.options, search.task.chain, whole)


@implements("G-Lem4.4:corrected", "G-E9", kind="numerics")
def rounding_bound(size: float, *, nonzeros: int) -> float:
    r"""Most that rounding to multiples of ``size`` moves a matrix, in Frobenius norm: :math:`\rho\sqrt J/2`.

    >>> rounding_bound(0.5, nonzeros=100)
    2.5
    """
    return size * math.sqrt(nonzeros) / 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """A weight on a grid."""

    code: AbstractTensorCode = field(repr=False)  # the shortest code of the integers
    size: float  # size of the step
    nonzeros: int  # non-zero weights before rounding, J; the small ones among them may have become zero

    @property
    def error(self) -> float:
        """Most that rounding changed the layer, in Frobenius and so in spectral norm."""
        return rounding_bound(self.size, nonzeros=self.nonzeros)


@implements("G-Disc", "I-11", kind="algorithm")
def round_weight(weight: Tensor, levels: int) -> Rounded:
    """The weight on ``levels`` = 2L + 1 multiples of the smallest step that reaches all; zeros stay zero.

    Differs.    The step is one of the coded ones, 2^(j/8), so that the decoder knows it.

    >>> grid = round_weight(torch.tensor([[1.0, -0.52], [0.0, 0.02]]), levels=5)
    >>> grid.code.values().round(3).tolist(), grid.nonzeros
    ([[0.841, -0.42], [0.0, 0.0]], 3)
    """
    values = weight.detach().cpu().numpy()
    step = step_for_levels(values, levels)
    code = best_tensor_code(quantize(values, step), step=step)
    return Rounded(code, step_size(step), int(np.count_nonzero(values)))


@implements("G-E10", kind="numerics")
def number_of_levels(largest: float, size: float) -> int:
    """Multiples of ``size`` that weights of magnitude up to ``largest`` are rounded to, zero included.

    Differs.    G counts 1/rho, which leaves out the range of the weights and is below 1 for rho > 1.

    >>> number_of_levels(1.0, 0.3)
    7
    """
    if not (0.0 <= largest < math.inf and 0.0 < size < math.inf):
        raise UsageError(f"a range is at least 0 and a step above 0. Got {largest} and {size}.")
    return 2 * math.floor(largest / size + 0.5) + 1


def weight_of(layer: AbstractLayerView) -> Tensor:
    """The weight of a layer in memory, or the reason why no code can take it."""
    weight = layer.weight
    if weight.dtype != torch.float32:
        raise UnsupportedLayerError(
            f"layer {layer.name}: its weight is {str(weight.dtype).removeprefix('torch.')}, and codes "
            "decode to float32. Convert the network with .float() first."
        )
    if weight.numel() > MAX_ENTRIES:
        raise UnsupportedLayerError(
            f"layer {layer.name}: its weight has {weight.numel():,} elements; a message takes at most "
            f"{MAX_ENTRIES:,} per tensor."
        )
    return weight.detach().cpu()


def weights_of(network: Network) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The weights in memory that a code can take, by layer; the other layers, with the reason."""
    found, carried = dict[str, Tensor](), find_sharing(network)
    for view in (each for each in network.layers if each.name not in carried):
        try:
            found[view.name] = weight_of(view)
        except UnsupportedLayerError as refusal:  # noqa: PERF203
            carried[view.name] = str(refusal)
    return found, carried


@implements("A-Imp-i:code", kind="algorithm")
@dataclass(frozen=True)
class FromInitial(AbstractCompressor):
    """Any compressor, applied to ``A - A_0``: the code is of the difference, and the decoder adds ``A_0``.

    The initial network is a helper: it must have been fixed before the sample was seen. A layer that training
    moved less than its own size then costs less, or is met more closely.

    >>> from codebound_networks.reading.walk import wrap
    >>> from codebound_papers.arora18.projection import MatrixProject
    >>> net = torch.nn.Sequential(torch.nn.Linear(32, 8))
    >>> g = compress(wrap(net), FromInitial(MatrixProject(count=9), wrap(net))).module()
    >>> bool((g[0].weight == net[0].weight).all())
    True
    """

    algorithm: AbstractCompressor  # the compressor of the differences
    initial: Network = field(repr=False)  # the network at initialisation, or another base like it

    def compress(self, layer: AbstractLayerView, *, seed: int) -> CompressedLayer:  # noqa: D102
        base = next((view.weight for view in self.initial.layers if view.name == layer.name), None)
        if base is None or base.shape != layer.weight.shape or base.dtype != layer.weight.dtype:
            raise UnsupportedLayerError(
                f"layer {layer.name}: the initial network has no such layer of shape "
                f"{tuple(layer.weight.shape)} {layer.weight.dtype}."
            )
        change = layer.weight.detach() - base.to(layer.weight.device)
        found = self.algorithm.compress(replace(layer, weight=change), seed=seed)
        return replace(found, base=base.detach().cpu().numpy())

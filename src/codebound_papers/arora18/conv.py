"""Convolutions with one random estimate of the filters per location (Arora et al. 2018, algorithm 4).

All locations share few numbers, the coordinates of the filters in a random subspace. The paper takes the
filters of different locations for independent; they are not (A-E17). ``coherence`` measures how much of the
common error a layer feels; the moments of sums of p-wise independent terms are what the proof needed.
``LocalFilters`` is the algorithm for a whole network, as a code (K-MPC).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

from codebound.methods.guesses import consider
from codebound.methods.search import Search, UnsuitedError
from codebound.run.errors import ModelError, UnsupportedLayerError, UsageError
from codebound.run.references import implements
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.from_module import chain_of
from codebound_networks.chains.message import MAX_ELEMENTS, Message
from codebound_networks.chains.operations import Conv, LocalConv
from codebound_networks.codes.arithmetic import MAX_WORK, Writer
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.modes import encode_tensors
from codebound_networks.codes.quantization import nearest_step, quantize, step_for_levels, step_size
from codebound_networks.codes.tensors import MAX_SIZE, AbstractTensorCode, Raw
from codebound_networks.methods.pruned import quantise_tensor
from codebound_networks.train.rng import torch_stream
from codebound_papers.arora18.projection_plan import ConvCount
from codebound_papers.compress import compressors
from codebound_papers.compress.codes import GAUSSIAN_WORK, MAX_MIXED, Mixed
from codebound_papers.compress.random_matrices import RandomMatrix

_PREDICTED = "lemma 13 of Arora et al. 2018 is about fixed directions, not about a spectral norm"
_MIXES = 4  # times the numbers: the noise of a location is then half its signal
_OTHERS = ((0.1, 7), (0.5, 7), (1.0, 15))  # density and levels of all other layers
_OPTIONS = [(numbers, *others) for numbers, others in product((16, 64, 256), _OTHERS)]


@implements("A-Alg4", kind="algorithm")
def project_conv(filters: Tensor, *, locations: int, count: ConvCount, seed: int = 0) -> Tensor:
    """Matrix-Project-Conv: one estimate of the filters per location, from k p numbers; each is unbiased.

    ``k p`` is at most the number of entries (A-E18). The result has shape ``(locations, *filters.shape)``.
    """
    entries = filters.detach().cpu().double().flatten()
    subspace = random_subspace(len(entries), count.numbers, seed=seed)
    estimates = conv_from_numbers(subspace.T @ entries, subspace, locations=locations, count=count, seed=seed)
    return estimates.reshape(locations, *filters.shape)


def random_subspace(size: int, dimension: int, *, seed: int = 0) -> Tensor:
    """An orthonormal basis, as columns, of a uniformly random subspace."""
    if not 1 <= dimension <= size:
        raise UsageError(f"a subspace of R^{size} has 1 to {size} dimensions. Got {dimension}.")
    gaussians = torch.randn(size, dimension, generator=torch_stream(seed, "subspace"), dtype=torch.float64)
    basis: Tensor = torch.linalg.qr(gaussians).Q
    return basis


@implements("A-Lem11", kind="algorithm")
def conv_from_numbers(
    numbers: Tensor, subspace: Tensor, *, locations: int, count: ConvCount, seed: int = 0
) -> Tensor:
    """All locations from the numbers alone: ``(N / kp) Q G^T G z / k``, G the Gaussians of a location.

    The projected tensors are ``M' = sqrt(N / kp) Q g``, so ``<A, M'>`` needs only g and ``z = Q^T A``.
    """
    size, dimension = subspace.shape
    generator = torch_stream(seed, "locations")
    mixed = []
    for _ in range(locations):
        gaussians = torch.randn(count.mixes, dimension, generator=generator, dtype=torch.float64)
        mixed.append(gaussians.T @ (gaussians @ numbers))
    return torch.stack(mixed) @ subspace.T * (size / (dimension * count.mixes))


@implements("A-Lem12", "A-E17:correlation", kind="numerics")
def location_correlation(size: int, count: ConvCount) -> float:
    """Correlation of the errors at two locations: ``(1 - kp/N) / (p + 1 - kp/N)``; independence would be 0.

    >>> round(location_correlation(600, ConvCount(mixes=10, order=4)), 2)
    0.19
    """
    left = 1.0 - count.numbers / size
    return left / (count.order + left)


@implements("A-E17", "I-23", kind="measure")
def coherence(jacobian: Tensor, image: Tensor, *, kernel: int, stride: int = 1, padding: int = 0) -> float:
    """Return the gain of an error that all locations share.

    ``||T||_F sqrt(n1' n2') / (ceil(kappa/s) ||U||_F ||V||_F)`` with ``T = sum_ij U_ij (x) V_patch(ij)``. It
    is at most ``sqrt(n1' n2')``, and about 1 or below where lemma 13 has the right size in spite of A-E17. U
    is the Jacobian, ``(channels out, n1', n2', outputs)``, from the layer to whatever is looked at; V is the
    input of the layer, ``(channels in, n1, n2)``; kappa and s are side and stride of the filters.

    >>> round(coherence(torch.ones(1, 4, 4, 1), torch.ones(1, 4, 4), kernel=1), 9)  # all in phase
    4.0
    """
    patches = functional.unfold(image.double()[None], kernel, padding=padding, stride=stride)[0]
    locations = math.prod(jacobian.shape[1:3])
    if jacobian.dim() != 4 or patches.shape[1] != locations:
        raise UsageError(
            f"an image of shape {tuple(image.shape)} has {patches.shape[1]} patches, one per location of the "
            f"Jacobian (channels, n1', n2', outputs). Got {tuple(jacobian.shape)}."
        )
    weights = jacobian.double().permute(0, 3, 1, 2).reshape(-1, locations)
    norms = float(weights.norm() * image.double().norm()) * math.ceil(kernel / stride)
    if norms == 0.0:
        raise UsageError("the coherence of a zero image or a zero Jacobian is not defined.")
    return float((weights @ patches.T).norm()) * math.sqrt(locations) / norms


@implements("A-Def11", kind="measure")
def subexponential_sigma(moments: Sequence[float]) -> float:
    """The smallest sigma with ``E|X - EX|^k <= sigma^k k^k`` for the given k = 1, 2, ...: absolute moments.

    >>> subexponential_sigma([0.5, 4.0])  # 0.5 / 1 and sqrt(4) / 2
    1.0
    """
    if not moments or min(moments) < 0.0:
        raise UsageError("absolute moments are numbers >= 0, at least one of them.")
    return max(math.pow(moment, 1.0 / k) / k for k, moment in enumerate(moments, start=1))


@implements("A-Lem15", "I-24", kind="algorithm")
def moment_bound(sigmas: Sequence[float], order: int) -> float:
    """Most that ``E(X - EX)^p`` can be for a sum X: ``(3 sigma)^p (2p)^p``, ``sigma^2 = sum sigma_i^2``.

    The terms are p-wise independent for ``order`` = p, at least 2 and odd or even (A-E19).

    >>> moment_bound([1.0], 2)
    144.0
    """
    _check_order(order)
    return float((3.0 * _total(sigmas) * 2.0 * order) ** order)


@implements("A-CorC.2", kind="algorithm")
def tail_bound(sigmas: Sequence[float], order: int, distance: float) -> float:
    """Probability that the sum is ``distance`` or more from its mean, at most: ``(6 sigma p / distance)^p``.

    p is even, for Markov's inequality. For vectors too, with norms in place of absolute values (A-E18).

    >>> tail_bound([1.0], 2, 24.0)  # t = 2
    0.25
    """
    _check_order(order)
    if order % 2:
        raise UsageError(f"a tail needs an even moment. Got {order}.")
    if distance <= 0.0:
        raise UsageError(f"a distance is positive. Got {distance}.")
    return min(1.0, (6.0 * _total(sigmas) * order / distance) ** order)


@implements("A-Claim1", kind="numerics")
def mixed_moment_sum(sigmas: Sequence[float], order: int) -> float:
    """The sum of ``prod sigma_i^{a_i}`` over all a with ``a_i`` in 0, 2, 3, .. and ``sum a_i = order``.

    Statement.  It is at most ``(9 sum sigma_i^2)^{p/2}`` for an order p of at least 2.

    It is the coefficient of x^p in ``prod_i (1 + sigma_i^2 x^2 + sigma_i^3 x^3 + ..)``.

    >>> mixed_moment_sum([1.0, 2.0], 4)  # 1 + 16 from one of them alone, 1 * 4 from both
    21.0
    """
    _check_order(order)
    coefficients = [1.0] + [0.0] * order
    for sigma in sigmas:
        factor = [1.0, 0.0, *(sigma**power for power in range(2, order + 1))]
        coefficients = [
            sum(coefficients[degree - power] * factor[power] for power in range(degree + 1))
            for degree in range(order + 1)
        ]
    return coefficients[order]


def _total(sigmas: Sequence[float]) -> float:
    if not sigmas or min(sigmas) < 0.0:
        raise UsageError("sigmas are numbers >= 0, at least one of them.")
    return math.hypot(*sigmas)


def _check_order(order: int) -> None:
    if order < 2:
        raise UsageError(f"the order of a moment is at least 2. Got {order}.")


def conv_project(
    chain: Chain,
    tensors: Mapping[str, Tensor],
    positions: Sequence[int],
    *,
    numbers: int = 256,
    mixes: int = 1024,
    levels: int = 255,
    seed: int = 0,
) -> tuple[Chain, dict[str, AbstractTensorCode]]:
    """Gives convolutions of a chain a filter per location, all from a few coded numbers.

    Signs take the place of the orthonormal basis, and coded Gaussians that of the others, so that a decoder
    needs integers alone. One scale for all locations is fitted to the original filters. b is ``numbers``, kp
    in the paper, and never more than a layer has weights (A-E18); with k mixes the noise of a location is
    sqrt(b/k) times its signal. Returned are the chain and the codes of the weights by name.
    """
    codes: dict[str, AbstractTensorCode] = {}
    for position in positions:
        chain, name = localise(chain, position), f"{position}.weight"
        sizes = chain.tensor_shapes()[name]
        b = min(numbers, math.prod(sizes[1:]))
        _check_sizes(name, sizes, numbers=b, mixes=mixes, levels=levels)
        own_seed = seed + position
        codes[name] = _mix(tensors[name], sizes, numbers=b, mixes=mixes, levels=levels, seed=own_seed)
    return chain, codes


def convolutions(chain: Chain) -> list[int]:
    """The positions of the convolutions outside residual blocks."""
    return [place for place, operation in enumerate(chain.operations) if isinstance(operation, Conv)]


def localise(chain: Chain, position: int) -> Chain:
    """The chain with the convolution at ``position`` turned into a local one, of the same window.

    >>> from codebound_networks.chains.operations import Linear
    >>> chain = Chain((1, 4, 4), (Conv(2, 3, 1, 0, bias=False), Linear(3, bias=False)))
    >>> localise(chain, 0).tensor_shapes()["0.weight"]
    (4, 2, 1, 3, 3)
    """
    if position not in convolutions(chain):
        raise UnsupportedLayerError(f"operation {position} of the chain is no convolution.")
    operations = list(chain.operations)
    operations[position] = LocalConv(*astuple(operations[position]))
    return Chain(chain.input_shape, tuple(operations))


def _mix(
    weight: Tensor, sizes: tuple[int, ...], *, numbers: int, mixes: int, levels: int, seed: int
) -> AbstractTensorCode:
    filters = weight.detach().cpu().double().reshape(1, -1).numpy()
    basis = RandomMatrix(numbers, filters.size, "basis", seed)
    # on average the signs give the filters b times, and the coded Gaussians, of variance 16, 16 k times
    unbiased = basis.onto(filters)[0] / (16.0 * mixes * numbers)
    step = step_for_levels(unbiased, levels)
    integers = quantize(unbiased, step)
    decoded = Mixed(sizes, best_tensor_code(integers, step=step), mixes, seed).values().reshape(sizes[0], -1)
    fit = float((decoded @ filters[0]).sum()) / max(float((decoded**2).sum()), 1e-300)
    if fit > 0.0:  # shrinks the noise, of which there is sqrt(N/b) times as much as signal
        step = nearest_step(fit * step_size(step))
    return Mixed(sizes, best_tensor_code(integers, step=step), mixes, seed)


def _check_sizes(name: str, sizes: tuple[int, ...], *, numbers: int, mixes: int, levels: int) -> None:
    entries, per_location = math.prod(sizes), math.prod(sizes[1:])
    if not (1 <= numbers <= MAX_MIXED and 1 <= mixes <= MAX_MIXED):
        raise UsageError(
            f"{name}: a layer takes 1 to {MAX_MIXED:,} numbers and mixes. Got {numbers} and {mixes}."
        )
    work = numbers * entries + GAUSSIAN_WORK * mixes * numbers * sizes[0]
    if entries > MAX_SIZE or work > MAX_WORK or (mixes * numbers**2 * (levels // 2)) << 10 > 1 << 53:
        raise UnsupportedLayerError(
            f"{name}: {sizes[0]:,} locations of {per_location:,} weights from {numbers} numbers and {mixes} "
            "mixes are too much for a message. Choose fewer of them, or a layer with fewer locations."
        )


@dataclass(frozen=True, kw_only=True)
class LocalFilters(compressors.AbstractNetworkCompressor):
    """Compresses every convolution that a message can take by ``conv_project``; the rest is as it was.

    The input shape of the job decides how many locations a convolution has.
    """

    numbers: int = 256  # coded numbers per layer
    mixes: int = 1024  # Gaussian combinations per location
    levels: int = 255  # values that a number can take: odd, at least 3

    def run(self, job: compressors.Job) -> compressors.LocalNetwork:
        """The network with local filters.

        >>> from codebound_networks.reading.walk import wrap
        >>> from codebound_networks.views.zoo import build
        >>> net = wrap(build("lenet5", input_shape=(1, 28, 28), classes=10))
        >>> g = LocalFilters(numbers=16, mixes=32).run(compressors.Job(network=net, input_shape=(1, 28, 28)))
        >>> [layer.name for layer in g.layers], g.carried["linear1"]
        (['conv1', 'conv2'], 'no convolution')
        """
        network = job.network
        try:
            chain, tensors = chain_of(network.traced, job.input_shape)
        except ModelError as reason:
            raise UnsupportedLayerError(
                f"{reason}\n  Local filters need a chain: other methods take this network, such as lowrank."
            ) from reason
        weights = [name for name in tensors if name.endswith(".weight")]
        if len(weights) != len(network.layers):
            raise UnsupportedLayerError(f"a layer is called twice: {', '.join(network.shared)}.")
        names = dict(zip(weights, (view.name for view in network.layers), strict=True))
        wanted = job.select(names.values())
        codes: dict[str, AbstractTensorCode] = {
            name: Raw(tensor.cpu().numpy()) for name, tensor in tensors.items()
        }
        done: list[compressors.CompressedLayer] = []
        carried: dict[str, str] = {}
        sizes = {"numbers": self.numbers, "mixes": self.mixes, "levels": self.levels}
        for count, (weight, name) in enumerate(names.items()):
            job.progress(count, len(names), name)
            place, *inside = weight.removesuffix(".weight").split(".")
            if name not in wanted:
                carried[name] = "not asked for"
            elif inside:
                carried[name] = "inside a residual block, whose convolutions have the same filters everywhere"
            elif int(place) not in convolutions(chain):
                carried[name] = "no convolution"
            else:
                try:
                    chain, found = conv_project(chain, tensors, [int(place)], **sizes, seed=job.seed)
                except UnsupportedLayerError as refusal:
                    carried[name] = str(refusal)
                    continue
                codes |= found
                done.append(compressors.CompressedLayer(name, found[weight], predicted_by=_PREDICTED))
        job.progress(len(names), len(names))
        return compressors.LocalNetwork(network, chain, codes, names, tuple(done), carried)

    @classmethod
    def propose(cls, search: Search) -> None:
        """Convolutions by A-Alg4, the other layers pruned and quantised."""
        chain = search.task.f.chain
        if chain is None or not convolutions(chain):
            raise UnsuitedError("conv needs a chain with convolutions outside residual blocks.")
        if search.task.base is not None or search.task.stays_near_f:
            raise UnsuitedError("conv changes the architecture, so there is no difference to a base or to f.")
        consider(search, [partial(_message, search, chain, *each) for each in _OPTIONS])


def _message(search: Search, chain: Chain, numbers: int, density: float, levels: int) -> Message | None:
    tensors = search.task.f.tensors
    codes: dict[str, AbstractTensorCode] = {}
    for position in convolutions(chain):
        try:
            local, found = conv_project(chain, tensors, [position], numbers=numbers, mixes=_MIXES * numbers)
        except UnsupportedLayerError:
            continue  # too large for a message: the layer is pruned like the others
        if _fits(local, codes | found):
            chain, codes = local, codes | found
    if not codes:
        return None
    for name in tensors:
        if name not in codes:
            codes[name] = quantise_tensor(name, search.task, density=density, levels=levels)
    if search.best is not None and encode_tensors(list(codes.values())).length > search.most_bits:
        return None
    return Message(search.task.options, chain, {name: codes[name] for name in chain.tensor_shapes()})


def _fits(chain: Chain, codes: Mapping[str, AbstractTensorCode]) -> bool:
    """Return True if one message can hold all these layers, of which each alone may be small enough."""
    writer = Writer()
    try:
        for code in codes.values():
            code.code(writer)
    except UsageError:
        return False
    return sum(map(math.prod, chain.tensor_shapes().values())) <= MAX_ELEMENTS

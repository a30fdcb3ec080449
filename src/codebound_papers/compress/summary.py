"""What compression did to a network: sizes, errors, accuracy, and the messages of all its tensors."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from codebound.coding.modes import encode_tensors
from codebound.files import finite
from codebound.progress import Progress, silent
from codebound.scores import logit_chunks
from codebound_papers.compress.deviations import NetworkDeviation, deviation
from codebound_papers.measure.outputs import margin_report
from codebound_papers.measure.spectral import matrix_spectral_norm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from codebound.coding.bits import Bits
    from codebound.coding.tensors import AbstractTensorCode
    from codebound.data.dataset import DeviceData
    from codebound.nets.walk import Network
    from codebound_papers.compress.compressors import CompressedLayer, CompressedNetwork, LocalNetwork

SPARSE_FORMAT = "CSR: float32 values, int32 column numbers and row starts"
"""What ``sparse_bytes`` counts."""
_FLOAT, _INDEX = 4, 4  # bytes
_CHUNK = 512
_UNTOUCHED = "no weight matrix, coded as it is"


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One compressed layer.

    Attributes:
        name: The layer.
        shape: Shape of its decoded weight.
        kept: Share of the decoded weights that are not zero.
        dense_bytes: Size of the original weight as float32.
        sparse_bytes: Size of the decoded weight in ``SPARSE_FORMAT``.
        coded_bits: Length of its message.
        spectral_error_measured: Spectral norm of the change of the layer's matrix; None where g has another
            architecture. For a convolution it is the matrix of filters, one row per output channel.
        spectral_error_predicted: What the paper's theorem predicts for it, if it does.
        predicted_by: The statement behind the prediction, or why there is none.
    """

    name: str
    shape: tuple[int, ...]
    kept: float
    dense_bytes: int
    sparse_bytes: int
    coded_bits: int
    spectral_error_measured: float | None
    spectral_error_predicted: float | None
    predicted_by: str


@dataclass(frozen=True, slots=True)
class CarriedTensor:
    """A tensor that was not compressed, and what it costs all the same.

    Attributes:
        name: The tensor.
        shape: Its shape.
        dense_bytes: Its size.
        coded_bits: Length of its message; 0 if it needs none.
        reason: Why it is as it was.
    """

    name: str
    shape: tuple[int, ...]
    dense_bytes: int
    coded_bits: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class CompressionSummary:
    """A compressed network in numbers.

    Attributes:
        layers: The compressed layers, in forward order.
        carried: Every other tensor.
        codes: The codes of all tensors of g, by name.
        messages: Their bits; ``codebound.coding.modes.decode_tensors`` reads each of them.
        accuracy_before: Share of the sample that f classifies correctly, where a sample was given.
        accuracy_after: The same for g.
        deviation: How far g is from f on the sample, where one was given.
    """

    layers: tuple[LayerSummary, ...]
    carried: tuple[CarriedTensor, ...]
    codes: Mapping[str, AbstractTensorCode] = field(repr=False)
    messages: Mapping[str, Bits] = field(repr=False)
    accuracy_before: float | None
    accuracy_after: float | None
    deviation: NetworkDeviation | None

    @property
    def coded_bits(self) -> int:
        """Length of all messages together, also of the carried tensors."""
        return sum(message.length for message in self.messages.values())

    @property
    def dense_bytes(self) -> int:
        """Size of the original, every tensor as it is stored."""
        return sum(each.dense_bytes for each in self.layers) + sum(each.dense_bytes for each in self.carried)

    @property
    def coded_bytes(self) -> int:
        """Size of all messages, each filled up to whole bytes."""
        return sum(len(message.data) for message in self.messages.values())

    def record(self) -> dict[str, Any]:
        """The numbers as JSON values; what is not finite is null."""
        return {
            "layers": [asdict(layer) for layer in self.layers],
            "carried": [asdict(tensor) for tensor in self.carried],
            "dense_bytes": self.dense_bytes,
            "coded_bits": self.coded_bits,
            "coded_bytes": self.coded_bytes,
            "sparse_format": SPARSE_FORMAT,
            "accuracy_before": self.accuracy_before,
            "accuracy_after": self.accuracy_after,
            "deviation": None if self.deviation is None else finite(asdict(self.deviation)),
        }


def summarise(
    compressed: CompressedNetwork | LocalNetwork,
    sample: DeviceData | None = None,
    *,
    progress: Progress = silent,
) -> CompressionSummary:
    """Encodes every tensor of the compressed network, measures its layers and, on a sample, the whole.

    No tensor is without a message but what evaluation does not read: tensors that no method compressed
    are coded as they are, 32 bits an element and 5 bits to say so (K-B).
    Every message ends by itself, so that one after the other they are one message.

    Args:
        compressed: What a compressor made.
        sample: Examples for accuracy and deviation.
        progress: Told the examples done.

    Raises:
        UnsupportedLayerError: Some tensor has no code: it is not float32, or the network hides it.

    Example:
        >>> from codebound_papers.compress.functions import naive
        >>> from codebound.nets.walk import wrap
        >>> net = torch.nn.Sequential(torch.nn.Linear(64, 10))
        >>> found = summarise(naive(wrap(net), density=0.25))
        >>> found.layers[0].kept, found.carried[0].name, found.carried[0].coded_bits
        (0.25, '0.bias', 325)
    """
    codes, names = compressed.codes, compressed.names
    messages = {name: encode_tensors([code]) for name, code in codes.items()}
    bits = {layer: messages[tensor].length for tensor, layer in names.items()}
    layers = tuple(_layer(layer, compressed.network, bits[layer.name]) for layer in compressed.layers)
    carried = _carried(compressed, messages, codes, names)
    before = after = moved = None
    if sample is not None:
        before, after = (
            _accuracy(module, sample) for module in (compressed.network.model, compressed.module())
        )
        moved = (
            deviation(compressed, sample, chunk_size=_CHUNK, progress=progress)
            if compressed.chain is None
            else _measured(compressed, sample, progress)
        )
    return CompressionSummary(
        layers=layers,
        carried=carried,
        codes=codes,
        messages=messages,
        accuracy_before=before,
        accuracy_after=after,
        deviation=moved,
    )


def _layer(layer: CompressedLayer, network: Network, coded_bits: int) -> LayerSummary:
    weight, view = layer.weight, network.layer(layer.name)
    nonzeros = int(weight.count_nonzero())
    change = None
    if weight.shape == view.weight.shape:
        difference = weight.double() - view.weight.detach().cpu().double()
        change = matrix_spectral_norm(difference.flatten(1)).value
    return LayerSummary(
        name=layer.name,
        shape=tuple(weight.shape),
        kept=nonzeros / weight.numel(),
        dense_bytes=_FLOAT * view.weight.numel(),
        sparse_bytes=(_FLOAT + _INDEX) * nonzeros + _INDEX * (weight.shape[0] + 1),
        coded_bits=coded_bits,
        spectral_error_measured=change,
        spectral_error_predicted=layer.predicted_error,
        predicted_by=layer.predicted_by,
    )


def _carried(
    compressed: CompressedNetwork | LocalNetwork,
    messages: Mapping[str, Bits],
    codes: Mapping[str, AbstractTensorCode],
    names: Mapping[str, str],
) -> tuple[CarriedTensor, ...]:
    """Every tensor that is not the weight of a compressed layer; last the ones that no message needs."""
    done = {layer.name for layer in compressed.layers}
    reasons = {tensor: compressed.carried.get(layer, "") for tensor, layer in names.items()}
    carried = [
        CarriedTensor(
            name,
            code.shape,
            _FLOAT * math.prod(code.shape),
            messages[name].length,
            reasons.get(name) or _UNTOUCHED,
        )
        for name, code in codes.items()
        if names.get(name) not in done
    ]
    if compressed.chain is None:
        state = compressed.network.model.state_dict()
        carried += [
            CarriedTensor(row.name, row.shape, state[row.name].nbytes, 0, row.reason)
            for row in compressed.network.coverage.tensors
            if row.name not in codes
        ]
    return tuple(carried)


def _accuracy(module: nn.Module, sample: DeviceData) -> float:
    report = margin_report(module, sample, chunk_size=_CHUNK, dtype=torch.float32)
    return (report.n - report.count(0.0)) / report.n


def _measured(compressed: LocalNetwork, sample: DeviceData, progress: Progress) -> NetworkDeviation:
    """The deviation on the sample alone: the theorems compare layers of one architecture."""
    modules: list[nn.Module] = [compressed.network.model, compressed.module()]
    f, g = (logit_chunks(module, sample, chunk_size=_CHUNK, progress=progress) for module in modules)
    lengths = torch.cat([torch.linalg.vector_norm(a - b, dim=1) for (a, _), (b, _) in zip(f, g, strict=True)])
    return NetworkDeviation(
        layers=(),
        largest=float(lengths.max()),
        mean=float(lengths.mean()),
        recursion=None,
        e_form=None,
        reason="The compressed network has another architecture.",
    )

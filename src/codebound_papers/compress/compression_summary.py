"""Summary of a compression: sizes, errors, accuracy, and messages of all tensors."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from codebound.bits.plain_code import Bits
from codebound.bounds.held_out import holdout
from codebound.bounds.original import LayerBounds, output_deviation
from codebound.bounds.risk import HoldoutFacts, percent
from codebound.certificate.evaluate import find_agreements
from codebound.run.errors import ModelError, UsageError
from codebound.run.files import finite
from codebound.run.progress import Progress, silent
from codebound.run.references import implements
from codebound.sample.dataset import DeviceData, Sample, count_shared
from codebound.sample.outputs import logit_chunks
from codebound_networks.codes.modes import encode_tensors
from codebound_networks.codes.tensors import AbstractTensorCode
from codebound_networks.reading.walk import Network
from codebound_networks.views.kinds import SHAPE
from codebound_networks.views.layers import AbstractLayerView
from codebound_papers.compress import compressors
from codebound_papers.measure.outputs import margin_report
from codebound_papers.measure.spectral import matrix_spectral_norm, spectral_norm
from codebound_papers.measure.steps import activations, steps_of

SPARSE_FORMAT = "CSR: float32 values, int32 column numbers and row starts"
"""Format that ``sparse_bytes`` counts."""
_FLOAT, _INDEX = 4, 4  # bytes
_CHUNK = 512
_OTHER = "The compressed network has another architecture."
_TRAINED = "Biases and other tensors were trained too; the bounds are for changed weights alone."
_OUTWARD = 1.0 + 1e-12
_UNTOUCHED = "no weight matrix, coded as it is"


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One compressed layer."""

    name: str  # the layer
    shape: tuple[int, ...]  # shape of its decoded weight
    kept: float  # share of the decoded weights that are not zero
    dense_bytes: int  # size of the original weight as float32
    sparse_bytes: int  # size of the decoded weight in SPARSE_FORMAT
    coded_bits: int  # length of its message
    # spectral norm of the change of the layer's matrix (of filters); None for another architecture
    spectral_error_measured: float | None
    spectral_error_predicted: float | None  # what the paper's theorem predicts for it, if it does
    predicted_by: str  # the statement behind the prediction, or why there is none


@dataclass(frozen=True, slots=True)
class CarriedTensor:
    """A tensor that was not compressed, and what it costs all the same."""

    name: str  # the tensor
    shape: tuple[int, ...]  # its shape
    dense_bytes: int  # its size
    coded_bits: int  # length of its message; 0 if it needs none
    reason: str  # why it is as it was


@dataclass(frozen=True, slots=True, eq=False)
class CompressionSummary:
    """A compressed network in numbers."""

    layers: tuple[LayerSummary, ...]  # the compressed layers, in forward order
    carried: tuple[CarriedTensor, ...]  # every other tensor
    codes: Mapping[str, AbstractTensorCode] = field(repr=False)  # the codes of all tensors of g, by name
    # their bits; codebound_networks.codes.modes.decode_tensors reads each of them
    messages: Mapping[str, Bits] = field(repr=False)
    accuracy_before: float | None = None  # share that f classifies correctly, where a sample was given
    accuracy_after: float | None = None  # the same for g
    deviation: "NetworkDeviation | None" = None  # how far g is from f on the sample, where one was given

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
    compressed: compressors.Compressed, sample: DeviceData | None = None, *, progress: Progress = silent
) -> CompressionSummary:
    """Encodes every tensor of the compressed network, measures its layers and, on a sample, the whole.

    Tensors that no method compressed are coded as they are (K-B); what evaluation does not read has no
    message. Every message ends by itself, so that one after the other they are one message.

    >>> from codebound_papers.compress.methods import naive
    >>> from codebound_networks.reading.walk import wrap
    >>> net = torch.nn.Sequential(torch.nn.Linear(64, 10))
    >>> found = summarise(naive(wrap(net), density=0.25))
    >>> found.layers[0].kept, found.carried[0].name, found.carried[0].coded_bits
    (0.25, '0.bias', 325)
    """
    codes, names = compressed.codes, compressed.names
    messages = {name: encode_tensors([code]) for name, code in codes.items()}
    bits = {layer: messages[tensor].length for tensor, layer in names.items()}
    layers = tuple(_layer(layer, compressed.network, bits[layer.name]) for layer in compressed.layers)
    carried = _list_carried(compressed, messages, codes, names)
    summary = CompressionSummary(layers, carried, codes, messages)
    if sample is None:
        return summary
    report = partial(margin_report, data=sample, chunk_size=_CHUNK, dtype=torch.float32)
    reports = [report(each) for each in (compressed.network.model, compressed.module())]
    moved = deviation(compressed, sample, progress=progress)
    before, after = ((found.n - found.errors) / found.n for found in reports)
    return replace(summary, accuracy_before=before, accuracy_after=after, deviation=moved)


UNKNOWN_FAITH = "How often g answers unlike f is not known: codebound holdout faithful needs fresh inputs."


def faithfulness(
    f: nn.Module, g: nn.Module, fresh: Sample | None, *, sample: Sample | None, delta: float = 0.05
) -> dict[str, Any] | None:
    """Limit on how often g answers unlike f, or not clearly; None without fresh inputs, or with copies."""
    if fresh is None or (sample is not None and count_shared(fresh, sample)):
        return None
    f, g = (copy.deepcopy(each).eval() for each in (f, g))  # counting changes their precision
    differ = int((~find_agreements(f, g, fresh.on("cpu"))).sum())
    limit = holdout(HoldoutFacts(errors=differ, n=fresh.n, delta=delta)).value
    says = (
        f"g answers unlike f on at most {percent(limit)} of new inputs, and errs on at most so many more "
        f"({differ:,} of {fresh.n:,} test inputs unlike; delta {delta:g}; no labels needed), if none of them "
        "was used for either. `codebound holdout faithful` has the second program check it."
    )
    return {"differ": differ, "n": fresh.n, "limit": limit, "delta": delta, "says": says}


def _layer(layer: compressors.CompressedLayer, network: Network, coded_bits: int) -> LayerSummary:
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


def _list_carried(
    compressed: compressors.Compressed,
    messages: Mapping[str, Bits],
    codes: Mapping[str, AbstractTensorCode],
    names: Mapping[str, str],
) -> tuple[CarriedTensor, ...]:
    """Every tensor that is not the weight of a compressed layer; last the ones that no message needs."""
    done = {layer.name for layer in compressed.layers}
    reasons = {tensor: compressed.carried.get(layer, "") for tensor, layer in names.items()}
    carried = []
    for name, code in codes.items():
        if names.get(name) not in done:
            size, bits, reason = _FLOAT * math.prod(code.shape), messages[name].length, reasons.get(name)
            carried.append(CarriedTensor(name, code.shape, size, bits, reason or _UNTOUCHED))
    if compressed.chain is None:
        state = compressed.network.model.state_dict()
        carried += [
            CarriedTensor(row.name, row.shape, state[row.name].nbytes, 0, row.reason)
            for row in compressed.network.coverage.tensors
            if row.name not in codes
        ]
    return tuple(carried)


@implements("G-LemB.2", "G-E5", "A-Lem9", "S-Lem2.4", "I-10", kind="certificate")
def exponential_deviation(layers: Sequence[LayerBounds], *, input_norm: float) -> float:
    r"""The e-form of the deviation: :math:`e \|x\| \prod_l L_l \|A^l\| \sum_l \|U^l\| / \|A^l\|`.

    Differs.    G prints the input dimension where the proof has the norm of x (G-E5).
    Needs.      No biases, and :math:`\|U^l\| \le \|A^l\| / L` in every layer. ``output_deviation`` is never
                larger and needs neither.
    Checked by. property (actual <= recursion <= e-form).

    >>> layer = LayerBounds(weight=2.0, weight_change=0.5)
    >>> round(exponential_deviation([layer, layer], input_norm=1.0), 3)
    5.437
    """
    for number, layer in enumerate(layers, start=1):
        if layer.bias > 0.0 or layer.bias_change > 0.0:
            raise UsageError(f"layer {number} has a bias, and the e-form is proved without.")
        if layer.weight_change * len(layers) > layer.weight:
            raise UsageError(
                f"layer {number} changes by {layer.weight_change:.3g}, more than its norm {layer.weight:.3g} "
                f"over the number of layers, {len(layers)}."
            )
    product = math.prod(layer.lipschitz * layer.weight for layer in layers)
    changes = sum(layer.weight_change / layer.weight for layer in layers if layer.weight > 0.0)
    return math.e * input_norm * product * changes * _OUTWARD


@dataclass(frozen=True, slots=True)
class LayerChange:
    """Spectral norms of one call of a layer, as the linear map that it applies."""

    name: str  # the layer
    weight: float  # norm of the original map, bounded from above
    change: float  # norm of the change, bounded from above
    predicted: float | None  # what the compressor's theorem predicts for the change of the *matrix*, if any


@dataclass(frozen=True, slots=True)
class NetworkDeviation:
    """Distance of g from f."""

    layers: tuple[LayerChange, ...]  # the calls of layers, in forward order
    largest: float  # largest ||f(x) - g(x)||_2 over the sample
    mean: float  # its mean
    # bound on it through the norms of the layers (G-LemB.2x); None if the network is no chain of known steps
    recursion: float | None
    e_form: float | None  # the weaker bound G-LemB.2; None where it does not apply
    reason: str  # why a bound is missing; empty when none is


def deviation(
    compressed: compressors.Compressed,
    sample: DeviceData,
    *,
    chunk_size: int = _CHUNK,
    progress: Progress = silent,
) -> NetworkDeviation:
    """Measures the deviation of g from f on a sample and bounds it through the changes of the layers."""
    network = compressed.network
    before = logit_chunks(network.model, sample, chunk_size=chunk_size, progress=progress)
    pairs = zip(before, logit_chunks(compressed.module(), sample, chunk_size=chunk_size), strict=True)
    lengths = torch.cat([torch.linalg.vector_norm(f - g, dim=1) for (f, _), (g, _) in pairs])
    largest, mean = float(lengths.max()), float(lengths.mean())
    if compressed.chain is not None or compressed.trained:
        # the theorems compare layers of one architecture
        why = _TRAINED if compressed.chain is None else _OTHER
        return NetworkDeviation((), largest, mean, None, None, why)
    inputs = (x.flatten(1) for x, _ in sample.chunks(chunk_size, torch.float64))
    x_norm = max(float(torch.linalg.vector_norm(x, dim=1).max()) for x in inputs)
    bounds = _layer_bounds(compressed, sample)
    recursion, e_form, reason = None, None, ""
    try:
        chain, after = _chain(network, [bound for _, bound in bounds])
        recursion = output_deviation(chain, input_norm=x_norm * _OUTWARD) * after * _OUTWARD
        e_form = exponential_deviation(chain, input_norm=x_norm * _OUTWARD) * after * _OUTWARD
    except (ModelError, UsageError) as refusal:
        reason = str(refusal)
    predicted = {layer.name: layer.predicted_error for layer in compressed.layers}
    layers = (LayerChange(name, x.weight, x.weight_change, predicted.get(name)) for name, x in bounds)
    return NetworkDeviation(tuple(layers), largest, mean, recursion, e_form, reason)


def _layer_bounds(
    compressed: compressors.CompressedNetwork, sample: DeviceData
) -> list[tuple[str, LayerBounds]]:
    network = compressed.network
    first = compressors.first_names(network.model)
    weights = {first[layer.tensor]: layer.weight for layer in compressed.layers}
    like = network.layers[0].weight
    x, _ = next(sample.chunks(1, like.dtype))
    bounds = []
    for call in activations(network, x.to(like.device)):
        view = network.layer(call.name)
        shape = tuple(call.input.shape[1:])
        change = 0.0
        new = weights.get(first.get(compressors.weight_name(view.name), ""))
        if new is not None:
            difference = new.to(like.device).double() - view.weight.double()
            change = _norm(replace(view, weight=difference), shape)
        bias = 0.0
        if view.bias is not None:  # it is added at every pixel
            copies = call.output[0].numel() / view.bias.numel()
            bias = float(view.bias.double().norm()) * math.sqrt(copies) * _OUTWARD
        weight = _norm(view, shape)
        bounds.append((view.name, LayerBounds(weight=weight, weight_change=change, bias=bias)))
    return bounds


def _norm(view: AbstractLayerView, shape: tuple[int, ...]) -> float:
    return spectral_norm(replace(view, weight=view.weight.double(), bias=None), shape).upper


def _chain(network: Network, bounds: list[LayerBounds]) -> tuple[list[LayerBounds], float]:
    """The layers with the Lipschitz constants in front of them, and the constant behind the last one."""
    steps = steps_of(network)
    if not steps.is_chain:
        raise ModelError(
            f"{type(network.model).__name__} is no chain: some step uses an earlier output again."
        )
    factors = [1.0]
    for step in steps.sequence:
        if step.view is not None:
            factors.append(1.0)
        elif step.kind != SHAPE:
            if step.kind.lipschitz is None or not step.kind.homogeneous:
                raise ModelError(
                    f"step {step.name} ({step.kind.name}) is not known to be Lipschitz with value 0 at 0. "
                    "Fold batch norms first, with codebound_networks.views.fold.fold_batch_norms."
                )
            factors[-1] *= step.kind.lipschitz
    pairs = zip(bounds, factors[:-1], strict=True)
    return [replace(bound, lipschitz=factor) for bound, factor in pairs], factors[-1]

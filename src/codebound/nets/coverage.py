"""The account of every tensor of a network: seen, carried as is, or unsupported with the reason."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Literal

from torch import nn

from codebound.errors import ModelError, UnsupportedLayerError
from codebound.nets.layers import LAYER_VIEWS, refusal_of, registered_type
from codebound.nets.tensors import HeldTensor, TensorKind, forbidden_entries, tensors_of

Status = Literal["seen", "carried", "unsupported"]

CARRIED_TYPES: tuple[type[nn.Module], ...] = (
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.SyncBatchNorm,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.PReLU,
    nn.Embedding,
)
"""Module types without a layer view whose tensors a certificate can code as they are."""


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """One tensor of the network.

    Attributes:
        name: Qualified name.
        kind: ``parameter``, ``buffer``, or ``attribute`` for a tensor that ``state_dict`` does not see.
        module_type: Type of the module that holds it.
        shape: Its shape.
        dtype: Its dtype, such as ``float32``.
        elements: Its number of entries.
        status: ``seen`` through a layer view, ``carried`` as is, or ``unsupported``.
        reason: Why it has that status.
    """

    name: str
    kind: TensorKind
    module_type: str
    shape: tuple[int, ...]
    dtype: str
    elements: int
    status: Status
    reason: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """Every tensor of a network exactly once; a tensor shared by modules is listed under its first name."""

    tensors: tuple[CoverageRow, ...]

    def rows(self) -> list[dict[str, str | int]]:
        """The account as table rows with one column per field of ``CoverageRow``."""
        return [{**asdict(row), "shape": "x".join(map(str, row.shape)) or "scalar"} for row in self.tensors]

    def with_status(self, status: Status) -> tuple[CoverageRow, ...]:
        """The tensors with that status."""
        return tuple(row for row in self.tensors if row.status == status)

    @property
    def totals(self) -> dict[Status, int]:
        """Number of entries by status."""
        statuses: tuple[Status, ...] = ("seen", "carried", "unsupported")
        return {status: sum(row.elements for row in self.with_status(status)) for status in statuses}

    @property
    def sentence(self) -> str:
        """The totals in words."""
        parts = [f"{elements:,} {status}" for status, elements in self.totals.items()]
        return f"{len(self.tensors)} tensors, entries: {', '.join(parts)}."

    @property
    def is_complete(self) -> bool:
        """Whether nothing is unsupported."""
        return not self.with_status("unsupported")

    def require_complete(self) -> None:
        """Raises UnsupportedLayerError with all unsupported tensors, if there are any."""
        missing = self.with_status("unsupported")
        if missing:
            lines = [
                f"{row.name} ({row.module_type}, {row.elements:,} entries): {row.reason}" for row in missing
            ]
            raise UnsupportedLayerError(
                f"{len(missing)} of {len(self.tensors)} tensors are not supported.\n  " + "\n  ".join(lines)
            )


def coverage_of(model: nn.Module, viewed: Collection[nn.Module]) -> Coverage:
    """Accounts for all tensors of ``model``.

    Args:
        model: The network.
        viewed: The modules with a layer view that its forward pass calls.

    Raises:
        ModelError: Some tensor has no values (meta device), or holds NaN or infinity; all are named.
    """
    held = tensors_of(model)
    meta = [own.name for own in held if own.tensor.is_meta]
    if meta:
        raise ModelError(
            f"{type(model).__name__} is on the meta device, so these have no values: {', '.join(meta)}. "
            "Load weights first, or use with_weights(model, tensors)."
        )
    broken = [
        f"{own.name}: {bad} of {own.tensor.numel()} entries"
        for own in held
        if (bad := forbidden_entries(own, own.tensor.detach()))
    ]
    if broken:
        raise ModelError("the weights contain NaN or infinity.\n  " + "\n  ".join(broken))
    seen = {id(tensor) for module in viewed for tensor in (module.weight, module.bias)}
    return Coverage(tuple(_row(own, viewed, seen) for own in held))


def _row(held: HeldTensor, viewed: Collection[nn.Module], seen: set[int]) -> CoverageRow:
    status, reason = _status(held, viewed, seen)
    if len(held.names) > 1:
        reason += f"; also known as {', '.join(held.names[1:])}"
    return CoverageRow(
        name=held.name,
        kind=held.kind,
        module_type=type(held.owner).__name__,
        shape=tuple(held.tensor.shape),
        dtype=_dtype(held),
        elements=held.tensor.numel(),
        status=status,
        reason=reason,
    )


def _status(held: HeldTensor, viewed: Collection[nn.Module], seen: set[int]) -> tuple[Status, str]:
    owner, refusal = held.owner, refusal_of(held.owner)
    if id(held.tensor) in seen:
        return "seen", "through its layer view"
    if refusal is not None and registered_type(owner, LAYER_VIEWS) is not None:
        return "unsupported", refusal
    if held.kind == "attribute":
        return "unsupported", "a plain attribute that state_dict does not see; register it as a buffer"
    if not held.is_persistent:
        return "unsupported", "a non-persistent buffer: state_dict and weight files do not contain it"
    if isinstance(owner, CARRIED_TYPES):
        return _status_carried(held)
    if refusal is not None:
        real = held.tensor.is_floating_point()
        return "unsupported", refusal if real else f"{_dtype(held)} entries cannot be coded; {refusal}"
    if owner in viewed:
        return "unsupported", "its layer has a view of weight and bias only"
    return (
        "unsupported",
        "the forward pass never calls this layer: it is unused, or its weight is read directly",
    )


def _status_carried(held: HeldTensor) -> tuple[Status, str]:
    if isinstance(held.owner, nn.modules.batchnorm._BatchNorm) and held.owner.running_mean is None:
        return (
            "unsupported",
            "a batch norm without running statistics: predictions depend on the rest of the batch",
        )
    if held.name.endswith("num_batches_tracked"):
        return "carried", "counts training batches; evaluation does not read it"
    if not held.tensor.is_floating_point():
        return "unsupported", f"{_dtype(held)} entries cannot be coded"
    return "carried", "in a certificate it is coded in the message as is"


def _dtype(held: HeldTensor) -> str:
    return str(held.tensor.dtype).removeprefix("torch.")

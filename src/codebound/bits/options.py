"""Options of a message: choices in front of the architecture, and the schemes of the format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codebound.bits.numbers import bit, signed, uniform

if TYPE_CHECKING:
    from codebound.bits.arithmetic import AbstractCoder
    from codebound.bits.setting import Setting

TENSORS, SUBSPACE, PICKED = 1, 2, 3
"""The schemes of the format: every tensor by itself, all of them from one subspace, or a rule by which a
network is learned from the sample (``codebound.learn``)."""
MAX_THETA_INDEX = 8000

Ledger = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Options:
    """Decoder-side choices in front of the architecture.

    Attributes:
        tenths: Tenths of the sample that shaped the helper (C-10), or None.
        theta_index: Index of the margin of C-12a, or None.
        has_base: Whether tensors are differences to the base of the helper.
        setting: Classes and scaling; None: those of the task it is assessed for, or the classes of the chain
            and inputs as they are stored.
    """

    tenths: int | None = None
    theta_index: int | None = None
    has_base: bool = False
    setting: Setting | None = None


def code_options(coder: AbstractCoder, options: Options) -> Options:
    """The options without the setting, which stands in front."""
    tenths, theta = options.tenths, options.theta_index
    if bit(coder, tenths is not None):
        tenths = uniform(coder, (tenths or 1) - 1, 9) + 1
    if bit(coder, theta is not None):
        theta = signed(coder, theta or 0)
        coder.require(
            abs(theta) <= MAX_THETA_INDEX, f"theta has an index within {MAX_THETA_INDEX}. Got {theta}."
        )
    return Options(tenths, theta, bool(bit(coder, options.has_base)), options.setting)

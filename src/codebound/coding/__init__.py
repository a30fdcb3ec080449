"""Exact code lengths: integers to bits and back, as docs/format.md says; never imports torch.

A message is written with a ``Writer`` and read with a ``Reader``; a tensor has one of thirteen codes, and
``best_tensor_code`` finds the shortest for integer levels; a ``Subspace`` codes all tensors of a network at
once. The length of the bits is the code length, nothing else is.
"""

from codebound.coding.arithmetic import AbstractCoder, Reader, Writer
from codebound.coding.bell import Bell
from codebound.coding.bits import Bits, join
from codebound.coding.choose import best_tensor_code
from codebound.coding.codebook import assign_codebook, fit_codebook
from codebound.coding.helpers import Filled, Filling, LowRank, Mixed, Projected, Ticket
from codebound.coding.message import (
    decode_tensors,
    encode_tensors,
    read_blocks,
    read_tensor,
    write_tensor,
)
from codebound.coding.numbers import FlagContexts, SymbolContext, bit, float32, gamma, signed, uniform
from codebound.coding.projection import combine, project_onto
from codebound.coding.quantize import (
    RoundingError,
    dequantize,
    nearest_step,
    quantize,
    round_to_float32,
    rounding_error,
    step_for_levels,
    step_size,
)
from codebound.coding.sketched import Sketched
from codebound.coding.stream import Stream
from codebound.coding.subspace import Subspace, hashes, scale_exponent, starts
from codebound.coding.tensors import (
    AbstractTensorCode,
    Adaptive,
    Codebook,
    Dense,
    Enumerative,
    Raw,
    Static,
    Zero,
)

__all__ = [
    "AbstractCoder",
    "AbstractTensorCode",
    "Adaptive",
    "Bell",
    "Bits",
    "Codebook",
    "Dense",
    "Enumerative",
    "Filled",
    "Filling",
    "FlagContexts",
    "LowRank",
    "Mixed",
    "Projected",
    "Raw",
    "Reader",
    "RoundingError",
    "Sketched",
    "Static",
    "Stream",
    "Subspace",
    "SymbolContext",
    "Ticket",
    "Writer",
    "Zero",
    "assign_codebook",
    "best_tensor_code",
    "bit",
    "combine",
    "decode_tensors",
    "dequantize",
    "encode_tensors",
    "fit_codebook",
    "float32",
    "gamma",
    "hashes",
    "join",
    "nearest_step",
    "project_onto",
    "quantize",
    "read_blocks",
    "read_tensor",
    "round_to_float32",
    "rounding_error",
    "scale_exponent",
    "signed",
    "starts",
    "step_for_levels",
    "step_size",
    "uniform",
    "write_tensor",
]

"""Compressors: from a trained network to few, small integers."""

from codebound.compress.base import (
    COMPRESSORS,
    AbstractCompressor,
    CompressedLayer,
    CompressedNetwork,
    compress,
    compressor,
)
from codebound.compress.prune import PrunedTensor, PrunePlan, prune
from codebound.compress.units import narrowed, rescaled, without_biases, without_dead_units

__all__ = [
    "COMPRESSORS",
    "AbstractCompressor",
    "CompressedLayer",
    "CompressedNetwork",
    "PrunePlan",
    "PrunedTensor",
    "compress",
    "compressor",
    "narrowed",
    "prune",
    "rescaled",
    "without_biases",
    "without_dead_units",
]

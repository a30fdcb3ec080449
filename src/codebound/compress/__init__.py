"""Compressors: from a trained network to few, small integers."""

from codebound.bounds.published.projection_counts import ConvCount
from codebound.bounds.published.pruning_law import strength_for
from codebound.compress.base import (
    COMPRESSORS,
    AbstractCompressor,
    CompressedLayer,
    CompressedNetwork,
    compress,
    compressor,
)
from codebound.compress.conv import coherence, conv_project, project_conv
from codebound.compress.deviation import NetworkDeviation, deviation
from codebound.compress.distance import FromInitial
from codebound.compress.heavytail import HeavyTail, heavytail
from codebound.compress.imp import imp
from codebound.compress.induction import InductionStep, induction
from codebound.compress.local import LocalNetwork, conv_network
from codebound.compress.lottery import lottery
from codebound.compress.lowrank import Truncation, lowrank
from codebound.compress.mbp import MagnitudePruning, common_variance, mbp
from codebound.compress.methods import (
    Job,
    default_options,
    method_names,
    option_text,
    parse_options,
    run_method,
    sentence_of,
)
from codebound.compress.naive import LargestWeights, naive
from codebound.compress.project import MatrixProject, project, project_matrix
from codebound.compress.prune import PrunedTensor, PrunePlan, prune
from codebound.compress.replacement import GaussianFill, ReplacementTrials, replacement_trials
from codebound.compress.requirements import (
    HeavytailRequirements,
    MbpRequirements,
    MeasuredMinimum,
    ProjectRequirements,
    Terms,
    heavytail_requirements,
    mbp_requirements,
    measured_minimum,
    project_requirements,
)
from codebound.compress.summary import CarriedTensor, CompressionSummary, LayerSummary, summarise
from codebound.compress.thresholds import Corrected, Published, ScaleFree, StandardDeviation
from codebound.compress.units import narrowed, rescaled, without_biases, without_dead_units
from codebound.compress.vector import VectorCompress, VectorProject, vector_compress, vector_project

__all__ = [
    "COMPRESSORS",
    "AbstractCompressor",
    "CarriedTensor",
    "CompressedLayer",
    "CompressedNetwork",
    "CompressionSummary",
    "ConvCount",
    "Corrected",
    "FromInitial",
    "GaussianFill",
    "HeavyTail",
    "HeavytailRequirements",
    "InductionStep",
    "Job",
    "LargestWeights",
    "LayerSummary",
    "LocalNetwork",
    "MagnitudePruning",
    "MatrixProject",
    "MbpRequirements",
    "MeasuredMinimum",
    "NetworkDeviation",
    "ProjectRequirements",
    "PrunePlan",
    "PrunedTensor",
    "Published",
    "ReplacementTrials",
    "ScaleFree",
    "StandardDeviation",
    "Terms",
    "Truncation",
    "VectorCompress",
    "VectorProject",
    "coherence",
    "common_variance",
    "compress",
    "compressor",
    "conv_network",
    "conv_project",
    "default_options",
    "deviation",
    "heavytail",
    "heavytail_requirements",
    "imp",
    "induction",
    "lottery",
    "lowrank",
    "mbp",
    "mbp_requirements",
    "measured_minimum",
    "method_names",
    "naive",
    "narrowed",
    "option_text",
    "parse_options",
    "project",
    "project_conv",
    "project_matrix",
    "project_requirements",
    "prune",
    "replacement_trials",
    "rescaled",
    "run_method",
    "sentence_of",
    "strength_for",
    "summarise",
    "vector_compress",
    "vector_project",
    "without_biases",
    "without_dead_units",
]

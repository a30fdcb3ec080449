"""Compressors: from a trained network to few, small integers."""

from codebound.compress.base import (
    COMPRESSORS,
    AbstractCompressor,
    CompressedLayer,
    CompressedNetwork,
    compress,
    compressor,
)
from codebound.compress.conv import ConvCount, coherence, conv_project, project_conv
from codebound.compress.deviation import NetworkDeviation, deviation
from codebound.compress.distance import FromInitial
from codebound.compress.heavytail import HeavyTail, heavytail
from codebound.compress.imp import imp
from codebound.compress.local import LocalNetwork, conv_network
from codebound.compress.lottery import lottery
from codebound.compress.lowrank import Truncation, lowrank
from codebound.compress.mbp import MagnitudePruning, common_variance, mbp, strength_for
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
from codebound.compress.planner import (
    InductionStep,
    LayerStability,
    PlanSetting,
    ProjectionPlan,
    epsilon_for_margin,
    induction,
    plan_projection,
)
from codebound.compress.project import MatrixProject, project, project_matrix, sign_count
from codebound.compress.prune import PrunedTensor, PrunePlan, prune
from codebound.compress.replacement import GaussianFill, ReplacementTrials, replacement_trials
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
    "InductionStep",
    "Job",
    "LargestWeights",
    "LayerStability",
    "LayerSummary",
    "LocalNetwork",
    "MagnitudePruning",
    "MatrixProject",
    "NetworkDeviation",
    "PlanSetting",
    "ProjectionPlan",
    "PrunePlan",
    "PrunedTensor",
    "Published",
    "ReplacementTrials",
    "ScaleFree",
    "StandardDeviation",
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
    "epsilon_for_margin",
    "heavytail",
    "imp",
    "induction",
    "lottery",
    "lowrank",
    "mbp",
    "method_names",
    "naive",
    "narrowed",
    "option_text",
    "parse_options",
    "plan_projection",
    "project",
    "project_conv",
    "project_matrix",
    "prune",
    "replacement_trials",
    "rescaled",
    "run_method",
    "sentence_of",
    "sign_count",
    "strength_for",
    "summarise",
    "vector_compress",
    "vector_project",
    "without_biases",
    "without_dead_units",
]

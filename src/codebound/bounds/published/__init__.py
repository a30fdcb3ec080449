"""The papers' bounds as published: expressions on measured numbers. None of them is a guarantee."""

from codebound.bounds.published.baselines import arora_figure, decimal_orders, guha_code, literature
from codebound.bounds.published.facts import LayerFacts, NetworkFacts
from codebound.bounds.published.framework import (
    counting_framework,
    parameter_framework,
    parameter_framework_with_outliers,
)
from codebound.bounds.published.heavy_tails import (
    LayerThreshold,
    dudley_integral,
    heavy_tail_risk,
    heavy_tail_risk_with_logarithms,
    published_replacement_failure,
    replacement_failure,
    replacement_thresholds,
)
from codebound.bounds.published.kappa import (
    SpreadInputs,
    released_needed_margin,
    spread_perturbation,
    spread_pruned_deviation,
    spread_rounded_deviation,
)
from codebound.bounds.published.lottery import ticket_risk, ticket_weights
from codebound.bounds.published.noise_stability import (
    LayerComplexity,
    convolutional_numbers,
    convolutional_risk,
    fully_connected_risk,
    margin_numbers,
    noise_stability_bar,
    proven_numbers,
    table_rows,
)
from codebound.bounds.published.projection_counts import ConvCount, gaussian_count, sign_count
from codebound.bounds.published.projection_plan import (
    LayerStability,
    PlanSetting,
    ProjectionPlan,
    compression_threshold,
    epsilon_for_margin,
    plan_projection,
)
from codebound.bounds.published.pruning import (
    PrunedLayer,
    PruningFacts,
    gaussian_pruning,
    pruned_deviation,
    pruned_deviation_corrected,
    rounded_deviation,
    rounded_deviation_corrected,
)
from codebound.bounds.published.pruning_law import kept_share, strength_for
from codebound.bounds.published.sketching import (
    implied_kept_share,
    naive_risk,
    released_sketching,
    sketching_risk,
    sketching_risk_by_proof,
    sparsity_failure,
)
from codebound.bounds.published.spectral_margin import printed_spectral_margin_risk, spectral_margin_risk
from codebound.bounds.published.value import Constant, Hypothesis, PublishedValue, Unit

__all__ = [
    "Constant",
    "ConvCount",
    "Hypothesis",
    "LayerComplexity",
    "LayerFacts",
    "LayerStability",
    "LayerThreshold",
    "NetworkFacts",
    "PlanSetting",
    "ProjectionPlan",
    "PrunedLayer",
    "PruningFacts",
    "PublishedValue",
    "SpreadInputs",
    "Unit",
    "arora_figure",
    "compression_threshold",
    "convolutional_numbers",
    "convolutional_risk",
    "counting_framework",
    "decimal_orders",
    "dudley_integral",
    "epsilon_for_margin",
    "fully_connected_risk",
    "gaussian_count",
    "gaussian_pruning",
    "guha_code",
    "heavy_tail_risk",
    "heavy_tail_risk_with_logarithms",
    "implied_kept_share",
    "kept_share",
    "literature",
    "margin_numbers",
    "naive_risk",
    "noise_stability_bar",
    "parameter_framework",
    "parameter_framework_with_outliers",
    "plan_projection",
    "printed_spectral_margin_risk",
    "proven_numbers",
    "pruned_deviation",
    "pruned_deviation_corrected",
    "published_replacement_failure",
    "released_needed_margin",
    "released_sketching",
    "replacement_failure",
    "replacement_thresholds",
    "rounded_deviation",
    "rounded_deviation_corrected",
    "sign_count",
    "sketching_risk",
    "sketching_risk_by_proof",
    "sparsity_failure",
    "spectral_margin_risk",
    "spread_perturbation",
    "spread_pruned_deviation",
    "spread_rounded_deviation",
    "strength_for",
    "table_rows",
    "ticket_risk",
    "ticket_weights",
]

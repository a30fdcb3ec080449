"""Certified bounds: explicit constants, safe rounding, results that are true as printed."""

from codebound.bounds.certified.holdout import holdout, occam_split
from codebound.bounds.certified.lengths import (
    choice_bits,
    class_bits,
    elias_gamma_bits,
    mixture_bits,
    parameter_bits,
    raw_weight_bits,
    weighted_choice_bits,
)
from codebound.bounds.certified.margin import margin_for_deviation, occam_margin
from codebound.bounds.certified.occam import (
    chernoff_tail,
    occam_binomial,
    occam_fast_rate,
    occam_hoeffding,
    occam_kl,
    occam_zero_errors,
)
from codebound.bounds.certified.original import (
    LayerBounds,
    grid_theta,
    occam_disagreement,
    occam_domain,
    output_deviation,
    theta_on_grid,
)
from codebound.bounds.certified.risk import RiskBound, claim_sentence, occam_assumptions, percent

__all__ = [
    "LayerBounds",
    "RiskBound",
    "chernoff_tail",
    "choice_bits",
    "claim_sentence",
    "class_bits",
    "elias_gamma_bits",
    "grid_theta",
    "holdout",
    "margin_for_deviation",
    "mixture_bits",
    "occam_assumptions",
    "occam_binomial",
    "occam_disagreement",
    "occam_domain",
    "occam_fast_rate",
    "occam_hoeffding",
    "occam_kl",
    "occam_margin",
    "occam_split",
    "occam_zero_errors",
    "output_deviation",
    "parameter_bits",
    "percent",
    "raw_weight_bits",
    "theta_on_grid",
    "weighted_choice_bits",
]

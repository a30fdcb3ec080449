"""Properties of a trained network on a sample: margins and norms."""

from codebound.measure.margins import (
    MarginReport,
    ambiguous_errors,
    logit_chunks,
    margin_report,
    margins,
    published_margin_loss,
)
from codebound.measure.norms import (
    frobenius_norm,
    group_norm,
    l1_2_norm,
    l1_inf_norm,
    l2_1_norm,
    log_path_norm,
    stable_rank,
)
from codebound.measure.spectral import (
    SpectralNorm,
    embedding_bound,
    gram_power_bound,
    matrix_spectral_norm,
    spectral_norm,
)

__all__ = [
    "MarginReport",
    "SpectralNorm",
    "ambiguous_errors",
    "embedding_bound",
    "frobenius_norm",
    "gram_power_bound",
    "group_norm",
    "l1_2_norm",
    "l1_inf_norm",
    "l2_1_norm",
    "log_path_norm",
    "logit_chunks",
    "margin_report",
    "margins",
    "matrix_spectral_norm",
    "published_margin_loss",
    "spectral_norm",
    "stable_rank",
]

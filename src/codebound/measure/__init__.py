"""Properties of a trained network: margins, norms, spectra, tails and noise stability."""

from codebound.bounds.published.kappa import Kappa
from codebound.measure.alternatives import Comparison, compare_alternatives
from codebound.measure.brackets import (
    Resilience,
    asymptotic_bracket_probability,
    bracket_probability,
    released_resilience,
    resilience,
    resilience_grid,
)
from codebound.measure.cushions import (
    activation_contraction,
    interlayer_cushion,
    jacobian_spread,
    layer_cushion,
    linear_noise_sensitivity,
    map_frobenius_norm,
    noise_sensitivity,
    tensor_spread,
)
from codebound.measure.jacobian import probe_interval
from codebound.measure.kappa import kappa_diagnostics, kappa_violations
from codebound.measure.laws import PowerLaw, Stable, tail_constant
from codebound.measure.margins import (
    MarginReport,
    ambiguous_errors,
    logit_chunks,
    margin_report,
    margins,
    published_margin_loss,
)
from codebound.measure.mixture import (
    RegressionMixture,
    fit_regressions,
    rank_against_alpha,
    released_regressions,
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
from codebound.measure.smoothness import (
    Smoothness,
    adversarial_smoothness,
    gaussian_smoothness,
    smoothness_quantile,
)
from codebound.measure.spectra import (
    LayerSpectrum,
    layer_spectra,
    layer_spectrum,
    power_iteration_norm,
    released_stable_rank,
    tail_values,
)
from codebound.measure.spectral import (
    SpectralNorm,
    embedding_bound,
    gram_power_bound,
    matrix_spectral_norm,
    spectral_norm,
)
from codebound.measure.spiked import published_spiked_second_moment, spiked_second_moment
from codebound.measure.stability import StabilityMeter, StabilityPlan, stability
from codebound.measure.stability_result import LayerStability, Site, Stability, best_examples
from codebound.measure.streaming import Distribution
from codebound.measure.summary import FAMILIES, Summary, SummaryPlan, Workload, summarise, workload
from codebound.measure.tails import PowerLawFit, TailEstimate, estimate_tail, fit_power_law

__all__ = [
    "FAMILIES",
    "Comparison",
    "Distribution",
    "Kappa",
    "LayerSpectrum",
    "LayerStability",
    "MarginReport",
    "PowerLaw",
    "PowerLawFit",
    "RegressionMixture",
    "Resilience",
    "Site",
    "Smoothness",
    "SpectralNorm",
    "Stability",
    "StabilityMeter",
    "StabilityPlan",
    "Stable",
    "Summary",
    "SummaryPlan",
    "TailEstimate",
    "Workload",
    "activation_contraction",
    "adversarial_smoothness",
    "ambiguous_errors",
    "asymptotic_bracket_probability",
    "best_examples",
    "bracket_probability",
    "compare_alternatives",
    "embedding_bound",
    "estimate_tail",
    "fit_power_law",
    "fit_regressions",
    "frobenius_norm",
    "gaussian_smoothness",
    "gram_power_bound",
    "group_norm",
    "interlayer_cushion",
    "jacobian_spread",
    "kappa_diagnostics",
    "kappa_violations",
    "l1_2_norm",
    "l1_inf_norm",
    "l2_1_norm",
    "layer_cushion",
    "layer_spectra",
    "layer_spectrum",
    "linear_noise_sensitivity",
    "log_path_norm",
    "logit_chunks",
    "map_frobenius_norm",
    "margin_report",
    "margins",
    "matrix_spectral_norm",
    "noise_sensitivity",
    "power_iteration_norm",
    "probe_interval",
    "published_margin_loss",
    "published_spiked_second_moment",
    "rank_against_alpha",
    "released_regressions",
    "released_resilience",
    "released_stable_rank",
    "resilience",
    "resilience_grid",
    "smoothness_quantile",
    "spectral_norm",
    "spiked_second_moment",
    "stability",
    "stable_rank",
    "summarise",
    "tail_constant",
    "tail_values",
    "tensor_spread",
    "workload",
]

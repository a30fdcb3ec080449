"""Properties of a trained network: margins, norms, spectra, tails and noise stability."""

from codebound.contents import lazily

__all__, __getattr__, __dir__ = lazily(
    __name__,
    {
        "codebound.scores": (
            "MarginReport ambiguous_errors logit_chunks margin_report margins published_margin_loss"
        ),
        "codebound_papers.guha23.kappa": "Kappa kappa_diagnostics kappa_violations",
        "codebound_papers.measure.noise.cushions": (
            "activation_contraction interlayer_cushion jacobian_spread layer_cushion "
            "linear_noise_sensitivity map_frobenius_norm noise_sensitivity tensor_spread"
        ),
        "codebound_papers.measure.noise.jacobian": "probe_interval",
        "codebound_papers.measure.noise.meter": "StabilityMeter StabilitySettings stability",
        "codebound_papers.measure.noise.result": ("Distribution LayerStability Site Stability best_examples"),
        "codebound_papers.measure.noise.smoothness": (
            "Smoothness adversarial_smoothness gaussian_smoothness smoothness_quantile"
        ),
        "codebound_papers.measure.norms": (
            "frobenius_norm group_norm l1_2_norm l1_inf_norm l2_1_norm log_path_norm stable_rank"
        ),
        "codebound_papers.measure.spectra": (
            "LayerSpectrum layer_spectra layer_spectrum power_iteration_norm released_stable_rank tail_values"
        ),
        "codebound_papers.measure.spectral": (
            "SpectralNorm embedding_bound gram_power_bound matrix_spectral_norm spectral_norm"
        ),
        "codebound_papers.measure.folded": "Workload workload",
        "codebound_papers.measure.record": "Measured MeasureSettings measure_facts",
        "codebound_papers.measure.summary": "FAMILIES Summary summarise",
        "codebound_papers.shin21.alternatives": "Comparison compare_alternatives",
        "codebound_papers.shin21.brackets": (
            "Resilience asymptotic_bracket_probability bracket_probability released_resilience "
            "resilience resilience_grid"
        ),
        "codebound_papers.shin21.laws": (
            "PowerLaw Stable published_spiked_second_moment spiked_second_moment tail_constant"
        ),
        "codebound_papers.shin21.mixture": (
            "RegressionMixture fit_regressions rank_against_alpha released_regressions"
        ),
        "codebound_papers.shin21.tails": "PowerLawFit TailEstimate estimate_tail fit_power_law",
    },
)

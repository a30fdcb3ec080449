"""Properties of a trained network: margins, norms, spectra, tails and noise stability.

Example:
    >>> import torch
    >>> import codebound as cb
    >>> round(cb.measure.stable_rank(torch.eye(3)), 9)
    3.0
"""

from codebound.run.extensions import lazily

__all__, __getattr__, __dir__ = lazily(
    __name__,
    """
    codebound.sample.losses: logit_chunks margins
    codebound_papers.measure.outputs: MarginReport ambiguous_errors margin_report published_margin_loss
    codebound_papers.guha23.kappa: Kappa kappa_diagnostics
    codebound_papers.measure.noise.jacobian: probe_interval
    codebound_papers.measure.noise.meter: StabilityMeter stability
    codebound_papers.measure.noise.result: Distribution LayerStability Site Stability best_examples
    codebound_papers.measure.noise.quantities: Smoothness StabilitySettings activation_contraction
        adversarial_smoothness gaussian_smoothness interlayer_cushion jacobian_spread layer_cushion
        linear_noise_sensitivity map_frobenius_norm noise_sensitivity smoothness_quantile tensor_spread
    codebound_papers.measure.norms: LayerSpectrum frobenius_norm group_norm l1_inf_norm l2_1_norm
        layer_spectra layer_spectrum power_iteration_norm released_stable_rank stable_rank tail_values
    codebound_papers.measure.spectral: SpectralNorm embedding_bound gram_power_bound matrix_spectral_norm
        spectral_norm
    codebound_papers.measure.steps: Workload
    codebound_papers.measure.record: Measured MeasureSettings measure_facts
    codebound_papers.measure.summary: FAMILIES Summary summarise
    codebound_papers.shin21.laws: PowerLaw Resilience Stable asymptotic_bracket_probability
        bracket_probability published_spiked_second_moment released_resilience resilience resilience_grid
        spiked_second_moment tail_constant
    codebound_papers.shin21.mixture: RegressionMixture fit_regressions rank_against_alpha released_regressions
    codebound_papers.measure.tails: Comparison PowerLawFit TailEstimate compare_alternatives estimate_tail
        fit_power_law
    """,
)

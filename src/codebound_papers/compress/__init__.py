"""Compressors: from a trained network to few, small integers."""

from codebound.contents import lazily

__all__, __getattr__, __dir__ = lazily(
    __name__,
    {
        "codebound.chains.units": "narrowed rescaled without_biases without_dead_units",
        "codebound.train.pruning": "PrunePlan PrunedTensor prune",
        "codebound_papers.arora18.conv": "coherence conv_project project_conv",
        "codebound_papers.arora18.induction_step": "InductionStep induction",
        "codebound_papers.arora18.local_filters": "LocalNetwork conv_network",
        "codebound_papers.arora18.projection": "MatrixProject project project_matrix",
        "codebound_papers.arora18.projection_counts": "ConvCount",
        "codebound_papers.arora18.requirements": "ProjectRequirements project_requirements",
        "codebound_papers.arora18.truncation": "Truncation lowrank",
        "codebound_papers.arora18.vector": "VectorCompress VectorProject vector_compress vector_project",
        "codebound_papers.compress.compressors": (
            "COMPRESSORS AbstractCompressor CompressedLayer CompressedNetwork FromInitial compress compressor"
        ),
        "codebound_papers.compress.deviations": "NetworkDeviation deviation",
        "codebound_papers.compress.methods": (
            "Job default_options method_names option_text parse_options run_method sentence_of"
        ),
        "codebound_papers.compress.minimum": "MeasuredMinimum measured_minimum",
        "codebound_papers.compress.summary": "CarriedTensor CompressionSummary LayerSummary summarise",
        "codebound_papers.compress.terms": "Terms",
        "codebound_papers.guha23.iterative": "imp",
        "codebound_papers.guha23.largest": "LargestWeights naive",
        "codebound_papers.guha23.magnitude": "MagnitudePruning common_variance mbp",
        "codebound_papers.guha23.pruning_law": "strength_for",
        "codebound_papers.guha23.requirements": "MbpRequirements mbp_requirements",
        "codebound_papers.guha23.tickets": "lottery",
        "codebound_papers.shin21.compressor": "HeavyTail heavytail",
        "codebound_papers.shin21.replacement": "GaussianFill ReplacementTrials replacement_trials",
        "codebound_papers.shin21.requirements": "HeavytailRequirements heavytail_requirements",
        "codebound_papers.shin21.thresholds": "Corrected Published ScaleFree StandardDeviation",
    },
)

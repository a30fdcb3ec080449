"""Compressors: from a trained network to few, small integers.

Example:
    >>> import codebound as cb
    >>> from codebound_networks import load_model, wrap
    >>> network = wrap(load_model("linear", input_shape=(4,), classes=2))
    >>> [layer.name for layer in cb.compress.mbp(network, strength=1.0).layers]
    ['linear1']
"""

from codebound.run.extensions import lazily

__all__, __getattr__, __dir__ = lazily(
    __name__,
    """
    codebound_networks.methods.hidden_units: narrowed rescaled without_biases without_dead_units
    codebound_networks.train.pruning: PrunePlan PrunedTensor prune
    codebound_papers.arora18.conv: coherence conv_project project_conv
    codebound_papers.arora18.projection: InductionStep MatrixProject induction project_matrix
    codebound_papers.arora18.projection_plan: ConvCount
    codebound_papers.arora18.arora_requirements: ProjectRequirements project_requirements
    codebound_papers.arora18.truncation: Truncation
    codebound_papers.arora18.vector: VectorCompress VectorProject
    codebound_papers.compress.catalogue: COMPRESSORS
    codebound_papers.compress.compressors: AbstractCompressor CompressedLayer CompressedNetwork FromInitial
        Job LocalNetwork compress
    codebound_papers.compress.methods: balanced conv_network default_options heavytail imp lottery lowrank mbp
        naive option_text parse_options project run_method vector_compress vector_project
    codebound_papers.plan.minimum: MeasuredMinimum measured_minimum
    codebound_papers.compress.compression_summary: CarriedTensor CompressionSummary LayerSummary
        NetworkDeviation deviation summarise
    codebound_papers.guha23.magnitude: LargestWeights MagnitudePruning common_variance
    codebound_papers.guha23.pruning: strength_for
    codebound_papers.guha23.guha_requirements: MbpRequirements mbp_requirements
    codebound_papers.shin21.compressor: Corrected GaussianFill HeavyTail Published ReplacementTrials ScaleFree
        StandardDeviation replacement_trials
    codebound_papers.shin21.shin_requirements: HeavytailRequirements heavytail_requirements
    """,
)

"""A trained network becomes a message."""

from codebound.run.extensions import lazily

__all__, __getattr__, __dir__ = lazily(
    __name__,
    """
    codebound_networks.about_f.base: load_base
    codebound_networks.reading.loading: load_model
    codebound_networks.reading.walk: wrap
    codebound_networks.train.config: TrainConfig
    codebound_networks.train.harness: fit
    """,
)

"""codebound: certified generalisation from compression.

The public names below are resolved on first use, so that ``import codebound`` stays fast and silent.
"""

import importlib

__version__ = "0.1.0"

_HOME = {
    # the mathematics of the guarantee: no torch below this line
    "OccamFacts": "codebound.facts",
    "HoldoutFacts": "codebound.facts",
    "RiskBound": "codebound.bounds.certified",
    "occam_binomial": "codebound.bounds.certified",
    "occam_kl": "codebound.bounds.certified",
    "occam_hoeffding": "codebound.bounds.certified",
    "holdout": "codebound.bounds.certified",
    # data, networks, training
    "Dataset": "codebound.data",
    "load_dataset": "codebound.data",
    "split": "codebound.data",
    "load_model": "codebound.nets",
    "wrap": "codebound.nets",
    "with_weights": "codebound.nets",
    "fit": "codebound.train",
    "TrainConfig": "codebound.train",
    # errors
    "CodeboundError": "codebound.errors",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'codebound' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

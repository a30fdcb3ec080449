"""codebound: certified generalisation from compression.

The public names below are resolved on first use, so that ``import codebound`` stays fast and silent.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for type checkers and editors, which cannot follow the names below
    from codebound import compress as compress
    from codebound import measure as measure
    from codebound import sketch as sketch
    from codebound.bounds.certified import RiskBound as RiskBound
    from codebound.bounds.certified import holdout as holdout
    from codebound.bounds.certified import occam_binomial as occam_binomial
    from codebound.bounds.certified import occam_hoeffding as occam_hoeffding
    from codebound.bounds.certified import occam_kl as occam_kl
    from codebound.certificate import Certificate as Certificate
    from codebound.certificate import certify as certify
    from codebound.certificate import decode as decode
    from codebound.certificate import verify as verify
    from codebound.compare import compare as compare
    from codebound.data import Dataset as Dataset
    from codebound.data import load_dataset as load_dataset
    from codebound.data import split as split
    from codebound.errors import CodeboundError as CodeboundError
    from codebound.facts import HoldoutFacts as HoldoutFacts
    from codebound.facts import OccamFacts as OccamFacts
    from codebound.nets import load_model as load_model
    from codebound.nets import with_weights as with_weights
    from codebound.nets import wrap as wrap
    from codebound.train import TrainConfig as TrainConfig
    from codebound.train import fit as fit

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
    # packages with names of their own
    "measure": "codebound",
    "compress": "codebound",
    "sketch": "codebound",
    "compare": "codebound.compare",  # a package that can be called like its main function
    # certificates
    "Certificate": "codebound.certificate",
    "certify": "codebound.certificate",
    "decode": "codebound.certificate",
    "verify": "codebound.certificate",
    # errors
    "CodeboundError": "codebound.errors",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    if _HOME.get(name) in (__name__, f"{__name__}.{name}"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'codebound' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""codebound: certified generalisation from compression.

The public names below are resolved on first use, so that ``import codebound`` stays fast and silent.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for type checkers and editors, which cannot follow the names below
    from codebound.bounds.facts import HoldoutFacts as HoldoutFacts
    from codebound.bounds.facts import OccamFacts as OccamFacts
    from codebound.bounds.held_out import holdout as holdout
    from codebound.bounds.occam import occam_binomial as occam_binomial
    from codebound.bounds.occam import occam_hoeffding as occam_hoeffding
    from codebound.bounds.occam import occam_kl as occam_kl
    from codebound.bounds.risk import RiskBound as RiskBound
    from codebound.certificate.base import load_base as load_base
    from codebound.certificate.decoding import decode as decode
    from codebound.certificate.decoding import verify as verify
    from codebound.certificate.file import Certificate as Certificate
    from codebound.certification import certify as certify
    from codebound.classifier import load_classifier as load_classifier
    from codebound.data.arrays import from_arrays as from_arrays
    from codebound.data.dataset import Dataset as Dataset
    from codebound.data.dataset import Scaling as Scaling
    from codebound.data.foreign import from_frame as from_frame
    from codebound.data.load import load_dataset as load_dataset
    from codebound.data.splits import split as split
    from codebound.encoders.known import load_encoder as load_encoder
    from codebound.errors import CodeboundError as CodeboundError
    from codebound.estimator.wrapper import PickToLearn as PickToLearn
    from codebound.holdouts.metric import RiskBoundMetric as RiskBoundMetric
    from codebound.nets.loading import load_model as load_model
    from codebound.nets.rebuild import with_weights as with_weights
    from codebound.nets.walk import wrap as wrap
    from codebound.results import Certification as Certification
    from codebound.through import bound_through as bound_through
    from codebound.train.config import TrainConfig as TrainConfig
    from codebound.train.harness import fit as fit

__version__ = "0.1.0"

_HOME = {
    # the mathematics of the guarantee: no torch below this line
    "OccamFacts": "codebound.bounds.facts",
    "HoldoutFacts": "codebound.bounds.facts",
    "RiskBound": "codebound.bounds.risk",
    "occam_binomial": "codebound.bounds.occam",
    "occam_kl": "codebound.bounds.occam",
    "occam_hoeffding": "codebound.bounds.occam",
    "holdout": "codebound.bounds.held_out",
    # data, networks, training
    "Dataset": "codebound.data.dataset",
    "Scaling": "codebound.data.dataset",
    "from_arrays": "codebound.data.arrays",
    "load_dataset": "codebound.data.load",
    "from_frame": "codebound.data.foreign",
    "split": "codebound.data.splits",
    "load_encoder": "codebound.encoders.known",
    "load_model": "codebound.nets.loading",
    "wrap": "codebound.nets.walk",
    "with_weights": "codebound.nets.rebuild",
    "fit": "codebound.train.harness",
    "TrainConfig": "codebound.train.config",
    # certificates
    "Certificate": "codebound.certificate.file",
    "Certification": "codebound.results",
    "certify": "codebound.certification",
    "load_base": "codebound.certificate.base",
    "load_classifier": "codebound.classifier",
    "decode": "codebound.certificate.decoding",
    "verify": "codebound.certificate.decoding",
    "bound_through": "codebound.through",
    # test sets
    "RiskBoundMetric": "codebound.holdouts.metric",
    # any learner with the interface of scikit-learn
    "PickToLearn": "codebound.estimator.wrapper",
    # errors
    "CodeboundError": "codebound.errors",
}
_EXTENDED = ("measure", "compress", "sketch", "compare")  # with codebound_papers

__all__ = ["__version__", *_HOME, *_EXTENDED]


def __getattr__(name: str) -> object:
    from codebound.extensions import find_extensions, loaded

    if name in _HOME:
        return loaded(f"{_HOME[name]}:{name}")
    if not name.startswith("_") and name in find_extensions()["NAMES"]:
        return loaded(find_extensions()["NAMES"][name])
    raise AttributeError(f"module 'codebound' has no attribute {name!r}.{find_extensions().advice}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""codebound: certified generalisation from compression.

The public names below are resolved on first use, so that ``import codebound`` stays fast and silent.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors, which cannot follow the names below
    from codebound import holdout as holdout
    from codebound.any_learner.pick_to_learn import PickToLearn as PickToLearn
    from codebound.bounds.facts import HoldoutFacts as HoldoutFacts
    from codebound.bounds.facts import OccamFacts as OccamFacts
    from codebound.bounds.occam import occam_binomial as occam_binomial
    from codebound.bounds.occam import occam_hoeffding as occam_hoeffding
    from codebound.bounds.occam import occam_kl as occam_kl
    from codebound.bounds.risk import RiskBound as RiskBound
    from codebound.certificate.decoding import decode as decode
    from codebound.certificate.file import Certificate as Certificate
    from codebound.certificate.verification import verify as verify
    from codebound.certification import certify as certify
    from codebound.classifier import load_classifier as load_classifier
    from codebound.known.encoder import load_encoder as load_encoder
    from codebound.report.folder import Certification as Certification
    from codebound.run.errors import CodeboundError as CodeboundError
    from codebound.run.extensions import Studies
    from codebound.sample.arrays import from_arrays as from_arrays
    from codebound.sample.dataset import Dataset as Dataset
    from codebound.sample.dataset import Scaling as Scaling
    from codebound.sample.load import load_dataset as load_dataset
    from codebound.sample.load import split as split
    from codebound.sample.tables import from_frame as from_frame

    study: Studies

__version__ = "0.1.0"

_HOME = {
    # the mathematics of the guarantee: no torch below this line
    "OccamFacts": "codebound.bounds.facts",
    "HoldoutFacts": "codebound.bounds.facts",
    "RiskBound": "codebound.bounds.risk",
    "occam_binomial": "codebound.bounds.occam",
    "occam_kl": "codebound.bounds.occam",
    "occam_hoeffding": "codebound.bounds.occam",
    # data, networks, training
    "Dataset": "codebound.sample.dataset",
    "Scaling": "codebound.sample.dataset",
    "from_arrays": "codebound.sample.arrays",
    "load_dataset": "codebound.sample.load",
    "from_frame": "codebound.sample.tables",
    "split": "codebound.sample.load",
    "load_encoder": "codebound.known.encoder",
    # certificates
    "Certificate": "codebound.certificate.file",
    "Certification": "codebound.report.folder",
    "certify": "codebound.certification",
    "load_classifier": "codebound.classifier",
    "decode": "codebound.certificate.decoding",
    "verify": "codebound.certificate.verification",
    # any learner with the interface of scikit-learn
    "PickToLearn": "codebound.any_learner.pick_to_learn",
    # errors
    "CodeboundError": "codebound.run.errors",
}
_EXTENDED = (
    # with codebound_networks
    *("load_model", "wrap", "fit", "TrainConfig", "load_base", "bound_through"),
    # with codebound_papers
    *("measure", "compress", "sketch", "study", "compare"),
)

__all__ = ["__version__", "holdout", *_HOME, *_EXTENDED]


def __getattr__(name: str) -> Any:
    from codebound.run.extensions import find_extensions, resolve

    if name == "holdout":  # a module
        return resolve(f"{__name__}.{name}")
    if name in _HOME:
        return resolve(f"{_HOME[name]}:{name}")
    if not name.startswith("_") and name in find_extensions()["NAMES"]:
        return resolve(find_extensions()["NAMES"][name])
    raise AttributeError(f"module 'codebound' has no attribute {name!r}.{find_extensions().advice}")


def __dir__() -> list[str]:
    return sorted(__all__)

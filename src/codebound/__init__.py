"""codebound: certified generalisation from compression.

``certification.py`` tells how a sample becomes a certificate, ``request.py`` what somebody asks for. The
public names below are resolved on first use, so that ``import codebound`` stays fast and silent.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors, which cannot follow the names below
    from codebound import bounds as bounds
    from codebound import holdout as holdout
    from codebound.certificate.file import Certificate as Certificate
    from codebound.certificate.verification import verify as verify
    from codebound.certification import certify as certify
    from codebound.classifier import load_classifier as load_classifier
    from codebound.estimator import CertifiedClassifier as CertifiedClassifier
    from codebound.report.folder import Result as Result
    from codebound.request import Claim as Claim
    from codebound.request import Known as Known
    from codebound.request import Run as Run
    from codebound.run.errors import CodeboundError as CodeboundError
    from codebound.run.extensions import Studies
    from codebound.sample.dataset import Sample as Sample
    from codebound.sample.load import load_sample as load_sample
    from codebound.sample.load import split as split

    study: Studies

__version__ = "1.0.0"

_HOME = {
    "certify": "codebound.certification:certify",
    "verify": "codebound.certificate.verification:verify",
    "load_classifier": "codebound.classifier:load_classifier",
    "load_sample": "codebound.sample.load:load_sample",
    "split": "codebound.sample.load:split",
    "Sample": "codebound.sample.dataset:Sample",
    "Known": "codebound.request:Known",
    "Claim": "codebound.request:Claim",
    "Run": "codebound.request:Run",
    "Result": "codebound.report.folder:Result",
    "Certificate": "codebound.certificate.file:Certificate",
    "CertifiedClassifier": "codebound.estimator:CertifiedClassifier",
    "holdout": "codebound.holdout",
    "bounds": "codebound.bounds",
    "CodeboundError": "codebound.run.errors:CodeboundError",
}
_OF_EXTENSIONS = ("study", "measure", "compress", "compare", "sketch")

__all__ = ["__version__", *_HOME, *_OF_EXTENSIONS]


def __getattr__(name: str) -> Any:
    from codebound.run.extensions import find_extensions, resolve

    if name in _HOME:
        return resolve(_HOME[name])
    if not name.startswith("_") and name in find_extensions()["NAMES"]:
        return resolve(find_extensions()["NAMES"][name])
    raise AttributeError(f"module 'codebound' has no attribute {name!r}.{find_extensions().advice}")


def __dir__() -> list[str]:
    return sorted(__all__)

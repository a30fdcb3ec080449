"""Comparison of declared scores with those of code run again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.certificate.file import Certificate
from codebound.certificate.verification import CERTIFICATE
from codebound.known.learners import load_learner
from codebound.known.score_tables import Scaled, run_on
from codebound.known.share_scores import scores_of
from codebound.methods.scores import fit_again
from codebound.report.folder import load_sample_of, scores_name
from codebound.run.errors import CertificateError, UsageError
from codebound.run.extensions import reader
from codebound.run.tensor_files import load_weights
from codebound.sample.dataset import arrays_sha256
from codebound.sample.order import Design, arrange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from codebound.sample.dataset import Sample

_CLOSE, _TINY = 1e-4, 1e-6  # float32 sums in another order stay within


@dataclass(frozen=True, slots=True)
class Rescoring:
    """Comparison of declared scores with new ones."""

    rows: int
    differ: int  # rows with a score that is off by more than a part in ten thousand
    answers: int  # rows whose largest score is of another class
    largest: float  # difference of two scores
    by: str  # maker of the declared scores, as the certificate says

    @property
    def sentence(self) -> str:
        """Conclusion in words."""
        if not self.differ:
            return f"The code gives the declared scores again, on all {self.rows} rows."
        return (
            f"The declared scores are NOT those of this code: {self.differ} of {self.rows} rows differ, "
            f"{self.answers} of them in the answer. Another version or seed of the same learner can do that."
        )


def rescore_from_options(options: Mapping[str, Any]) -> Rescoring:
    """Score the sample of a folder again, and compare with the first table."""
    file = Path(options["folder"])
    folder, path = (file, file / CERTIFICATE) if file.is_dir() else (file.parent, file)
    certificate = Certificate.load(path)
    if not certificate.known.tables:
        raise CertificateError(f"{path} declares no scores: codebound verify repeats all of it.")
    table = certificate.known.tables[0]
    arrays = {name: each.numpy() for name, each in load_weights(folder / scores_name(1)).items()}
    if arrays_sha256(*arrays.values()) != table.sha256:
        raise CertificateError(f"{folder / scores_name(1)} is not the table that the certificate declares.")
    sample = load_sample_of(certificate, folder, data=options["data"])
    if options["learner"] is options["model"] is None:
        found = fit_again(certificate, sample).scores
    elif options["learner"] is None:
        network = reader("networks")(options["model"], sample, options["weights"])
        found = run_on(Scaled(network, sample.scaling), sample)
    else:
        found = _learn_again(certificate, sample, options)
    return compare_scores(arrays["scores"], found, by=table.by)


def _learn_again(certificate: Certificate, sample: Sample, options: Mapping[str, Any]) -> NDArray[Any]:
    facts, rows = certificate.sample, certificate.known.tables[0].rows
    if facts.clusters is not None:
        raise UsageError("the share of a sample of clusters cannot be learned from again here.")
    arranged = arrange(sample, Design(facts.order, facts.copies, facts.salt, facts.seal))
    return scores_of(load_learner(options["learner"], options["seed"]), arranged, rows).scores


def compare_scores(declared: NDArray[Any], found: NDArray[Any], *, by: str) -> Rescoring:
    """Compare two tables row by row.

    Example:
        >>> compare_scores(np.array([[0.0, 1.0]]), np.array([[1.0, 0.5]]), by="a tree").answers
        1
    """
    if declared.shape != found.shape:
        raise UsageError(f"the code scores {found.shape}, the certificate declares {declared.shape}.")
    differ = ~np.isclose(declared, found, rtol=_CLOSE, atol=_TINY).all(axis=1)
    answers = differ & (declared.argmax(axis=1) != found.argmax(axis=1))
    largest = float(np.abs(declared.astype(np.float64) - found).max(initial=0.0))
    return Rescoring(len(declared), int(differ.sum()), int(answers.sum()), largest, by)

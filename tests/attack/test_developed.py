"""Samples that the format was developed on: both programs say so, however the sample is given."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

from codebound.certificate import offers
from codebound.certificate.verification import verify
from codebound.certification import certify
from codebound.known.score_tables import ScoreTable
from codebound.request import Known, Run
from codebound.run.errors import CertificateError
from codebound.sample import caveats
from codebound.sample.arrays import from_arrays
from codebound.sample.caveats import DEVELOPED, development_sample
from codebound_verify.development import SENTENCE, SKETCHES, row_keys

X, Y = (each[:500] for each in load_digits(return_X_y=True))


def test_both_programs_have_the_same_lists_and_keys():
    own, other = (json.loads(path.read_text())["rows"] for path in (caveats.LISTS, SKETCHES))
    assert own == other
    assert {"digits", "mnist", "fashionmnist", "cifar10"} <= {name.lower().replace("-", "") for name in own}
    assert DEVELOPED == SENTENCE
    random = np.random.default_rng(0)
    for x, blocks in ((X, 1), (random.integers(0, 256, (20, 3, 8, 8)).astype(np.uint8), 3)):
        assert len(mine := {int(key) for key in caveats.row_keys(x, blocks)}) > 10
        assert mine == set(row_keys(x, blocks).tolist())


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "given",
    [
        lambda x: x,
        lambda x: (x / 16).astype(np.float32).reshape(-1, 8, 8),
        lambda x: x[np.random.default_rng(0).permutation(len(x))[:300]].astype(np.uint8),
    ],
    ids=["data", "sixteenths", "a part"],
)
def test_digits_in_any_array_are_the_ones_that_the_format_was_developed_on(given):
    """In the file that is issued, and in the words of the second program about one that is silent."""
    x = given(X)
    sample = from_arrays(x, Y[: len(x)], name="given")
    found = certify(sample, method="split", run=Run(effort="quick")).certificate
    assert DEVELOPED in found.declarations
    verdict = verify(found, sample)
    assert verdict.development_sample == "digits"
    assert any(line.startswith(DEVELOPED) for line in verdict.assumptions)


def test_no_file_is_issued_that_the_verifier_contradicts(monkeypatch):
    monkeypatch.setattr(offers, "development_sample", lambda *_: "")
    with pytest.raises(CertificateError, match=r"developed on the sample.*would not say it"):
        certify((X, Y), method="split", run=Run(effort="quick"))


@pytest.mark.parametrize(("of", "name"), [("rows of Fashion-MNIST", "fashion-mnist"), ("CIFAR-100", None)])
def test_what_scores_were_made_of_is_believed(of, name):
    x, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3
    table = ScoreTable(np.eye(3)[y], "somebody", of)
    found = certify(
        from_arrays(x, y, name="noise"), method="scores", known=Known(scores=table), run=Run(effort="quick")
    )
    assert (DEVELOPED in found.certificate.declarations) == (name is not None)
    said = verify(found.certificate, found.sample, tables=[table.arrays]).development_sample
    assert (said or "").lower() == (name or "")


def test_other_samples_are_not_called_so():
    for x, y in (load_wine(return_X_y=True), (np.random.default_rng(0).integers(0, 17, X.shape), Y)):
        sample = from_arrays(x, y, name="other")
        said = development_sample(sample, ()) or None
        found = certify(sample, method="split", run=Run(effort="quick")).certificate
        assert verify(found, sample).development_sample == said
        assert (DEVELOPED in found.declarations) == bool(said)

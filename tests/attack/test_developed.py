"""Samples that the format was developed on: both programs say so, however the sample is given."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

from codebound.certificate.verification import verify
from codebound.certification import certify
from codebound.known.score_tables import ScoreTable
from codebound.request import Known, Run
from codebound.sample.arrays import from_arrays
from codebound.sample.caveats import DEVELOPED
from codebound_verify.development import SENTENCE, find_development, read_sketches

X, Y = (each[:500] for each in load_digits(return_X_y=True))


def test_both_programs_say_it_in_the_same_words():
    assert DEVELOPED == SENTENCE
    assert {"digits", "mnist", "fashion-mnist", "cifar10"} <= read_sketches().keys()


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
        said = find_development(x, ())
        found = certify(sample, method="split", run=Run(effort="quick")).certificate
        assert verify(found, sample).development_sample == said
        assert (DEVELOPED in found.declarations) == bool(said)

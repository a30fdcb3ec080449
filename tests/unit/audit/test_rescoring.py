"""``codebound audit rescore``: declared scores beside those of the code that is said to have made them."""

import numpy as np
import pytest

from codebound.audit.rescoring import compare_scores
from codebound.run.errors import UsageError

LEARNER = "sklearn.tree:DecisionTreeClassifier"


@pytest.fixture
def cert(empty_folder, codebound):
    """A certificate that counts the scores of a tree."""
    y = np.arange(300) % 2
    x = np.random.default_rng(0).normal(size=(300, 4)) + 2.0 * y[:, None]
    np.savez("sample.npz", x=x.astype(np.float32), y=y)
    asked = ("--learner", LEARNER, "--method", "scores", "--run", "effort=quick", "--out", "cert")
    code, _, err = codebound("certify", "sample.npz", *asked)
    assert code == 0, err
    return "cert"


def test_the_learner_that_was_named_gives_the_scores_again(cert, codebound):
    code, out, err = codebound("audit", "rescore", cert, "--learner", LEARNER)
    assert (code, "on all 300 rows" in err) == (0, True), err
    assert "DecisionTreeClassifier(random_state=0)" in out


def test_a_usual_learner_is_fitted_again(codebound, cert):
    code, _, err = codebound("certify", "sample.npz", "--method", "scores", "--out", "usual")
    assert code == 0, err
    code, out, err = codebound("audit", "rescore", "usual")
    assert (code, "on all 300 rows" in err) == (0, True), err
    assert "seed 0, codebound" in out


def test_another_learner_is_found_out(cert, codebound):
    code, _, err = codebound("audit", "rescore", cert, "--learner", "sklearn.naive_bayes:GaussianNB")
    assert (code, "NOT those of this code" in err) == (1, True)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ((), "is no usual learner that could be fitted again"),
        (("--network", "w.safetensors"), "give --learner, or --network"),
        (("--learner", "sklearn.tree:Nothing"), "no learner sklearn.tree:Nothing"),
        (("--learner", "sklearn.base:clone", "--data", "other.npz"), "not the sample of the certificate"),
    ],
)
def test_errors_say_why_nothing_can_be_run_again(cert, codebound, asked, says):
    np.savez("other.npz", x=np.zeros((20, 4), np.float32), y=np.arange(20) % 2)
    code, _, err = codebound("audit", "rescore", cert, *asked)
    assert code in (1, 2)
    assert says in " ".join(err.split())


def test_assurance_can_be_required_to_be_replayed(cert, codebound):
    asked = ("--learner", LEARNER, "--method", "scores", "--assurance", "replayed", "--out", "none")
    code, _, err = codebound("certify", "sample.npz", *asked)
    assert (code, "the second program makes by itself" in err) == (1, True)


def test_rows_differ_beyond_rounding_alone():
    scores = np.array([[0.0, 1.0], [1.0, 0.0]], np.float32)
    assert compare_scores(scores, scores * (1 + 1e-6), by="a").differ == 0
    found = compare_scores(scores, scores + np.array([[0.0, 0.0], [0.0, 2.0]]), by="a")
    assert (found.differ, found.answers, found.largest) == (1, 1, 2.0)
    with pytest.raises(UsageError, match="the code scores"):
        compare_scores(scores, scores[:, :1], by="a")

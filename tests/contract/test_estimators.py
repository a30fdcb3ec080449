"""Checks of scikit-learn for every estimator, on ``CertifiedClassifier`` by both methods."""

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import codebound

LEARNER = LogisticRegression()


@pytest.mark.few(12)
@parametrize_with_checks(
    [codebound.CertifiedClassifier(LEARNER), codebound.CertifiedClassifier(LEARNER, "picks", share=0.3)]
)
def test_scikit_learn_takes_it_for_one_of_its_own(estimator, check):
    check(estimator)

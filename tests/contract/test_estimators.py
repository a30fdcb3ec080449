"""What scikit-learn asks of every estimator, asked of ``PickToLearn`` around a classifier and a regressor."""

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import codebound


@pytest.mark.few(12)
@parametrize_with_checks(
    [codebound.PickToLearn(LogisticRegression(), batch=5), codebound.PickToLearn(Ridge(), tau=1.0, batch=5)]
)
def test_scikit_learn_takes_it_for_one_of_its_own(estimator, check):
    check(estimator)

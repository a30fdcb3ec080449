"""The metric against the calculator, whatever the batches."""

import math

import pytest
import torch
from scipy.stats import beta

import codebound as cb
from codebound.holdout.metric import RiskBoundMetric
from codebound.run.errors import UsageError


def batches(seed: int = 0, n: int = 200):
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, 3, generator=draw)
    labels = torch.randint(3, (n,), generator=draw)
    return scores, labels


def test_batches_add_up_to_the_limit_of_all():
    scores, labels = batches()
    metric = RiskBoundMetric(classes=3)
    for part in torch.arange(200).split(33):
        metric(scores[part], labels[part])
    errors = int((scores.argmax(1) != labels).sum())
    found = metric.compute()
    assert (found.errors, found.n) == (errors, 200)
    assert found.upper == pytest.approx(beta.ppf(0.95, errors + 1, 200 - errors), rel=1e-9)
    assert metric.compute() == found  # the same look


def test_classes_have_a_table_that_shares_delta():
    scores, labels = batches(1)
    metric = RiskBoundMetric(classes=4, has_classes=True)
    wide = torch.nn.functional.pad(scores, (0, 1), value=-9.0)
    metric.update(wide, labels)
    table = metric.compute().by_class
    assert table[3] is None
    for c in range(3):
        n = int((labels == c).sum())
        errors = int(((scores.argmax(1) != labels) & (labels == c)).sum())
        assert table[c] == pytest.approx(beta.ppf(1 - 0.05 / 4, errors + 1, n - errors), rel=1e-9)


def test_predicted_classes_and_other_faults():
    metric = RiskBoundMetric(classes=3, fault="confused:0:2")
    metric.update(torch.tensor([2, 1, 0, 2]), torch.tensor([0, 0, 0, 1]))
    assert (metric.compute().errors, metric.compute().n) == (1, 3)


def test_every_network_is_a_look_and_looks_are_planned():
    metric = RiskBoundMetric(classes=3, looks=2)
    for _ in range(2):
        metric.update(*batches())
        metric.compute()
        metric.reset()
    metric.update(*batches())
    with pytest.raises(UsageError, match="look 3 of 2"):
        metric.compute()
    one = RiskBoundMetric(classes=3)
    one.update(*batches())
    two = RiskBoundMetric(classes=3, looks=2)
    two.update(*batches())
    assert two.compute().upper > one.compute().upper


def test_nothing_counted_says_nothing():
    metric = cb.RiskBoundMetric(classes=3, fault="class:2")
    metric.update(torch.tensor([0]), torch.tensor([0]))
    found = metric.compute()
    assert (found.n, found.upper) == (0, 1.0)
    assert math.isnan(found.error_rate)


def test_what_no_batch_is_is_refused():
    metric = RiskBoundMetric(classes=3)
    with pytest.raises(UsageError, match="shape"):
        metric.update(torch.zeros(2, 4), torch.tensor([0, 1]))
    with pytest.raises(UsageError, match="as integers"):
        metric.update(torch.zeros(2), torch.tensor([0, 1]))
    with pytest.raises(UsageError, match="looks"):
        RiskBoundMetric(classes=3, looks=0)

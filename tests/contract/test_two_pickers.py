"""Both programs run a rule: the same vectors, bit for bit, the same picks in the same order, a verdict."""

import numpy as np
import pytest
import rule_writer as rules

from codebound.certificate.assessment import issue
from codebound.certificate.picked import assess_picked
from codebound.certificate.task import Task
from codebound.data.dataset import Dataset, Scaling
from codebound.picks.features import ColumnFeatures, FilterFeatures, PatchFeatures
from codebound.picks.picking import features_of, pick
from codebound.picks.rule import Rule
from codebound_verify import verify
from codebound_verify.container import read
from codebound_verify.message import decode
from codebound_verify.picks.kernel import feature_map
from codebound_verify.picks.picking import learn

X, Y = rules.shapes(240, seed=1)
SAMPLE = Dataset("shapes", "train", X, Y, 3, Scaling(16.0))


@pytest.mark.parametrize(
    "rule",
    [
        Rule(ColumnFeatures(False), first=20, batch=4, rounds=5),
        Rule(ColumnFeatures(True), first=20, batch=5, rounds=4, gamma_index=6),
        Rule(FilterFeatures(True, 3, 2), first=30, copies=4, batch=3, rounds=4),
        Rule(FilterFeatures(False, 1, 3), first=30, copies=6, batch=3, rounds=3),
        Rule(PatchFeatures(3, 256, 1, 2, 0), first=50, copies=1, batch=4, rounds=3),
        Rule(PatchFeatures(3, 512, 2, 2, 4, 3), first=50, copies=5, batch=2, rounds=3),
    ],
)
def test_they_agree(rule):
    picked = pick(rule, SAMPLE)
    task = Task(sample=SAMPLE, delta=0.05)
    data = issue(assess_picked(picked, task), task).to_bytes()
    verdict = verify(data, X, Y)
    assert verdict.reasons == ()

    certificate = read(data)
    own = decode(certificate).rule
    learned = learn(own, certificate.header, X, Y)
    assert learned.picked.tolist() == picked.order.tolist()
    made = feature_map(own, X[learned.picked[: rule.first]], divisor=16.0)
    _, vectors = features_of(picked.rule, SAMPLE)
    assert np.array_equal(made.vectors(made.prepared(X)), vectors.numpy())

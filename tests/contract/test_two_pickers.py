"""Both programs run a rule: the same vectors, bit for bit, the same picks in the same order, a verdict."""

from dataclasses import replace

import numpy as np
import pytest
import rule_writer as rules
import torch

from codebound.certificate.assessment import assess_picked, issue
from codebound.certificate.task import Task
from codebound.learn.feature_weights import LayerFeatures
from codebound.learn.features import ColumnFeatures, FilterFeatures, PatchFeatures
from codebound.learn.kernel_network import count_losses
from codebound.learn.picking import pick
from codebound.learn.rule import Rule
from codebound.sample.dataset import Dataset, Scaling
from codebound.sample.load import load_dataset
from codebound_verify import verify
from codebound_verify.container import read
from codebound_verify.learn.kernel import feature_map
from codebound_verify.learn.picking import learn
from codebound_verify.learn.rule import decode_rule
from codebound_verify.message import Message

X, Y = rules.shapes(240, seed=1)
SAMPLE = Dataset("shapes", "train", X, Y, 3, Scaling(16.0))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "rule",
    [
        Rule(ColumnFeatures(False), first=20, batch=4, rounds=5),
        Rule(ColumnFeatures(True), first=20, batch=5, rounds=4, gamma_index=6),
        Rule(FilterFeatures(True, 3, 2), first=30, copies=4, batch=3, rounds=4),
        Rule(FilterFeatures(False, 1, 3), first=30, copies=6, batch=3, rounds=3),
        Rule(PatchFeatures(3, 256, 1, 2, 0), first=50, copies=1, batch=4, rounds=3),
        Rule(PatchFeatures(3, 512, 2, 2, 4, 3), first=50, copies=5, batch=2, rounds=3),
        Rule(LayerFeatures(ColumnFeatures(), (2, 1, 0, 3, 2, 2) * 6), first=20, batch=4, rounds=5),
        Rule(LayerFeatures(ColumnFeatures(True), (3, 0, 0, 1, 1, 2) * 6), first=20, batch=5, rounds=4),
        Rule(
            LayerFeatures(FilterFeatures(True, 3, 2), (2, 3, 2, 1, 2, 0, 2, 2, 3), True), first=30, copies=2
        ),
        Rule(LayerFeatures(PatchFeatures(3, 256, 1, 3, 0), (1, 3, 2, 2, 3, 0)), first=50, copies=1, batch=4),
        Rule(LayerFeatures(ColumnFeatures(), (), strength=2), first=30, gamma_index=6),
        Rule(LayerFeatures(ColumnFeatures(True), (), strength=3), first=30),
        Rule(
            LayerFeatures(FilterFeatures(True, 3, 2), (), strength=1), first=30, copies=4, batch=3, rounds=3
        ),
        Rule(LayerFeatures(PatchFeatures(3, 256, 1, 3, 0), (), strength=2), first=50, copies=1, batch=4),
    ],
)
def test_they_agree(rule):
    require_agreement(replace(rule, rounds=min(5, rule.rounds)), SAMPLE)


def require_agreement(rule: Rule, sample: Dataset, fresh: Dataset | None = None) -> None:
    """The same picks, vectors and errors, and ACCEPT; on fresh data the same errors too."""
    picked = pick(rule, sample)
    task = Task(sample=sample, delta=0.05)
    assessed = assess_picked(picked, task)
    data = issue(assessed, task).to_bytes()
    verdict = verify(data, sample.x, sample.y)
    assert verdict.reasons == ()

    certificate = read(data)
    own = decode_rule(Message(certificate))
    learned = learn(own, certificate.header, sample.x, sample.y)
    assert learned.picked.tolist() == picked.order.tolist()
    assert learned.count(sample.y, np.arange(len(sample.y)))[1] == picked.last.errors
    first = sample.x[learned.picked[: rule.first]]
    labels = sample.y[learned.picked[: rule.first]]
    made = feature_map(own, first, divisor=sample.scaling.divisor, labels=labels)
    assert np.array_equal(made.vectors(made.prepare(sample.x)), picked.features(torch.from_numpy(sample.x)))
    if fresh is not None:
        assert learned.count_errors(fresh.x, fresh.y) == count_losses(assessed.network, fresh)


ON_DIGITS = {
    "columns": Rule(ColumnFeatures(False)),
    "columns by length": Rule(ColumnFeatures(True)),
    "filters": Rule(FilterFeatures(False, 1, 2)),
    "patches": Rule(PatchFeatures(4, 256, 2, 2, 5, 1)),
} | {
    f"copies {copies}": Rule(
        PatchFeatures(3, 256, 4, 2, 4) if copies == 1 else FilterFeatures(), copies=copies
    )
    for copies in range(1, 8)
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ON_DIGITS)
def test_they_agree_on_digits(name):
    digits = load_dataset("digits")
    sample, fresh = (digits.select(range(*part), role="certify") for part in ((0, 300), (300, 800)))
    require_agreement(replace(ON_DIGITS[name], first=30, batch=4, rounds=4), sample, fresh)


def test_the_picks_depend_on_every_number_of_a_rule():
    start = Rule(ColumnFeatures(), first=20, batch=4, rounds=4)
    changes = ("gamma_index", 7), ("ridge_index", 8), ("score_index", 0), ("first", 30), ("batch", 5)
    rules = [start, *(replace(start, **{name: value}) for name, value in changes)]
    assert len({pick(rule, SAMPLE).order.tobytes() for rule in rules}) == len(rules)

"""Counts beside a certificate: errors by class and on a test sample, against those by hand."""

import cbound_writer as writer
import numpy as np
import pytest
import torch
from scipy.stats import beta
from worlds.samples import written_clusters

from codebound.certificate.assessment import assess
from codebound.certificate.claims import AboutG
from codebound.certificate.evaluate import count_errors
from codebound.certificate.task import Task
from codebound.certification import bound_by_test
from codebound.sample.losses import parse_loss
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import Linear
from codebound_networks.chains.original import Original
from codebound_networks.codes.tensors import Dense

CHAIN = Chain((1, 2, 2), (Linear(3, False),))
CODE = Dense(writer.WEIGHT.astype(np.int32), -3, 2)
SAMPLE, TEST = written_clusters(400), written_clusters(150, seed=3)
DELTA = 0.05


def assessed(loss="wrong"):
    f = Original(CHAIN, {"0.weight": torch.from_numpy(CODE.weights()[::-1].copy())})
    task = Task(sample=SAMPLE, delta=DELTA, claim=AboutG(loss=parse_loss(loss)), original=f)
    return assess(Message(task.options, CHAIN, {"0.weight": CODE}), task), task


def wrong(sample, weight):
    """Which examples a linear classifier gets wrong; ties are errors."""
    logits = sample.x.reshape(sample.n, 4) / 16.0 @ weight.astype(np.float64).T
    own = logits[np.arange(sample.n), sample.y]
    logits[np.arange(sample.n), sample.y] = -np.inf
    return own <= logits.max(1)


def limit(errors, n, level):
    """Clopper and Pearson's."""
    return 1.0 if errors == n else float(beta.isf(level, errors + 1, n - errors))


def test_every_class_has_its_errors_and_a_limit_at_a_third_of_delta():
    best, task = assessed()
    is_wrong = wrong(SAMPLE, CODE.weights())
    table = best.class_bounds(task, engine=None)
    assert [row.label for row in table] == [0, 1, 2]
    for row in table:
        own = is_wrong[SAMPLE.y == row.label]
        assert (row.errors, row.n) == (own.sum(), len(own))
        level = DELTA / 3 * 2.0**-best.facts.code_bits
        assert row.bound == pytest.approx(limit(row.errors, row.n, level), rel=1e-9)
    assert sum(row.errors for row in table) == best.facts.errors


def test_a_class_without_examples_has_no_limit():
    best, task = assessed()
    task.rest = SAMPLE.select(np.flatnonzero(SAMPLE.y != 1), role="train")
    row = best.class_bounds(task, engine=None)[1]
    assert (row.errors, row.n, row.bound) == (0, 0, None)


def test_the_test_sample_speaks_of_g():
    best, task = assessed()
    found = bound_by_test(best, task, TEST, None)
    errors = int(wrong(TEST, CODE.weights()).sum())
    assert (found.subject, found.facts.errors, found.facts.n) == ("g", errors, TEST.n)
    assert found.value == pytest.approx(limit(errors, TEST.n, DELTA), rel=1e-9)


def test_a_loss_is_counted_on_the_examples_that_it_is_about():
    best, task = assessed("class:2")
    found = bound_by_test(best, task, TEST, None)
    own = wrong(TEST, CODE.weights())[TEST.y == 2]
    assert (found.facts.errors, found.facts.n) == (own.sum(), len(own))


def test_the_test_sample_speaks_of_f_too():
    _, task = assessed()
    errors = int(wrong(TEST, CODE.weights()[::-1]).sum())
    assert count_errors(task.f.build(), TEST.on("cpu")).errors == errors
    assert errors > wrong(TEST, CODE.weights()).sum()  # f and g are told apart

"""Measuring on an engine: the numbers of one pass, whatever the shards are."""

from functools import partial

import numpy as np
import pytest
import torch
from worlds.commands import Here
from worlds.networks import mlp, with_normal_weights
from worlds.samples import random_labels

from codebound.run.errors import UsageError
from codebound.run.job import LocalEngine
from codebound.sample.dataset import Sample
from codebound_papers.measure.noise.meter import stability
from codebound_papers.measure.noise.quantities import Smoothness, StabilitySettings
from codebound_papers.measure.outputs import evaluate_sample
from codebound_papers.measure.record import MeasureSettings
from codebound_papers.measure.summary import summarise

N, FEATURES, CLASSES = 50, 6, 3
PLAN = StabilitySettings(probes=8, smoothness=Smoothness(0.1, draws=2), outliers=0.1)


@pytest.fixture(scope="module")
def case():
    network = with_normal_weights(mlp(FEATURES, 5, 4, CLASSES), seed=1)
    return network, random_labels(N, shape=(FEATURES,), classes=CLASSES)


pytestmark = pytest.mark.usefixtures("all_threads")


@pytest.mark.few(3)
@pytest.mark.parametrize("slots", [1, 2, 3, 100])
@pytest.mark.parametrize("chunk_size", [1, 7, 100])
def test_every_value_of_every_example_is_that_of_one_pass(case, slots, chunk_size):
    network, sample = case
    whole = stability(network, sample, PLAN, chunk_size=chunk_size)
    parts = stability(network, sample, PLAN, chunk_size=chunk_size, engine=Here(slots))
    assert parts.columns.keys() == whole.columns.keys()
    for key, column in whole.columns.items():
        np.testing.assert_array_equal(parts.columns[key], column)
    assert parts.layers == whole.layers
    data, run = sample.on("cpu"), partial(evaluate_sample, classes=CLASSES, chunk_size=chunk_size)
    assert run(network, data, engine=Here(slots)).margins == run(network, data).margins


def test_a_part_without_a_defined_example_is_no_failure(case):
    _, sample = case
    x = sample.x.copy()
    x[:10] = 0.0
    network = with_normal_weights(mlp(FEATURES, 5, CLASSES, bias=False), seed=1)
    half_empty = Sample("half empty", "train", x, sample.y, CLASSES)
    found = stability(network, half_empty, chunk_size=10, engine=Here(5))
    assert found.undefined >= 10
    assert found.layers == stability(network, half_empty, chunk_size=10).layers


@pytest.mark.thorough
def test_real_processes_measure_the_same(case):
    network, sample = case
    plan = MeasureSettings(families=("spectra", "stability", "margins"), stability=PLAN, chunk_size=8)
    whole = summarise(network, sample, plan)
    with LocalEngine(2) as engine:
        parts = summarise(network, sample, plan, engine=engine)
    assert parts.record() == whole.record()
    assert parts.curves == whole.curves


def test_progress_ends_with_all_examples(case):
    network, sample = case
    told = []
    evaluate_sample(
        network,
        sample.on("cpu"),
        classes=CLASSES,
        chunk_size=7,
        engine=Here(3),
        progress=lambda done, total, note="": told.append((done, total)),
    )
    assert told[-1] == (N, N)
    assert told == sorted(told)


def test_batches_cannot_be_cut(case):
    network, sample = case
    with pytest.raises(UsageError, match="measures on a Sample"):
        stability(network, torch.from_numpy(sample.x), PLAN, engine=Here(2))

"""Measures of a large sample: the same numbers from files as from memory, in memory that does not grow."""

import tracemalloc

import numpy as np
import pytest

from codebound.sample import memmap as large
from codebound.sample.dataset import Sample
from codebound_networks.reading.loading import load_model
from codebound_papers.measure.noise.quantities import Smoothness, StabilitySettings
from codebound_papers.measure.record import MeasureSettings
from codebound_papers.measure.summary import summarise

FEATURES, CLASSES = 4, 3


def sample_of(n):
    random = np.random.default_rng(0)
    x = random.integers(0, 256, size=(n, FEATURES), dtype=np.uint8)
    x[::17] = 0  # where a layer is dead
    return Sample("random", "train", x, random.integers(0, CLASSES, size=n), CLASSES)


def measured(sample, stability):
    model = load_model("mlp:widths=5x5", input_shape=(FEATURES,), classes=CLASSES)
    settings = MeasureSettings(families=("stability", "margins"), stability=stability, chunk_size=64)
    return summarise(model, sample, settings)


@pytest.mark.parametrize("outliers", [0.0, 0.2])
def test_files_say_what_memory_says(outliers, monkeypatch):
    settings = StabilitySettings(smoothness=Smoothness(0.1, draws=2), outliers=outliers)
    in_memory = measured(sample_of(300), settings)
    monkeypatch.setattr(large, "MEMORY", 1)
    monkeypatch.setattr(large, "BLOCK", 23)
    in_files = measured(sample_of(300), settings)
    assert in_files.record() == in_memory.record()
    assert in_files.curves == in_memory.curves


def growth(few, many, monkeypatch, *, memory):
    """Bytes of arrays that each example more takes, at the worst moment."""
    monkeypatch.setattr(large, "MEMORY", memory)
    monkeypatch.setattr(large, "BLOCK", 1 << 9)
    monkeypatch.setattr("codebound_papers.measure.noise.result._RECENT", 1 << 12)
    peaks = []
    for sample in (sample_of(few), sample_of(few), sample_of(many)):  # what is made once is made first
        tracemalloc.start()
        measured(sample, StabilitySettings(interlayer="none"))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return (peaks[2] - peaks[1]) / (many - few)


def test_memory_does_not_grow_with_the_examples(monkeypatch):
    assert growth(1 << 12, 1 << 14, monkeypatch, memory=1 << 12) < 8
    assert growth(1 << 12, 1 << 14, monkeypatch, memory=1 << 30) > 50

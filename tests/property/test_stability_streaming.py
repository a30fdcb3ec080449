"""Noise stability of a sample does not depend on how the sample is cut."""

from dataclasses import asdict
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from codebound_papers.measure.noise.meter import StabilityMeter, stability
from codebound_papers.measure.noise.quantities import Smoothness, StabilitySettings

torch.manual_seed(0)
MODEL = nn.Sequential(
    nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4, bias=False), nn.ReLU(), nn.Linear(4, 3)
).double()
X = torch.randn(12, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
PLAN = StabilitySettings(interlayer="all", outliers=0.2, smoothness=Smoothness(0.2, draws=2))


@cache
def measured():
    return stability(MODEL, X, PLAN)


def same(found):
    known = measured()
    assert found.kept.tolist() == known.kept.tolist()
    for key, values in known.columns.items():
        assert np.allclose(found.columns[key], values, rtol=1e-9)
    for mine, whole in zip(map(asdict, found.layers), map(asdict, known.layers), strict=True):
        assert mine.keys() == whole.keys()
        numbers = [(mine[key], whole[key]) for key in mine if isinstance(mine[key], float)]
        assert np.allclose(*zip(*numbers, strict=True), rtol=1e-9)


CUTS = st.lists(st.integers(1, 11), unique=True, max_size=5).map(lambda cuts: [0, *sorted(cuts), 12])


@examples(15)
@given(CUTS, st.integers(1, 12))
def test_any_batches_equal_one_pass(cuts, chunk_size):
    same(stability(MODEL, [X[a:b] for a, b in pairwise(cuts)], PLAN, chunk_size=chunk_size))


@examples(15)
@given(CUTS, CUTS)
def test_merged_meters_equal_one_pass(shards, batches):
    meter = StabilityMeter(MODEL, PLAN)
    for a, b in pairwise(shards):
        shard = StabilityMeter(MODEL, PLAN)
        for c, d in pairwise(batches):
            if max(a, c) < min(b, d):
                shard.update(X[max(a, c) : min(b, d)])
        meter.include(shard.part)
    same(meter.compute())


@given(st.lists(st.integers(0, 11), min_size=1, max_size=8, unique=True))
def test_fewer_examples_are_never_less_stable(picked):
    part = stability(MODEL, X[picked], StabilitySettings(interlayer="all"))
    whole = stability(MODEL, X, StabilitySettings(interlayer="all"))
    for mine, other in zip(part.layers, whole.layers, strict=True):
        assert mine.cushion >= other.cushion * (1 - 1e-9)
        assert mine.minimal_interlayer >= other.minimal_interlayer * (1 - 1e-9)
        assert mine.contraction is None or mine.contraction <= other.contraction * (1 + 1e-9)

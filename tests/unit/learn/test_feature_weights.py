"""Coded layers: both ways, what they cost, and what they do to features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from codebound.bits.arithmetic import Reader, Writer
from codebound.learn.feature_weights import LayerFeatures, group_count
from codebound.learn.features import AbstractFeatures, ColumnFeatures, FilterFeatures, PatchFeatures
from codebound.learn.images import mirror
from codebound.learn.rule import Rule, usual_rule
from codebound.run.errors import CodeboundError, ModelError

SHAPE = (1, 9, 9)
BELOW = [
    (ColumnFeatures(False), False),
    (ColumnFeatures(True), False),
    (FilterFeatures(True, 3, 2), True),
    (FilterFeatures(False, 1, 3), False),
    (PatchFeatures(3, 256, 3, 3, 3), False),
]


def layer(below: AbstractFeatures, *, by_window: bool = False, seed: int = 0) -> LayerFeatures:
    count = group_count(below, SHAPE, by_window=by_window)
    return LayerFeatures(below, tuple(np.random.default_rng(seed).integers(0, 4, count).tolist()), by_window)


def coded(rule: Rule, shape: tuple[int, ...] = SHAPE) -> Writer:
    writer = Writer()
    rule.code(writer, shape)
    return writer


def bits(symbols: tuple[int, ...]) -> int:
    """Of the weights alone."""
    return (
        coded(Rule(LayerFeatures(ColumnFeatures(), symbols)), (len(symbols),)).finish().length
        - coded(Rule(LayerFeatures(ColumnFeatures(), (2,))), (1,)).finish().length
    )


@given(st.sampled_from(BELOW), st.data())
def test_a_layer_is_read_as_it_was_written(below: tuple[AbstractFeatures, bool], data: st.DataObject) -> None:
    count = group_count(below[0], SHAPE, by_window=below[1])
    symbols = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count).filter(any))
    rule = Rule(LayerFeatures(below[0], tuple(symbols), below[1]), gamma_index=3, rounds=12)
    assert Rule().code(Reader(coded(rule).finish()), SHAPE) == rule


@pytest.mark.parametrize("shape", [(7,), (1, 9, 9), (3, 20, 20)])
def test_above_usual_features_neither_they_nor_copies_are_coded(shape: tuple[int, ...]) -> None:
    usual = usual_rule(shape)
    symbols = (2,) * group_count(usual.features, shape, by_window=True)
    rule = replace(usual, features=LayerFeatures(usual.features, symbols, usual.features.kind == 1))
    other = replace(rule, gamma_index=rule.gamma_index + 1)
    words = [coded(each, shape).finish() for each in (rule, other)]
    assert [Rule().code(Reader(word), shape) for word in words] == [rule, other]
    assert words[0].length + 10 <= words[1].length <= words[0].length + 12


def test_a_computed_layer_above_usual_features_costs_seven_bits() -> None:
    usual = usual_rule((7,))
    rule = replace(usual, features=LayerFeatures(usual.features, (), strength=2))
    word = coded(rule, (7,)).finish()
    assert Rule().code(Reader(word), (7,)) == rule
    assert word.length - coded(usual, (7,)).finish().length in range(6, 9)


def test_what_is_regular_is_cheap() -> None:
    random = tuple(np.random.default_rng(0).integers(0, 4, 180).tolist())
    assert bits((2,) * 180) < 15
    assert bits((0,) * 80 + (3,) * 20 + (0,) * 80) < 40  # by the weight before
    assert 330 < bits(random) < 380  # two bits each


@pytest.mark.parametrize(("below", "by_window"), BELOW, ids=str)
def test_weights_are_those_of_the_groups(below: AbstractFeatures, by_window: bool) -> None:
    """Before they are rounded: with weights of 0 and 4 a vector is as long, and lies in a part of space."""
    x = pictures()
    settings = layer(below, by_window=by_window)
    plain, found = (each.fit_map(x[:50], 255.0, is_mirrored=False) for each in (below, settings))
    vectors, before = found(x).double(), plain(x).double()
    assert torch.equal(vectors, vectors.round())
    assert float(vectors.square().sum(1).max()) <= 2.0**24
    groups = below.groups(SHAPE, by_window=by_window)
    weights = torch.tensor([(0.0, 1.0, 2.0, 4.0)[settings.symbols[group]] for group in groups])
    wanted = before * weights
    if below != ColumnFeatures(False):
        wanted *= (found.unit**0.5) / wanted.norm(dim=1, keepdim=True)
    else:
        wanted *= (found.unit / float(weights.square().sum()) / (plain.unit / len(weights))) ** 0.5
    assert float((vectors - wanted).abs().max()) < 4.0  # those below were rounded before


@pytest.mark.parametrize("strength", [1, 2, 3])
def test_computed_weights_are_large_where_classes_lie_apart(strength: int) -> None:
    random = np.random.default_rng(0)
    labels = torch.from_numpy(random.integers(0, 3, 90))
    x = torch.from_numpy(random.normal(size=(90, 4)))
    x[:, 1] += 3.0 * labels
    x[:, 2] += 0.8 * labels
    x[:, 3] = 1.0
    settings = LayerFeatures(ColumnFeatures(), (), strength=strength)
    found = settings.fit_map(x, 1.0, is_mirrored=False, labels=labels)
    weights = found.tensors["weights"]
    assert weights[1] == 8.0 > weights[2] > weights[0]
    assert weights[3] == 0.0
    assert float(found(x).square().sum(1).max()) <= 2.0**24
    stronger = LayerFeatures(ColumnFeatures(), (), strength=min(3, strength + 1))
    assert (stronger.fit_map(x, 1.0, is_mirrored=False, labels=labels).tensors["weights"] <= weights).all()
    with pytest.raises(ModelError, match="labels"):
        settings.fit_map(x, 1.0, is_mirrored=False)


def pictures(n: int = 60) -> torch.Tensor:
    noise = np.random.default_rng(5).normal(size=(n, 1, 11, 11))
    smooth = sum(np.roll(noise, (i, j), (2, 3)) for i in (-1, 0, 1) for j in (-1, 0, 1))[..., :9, :9]
    return torch.from_numpy(np.clip(128 + 35 * smooth, 0, 255).astype(np.uint8))


def test_mirroring_changes_no_weight() -> None:
    x = pictures()
    found = layer(BELOW[-1][0]).fit_map(x[:50], 255.0, is_mirrored=True)
    own, other = (found(x, change).sort(dim=1).values for change in (None, mirror))
    assert torch.equal(own, other)


@pytest.mark.parametrize(
    "features",
    [
        LayerFeatures(ColumnFeatures(), (0,) * 81),
        LayerFeatures(ColumnFeatures(), (2,) * 80),
        LayerFeatures(ColumnFeatures(), (4,) * 81),
        LayerFeatures(FilterFeatures(pool=5), (2,) * 3, by_window=True),
        LayerFeatures(PatchFeatures(size=10), (2,) * 6),
    ],
    ids=["zeros", "too few", "no weight", "other windows", "no patches"],
)
def test_what_is_no_layer_is_refused(features: LayerFeatures) -> None:
    with pytest.raises(CodeboundError):
        coded(Rule(features))


def test_a_layer_fits_its_inputs() -> None:
    x = torch.zeros(20, 5)
    with pytest.raises(ModelError, match="does not fit"):
        LayerFeatures(ColumnFeatures(), (2, 2)).fit_map(x, 1.0, is_mirrored=False)
    with pytest.raises(ModelError, match="too large"):
        LayerFeatures(ColumnFeatures(), (3,) * (1 << 16)).fit_map(
            torch.zeros(2, 1 << 16), 1.0, is_mirrored=False
        )

"""The code of a rule: both ways, and how long it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.bits.arithmetic import Reader, Writer
from codebound.learn.feature_weights import LayerFeatures
from codebound.learn.features import ColumnFeatures, FilterFeatures, PatchFeatures
from codebound.learn.rule import BATCHES, FIRST, ROUNDS, Rule, usual_rule
from codebound.run.errors import CodeboundError, UsageError

FEATURES = st.one_of(
    st.builds(ColumnFeatures, st.booleans()),
    st.builds(FilterFeatures, st.booleans(), st.sampled_from([3, 1]), st.integers(2, 5)),
    st.builds(
        PatchFeatures,
        st.integers(3, 10),
        st.sampled_from([256, 512, 1024, 2048]),
        st.integers(0, 7),
        st.integers(2, 5),
        st.integers(0, 7),
        st.integers(0, 3),
    ),
)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    features = draw(FEATURES)
    allowed = {0: [0], 1: [0, 2, 3, 4, 5, 6, 7], 2: list(range(8))}[features.kind]
    rounds = draw(st.sampled_from(ROUNDS))
    longer = draw(
        st.dictionaries(st.integers(0, max(0, rounds - 1)), st.integers(1, 8), max_size=min(3, rounds))
    )
    return Rule(
        features,
        draw(st.sampled_from(FIRST)),
        draw(st.sampled_from(allowed)),
        draw(st.integers(0, 15)),
        draw(st.integers(0, 15)),
        draw(st.integers(0, 7)),
        draw(st.sampled_from(BATCHES)),
        rounds,
        tuple(sorted(longer.items())) if rounds else (),
    )


SHAPES = [(1, 28, 28), (3, 32, 32), (7,), (1, 4, 4), (3, 200, 200)]


def coded(rule: Rule, shape: tuple[int, ...] = (7,)) -> Writer:
    writer = Writer()
    rule.code(writer, shape)
    return writer


@given(rules(), st.sampled_from(SHAPES))
def test_a_rule_is_read_as_it_was_written(rule: Rule, shape: tuple[int, ...]) -> None:
    assert Rule().code(Reader(coded(rule, shape).finish()), shape) == rule


@given(rules(), st.integers(0, 3), st.integers(1, 9), st.sampled_from(SHAPES))
def test_a_rule_without_picks_is_read_as_it_was_written_or_refused(
    rule: Rule, strength: int, tenths: int, shape: tuple[int, ...]
) -> None:
    features = LayerFeatures(rule.features, (), strength=strength) if strength else rule.features
    wanted = Rule(
        features,
        first=0,
        copies=rule.copies,
        gamma_index=rule.gamma_index,
        ridge_index=rule.ridge_index,
        rounds=0,
        tenths=tenths,
    )
    writer = Writer()
    try:
        wanted.code_without_picks(writer, shape)
    except UsageError:
        is_picture = len(shape) == 3 and max(shape) <= 128
        assert strength or (rule.features.has_pictures and not is_picture)
        return
    assert not strength
    assert Rule().code_without_picks(Reader(writer.finish()), shape) == wanted


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_usual_rule_costs_sixteen_bits(shape: tuple[int, ...]) -> None:
    rule = replace(usual_rule(shape), first=100, batch=5, rounds=20)
    word = coded(rule, shape).finish()
    assert 16 <= word.length <= 18
    assert Rule().code(Reader(word), shape) == rule
    assert coded(replace(rule, ridge_index=2), shape).finish().length > word.length + 15


def test_a_longer_round_is_paid_for() -> None:
    rule = Rule(rounds=20)
    assert coded(replace(rule, longer=((3, 1),))).finish().length > coded(rule).finish().length + 6


@pytest.mark.parametrize(
    "rule",
    [
        Rule(ColumnFeatures(), copies=2),
        Rule(FilterFeatures(), copies=1),
        Rule(rounds=20, longer=((3, 1), (2, 1))),
    ],
)
def test_what_is_no_rule_is_refused(rule: Rule) -> None:
    with pytest.raises(CodeboundError):
        coded(rule)


def test_picks_are_all_batches() -> None:
    rule = Rule(batch=10, rounds=20, longer=((3, 2), (7, 1)))
    assert rule.picks == sum(rule.batch_of(each) for each in range(20)) == 203

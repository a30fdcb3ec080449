"""Words of rules, field by field and by another reader; what is usual; what is too much."""

from __future__ import annotations

import random
from dataclasses import replace

import certificate_reader as other
import pytest

from codebound.bits.plain_code import PICKS, SPLIT, USUAL_SPLIT, Bits, PlainReader, code_form
from codebound.learn.column_features import ColumnFeatures
from codebound.learn.features import AbstractFeatures, FilterFeatures
from codebound.learn.patch_features import PatchFeatures
from codebound.learn.rule import (
    BATCHES,
    FIRST,
    ROUNDS,
    Rule,
    RuleChoice,
    code_rule,
    families_of,
    move_while,
    usual_rule,
)
from codebound.run.errors import FormatError, ModelError, UsageError
from codebound.sample.order import coded_share

TABLE, GREY, COLOURS = (7,), (1, 8, 8), (3, 32, 32)


def bits_of(text: str) -> Bits:
    text = text.replace(" ", "")
    padded = text + "0" * (-len(text) % 8)
    return Bits(bytes(int(padded[at : at + 8], 2) for at in range(0, len(padded), 8)), len(text))


def read(bits: Bits, shape: tuple[int, ...]) -> RuleChoice:
    reader = PlainReader(bits)
    found = code_rule(reader, code_form(reader), input_shape=shape)
    reader.finish()
    return found


def test_lists_are_those_of_the_page() -> None:
    assert [str(each) for each in FIRST] == other.FIRST
    assert [str(each) for each in BATCHES] == other.BATCH
    assert [str(each) for each in ROUNDS] == other.ROUNDS


SPLITS = [
    (TABLE, RuleChoice(SPLIT, 3, Rule(ColumnFeatures(True), 2, 0, 5, 9)), "1110 0011 1 10 0101 1001"),
    (TABLE, RuleChoice(SPLIT, 15, Rule()), "1110 1111 0 00 0100 0100"),
    (GREY, RuleChoice(SPLIT, 0, Rule(ColumnFeatures(), 3)), "1110 0000 00 0 11 0100 0100"),
    (
        GREY,
        RuleChoice(SPLIT, 0, Rule(FilterFeatures(True, 3, 2), 0, 2)),
        "1110 0000 01 1 0 00 00 010 0100 0100",
    ),
    (
        COLOURS,
        RuleChoice(SPLIT, 9, Rule(FilterFeatures(False, 1, 5), 1, 7, 0, 15)),
        "1110 1001 01 0 1 11 01 111 0000 1111",
    ),
    (
        COLOURS,
        RuleChoice(SPLIT, 1, Rule(PatchFeatures(10, 2048, 7, 5, 7, 3), 0, 1)),
        "1110 0001 10 111 11 111 11 111 11 00 001 0100 0100",
    ),
]
USUAL = Rule(batch=12, rounds=10)
PICKED = [
    (TABLE, RuleChoice(PICKS, 0, USUAL, 2), "11110 1 0000 1 01000 01001 1"),
    (TABLE, RuleChoice(PICKS, 15, replace(USUAL, rounds=1), 10), "11110 0001001 1111 1 01000 00000 1"),
    (
        TABLE,
        RuleChoice(PICKS, 4, replace(USUAL, longer=((0, 1), (1, 8), (9, 3))), 3),
        "11110 010 0100 1 01000 01001 00100 1 000 1 111 0001000 010",
    ),
    (
        TABLE,
        RuleChoice(PICKS, 4, replace(USUAL, score_index=7), 3),
        "11110 010 0100 0 0 00 0100 0100 111 01000 01001 1",
    ),
    (
        TABLE,
        RuleChoice(PICKS, 4, replace(USUAL, weights=1), 3),
        "11110 010 0100 0 0 01 0100 0100 011 01000 01001 1",
    ),
    (
        GREY,
        RuleChoice(PICKS, 9, replace(usual_rule(GREY, 2000), batch=1, rounds=160), 10),
        "11110 0001001 1001 1 00000 11111 1",
    ),
    # with 3,000 first rows pictures have no copies as usual
    (
        GREY,
        RuleChoice(PICKS, 10, replace(usual_rule(GREY, 2000), rounds=1, batch=1), 2),
        "11110 1 1010 0 01 1 0 00 00 010 0100 0100 011 00000 00000 1",
    ),
]


@pytest.mark.parametrize(("shape", "choice", "text"), SPLITS + PICKED)
def test_words_are_those_of_the_page(shape: tuple[int, ...], choice: RuleChoice, text: str) -> None:
    bits, ledger = choice.encode(shape)
    assert str(bits) == text.replace(" ", "")
    assert sum(size for _, size in ledger) == bits.length
    names = (
        ["form", "share", "rule"] if choice.form == SPLIT else ["form", "classes", "first", "rule", "longer"]
    )
    assert [name for name, _ in ledger] == names
    assert read(bits, shape) == choice


def draw_rule(draw: random.Random, shape: tuple[int, ...]) -> Rule:
    features: AbstractFeatures = ColumnFeatures(draw.random() < 0.5)
    if len(shape) == 3 and draw.random() < 0.8:
        features = draw.choice(
            [
                FilterFeatures(draw.random() < 0.5, draw.choice((1, 3)), draw.randint(2, 5)),
                PatchFeatures(
                    draw.randint(3, 10),
                    256 << draw.randrange(4),
                    *(draw.randrange(8), draw.randint(2, 5), draw.randrange(8), draw.randrange(4)),
                ),
            ]
        )
    copies = (
        0 if not features.has_pictures else draw.choice([c for c in range(8) if c != 1 or features.kind == 2])
    )
    return Rule(features, draw.randrange(4), copies, draw.randrange(16), draw.randrange(16))


def test_another_reader_finds_the_same() -> None:
    draw = random.Random(1)
    for case in range(400):
        shape, n = draw.choice((TABLE, GREY, COLOURS)), 100_000
        form = draw.choice((USUAL_SPLIT, SPLIT, PICKS))
        rule, share, classes = draw_rule(draw, shape), draw.randrange(16), draw.randint(2, 1000)
        if form == PICKS:
            rounds = draw.choice(ROUNDS)
            longer = sorted(draw.sample(range(rounds), draw.randint(0, min(3, rounds))))
            rule = (
                usual_rule(shape, FIRST[share])
                if case % 3 == 0
                else replace(rule, score_index=draw.randrange(8))
            )
            rule = replace(
                rule,
                batch=draw.choice(BATCHES),
                rounds=rounds,
                longer=tuple((at, draw.randint(1, 8)) for at in longer),
            )
        choice = RuleChoice(form, share if form != USUAL_SPLIT else 0, rule, classes if form == PICKS else 2)
        bits, ledger = choice.encode(shape)
        header = {"sample": {"order": "rows", "rows": n, "classes": classes, "input_shape": list(shape)}}
        header["known"] = {"features": None, "tables": []}
        found = other.decode(bits.data, bits.length, header)
        assert found.form == form
        assert found.ledger == [list(part) for part in ledger]
        assert (
            found.rows
            == choice.first(n)
            == RuleChoice.of(form, rule, first=choice.first(n), units=n, classes=2).first(n)
        )
        if form == USUAL_SPLIT:
            continue
        assert read(bits, shape) == choice
        said, features = found.rule, rule.features
        assert (said["gamma"], said["lambda"]) == (rule.gamma, rule.ridge)
        if "features" in said:
            assert (said["weights"], said["copies"]) == (rule.weights, rule.copies)
            assert said["features"] == ("columns", "filters", "patches")[features.kind]
        if form == PICKS:
            assert (said["batch"], said["rounds"], said["longer"]) == (
                rule.batch,
                rule.rounds,
                dict(rule.longer),
            )
            assert (said["score"], found.classes) == ((rule.score_index + 1) / 8, classes)
        if said.get("usual"):
            continue
        if isinstance(features, ColumnFeatures):
            assert said["normalised"] == features.is_normalised
        elif isinstance(features, FilterFeatures):
            assert (said["straight"], said["dictionary"], said["pool"]) == (
                features.is_straight,
                features.table,
                features.pool,
            )
        elif isinstance(features, PatchFeatures):
            known = (features.size, features.count, features.threshold, features.grid, features.seed)
            assert tuple(said[name] for name in ("size", "filters", "threshold", "grid", "seed")) == known
            assert said["whitening"] == 2.0 ** -(7 + features.whitening)


@pytest.mark.parametrize(
    ("shape", "text", "says"),
    [
        (GREY, "1110 0000 11", "reserved"),
        (GREY, "1110 0000 01 1 0 00 00 001 0100 0100", "mirror"),
        (TABLE, "1110 0000 0 00 0100", "ends after"),
        (TABLE, "1110 0000 0 00 0100 0100 0", "ends after"),
        (TABLE, "11110 1 0000 1 01000 00000 011 1 000 1 000", "cannot be longer"),  # 2 of 1 rounds
        (TABLE, "11110 1 0000 1 01000 00000 010 010 000", "cannot be longer"),  # round 1 of 0..0
    ],
)
def test_other_words_are_refused(shape: tuple[int, ...], text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        read(bits_of(text), shape)


def test_a_share_without_a_word_is_told() -> None:
    assert RuleChoice.of(SPLIT, Rule(), first=coded_share(3, 1000), units=1000, classes=2).share == 3
    assert RuleChoice.of(USUAL_SPLIT, Rule(), first=500, units=1000, classes=2).share == 0
    for form, first in ((USUAL_SPLIT, 300), (SPLIT, 301), (PICKS, 301)):
        with pytest.raises(UsageError, match="no message"):
            RuleChoice.of(form, Rule(), first=first, units=1000, classes=2)


@pytest.mark.parametrize(
    ("shape", "known", "features", "copies"),
    [
        ((30,), 100, ColumnFeatures(), 0),
        ((1, 6, 128), 2000, FilterFeatures(True, 3, 2), 2),
        ((1, 28, 28), 2001, FilterFeatures(True, 3, 4), 0),
        ((1, 128, 128), 1, FilterFeatures(True, 3, 5), 2),
        ((1, 5, 28), 1, ColumnFeatures(), 0),
        ((1, 129, 28), 1, ColumnFeatures(), 0),
        ((3, 16, 128), 9999, PatchFeatures(6, 1024, 4, 3, 6, 0), 1),
        ((3, 15, 32), 1, ColumnFeatures(), 0),
        ((2, 28, 28), 1, ColumnFeatures(), 0),
        ((28, 28), 1, ColumnFeatures(), 0),
    ],
)
def test_what_is_usual_is_that_of_the_page(
    shape: tuple[int, ...], known: int, features: AbstractFeatures, copies: int
) -> None:
    rule = usual_rule(shape, known)
    assert (rule.features, rule.copies, rule.weights) == (features, copies, 0)
    assert (rule.gamma, rule.ridge) == (0.5, 2.0**-4)
    assert usual_rule(shape, known).features in [each.features for each in families_of(shape, known)]


@pytest.mark.parametrize(
    ("given", "is_fine"),
    [
        ({"learned": 1 << 15}, True),
        ({"learned": (1 << 15) + 1}, False),
        ({"n": 1 << 16, "learned": 1 << 14}, True),
        ({"n": (1 << 16) + 1, "learned": 1 << 14}, False),
        ({"n": (1 << 15) - 100, "dimension": 1 << 16}, True),
        ({"n": 1 << 15, "dimension": 1 << 16}, False),
        ({"n": 1 << 10, "dimension": (1 << 16) + 1}, False),
        ({"n": (1 << 16) - 100, "classes": 1 << 10}, True),
        ({"n": 1 << 16, "classes": 1 << 10}, False),
        ({"n": (1 << 20) - (1 << 10), "learned": 1 << 10, "classes": 32, "rounds": 511}, True),
        ({"n": (1 << 20) - (1 << 10), "learned": 1 << 10, "classes": 32, "rounds": 513}, False),
        ({"n": (1 << 20) - (1 << 10), "learned": 1 << 10, "rounds": 1}, True),
        ({"n": (1 << 20) - (1 << 10) + 1, "learned": 1 << 10, "rounds": 1}, False),  # picks: (n + S) S
    ],
)
def test_too_much_work_is_refused(given: dict[str, int], is_fine: bool) -> None:
    sizes = {"n": 1000, "learned": 100, "classes": 2, "dimension": 10} | given
    rule = Rule(rounds=sizes.pop("rounds", 0), batch=0)
    if is_fine:
        rule.check((10,), **sizes)
    else:
        with pytest.raises(ModelError, match="more than a certificate may ask"):
            rule.check((10,), **sizes)


@pytest.mark.parametrize(
    ("shape", "features", "n", "learned", "is_fine"),
    [
        ((3, 32, 32), PatchFeatures(), 60_000, 10, True),
        ((3, 32, 32), PatchFeatures(), 1 << 20, 10, False),  # n P Q (F + d) d
        ((3, 128, 128), PatchFeatures(3, 2048), 100, 10, True),
        ((3, 128, 128), PatchFeatures(4, 2048), 100, 10, False),  # P Q (F + d) d
        ((3, 32, 32), PatchFeatures(10), 30_000, 20_000, True),
        ((3, 34, 34), PatchFeatures(10), 30_000, 20_000, False),  # t P Q d^2
    ],
)
def test_too_many_patches_are_refused(
    shape: tuple[int, ...], features: PatchFeatures, n: int, learned: int, is_fine: bool
) -> None:
    rule, sizes = Rule(features), {"n": n, "learned": learned, "classes": 2, "dimension": 10}
    if is_fine:
        rule.check(shape, **sizes)
    else:
        with pytest.raises(ModelError, match="more than"):
            rule.check(shape, **sizes)


def test_supports_are_counted_with_their_copies() -> None:
    assert [Rule(copies=a).supports_each for a in range(8)] == [1, 1, 5, 9, 7, 11, 10, 3]
    sizes = {"n": 1000, "learned": 4000, "classes": 2, "dimension": 10}
    Rule(copies=4).check((1, 8, 8), **sizes)
    with pytest.raises(ModelError, match="36000 supports"):
        Rule(copies=3).check((1, 8, 8), **sizes)


def test_numbers_are_moved_while_that_helps() -> None:
    found = move_while(
        lambda moved, rule: abs(moved.gamma_index - 9) < abs(rule.gamma_index - 9),
        Rule(),
        [("gamma_index", 1), ("gamma_index", -1), ("ridge_index", 1)],
    )
    assert found == Rule(gamma_index=9)

"""Losses of answers by brute force, row by row, and the units in which they are counted."""

import hashlib
import random

import pytest

from codebound.holdout.answers import as_number
from codebound.holdout.units import parse_answer_loss, units_of
from codebound.run.errors import DataError, UsageError

LOSSES = ("wrong", "class:u", "confused:u:v", "false-alarm:u", "precision:u", "residual:1.5")


def about(loss, label, answer):
    kind, *words = loss
    return {
        "class": label == words[:1][0] if words else False,
        "confused": label == words[0] if words else False,
        "false-alarm": label != words[0] if words else False,
        "precision": answer == words[0] if words else False,
    }.get(kind, True)


def lost(loss, label, answer):
    kind, *words = loss
    if kind in ("confused", "false-alarm"):
        return answer == words[-1]
    if kind == "residual":
        value = as_number(answer)
        return value != value or abs(value - as_number(label)) > float(words[0])
    return answer != label


@pytest.mark.parametrize("text", LOSSES)
@pytest.mark.parametrize("claim", ["", "row", "any"])
def test_counts_are_those_of_a_loop(text, claim):
    rng, loss = random.Random(text + claim), parse_answer_loss(text)
    cells = ("1", "2", "4.5") if loss[0] == "residual" else ("u", "v", "w")
    labels = tuple(rng.choice(cells) for _ in range(80))
    answers = tuple(rng.choice((*cells, "", "none")) for _ in labels)
    groups = tuple(rng.choice("xy") for _ in labels)
    clusters = tuple(str(rng.randrange(25)) for _ in labels) if claim else None
    units = units_of(labels, loss, groups=groups, clusters=clusters, claim=claim, salt="s")
    masks = units.masks(answers)
    for name, part in zip(units.names, units.parts(), strict=True):
        counted, wrong = set(), set()
        for row, (label, answer) in enumerate(zip(labels, answers, strict=True)):
            own = clusters[row] if clusters else row
            if claim == "row":
                members = [i for i, each in enumerate(clusters) if each == own]
                if row != min(members, key=lambda i: hashlib.sha256(f"s:{i}".encode()).digest()):
                    continue
            if groups[row] == name and about(loss, label, answer):
                counted.add(own)
                if lost(loss, label, answer):
                    wrong.add(own)
        assert units.with_any(masks.about & part).sum() == len(counted)
        assert units.with_any(masks.lost & part).sum() == len(wrong)


def test_sizes_are_those_of_the_seal():
    units = units_of(("u", "v", "v"), ["class", "v"], groups=("x", "x", "y"))
    assert units.sizes() == [2, 1, 1]
    assert units_of(("u", "v", "v"), ["precision", "v"], groups=("x", "x", "y")).sizes() == [3, 2, 1]


@pytest.mark.parametrize(
    "text",
    ["wrng", "class", "confused:1:1", "confused:1", "residual:-1", "residual:0", "residual:x", ["class"]],
)
def test_a_loss_that_is_none_names_those_that_are(text):
    with pytest.raises(UsageError, match=r"no loss|number above 0"):
        parse_answer_loss(text)


def test_a_loss_fits_the_labels():
    assert parse_answer_loss(["class", "a:b"]) == ["class", "a:b"]
    with pytest.raises(UsageError, match="names 'w', which is no label"):
        units_of(("u", "v"), ["precision", "w"])
    with pytest.raises(DataError, match="Row 2 has 'v'"):
        units_of(("1", "v"), ["residual", "1"])
    with pytest.raises(DataError, match="1 answers, and 2 rows"):
        units_of(("u", "v"), ["wrong"]).masks(("u",))

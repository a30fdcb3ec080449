"""What is said about a sample: its labels, its copies, and what the format was developed on."""

import hashlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.sample import caveats as developed
from codebound.sample.arrays import from_arrays
from codebound.sample.caveats import remarks
from codebound.sample.dataset import Sample
from codebound.sample.load import load_sample

RANDOM = np.random.default_rng(0)
ORDINARY = RANDOM.integers(0, 3, 300)


def remarks_on(labels, **options):
    return remarks(from_arrays(RANDOM.normal(size=(len(labels), 2)) + 3, labels, name="t"), **options)


def test_an_ordinary_sample_has_no_remarks():
    assert remarks_on(ORDINARY) == ()


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.full(200, 2), r"every label is 2 \(200 examples\)"),
        (ORDINARY + 1, "no example has the label 0: .* 4 classes .*counted from 1, subtract 1$"),
        (ORDINARY + 2, "class 0 is one of the 5 classes and never occurs here$"),
        (
            (np.arange(1000) == 7) | (np.arange(1000) == 3),
            "99.8 % of the examples have the label 0: who always",
        ),
        ([0, 1, 1, 0] * 5, r"few examples \(20\): .* by 31 %"),
    ],
    ids=["one class", "from 1", "from 2", "rare class", "tiny"],
)
def test_what_labels_show_is_one_sentence(labels, sentence):
    (found,) = remarks_on(labels)
    assert re.search(sentence, found)


@pytest.mark.parametrize(
    ("pictures", "is_said"),
    [
        (RANDOM.random((300, 1, 8, 8)), False),
        (RANDOM.random((300, 1, 8, 8)) * 16, False),
        (RANDOM.random((300, 1, 8, 8)) * 300, True),
        (RANDOM.random((300, 3, 8, 8)) - 0.1, True),
        (RANDOM.integers(0, 255, (300, 1, 8, 8), dtype=np.uint8), False),
        (RANDOM.random((300, 64)) * 16, False),
        (RANDOM.random((300, 1, 2, 4)) - 0.5, False),
    ],
    ids=["from 0 to 1", "to 16", "to 300", "negative", "bytes", "a table", "too small to be one"],
)
def test_a_remark_names_pictures_that_would_be_cut_off(pictures, is_said):
    found = remarks(from_arrays(pictures, ORDINARY, name="t"))
    assert [bool(re.search("cuts off what is below", each)) for each in found] == [True] * is_said


def test_a_single_example_is_few():
    only, few = remarks_on([0])
    assert only.startswith("every label is 0 (1 example)")
    assert few.startswith("few examples (1)")


def sample_of(x, y):
    return Sample("s", "train", np.array(x, dtype=np.uint8).reshape(len(x), -1), np.array(y), 3)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, -0.0, 1.0, 2.0]), st.integers(0, 2)), min_size=1, max_size=20)
)
def test_a_copy_has_input_and_label_of_an_earlier_row(rows):
    x, y = np.array([[value] for value, _ in rows]), np.array([label for _, label in rows])
    wanted = [row in rows[:at] for at, row in enumerate(rows)]
    copies = [
        each for each in remarks(Sample("s", "train", x, y, 3)) if "an earlier" in each or "ones (" in each
    ]
    assert [int(each.split(" ", 1)[0]) for each in copies] == [sum(wanted)] * any(wanted)


def test_rates_of_copies_are_said_by_class_and_nothing_is_refused():
    x, y = np.arange(300.0)[:, None], np.arange(300) % 3
    x[y == 1] = 7.0
    (found,) = remarks(from_arrays(x, y, name="t"))
    assert "99 of 300 examples are copies of earlier ones (99.0 % of label 1): wrong ones all count" in found
    assert "must not depend on what it holds" in found


@pytest.mark.parametrize("blocks", [1, 3])
def test_keys_do_not_change_with_scale_offset_and_type(blocks):
    x = np.random.default_rng(1).integers(0, 256, (50, 3, 5, 5), dtype=np.uint8)
    x[0] = 7  # a constant row has no key
    keys = set(developed.row_keys(x, blocks).tolist())
    assert len(keys) == 49
    scaled = ((x / 255).astype(np.float32) - np.float32(0.1307)) / np.float32(0.3081)
    for other in (x.astype(np.float64), (x / 255).astype(np.float32), x * -0.0 + x / 16, x[::-1]):
        assert set(developed.row_keys(other, blocks).tolist()) == keys
    assert len(set(developed.row_keys(scaled, blocks).tolist()) & keys) > 40
    alone = x * np.array([1.0, 0.5, 3.0])[:, None, None] + np.array([0.0, -1.0, 2.0])[:, None, None]
    assert (set(developed.row_keys(alone, blocks).tolist()) == keys) == (blocks == 3)


def test_a_key_is_the_beginning_of_a_hash():
    row = np.array([[0, 8, 16]], np.uint8)
    content = np.array([0, 2048, 4096], "<u2").tobytes()
    assert developed.row_keys(row).tolist() == [int(hashlib.sha256(content).hexdigest()[:12], 16)]
    assert not developed.row_keys(np.array([[0.0, np.nan, 1.0]])).size


def test_parts_of_a_sample_at_any_scale_are_recognised():
    """Of 18 examples of 1,797, ten are expected on a list of 1,024."""
    digits = load_sample("digits")
    some = digits.select(np.random.default_rng(0).permutation(digits.n)[:18], role="train")
    assert developed.development_sample(from_arrays(some.x / 16, some.y, name="some")) == "digits"
    assert {len(listed) for listed, *_ in developed._lists().values()} >= {1024}


def test_half_of_the_rows_below_the_largest_key_have_to_be_listed():
    digits, random = load_sample("digits"), np.random.default_rng(0)
    largest = developed._lists()["digits"][0][-1]
    keys = np.array([developed.row_keys(row[None])[0] for row in digits.x])
    listed = digits.x[keys <= largest][:10].reshape(10, 64)
    others = random.integers(0, 17, (4000, 64), dtype=np.uint8)
    low = others[np.array([developed.row_keys(row[None])[0] for row in others]) <= largest]
    for count, name in ((10, "digits"), (11, "")):
        x = np.concatenate([listed, low[:count], others[developed.row_keys(others) > largest][:50]])
        assert developed.development_sample(from_arrays(x, np.arange(len(x)) % 2, name="mixed")) == name


def test_other_samples_are_none_of_them():
    """Neither of the same width, nor constant, nor of a name that is one."""
    x = np.random.default_rng(0).integers(0, 17, (500, 64))
    y = np.arange(500) % 10
    assert developed.development_sample(from_arrays(x, y, name="given")) == ""
    assert developed.development_sample(from_arrays(0 * x + 7, y, name="digits")) == ""


def test_what_was_made_of_one_is_recognised_by_its_name():
    table = from_arrays(np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2, name="table")
    assert developed.development_sample(table, ["", "photographs"]) == ""
    assert developed.development_sample(table, ["photographs", "CIFAR10"]) == "cifar10"

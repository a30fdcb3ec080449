"""What is said about a sample: its labels, its copies, and what the format was developed on."""

import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebound.sample import caveats as developed
from codebound.sample import memmap as large
from codebound.sample.arrays import from_arrays
from codebound.sample.caveats import count_copies, remarks
from codebound.sample.dataset import Dataset, Scaling
from codebound.sample.load import load_dataset
from codebound_verify.development import row_keys
from codebound_verify.sample import count_repeats

RANDOM = np.random.default_rng(0)
ORDINARY = RANDOM.integers(0, 3, 300)


def said(labels, **options):
    return remarks(from_arrays(RANDOM.normal(size=(len(labels), 2)) + 3, labels, name="t"), **options)


def test_nothing_is_said_about_an_ordinary_sample():
    assert said(ORDINARY) == ()


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.sort(ORDINARY), "sorted by their labels"),
        (np.full(200, 2), "all 200 examples have the label 2"),
        (ORDINARY + 1, "no example has the label 0: .* 4 classes .*counted from 1, subtract 1$"),
        (ORDINARY + 2, "class 0 is one of the 5 classes and never occurs here$"),
        (
            (np.arange(1000) == 7) | (np.arange(1000) == 3),
            "99.8 % of the examples have the label 0: who always",
        ),
        ([0, 1, 1, 0] * 5, "20 examples are few: .* by 64 %"),
    ],
    ids=["sorted", "one class", "from 1", "from 2", "rare class", "tiny"],
)
def test_what_labels_show_is_one_sentence(labels, sentence):
    (found,) = said(labels)
    assert re.search(sentence, found)


def test_few_examples_are_bounded_as_the_theorem_does():
    from codebound.bounds.facts import OccamFacts
    from codebound.bounds.occam import occam_binomial

    (found,) = said([0, 1, 1, 0] * 10, delta=0.01)
    least = occam_binomial(OccamFacts(errors=0, n=40, code_bits=25, delta=0.01)).value
    assert found.endswith(f"by {100.0 * least:.0f} %")


@pytest.mark.parametrize(
    ("pictures", "is_said"),
    [
        (RANDOM.random((300, 1, 8, 8)), False),
        (RANDOM.random((300, 1, 8, 8)) * 16, True),
        (RANDOM.random((300, 3, 8, 8)) - 0.1, True),
        (RANDOM.integers(0, 255, (300, 1, 8, 8), dtype=np.uint8), False),
        (RANDOM.random((300, 64)) * 16, False),
        (RANDOM.random((300, 1, 4, 4)) * 16, False),
    ],
    ids=["from 0 to 1", "to 16", "negative", "bytes", "a table", "too small to be one"],
)
def test_pictures_that_would_be_cut_off_are_told(pictures, is_said):
    found = remarks(from_arrays(pictures, ORDINARY, name="t"))
    assert [bool(re.search("cuts off the rest", each)) for each in found] == [True] * is_said


def test_what_is_known_to_be_white_is_not_cut_off():
    sample = from_arrays(RANDOM.random((300, 1, 8, 8)) * 16, ORDINARY, name="t", scaling=Scaling(16.0))
    assert remarks(sample) == ()


def test_one_example_is_spoken_of_as_one():
    only, few = said([0])
    assert only.startswith("the only example has the label 0")
    assert few.startswith("1 example is few")


def sample_of(x, y):
    return Dataset("s", "train", np.array(x, dtype=np.uint8).reshape(len(x), -1), np.array(y), 3)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=60), st.integers(1, 70))
def test_both_programs_count_what_a_dictionary_counts(rows, block):
    seen, copies, contradictions = {}, 0, 0
    for value, label in rows:
        before = seen.setdefault(value, set())
        copies += label in before
        contradictions += bool(before) and label not in before
        before.add(label)
    sample = sample_of(*zip(*rows, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "MEMORY", 1)
        patch.setattr(large, "BLOCK", block)
        found = count_copies(sample, allow_copies=True)
    second = count_repeats(sample.x, sample.y)
    assert (found.copies, found.contradictions) == (copies, contradictions)
    assert (second.copies, second.contradictions) == (copies, contradictions)


def growth(count, monkeypatch):
    """Bytes that each example more takes at the worst moment."""
    monkeypatch.setattr("codebound.sample.dataset._PART_VALUES", 1 << 12)
    monkeypatch.setattr("codebound_verify.sample.CHUNK", 1 << 12)
    monkeypatch.setattr("codebound_verify.sample.PIECE", 1 << 11)
    monkeypatch.setattr(large, "BLOCK", 1 << 11)
    peaks, sizes = [], (1 << 13, 1 << 15)
    for n in sizes:
        x = np.random.default_rng(0).integers(0, 256, size=(n, 8), dtype=np.uint8)
        sample = Dataset("s", "train", x, np.zeros(n, dtype=np.int64), 2)
        tracemalloc.start()
        count(sample)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return (peaks[1] - peaks[0]) / (sizes[1] - sizes[0])


def test_the_writer_keeps_hardly_a_byte_of_an_example(monkeypatch):
    monkeypatch.setattr(large, "MEMORY", 1 << 12)
    assert growth(count_copies, monkeypatch) < 4
    monkeypatch.setattr(large, "MEMORY", 1 << 30)
    assert growth(count_copies, monkeypatch) > 20


def test_the_second_program_keeps_eight_bytes_of_an_example(monkeypatch):
    assert 8 <= growth(lambda sample: count_repeats(sample.x, sample.y), monkeypatch) < 16


@pytest.mark.parametrize("blocks", [1, 3])
def test_keys_of_both_programs_do_not_change_with_scale_offset_and_type(blocks):
    x = np.random.default_rng(1).integers(0, 256, (50, 3, 5, 5), dtype=np.uint8)
    x[0] = 7  # a constant row has no key
    keys = developed.row_keys(x, blocks)
    assert len(keys) == 49
    scaled = ((x / 255).astype(np.float32) - np.float32(0.1307)) / np.float32(0.3081)
    for other in (x.astype(np.float64), (x / 255).astype(np.float32), x * -0.0 + x / 16, x[::-1]):
        assert developed.row_keys(other, blocks) == keys == set(row_keys(other, blocks))
    assert len(developed.row_keys(scaled, blocks) & keys) > 40
    alone = x * np.array([1.0, 0.5, 3.0])[:, None, None] + np.array([0.0, -1.0, 2.0])[:, None, None]
    assert (developed.row_keys(alone, blocks) == keys) == (blocks == 3)


def test_a_hundredth_of_a_large_set_has_rows_on_the_list():
    """Of 600 examples of 60,000, ten are expected on a list of 1,024."""
    lists = developed._lists()["rows"]
    assert {len(lists[name]["keys"]) for name in ("mnist", "fashion-mnist", "cifar10", "shuttle")} == {1024}
    digits = load_dataset("digits")
    some = digits.select(np.random.default_rng(0).permutation(digits.n)[:18], role="train")
    assert developed.development_sample(from_arrays(some.x / 16, some.y, name="some"), 3) == "digits"


def test_other_samples_are_none_of_them():
    """Neither of the same width, nor constant, nor of a name that only begins like one."""
    x = np.random.default_rng(0).integers(0, 17, (500, 64))
    y = np.arange(500) % 10
    assert developed.development_sample(from_arrays(x, y, name="given"), 3) == ""
    assert developed.development_sample(from_arrays(0 * x + 7, y, name="digits2"), 3) == ""


def test_a_table_comes_from_what_it_was_made_of():
    y = np.arange(40) % 2
    table = from_arrays(np.random.default_rng(0).normal(size=(40, 2)), y, name="table")
    assert developed.development_sample(table, 3) == ""
    assert developed.development_sample(replace(table, development="digits"), 1) == "digits"
    wine = replace(table, development="sklearn-wine")
    assert [developed.development_sample(wine, version) for version in (2, 3)] == ["", "sklearn-wine"]

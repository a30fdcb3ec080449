"""Samples in memory: every way to hold the same examples gives the same sample, and what is none is named."""

import numpy as np
import pytest
import scipy.sparse
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as Items

from codebound.run.errors import DataError
from codebound.sample.columns import text_cells
from codebound.sample.load import as_dataset, load_sample, split

STREAM = np.random.default_rng(0)
X = STREAM.integers(0, 256, size=(30, 4, 5), dtype=np.uint8)
Y = np.arange(30) % 3


class Listed(Items):
    """Items of any kind, one after the other."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, at):
        return self.items[at]


class Streamed(IterableDataset):
    def __iter__(self):
        return ((torch.from_numpy(x)[None], int(y)) for x, y in zip(X, Y, strict=True))


ROWS = [(x[None], int(y)) for x, y in zip(X, Y, strict=True)]
SAME = {
    "arrays": (X, Y),
    "lists": [X[:, None].tolist(), Y.tolist()],
    "tensors": (torch.from_numpy(X), torch.from_numpy(Y)),
    "TensorDataset": TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)),
    "DataLoader": DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), batch_size=7),
    "shuffled": DataLoader(Listed(ROWS), batch_size=7, shuffle=True),
    "map-style": Listed(ROWS),
    "label tensors": Listed([(x, torch.tensor(y)) for x, y in ROWS]),
    "pictures": Listed([(Image.fromarray(x[0]), y) for x, y in ROWS]),
    "list of pairs": ROWS,
    "iterable": Streamed(),
    "iterable, loaded": DataLoader(Streamed(), batch_size=7),
    "column of labels": (X, Y[:, None]),
    "a row for each label": (X, np.eye(3)[Y]),
    "flags for each label": (X, np.eye(3, dtype=bool)[Y]),
    "counts for each label": (X, np.eye(3, dtype=int)[Y]),
    "labels in floating point": (X, torch.from_numpy(Y).double()),
    "labels as objects": (X, Y.astype(object)),
    "labels as words": (X, Y.astype(str)),
    "read only": (np.lib.stride_tricks.as_strided(X, writeable=False), Y),
    "not in a row": (np.asfortranarray(X), np.repeat(Y, 2)[::2]),
}


@pytest.mark.parametrize("name", SAME)
def test_every_way_to_hold_examples_gives_the_same_sample(name):
    sample = as_dataset(SAME[name])
    assert np.array_equal(sample.x, X[:, None])
    assert np.array_equal(sample.y, Y)
    assert (sample.classes, sample.role, len(sample)) == (3, "train", 30)


def test_colour_pictures_have_their_channels_first():
    colour = STREAM.integers(0, 256, size=(4, 5, 3), dtype=np.uint8)
    sample = as_dataset(Listed([(Image.fromarray(colour), 0), (Image.fromarray(colour), 1)]))
    assert np.array_equal(sample.x[0], colour.transpose(2, 0, 1))


def test_floats_of_sixteen_bits_stay_exact():
    values = torch.randn(6, 3).bfloat16()
    assert np.array_equal(as_dataset((values, [0, 1] * 3)).x, values.float().numpy())


def test_a_dataset_stays_what_it_is_and_a_name_is_loaded():
    sample = as_dataset((X, Y))
    assert as_dataset(sample, role="test") is sample
    assert load_sample(sample, role="test").role == "test"
    assert as_dataset("digits").n == 1797
    assert split((X, Y), {"train": 0.5, "test": 0.5})["test"].n == 15


def test_unlabelled_inputs_need_no_labels():
    for given in (X, torch.from_numpy(X), (X,)):
        assert not as_dataset(given, role="unlabelled").y.any()


class Restless(Listed):
    def __getitem__(self, at):
        return STREAM.random((1, 4, 5)), 0


NO_SAMPLE = {
    "a number": (3, "int is no sample. Give a pair"),
    "a dictionary": ({"x": X}, "dict is no sample"),
    "no labels": (X, "has no labels"),
    "fractions": ((X, Y / 2.0), "counted from 0; they go from 0 to 1.* residual:TAU"),
    "no label": ((X, np.where(Y == 1, np.nan, Y)), "lacks 10 of 30 labels, the first in example 2"),
    "several labels each": ((X, np.eye(3)[Y] + np.eye(3)[0]), r"Got \(30, 3\) with other rows\. Several"),
    "no label of several": ((X, np.eye(3)[Y] * (Y > 0)[:, None]), r"Several labels .* are not covered"),
    "two labels": ((X, np.clip(np.eye(3)[Y] + np.eye(3)[0], 0, 1)), "Several labels"),
    "parts of labels": ((X, np.full((30, 2), 0.5)), "Several labels"),
    "signed labels": ((X, np.tile([2, -1], (30, 1))), "Several labels"),
    "ragged lists": (([[1, 2], [3]], [0, 1]), "list is no array of numbers"),
    "a mask over inputs": ((np.ma.masked_equal(X, X[0, 0, 0]), Y), "what a mask hides is no value"),
    "a mask over labels": ((X, np.ma.masked_equal(Y, 1)), "what a mask hides is no value"),
    "a tensor without values": ((torch.empty(30, 2, device="meta"), Y), "no data"),
    "objects with holes": ((np.array([[1, None], [2, 3]], object), [0, 1]), "Got object. A data frame may"),
    "whole numbers of any size": (([[10**30], [1]], [0, 1]), "Got object"),
    "values that are missing": ((X / np.where(X == 0, np.nan, 1), Y), "NaN is a value that is missing"),
    "one label too few": ((X, Y[:-1]), "one per input"),
    "random transforms": (Restless(ROWS), "Leave out random transforms"),
    "items without labels": (Listed([row[0] for row in ROWS]), r"must be pairs \(input, label\)"),
    "many labels": (Listed([(x, [0, 1]) for x, _ in ROWS]), "a label is one number"),
    "sizes": (Listed([(X[0], 0), (X[0][:2], 1)]), "no shape in common"),
}


@pytest.mark.parametrize("name", NO_SAMPLE)
def test_what_is_no_sample_is_named(name):
    given, words = NO_SAMPLE[name]
    with pytest.raises(DataError, match=words):
        as_dataset(given)


def test_what_holds_numbers_is_taken_as_it_is():
    flat = X.reshape(30, 20) / 4.0
    turned = torch.complex(torch.zeros(30, 20).double(), -torch.from_numpy(flat)).conj().imag
    for given in (
        turned,  # a view that says what it would be
        scipy.sparse.csr_matrix(flat),
        scipy.sparse.coo_array(flat),
        torch.from_numpy(flat).to_sparse(),
        flat.astype(object),
    ):
        assert np.array_equal(as_dataset((given, Y)).x, flat)


def test_labels_that_are_no_numbers_from_0_have_names():
    words = np.array(["pear", "apple", "fig"])[Y]
    sample = as_dataset((X, words))
    assert sample.class_names == ("apple", "fig", "pear")
    assert np.array_equal(np.array(sample.class_names)[sample.y], words)
    fresh = as_dataset((X[:2], ["fig", "fig"]), role="test", like=sample)
    assert (fresh.y.tolist(), fresh.classes, fresh.class_names) == ([1, 1], 3, sample.class_names)
    signs = as_dataset((X, 2 * (Y % 2) - 1))
    assert (signs.class_names, signs.y[:3].tolist()) == (("-1", "1"), [0, 1, 0])
    assert as_dataset((X[:1], [1.0]), role="test", like=signs).y.tolist() == [1]
    with pytest.raises(DataError, match="classes that the sample has not: 0"):
        as_dataset((X[:2], [0, 1]), role="test", like=signs)  # names are numbers here: 0 is no place
    with pytest.raises(DataError, match="classes that the sample has not: plum"):
        as_dataset((X[:1], ["plum"]), role="test", like=sample)


def test_texts_are_one_column_of_cells():
    words = ["a text", " another one ", "a text", "NA", "12"]
    for given in (words, tuple(words), np.array(words)):
        sample = as_dataset((given, [0, 1, 0, 1, 0]))
        assert (sample.dtype, sample.input_shape, sample.y.tolist()) == ("cells", (1,), [0, 1, 0, 1, 0])
        assert (
            sample.x.view(np.uint64).tolist()
            == text_cells([each.strip() for each in words]).view(np.uint64)[:, None].tolist()
        )
    assert len(np.unique(sample.x.view(np.uint64))) == 4


def test_levels_of_a_frame_are_those_that_the_type_declares():
    pandas = pytest.importorskip("pandas")
    colour = pandas.Categorical(["red", "blue", "red"], categories=["blue", "green", "red"])
    frame = pandas.DataFrame({"size": [1.5, 2.0, 4.0], "colour": colour, "label": [0, 1, 0]})
    sample = as_dataset(frame)
    red, blue = text_cells(["red", "blue"]).view(np.uint64).tolist()
    assert sample.x[:, 0].tolist() == [1.5, 2.0, 4.0]
    assert sample.x.view(np.uint64)[:, 1].tolist() == [red, blue, red]
    assert sample.y.tolist() == [0, 1, 0]
    inputs = frame.drop(columns="label")
    for labels in (frame["label"], frame["label"].tolist(), torch.tensor(frame["label"]), frame[["label"]]):
        assert as_dataset((inputs, labels)).sha256 == sample.sha256
    with pytest.raises(DataError, match="the DataFrame has 3 rows, and there are 2 labels"):
        as_dataset((frame, [0, 1]))
    named = as_dataset((frame[["size"]], frame["colour"]))
    assert (named.y.tolist(), named.classes) == ([2, 0, 2], 3)

"""Arrays of the user's: dtype and shape rules, .npz files, and the warning about standardised inputs."""

import numpy as np
import pytest
import torch
from worlds.files import archive, npy

from codebound.run.errors import DataError
from codebound.sample.arrays import SCALED, from_arrays, read_npy
from codebound.sample.caveats import STANDARDISED, looks_standardised
from codebound.sample.columns import GAP
from codebound.sample.dataset import Scaling
from codebound.sample.load import load_sample

Y = [0, 1, 2, 1]


@pytest.mark.parametrize(
    ("given", "stored", "divisor"),
    [
        ("uint8", "uint8", 255.0),
        ("float32", "float32", 1.0),
        (">f4", "float32", 1.0),
        ("float64", "float64", 1.0),
        ("float16", "float32", 1.0),
        ("bool", "float32", 1.0),
        ("int8", "float32", 1.0),
        ("int16", "float32", 1.0),
        ("uint16", "float32", 1.0),
        ("int32", "float64", 1.0),
        ("uint32", "float64", 1.0),
        ("int64", "float64", 1.0),
        ("uint64", "float64", 1.0),
    ],
)
def test_dtype_rule(given, stored, divisor):
    x = np.array([[0, 1], [1, 0], [1, 1], [0, 0]]).astype(given)
    data = from_arrays(x, Y, name="d")
    assert data.x.dtype == np.dtype(stored)
    assert data.x.dtype.isnative
    assert data.scaling.divisor == divisor
    np.testing.assert_array_equal(data.x, x)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16", "int32", "uint32"])
def test_integer_extremes_survive(dtype):
    limits = np.iinfo(dtype)
    x = np.array([[limits.min, limits.max]] * 4, dtype=dtype)
    assert from_arrays(x, Y, name="d").x.astype(object).tolist() == x.astype(object).tolist()


@pytest.mark.parametrize("x", [np.full((4, 1), 2**53 + 1), np.full((4, 1), -(2**53) - 1)])
def test_integers_without_an_exact_float_are_refused(x):
    with pytest.raises(DataError, match="2\\^53"):
        from_arrays(x, Y, name="d")


@pytest.mark.parametrize("dtype", ["complex64", "U3", "datetime64[s]", "object"])
def test_other_types_are_refused(dtype):
    with pytest.raises(DataError, match="must be numbers"):
        from_arrays(np.zeros((4, 2)).astype(dtype), Y, name="d")


def test_undivided_integers_are_mentioned():
    assert "undivided" in from_arrays(np.zeros((4, 2), np.int64), Y, name="d").warnings[0]
    assert not from_arrays(np.zeros((4, 2), np.uint8), Y, name="d").warnings


def test_grey_images_get_a_channel_and_channels_last_is_mentioned():
    assert from_arrays(np.zeros((4, 5, 6), np.uint8), Y, name="d").input_shape == (1, 5, 6)
    assert not from_arrays(np.zeros((4, 3, 8, 8), np.uint8), Y, name="d").warnings
    assert "channels last" in from_arrays(np.zeros((4, 8, 8, 3), np.uint8), Y, name="d").warnings[0]


def test_classes_come_from_the_labels_unless_given():
    x = np.zeros((4, 2), np.uint8)
    assert from_arrays(x, Y, name="d").classes == 3
    assert from_arrays(x, Y, name="d", classes=10).classes == 10
    with pytest.raises(DataError, match="2 classes"):
        from_arrays(x, Y, name="d", classes=2)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros(4), Y, "shape"),
        (np.float64(1.0), Y, "shape"),
        (np.zeros((4, 2)), [0.0, 1.0, 1.0, 0.0], "integers"),
        (np.zeros((4, 2)), [0, 1], "one per input"),
        (np.zeros((4, 2)), [0, 1, 2, 10**9], "below 65536"),
        (np.zeros((4, 2)), np.array([0, 1, 2, 2**64 - 1], np.uint64), "below 65536"),
        (np.zeros((4, 2)), [0, 1, 2, -3], "-3"),
        (np.zeros((4, 2)), None, "no labels"),
    ],
)
def test_refused_arrays(x, y, message):
    with pytest.raises(DataError, match=message):
        from_arrays(x, y, name="d")


def test_unlabelled_samples_need_and_keep_no_labels():
    for y in (None, Y):
        data = from_arrays(np.zeros((4, 2)), y, name="d", role="unlabelled")
        assert data.y.tolist() == [0, 0, 0, 0]


def standardised(x: np.ndarray, axis, ddof: int = 0) -> np.ndarray:
    deviation = x.std(axis=axis, ddof=ddof, keepdims=True)
    return (x - x.mean(axis=axis, keepdims=True)) / np.where(deviation == 0, 1, deviation)


RAW = np.random.default_rng(1).gamma(2.0, size=(300, 6)) * np.arange(1, 7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("ddof", [0, 1])
def test_standardised_features_are_mentioned(dtype, ddof):
    x = standardised(RAW, 0, ddof).astype(dtype)
    assert STANDARDISED in from_arrays(x, np.zeros(300, int), name="d").warnings
    x[:, 2] = 5.0  # a constant feature says nothing either way
    assert looks_standardised(x)
    x[:, 3] *= 1.1
    assert not looks_standardised(x)


def test_standardised_channels_are_mentioned():
    images = RAW.reshape(100, 2, 3, 3) + np.arange(9).reshape(3, 3)
    assert looks_standardised(standardised(images, (0, 2, 3)))
    assert not looks_standardised(images)


@pytest.mark.parametrize(
    "x",
    [
        RAW,
        RAW / RAW.max(),
        np.ones((300, 3)),
        np.random.default_rng(2).normal(size=(300, 6)),
        np.zeros((1, 2)),
    ],
)
def test_other_inputs_are_not(x):
    assert not looks_standardised(x)


def test_standardisation_is_found_across_chunks(monkeypatch):
    monkeypatch.setattr("codebound.sample.dataset._PART_VALUES", 13)
    assert looks_standardised(standardised(RAW, 0))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npz_round_trip(tmp_path, save, order):
    x = np.asarray(np.random.default_rng(0).integers(0, 256, (4, 3, 5, 6), dtype=np.uint8), order=order)
    save(tmp_path / "d.npz", x=x, y=np.array(Y, np.int16))
    data = load_sample(tmp_path / "d.npz", role="train")
    np.testing.assert_array_equal(data.x, x)
    assert data.y.tolist() == Y
    assert data.role == "train"
    assert str(tmp_path) in data.source


def npz(tmp_path, **members: bytes):
    path = tmp_path / "d.npz"
    path.write_bytes(archive(**members))
    return path


GOOD_X, GOOD_Y = npy(np.zeros((4, 2), np.uint8)), npy(np.array(Y))


def forged(shape: str, descr: str = "|u1") -> bytes:
    """A .npy whose header promises what is not there."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (forged("(1000000, 1000000)"), "allowed"),
        (forged("(4, 200000000)"), "truncated"),
        (forged("(99999999999999999999, 9)"), "allowed"),
        (forged("(-4, -2)"), "allowed"),
        (forged("(0, 2)"), "allowed"),
        (forged("(4, 2)", "|O"), "unpickled"),
        (npy(np.array([[{}], [{}]], dtype=object)), "unpickled"),
        (forged("__import__('os')"), "no readable"),
        (forged("(" * 5000), "no readable"),
        (GOOD_X + b"more", "after its last value"),
        (GOOD_X[:-1], "truncated"),
        (GOOD_X[:20], "no readable"),
        (b"", "no readable"),
        (b"\x93NUMPY\x07\x00", "format"),
    ],
)
def test_crafted_npz_is_a_data_error_before_any_allocation(tmp_path, x, message):
    with pytest.raises(DataError, match=message):
        load_sample(npz(tmp_path, x=x, y=GOOD_Y), role="train")


def test_missing_arrays_are_listed(tmp_path):
    with pytest.raises(DataError, match=r"no array y; the file holds x, images"):
        load_sample(npz(tmp_path, x=GOOD_X, images=GOOD_X), role="train")
    assert load_sample(npz(tmp_path, x=GOOD_X), role="unlabelled").n == 4


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip at all" * 10])
def test_no_zip_at_all(tmp_path, content):
    path = tmp_path / "d.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match="no readable"):
        load_sample(path, role="train")


def test_columns_with_constants_of_their_own_are_stored_scaled():
    stream = np.random.default_rng(0)
    y = stream.integers(2, size=300)
    x = stream.integers(0, 50, (300, 6)) * 10.0 ** np.arange(6) + 30 * y[:, None] * 10.0 ** np.arange(6)
    scaling = Scaling(2.0, tuple(20.0 * 10.0 ** np.arange(6)), tuple(10.0 ** np.arange(6)))
    sample = from_arrays(x, y, name="t", scaling=scaling)
    assert np.array_equal(sample.x, scaling.apply(torch.from_numpy(x), torch.float64).numpy())
    assert (sample.scaling, sample.warnings) == (Scaling(), (SCALED,))
    by_the_sample = from_arrays(x, y, name="t", scaling=Scaling(1.0, tuple(x.mean(0)), tuple(x.std(0))))
    assert STANDARDISED in by_the_sample.warnings
    with pytest.raises(DataError, match="3 constants for 6 channels"):
        from_arrays(x, y, name="t", scaling=Scaling(1.0, (1.0, 2.0, 3.0)))


def test_missing_numbers_of_a_table_are_gaps():
    for dtype in (np.float32, np.float64):
        x = np.array([[1.5, np.nan], [-np.nan, 2.0]], dtype=dtype)
        sample = from_arrays(x, [0, 1], name="t")
        assert (sample.dtype, sample.x.view(np.uint64)[0, 1], sample.x.view(np.uint64)[1, 0]) == (
            "cells",
            GAP,
            GAP,
        )
    assert from_arrays(np.ones((2, 2)), [0, 1], name="t").dtype == "float64"
    assert from_arrays(np.ones((2, 2)), [0, 1], name="t", cells=True).dtype == "cells"
    with pytest.raises(DataError, match="NaN"):
        from_arrays(np.full((2, 1, 3, 3), np.nan), [0, 1], name="t")


def test_a_file_that_there_is_no_room_to_map_is_not_called_damaged(tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(12, "Cannot allocate memory")

    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    monkeypatch.setattr("numpy.load", full)
    with pytest.raises(DataError, match=r"x\.npy cannot be read: Cannot allocate memory\.$"):
        read_npy(tmp_path / "x.npy")


def test_words_in_a_file_are_labels(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.zeros((4, 2)), y=np.array(["no", "yes", "no", "yes"]))
    found = load_sample(tmp_path / "t.npz")
    assert (found.y.tolist(), found.class_names) == ([0, 1, 0, 1], ("no", "yes"))


def test_arrays_of_two_parts_are_taken_by_the_role(tmp_path):
    x, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    np.savez(tmp_path / "t.npz", x_train=x[:4], y_train=y[:4], x_test=x[4:], y_test=y[4:])
    train, test = (load_sample(tmp_path / "t.npz", role=role) for role in ("train", "test"))
    assert (train.x.tolist(), test.y.tolist()) == (x[:4].tolist(), y[4:].tolist())


def test_a_saved_table_of_cells_is_read_again(tmp_path):
    whole = from_arrays(np.ones((2, 2)), [0, 1], name="t", cells=True)
    np.savez(tmp_path / "t.npz", x=whole.x, y=whole.y, cells=np.array(True))
    assert load_sample(tmp_path / "t.npz").sha256 == whole.sha256

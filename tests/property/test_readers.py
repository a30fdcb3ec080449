"""Fuzzed files: the readers of both programs answer or refuse in their words, and reserve nothing in vain."""

import io
import json

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save
from worlds.files import LIMIT_BYTES, archive, damaged, idx, npy, promising_headers, survives

from codebound.run.errors import DataError, ModelError
from codebound.run.tensor_files import load_weights
from codebound.sample.formats.idx import parse_idx
from codebound.sample.load import load_sample
from codebound_verify import Refused
from codebound_verify.sources.arrays import load_data
from codebound_verify.weights import read_weights

X, Y = npy(np.arange(6, dtype=np.uint8).reshape(3, 2)), npy(np.array([0, 1, 1]))
IMAGES = bytes([0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, *range(6)])
LABELS = bytes([0, 0, 8, 1, 0, 0, 0, 3, 0, 1, 1])
WEIGHTS = save({"0.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "0.bias": np.zeros(2, np.float32)})
READERS = {
    "npz": (load_sample, (lambda path: load_data(str(path)))),
    "safetensors": (load_weights, read_weights),
}
REFUSALS = (DataError, ModelError), Refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readers")


def both_read(folder, kind: str, content: bytes) -> list[bool]:
    """Whether each program reads it; a refusal is an answer."""
    path = folder / f"d.{kind}"
    path.write_bytes(content)
    return [
        survives(lambda read=read: read(path), refusal=refusal)
        for read, refusal in zip(READERS[kind], REFUSALS, strict=True)
    ]


def read_pairs(folder, images: bytes, labels: bytes) -> bool:
    (folder / "train-images-idx3-ubyte").write_bytes(images)
    (folder / "train-labels-idx1-ubyte").write_bytes(labels)
    return survives(lambda: load_data("mnist", folder), refusal=Refused)


def checkpoint() -> bytes:
    buffer = io.BytesIO()
    torch.save({"0.weight": torch.zeros(2, 3)}, buffer)
    return buffer.getvalue()


def read_checkpoint(folder, content: bytes) -> bool:
    (folder / "w.pt").write_bytes(content)
    return survives(lambda: load_weights(folder / "w.pt"), refusal=ModelError)


def test_undamaged_files_are_read(folder):
    assert all(both_read(folder, "npz", archive(x=X, y=Y)) + both_read(folder, "safetensors", WEIGHTS))
    assert read_pairs(folder, IMAGES, LABELS)
    assert read_checkpoint(folder, checkpoint())


def test_the_memory_check_has_teeth():
    with pytest.raises(AssertionError):
        survives(lambda: bytearray(LIMIT_BYTES + 1), refusal=DataError)


@given(damaged(archive(x=X, y=Y)))
def test_damaged_archives(folder, content):
    both_read(folder, "npz", content)


@given(damaged(X), damaged(Y))
def test_damaged_arrays_in_sound_archives(folder, x, y):
    both_read(folder, "npz", archive(x=x, y=y))


@given(promising_headers())
def test_headers_that_promise_anything(folder, x):
    both_read(folder, "npz", archive(x=x, y=Y))


@given(damaged(IMAGES) | st.binary(max_size=64) | st.binary(max_size=40).map(lambda b: b"\0\0\x08" + b))
def test_idx(content):
    survives(lambda: parse_idx(content, name="fuzz"), refusal=DataError)


@given(damaged(IMAGES), damaged(LABELS))
def test_pairs_of_idx_files(folder, images, labels):
    read_pairs(folder, images, labels)


@given(hnp.arrays(np.uint8, hnp.array_shapes(max_dims=4)))
def test_idx_round_trip(array):
    np.testing.assert_array_equal(parse_idx(idx(array), name="a"), array)


@examples(200)
@given(damaged(WEIGHTS) | st.binary(max_size=64))
def test_damaged_weights(folder, content):
    both_read(folder, "safetensors", content)


@given(damaged(checkpoint()) | st.binary(max_size=64))
def test_damaged_checkpoints(folder, content):
    read_checkpoint(folder, content)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ENTRY = {"dtype": st.just("F32") | values, "shape": values, "data_offsets": values, "x": values}


@examples(200)
@given(values | st.fixed_dictionaries({}, optional=ENTRY))
def test_any_header_of_tensors(folder, entry):
    text = json.dumps({"w": entry}).encode()
    assert not any(both_read(folder, "safetensors", len(text).to_bytes(8, "little") + text + bytes(24)))

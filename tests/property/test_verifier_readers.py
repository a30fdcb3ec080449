"""Fuzzed files beside a certificate: the verifier reads or refuses, and reserves nothing in vain."""

import json

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save
from worlds.files import LIMIT_BYTES, archive, damaged, npy, promising_headers, survives

from codebound_verify import Refused
from codebound_verify.data import load_data
from codebound_verify.weights import read_weights

X, Y = npy(np.arange(6, dtype=np.uint8).reshape(3, 2)), npy(np.array([0, 1, 1]))
IMAGES = bytes([0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, *range(6)])
LABELS = bytes([0, 0, 8, 1, 0, 0, 0, 3, 0, 1, 1])
WEIGHTS = save({"0.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "0.bias": np.zeros(2, np.float32)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readers")


def read_archive(folder, content: bytes) -> bool:
    (folder / "d.npz").write_bytes(content)
    return survives(lambda: load_data(str(folder / "d.npz")), refusal=Refused)


def read_idx(folder, images: bytes, labels: bytes) -> bool:
    (folder / "train-images-idx3-ubyte").write_bytes(images)
    (folder / "train-labels-idx1-ubyte").write_bytes(labels)
    return survives(lambda: load_data("mnist", folder), refusal=Refused)


def read_tensors(folder, content: bytes) -> bool:
    (folder / "w.safetensors").write_bytes(content)
    return survives(lambda: read_weights(folder / "w.safetensors"), refusal=Refused)


def test_undamaged_files_are_read(folder):
    assert read_archive(folder, archive(x=X, y=Y))
    assert read_idx(folder, IMAGES, LABELS)
    assert read_tensors(folder, WEIGHTS)


def test_the_memory_check_has_teeth():
    with pytest.raises(AssertionError):
        survives(lambda: bytearray(LIMIT_BYTES + 1), refusal=Refused)


@given(damaged(archive(x=X, y=Y)))
def test_archives(folder, content):
    read_archive(folder, content)


@given(damaged(X), damaged(Y))
def test_arrays_in_sound_archives(folder, x, y):
    read_archive(folder, archive(x=x, y=y))


@given(promising_headers())
def test_headers_that_promise_anything(folder, x):
    read_archive(folder, archive(x=x, y=Y))


@given(damaged(IMAGES), damaged(LABELS))
def test_idx_files(folder, images, labels):
    read_idx(folder, images, labels)


@given(damaged(WEIGHTS) | st.binary(max_size=64))
@examples(200)
def test_safetensors_files(folder, content):
    read_tensors(folder, content)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    values
    | st.fixed_dictionaries(
        {}, optional={"dtype": st.just("F32") | values, "shape": values, "data_offsets": values, "x": values}
    )
)
@examples(200)
def test_any_header_of_tensors(folder, entry):
    text = json.dumps({"w": entry}).encode()
    assert not read_tensors(folder, len(text).to_bytes(8, "little") + text + bytes(24))

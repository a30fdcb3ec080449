"""Fuzzed files: the readers answer with a sample or a DataError, and never reserve what is not there."""

import io

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
from codebound.sample.arrays import read_npz
from codebound.sample.formats.cifar import read_pickled
from codebound.sample.formats.idx import parse_idx

GOOD_Y = npy(np.array([0, 1, 1]))
GOOD_X = npy(np.arange(6, dtype=np.uint8).reshape(3, 2))
GOOD_IDX = bytes([0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6])


def is_read(read, content: bytes) -> bool:
    """Whether it was; a DataError is an answer."""
    return survives(lambda: read(content), refusal=DataError)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def test_the_memory_check_has_teeth():
    with pytest.raises(AssertionError):
        survives(lambda: bytearray(LIMIT_BYTES + 1), refusal=DataError)


@given(damaged(GOOD_IDX) | st.binary(max_size=64) | st.binary(max_size=40).map(lambda b: b"\0\0\x08" + b))
def test_idx(content):
    is_read(lambda c: parse_idx(c, name="fuzz"), content)


@given(hnp.arrays(np.uint8, hnp.array_shapes(max_dims=4)))
def test_idx_round_trip(array):
    np.testing.assert_array_equal(parse_idx(idx(array), name="a"), array)


def as_sample(folder):
    def read(content: bytes) -> None:
        (folder / "d.npz").write_bytes(content)
        read_npz(folder / "d.npz", role="train")

    return read


@given(damaged(archive(x=GOOD_X, y=GOOD_Y)))
def test_damaged_archives(folder, content):
    is_read(as_sample(folder), content)


@given(damaged(GOOD_X), damaged(GOOD_Y))
def test_damaged_arrays_in_sound_archives(folder, x, y):
    is_read(as_sample(folder), archive(x=x, y=y))


@given(promising_headers())
def test_headers_that_promise_anything(folder, x):
    is_read(as_sample(folder), archive(x=x, y=GOOD_Y))


def test_the_undamaged_archive_is_read(folder):
    assert is_read(as_sample(folder), archive(x=GOOD_X, y=GOOD_Y))


@examples(200)
@given(
    st.binary(max_size=60)
    | st.lists(st.sampled_from(list(b"\x80\x02}](KM.ceRutbsa\x85\x86\x87\x88N0q1T\x96")), max_size=40).map(
        bytes
    )
)
def test_pickles(folder, content):
    def read(content: bytes) -> None:
        (folder / "batch").write_bytes(content)
        read_pickled(folder / "batch", labels=("labels",))

    assert not is_read(read, content)


WEIGHTS = save({"0.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "0.bias": np.zeros(2, np.float32)})


def as_weights(folder, suffix: str):
    def read(content: bytes) -> None:
        (folder / f"w{suffix}").write_bytes(content)
        try:
            load_weights(folder / f"w{suffix}")
        except ModelError as error:
            raise DataError(str(error)) from error

    return read


def test_the_undamaged_weights_are_read(folder):
    assert is_read(as_weights(folder, ".safetensors"), WEIGHTS)
    assert is_read(as_weights(folder, ".pt"), checkpoint())


def checkpoint() -> bytes:
    buffer = io.BytesIO()
    torch.save({"0.weight": torch.zeros(2, 3)}, buffer)
    return buffer.getvalue()


@given(damaged(WEIGHTS) | st.binary(max_size=64))
def test_damaged_weights(folder, content):
    is_read(as_weights(folder, ".safetensors"), content)


@given(damaged(checkpoint()) | st.binary(max_size=64))
def test_damaged_checkpoints(folder, content):
    is_read(as_weights(folder, ".pt"), content)

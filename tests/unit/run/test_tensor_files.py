"""Tensors in files: what is written comes back or is refused, and hashes that are those by hand."""

import hashlib
import struct

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from codebound.run.errors import CertificateError, FormatError
from codebound.run.tensor_files import (
    float32_sha256,
    load_tensors,
    peek_record,
    save_tensors,
    save_weights,
    state_sha256,
    state_tensors,
)

TENSORS = {
    "a.weight": torch.arange(6.0).reshape(2, 3),
    "b": torch.tensor([3, -1]),
    "none": torch.zeros(0, 4),
    "half": torch.tensor([1.5], dtype=torch.bfloat16),
}
RECORD = {"epoch": 3, "rows": [1.5, None]}


@pytest.fixture
def path(tmp_path):
    save_tensors(tmp_path / "state.safetensors", TENSORS, RECORD)
    return tmp_path / "state.safetensors"


def test_tensors_and_their_record_come_back(path):
    tensors, record = load_tensors(path)
    assert record == RECORD == peek_record(path)
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


@given(st.data())
@examples(50)
def test_no_damaged_file_is_read(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "state.safetensors"
    save_tensors(path, TENSORS, RECORD)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(content))
    try:
        tensors, record = load_tensors(path)
    except FormatError as error:
        assert "Remove the run folder" in str(error)  # noqa: PT017
    else:  # a byte that says nothing
        assert record == RECORD
        assert state_sha256(tensors) == state_sha256(TENSORS)


@pytest.mark.parametrize("kept", [0, 7, 100, -1])
def test_a_file_that_was_cut_is_refused(path, kept):
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(FormatError, match="Remove the run folder"):
        load_tensors(path)


def test_weights_of_others_are_no_state(tmp_path):
    save_weights(tmp_path / "w", {"a": torch.zeros(2)})
    assert peek_record(tmp_path / "w") is None
    with pytest.raises(FormatError, match="does not match its checksum"):
        load_tensors(tmp_path / "w")
    save_weights(tmp_path / "again", {"a": torch.zeros(2)})
    assert (tmp_path / "w").read_bytes() == (tmp_path / "again").read_bytes()


def test_a_state_is_a_copy_of_parameters_and_buffers():
    norm = nn.BatchNorm1d(3)
    state = state_tensors(norm)
    assert state.keys() == norm.state_dict().keys()
    with torch.no_grad():
        norm.weight.zero_()
    assert state["weight"].tolist() == [1.0] * 3


def test_every_part_of_a_tensor_is_in_the_hash_of_a_state():
    zeros = torch.zeros(2, 3)
    hashes = {
        state_sha256(each, text)
        for each, text in [
            ({"a": zeros}, ""),
            ({"b": zeros}, ""),
            ({"a": zeros.reshape(3, 2)}, ""),
            ({"a": zeros.int()}, ""),
            ({"a": zeros + 1}, ""),
            ({"a": zeros}, "text"),
            ({"a": zeros, "b": zeros}, ""),
        ]
    }
    assert len(hashes) == 7
    assert state_sha256({"a": zeros.t().contiguous().t()}) == state_sha256({"a": zeros})
    assert state_sha256({"a": zeros, "b": zeros}) == state_sha256({"b": zeros, "a": zeros})


def test_the_hash_of_a_certificate_is_that_of_the_page():
    tensors = {"b": np.array([1.5, -2.0], np.float32), "a.weight": np.array([[3.0]], np.float32)}
    by_hand = b"a.weight|1,1|" + struct.pack("<f", 3.0) + b"b|2|" + struct.pack("<2f", 1.5, -2.0)
    assert float32_sha256(tensors) == hashlib.sha256(by_hand).hexdigest()
    turned = {name: np.asfortranarray(value).astype(">f4") for name, value in tensors.items()}
    assert float32_sha256(turned) == float32_sha256(tensors)


@pytest.mark.parametrize("name", ["a|1", "ä", "a\n", "\x00"])
def test_names_that_could_spell_another_set_are_refused(name):
    with pytest.raises(CertificateError, match="printable ASCII"):
        float32_sha256({name: np.zeros(1, np.float32)})

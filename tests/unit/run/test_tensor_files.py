"""Tensors in files: what is written comes back or is refused, nothing runs, and hashes are those by hand."""

import hashlib
import json
import pickle
import struct
import zipfile

import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from codebound.run import tensor_files
from codebound.run.errors import CertificateError, FormatError, ModelError
from codebound.run.tensor_files import (
    float32_sha256,
    load_tensors,
    load_weights,
    peek_record,
    read_weights,
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


@pytest.fixture
def state():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).state_dict()


def test_a_pickle_is_refused_and_does_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",)

    torch.save({"w": Trap()}, tmp_path / "w.pt")
    (tmp_path / "plain.pkl").write_bytes(pickle.dumps(Trap(), protocol=2))
    for name in ("w.pt", "plain.pkl"):
        with pytest.raises(ModelError, match=r"could run code.*\n.*save_file"):
            load_weights(tmp_path / name)
    assert not (tmp_path / "ran").exists()
    pickle.loads((tmp_path / "plain.pkl").read_bytes())
    assert (tmp_path / "ran").exists()  # the trap does spring when nobody refuses


def test_a_whole_module_is_refused(tmp_path):
    torch.save(nn.Linear(2, 2), tmp_path / "w.pt")
    with pytest.raises(ModelError, match="more than tensors"):
        load_weights(tmp_path / "w.pt")


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("keep", [0, 1, 7, 100, -1])
def test_truncated_files_are_refused_by_name(tmp_path, state, suffix, keep):
    path = tmp_path / f"w{suffix}"
    save_file(state, path) if suffix == ".safetensors" else torch.save(state, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelError, match=f"w{suffix}"):
        load_weights(path)


def test_missing_folders_and_pt2_are_refused(tmp_path):
    with pytest.raises(ModelError, match="No such file"):
        load_weights(tmp_path / "absent.pt")
    with pytest.raises(ModelError, match="not a file"):
        load_weights(tmp_path)
    with pytest.raises(ModelError, match="exported programs"):
        load_weights(tmp_path / "net.pt2")


@pytest.mark.parametrize(
    "tensor", [torch.zeros(2, dtype=torch.complex64), torch.eye(2).to_sparse(), torch.zeros(2, device="meta")]
)
def test_only_dense_real_tensors_are_read(tmp_path, tensor):
    torch.save({"w": tensor}, tmp_path / "w.pt")
    with pytest.raises(ModelError, match="dense real tensors"):
        load_weights(tmp_path / "w.pt")


@pytest.mark.parametrize("payload", [[1, 2], {"a": 1}, {}, {3: torch.zeros(1)}, torch.zeros(2)])
def test_other_contents_are_refused(tmp_path, payload):
    torch.save(payload, tmp_path / "w.pt")
    with pytest.raises(ModelError, match="expected named tensors"):
        load_weights(tmp_path / "w.pt")


def test_sizes_are_limited_before_anything_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_files, "MAX_BYTES", 100_000)
    torch.save({"w": torch.zeros(1).expand(50_000)}, tmp_path / "expanded.pt")
    (tmp_path / "long.safetensors").write_bytes(bytes(100_001))
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(200_000))
    for name in ("expanded.pt", "long.safetensors", "bomb.pt"):
        assert name == "long.safetensors" or (tmp_path / name).stat().st_size < 100_000
        with pytest.raises(ModelError, match="limit of 100000 bytes"):
            load_weights(tmp_path / name)


def test_tensors_under_one_other_name_are_found(tmp_path, state):
    torch.save({"net": state, "acc": 93.1, "epoch": 4, "optimizer": {}}, tmp_path / "w.pt")
    assert load_weights(tmp_path / "w.pt").keys() == state.keys()
    torch.save({"net": state, "average": state}, tmp_path / "w.pt")
    with pytest.raises(ModelError, match="These are none: net, average"):
        load_weights(tmp_path / "w.pt")


def test_complex_weights_are_read_into_networks(tmp_path):
    save_file({"w": torch.tensor([1 + 2j])}, tmp_path / "w.safetensors")
    assert torch.equal(read_weights(tmp_path / "w.safetensors")["w"], torch.tensor([1 + 2j]))


def indexed(folder, state, weight_map=None):
    """Weights in two files with an index, as transformers saves large networks."""
    names = list(state)
    for number, part in enumerate((names[:1], names[1:])):
        save_file({name: state[name] for name in part}, folder / f"part{number}.safetensors")
    if weight_map is None:
        weight_map = {name: f"part{int(name != names[0])}.safetensors" for name in names}
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return path


def test_weights_in_several_files_are_one(tmp_path, state):
    found = read_weights(indexed(tmp_path, state))
    assert found.keys() == state.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in state.items())
    (tmp_path / "part1.safetensors").unlink()
    with pytest.raises(ModelError, match=r"its files part1\.safetensors are not beside it"):
        read_weights(tmp_path / "model.safetensors.index.json")


@pytest.mark.parametrize(
    ("weight_map", "words"),
    [
        ({}, "no such files"),
        ([1], "no such files"),
        ({"a": "../elsewhere.safetensors"}, r"Found \.\./elsewhere"),
        ({"a": "model.safetensors.index.json"}, "Found model"),
        ({"another": "part0.safetensors"}, "no file has another"),
    ],
)
def test_an_index_names_files_beside_it(tmp_path, state, weight_map, words):
    with pytest.raises(ModelError, match=words):
        read_weights(indexed(tmp_path, state, weight_map))


def test_files_of_an_index_are_limited_together(tmp_path, state, monkeypatch):
    path = indexed(tmp_path, state)
    sizes = [part.stat().st_size for part in tmp_path.iterdir()]
    monkeypatch.setattr(tensor_files, "MAX_BYTES", max(sizes) + 1)
    with pytest.raises(ModelError, match="more than the limit"):
        read_weights(path)

"""Weights from files: what is read, what is refused before it is read, and that nothing runs."""

import json
import pickle
import zipfile

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from codebound.run import weight_files
from codebound.run.errors import ModelError
from codebound.run.weight_files import load_weights, read_weights


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
    monkeypatch.setattr(weight_files, "MAX_BYTES", 100_000)
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
    monkeypatch.setattr(weight_files, "MAX_BYTES", max(sizes) + 1)
    with pytest.raises(ModelError, match="more than the limit"):
        read_weights(path)

"""What lies beside a certificate and is said to be what was certified: exchanged, it is found out."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from certificate_reader import read_container
from file_writer import container, put
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_iris

from codebound.certification import certify
from codebound.classifier import load_classifier
from codebound.request import Run
from codebound.run.errors import FormatError
from codebound.sample.load import load_sample
from codebound_verify.__main__ import main as second

DIGITS = load_sample("digits")
SOME = DIGITS.select(range(400), role="train")
NAMES = ("setosa", "versicolor", "virginica")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders by picks, of a table with names, and of a decoded network."""
    place = tmp_path_factory.mktemp("beside")
    certify(SOME, method="picks", run=Run(effort="quick")).save_to(place / "picked")
    frame = load_iris(as_frame=True).frame
    frame["target"] = [NAMES[each] for each in frame["target"]]
    named = certify(frame.rename(columns={"target": "label"}), method="split", run=Run(effort="quick"))
    named.save_to(place / "named")
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    certify(SOME, network=network, method="naive", run=Run(effort="quick")).save_to(place / "decoded")
    return place


@pytest.fixture
def folder(made, tmp_path, request):
    return Path(shutil.copytree(made / request.param, tmp_path / request.param))


def of(name):
    return pytest.mark.parametrize("folder", [name], indirect=True)


def exchange(path, name, change):
    tensors = load_file(path)
    tensors[name] = change(tensors[name]).contiguous()
    save_file(tensors, path)


def roll(tensor):
    return tensor.roll(1, -1)


def unnamed(folder):
    """The certificate without the sentences that name what lies beside it."""
    file = folder / "certificate.cbound"
    found = read_container(file.read_bytes())
    lines = [each for each in found.header["declarations"] if " have SHA-256 " not in each]
    assert len(lines) < len(found.header["declarations"])
    file.write_bytes(container(put(found.header, {"declarations": lines}), found.message))


@pytest.mark.parametrize("name", ["picked", "named", "decoded"])
def test_folders_are_true_to_begin_with(made, name, capsys):
    assert second([str(made / name)]) == 0
    out = capsys.readouterr().out
    assert "the weights beside it are those of g" in out
    assert ("The names of classes and columns in result.json are right" in out) == (name == "named")
    assert "errs on at most" in load_classifier(made / name).sentence


@of("picked")
@pytest.mark.parametrize("as_file", [False, True])
def test_exchanged_columns_of_what_was_learned(folder, as_file, capsys, codebound):
    """It errs on everything, and solves the equations of the rule for other labels."""
    exchange(folder / "g.safetensors", "coefficients", roll)
    with pytest.raises(FormatError, match="not the weights of this certificate"):
        load_classifier(folder)
    out = folder.with_name("g.onnx")
    assert codebound("export", folder, "--to", "onnx", "--out", out)[0] != 0
    assert not out.exists()
    asked = folder / "certificate.cbound" if as_file else folder
    for words in ("verify {}", "audit check {} --max-error 0.99"):
        code, said, _ = codebound(*words.format(asked).split())
        assert code == 1
        assert "Weights:" in said
    assert second([str(asked)]) == 1


@of("picked")
def test_weights_that_the_certificate_does_not_name_are_refused(folder):
    unnamed(folder)
    for _ in range(2):
        with pytest.raises(FormatError, match="not the weights of this certificate"):
            load_classifier(folder)
        exchange(folder / "g.safetensors", "coefficients", roll)
    exchange(folder / "g.safetensors", "coefficients", roll)
    assert second([str(folder)]) == 1


@of("picked")
def test_the_lines_that_are_printed_name_the_weights(folder):
    result = json.loads((folder / "result.json").read_text())
    for words in (result["verify"], result["verify_here"]):
        assert "--weights" in words
    assert "--weights g.safetensors" in (folder / "README.md").read_text()
    assert "--weights g.safetensors" in (folder / "report.html").read_text()


@of("named")
@pytest.mark.parametrize("change", ["classes", "columns"])
def test_other_names_of_classes_or_columns(folder, change):
    """The second program knows no names, and says so; who loads the classifier is told."""
    result = json.loads((folder / "result.json").read_text())
    if change == "classes":
        result["class_names"] = [*result["class_names"][1:], result["class_names"][0]]
    else:
        columns = result["inputs"]["columns"]
        columns[0]["name"], columns[2]["name"] = columns[2]["name"], columns[0]["name"]
    (folder / "result.json").write_text(json.dumps(result))
    with pytest.raises(FormatError, match="names of classes and columns"):
        load_classifier(folder)


@of("picked")
def test_names_where_the_certificate_names_none(folder):
    result = json.loads((folder / "result.json").read_text())
    assert result["class_names"] == []
    result["class_names"] = [str((each + 1) % 10) for each in range(10)]
    (folder / "result.json").write_text(json.dumps(result))
    with pytest.raises(FormatError, match="names of classes and columns"):
        load_classifier(folder)


@of("decoded")
def test_exchanged_weights_of_a_decoded_network(folder, capsys):
    exchange(folder / "g.safetensors", "0.weight", lambda each: each.roll(1, 0))
    assert second([str(folder)]) == 1
    assert "is not the tensor of the network" in capsys.readouterr().out


@of("decoded")
@pytest.mark.parametrize("change", ["less", "more"])
def test_other_tensors_than_those_of_a_decoded_network(folder, change, capsys):
    tensors = load_file(folder / "g.safetensors")
    tensors.pop("0.bias") if change == "less" else tensors.update(more=torch.zeros(1))
    save_file(tensors, folder / "g.safetensors")
    assert second([str(folder)]) == 1
    assert "not of both" in capsys.readouterr().out


@of("picked")
def test_data_that_are_given_win(folder, capsys):
    other = folder.with_name("other.npz")
    np.savez(other, x=SOME.x, y=(SOME.y + 1) % 10)
    assert second([str(folder), "--data", str(other)]) == 1
    assert "the sample has SHA-256" in capsys.readouterr().out


@of("picked")
def test_a_result_names_no_file_to_read(folder, capsys):
    """Only a sample that both programs know by name; another file is the reader's to give."""
    sample = (folder / "sample.npz").rename(folder.with_name("elsewhere.npz"))
    result = json.loads((folder / "result.json").read_text())
    result["verify_with"]["data"] = str(sample)
    (folder / "result.json").write_text(json.dumps(result))
    with pytest.raises(SystemExit):
        second([str(folder)])
    assert "no sample.npz lies beside" in capsys.readouterr().err
    result["verify_with"]["data"] = "digits"
    (folder / "result.json").write_text(json.dumps(result))
    assert second([str(folder)]) == 1  # the whole of digits, and another sample than this part
    assert "Data: 1797 inputs" in capsys.readouterr().out

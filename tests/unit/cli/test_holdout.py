"""``codebound holdout`` from the seal to the final look."""

import json

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("empty_folder")


@pytest.fixture
def files(own_cache):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 4)).astype("f4"), rng.integers(0, 3, 300)
    np.savez("test.npz", x=x, y=y)
    for name, errors in (("bad", 60), ("good", 15)):
        told = y.copy()
        told[:errors] = (told[:errors] + 1) % 3
        np.save(f"{name}.npy", told)


def test_from_the_seal_to_the_final_look(files, codebound):
    code, _, err = codebound("holdout", "seal", "test.npz", "--looks", "3", "--target", "0.15")
    assert code == 0, err
    codebound("holdout", "look", "test.looks.jsonl", "--predictions", "bad.npy")
    code, out, err = codebound("holdout", "look", "test.looks.jsonl", "--predictions", "good.npy")
    assert "good.npy errs on at most" in err
    assert "The target 0.15 is met." in err
    code, out, _ = codebound(
        "holdout", "look", "test.looks.jsonl", "--predictions", "good.npy", "--final", "--format", "json"
    )
    assert json.loads(out)["looks"][-1]["answer"] == 15
    head = json.loads(out)["head"]
    code, out, _ = codebound("verify", "test.looks.jsonl", "--data", "test.npz", "--head", head)
    assert code == 0
    assert out.startswith("ACCEPT\n3 looks, closed")
    code, out, _ = codebound("verify", "test.looks.jsonl", "--head", "0" * 64, "--format", "json")
    assert (code, json.loads(out)["verdict"]) == (1, "REFUSE")
    code, out, _ = codebound("holdout", "show", "test.looks.jsonl", "--format", "csv")
    assert out.splitlines()[2].startswith("2,good.npy,no,at most")


def test_listed_networks_are_known_by_their_files(files, codebound):
    codebound(
        "holdout", "seal", "test.npz", "--looks", "2", "--predictions", "bad.npy", "--predictions", "good.npy"
    )
    code, out, _ = codebound(
        "holdout", "look", "test.looks.jsonl", "--predictions", "good.npy", "--format", "json"
    )
    assert code == 0
    assert json.loads(out)["looks"][0]["listed"] is True


def test_a_network_of_the_zoo(files, codebound):
    codebound("train", "linear", "--data", "test.npz", "--epochs", "1", "--out", "f")
    codebound("holdout", "seal", "test.npz")
    code, out, err = codebound(
        "holdout", "look", "test.looks.jsonl", "--model", "linear", "--weights", "f/model.safetensors"
    )
    assert code == 0, err
    assert "model.safetensors" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("look", "none.jsonl", "--predictions", "bad.npy"), "cannot be read"),
        (("seal", "test.npz", "--looks", "many"), "a number, or open"),
        (("seal", "test.npz", "--loss", "class:7"), "does not fit 3 classes"),
        (("seal", "test.npz", "--loss", "missed"), "needs two classes"),
    ],
)
def test_what_cannot_be_done_says_why(files, codebound, arguments, says):
    code, _, err = codebound("holdout", *arguments)
    assert code != 0
    assert says in err


def test_values_and_tables_of_classes(files, codebound):
    with np.load("test.npz") as found:
        x, y = found["x"], found["y"]
    np.savez("values.npz", x=x, y=x.sum(axis=1))
    np.save("off.npy", x.sum(axis=1) + np.where(np.arange(300) < 7, 1.0, 0.0))
    assert codebound("holdout", "seal", "values.npz", "--loss", "residual:0.5")[0] == 0
    _, _, err = codebound("holdout", "look", "values.looks.jsonl", "--predictions", "off.npy")
    assert "off.npy is off by more than 0.5 on at most" in err
    code, out, _ = codebound("verify", "values.looks.jsonl", "--data", "values.npz")
    assert (code, out.split()[0]) == (0, "ACCEPT")
    codebound("holdout", "seal", "test.npz", "--by-class")
    code, out, _ = codebound("holdout", "look", "test.looks.jsonl", "--predictions", "good.npy")
    assert (code, "on each" in out) == (0, True)
    assert f"of {int((y == 2).sum())}" in out

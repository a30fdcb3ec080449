"""Seals and looks from files, without the command line: prices by SciPy, and what is no look."""

import numpy as np
import pytest
from scipy.stats import beta

from codebound.holdout.from_files import look_from_options, seal_from_options
from codebound.run.errors import DataError, UsageError
from codebound.run.progress import Listener

SEAL = {
    "data": "test.npz",
    "loss": "wrong",
    "model": None,
    "weights": None,
    "predictions": None,
    "answers": None,
    "delta": 0.05,
    "target": None,
    "step": None,
    "by_class": False,
    "allow_copies": False,
    "data_folder": None,
}
LOOK = {"model": None, "weights": None, "certificate": None, "predictions": None, "name": None}
LOOK |= {"is_final": False, "data": None, "data_folder": None}


@pytest.fixture
def place(tmp_path, monkeypatch, own_cache):
    monkeypatch.chdir(tmp_path)
    np.savez("test.npz", x=np.arange(200.0).reshape(100, 2), y=np.arange(100) % 2)
    predicted = np.arange(100) % 2
    predicted[:5] = 1 - predicted[:5]
    np.save("p.npy", predicted)
    return tmp_path


def test_a_look_at_predictions_pays_for_all_looks_that_were_planned(place):
    ledger = seal_from_options(SEAL | {"answers": "exact"}, looks=4)
    assert ledger.path.name == "test.looks.jsonl"
    grown = look_from_options({**LOOK, "ledger": ledger.path, "predictions": place / "p.npy"})
    (told,) = grown.looks
    assert (told["answer"], told["model"]["name"]) == (5, "p.npy")
    assert told["bound"] == pytest.approx(float(beta.isf(0.05 / 4, 6, 95)), rel=1e-9)


def test_labels_and_predictions_may_be_words_in_their_sorted_order(place):
    words = np.array(["no", "yes"])[np.arange(100) % 2]
    rows = "".join(f"{i},{word}\n" for i, word in enumerate(words))
    (place / "t.csv").write_text(f"a,churn\n{rows}")
    words[:7] = np.where(words[:7] == "yes", "no", "yes")
    heard = []
    ledger = seal_from_options(
        SEAL | {"data": "t.csv:churn", "answers": "exact"}, looks=3, listener=Listener(heard.append)
    )
    assert heard == ["Classes: 0 = no, 1 = yes."]
    for kind, name in ((str, "w.npy"), ("S3", "b.npy")):
        np.save(name, words.astype(kind))
        grown = look_from_options({**LOOK, "ledger": ledger.path, "predictions": place / name})
        assert grown.looks[-1]["answer"] == 7
    np.save("strange.npy", np.where(words == "no", "never", "yes"))
    with pytest.raises(
        DataError, match=r"'never', which is no class of the test set\. Its classes are no, yes"
    ):
        look_from_options({**LOOK, "ledger": ledger.path, "predictions": place / "strange.npy"})
    np.save("objects.npy", words.astype(object))
    with pytest.raises(DataError, match=r"words\.astype\(str\)"):
        look_from_options({**LOOK, "ledger": ledger.path, "predictions": place / "objects.npy"})


def test_words_are_no_predictions_of_numbers(place):
    ledger = seal_from_options(SEAL, looks=1)
    np.save("w.npy", np.array(["0", "1"])[np.arange(100) % 2])
    with pytest.raises(DataError, match=r"'0', which is no class of the test set\. Its classes are numbers"):
        look_from_options({**LOOK, "ledger": ledger.path, "predictions": place / "w.npy"})


def test_values_have_predictions_and_no_network(place):
    np.savez("test.npz", x=np.arange(200.0).reshape(100, 2), y=np.linspace(0.0, 1.0, 100))
    np.save("p.npy", np.linspace(0.0, 1.0, 100))
    ledger = seal_from_options(SEAL | {"loss": "residual:0.5"}, looks=1, out=place / "v.jsonl")
    with pytest.raises(UsageError, match="needs predictions"):
        look_from_options({**LOOK, "ledger": ledger.path, "certificate": place / "p.npy"})
    grown = look_from_options({**LOOK, "ledger": ledger.path, "predictions": place / "p.npy"})
    assert grown.looks[0]["answer"] == 0


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"weights": "p.npy"},
        {"model": "linear", "predictions": "p.npy"},
        {"certificate": "p.npy", "predictions": "p.npy"},
    ],
)
def test_a_look_is_at_one_network(place, given):
    ledger = seal_from_options(SEAL, looks=1)
    paths = {name: value if name == "model" else place / value for name, value in given.items()}
    with pytest.raises(UsageError, match="one network"):
        look_from_options({**LOOK, **paths, "ledger": ledger.path})


def test_listed_weights_need_to_know_how_they_are_built(place):
    with pytest.raises(UsageError, match="weights need a model"):
        seal_from_options(SEAL | {"weights": [place / "p.npy"]}, looks=1)

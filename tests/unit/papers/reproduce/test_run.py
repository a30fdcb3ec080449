"""Parts computed on one machine and shown on another, options, and what every item has."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from codebound.run.errors import UsageError
from codebound_papers.journal import OutOfTimeError
from codebound_papers.reproduce.items import ITEMS, Reproduction, Settings, item, list_items
from codebound_papers.reproduce.run import reproduce

list_items()  # fills the table of items


@pytest.fixture
def squares(monkeypatch):
    """An item of two parts."""

    def squares_of_two(settings: Settings) -> Reproduction:
        """Squares

        About squares.
        """
        rows = [settings.cells.get(f"{n}", lambda n=n: {"n": n, "square": n * n}) for n in (2, 3)]
        return Reproduction(tables={"Squares": rows}, sentences=["We agree."], deviations=["None."])

    monkeypatch.delitem(ITEMS, "test:squares", raising=False)
    item("test:squares", quick="nothing", full="nothing")(squares_of_two)
    yield "test:squares"
    del ITEMS["test:squares"]


@pytest.mark.parametrize(
    ("id", "options", "message"),
    [
        ("S-Fig9", {}, "nothing is called 'S-Fig9'"),
        ("sketch:phase", {"epochs": 0}, "at least one epoch"),
        ("sketch:phase", {"device": "abacus"}, "unknown device"),
        ("sketch:phase", {"models": Path("nowhere")}, "nowhere does not exist"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(tmp_path, id, options, message):
    with pytest.raises(UsageError, match=message):
        reproduce(id, tmp_path, Settings(size="tiny", **options))


def test_the_record_says_where_each_part_was_computed(squares, tmp_path):
    reproduce(squares, tmp_path, Settings())
    path = tmp_path / "test-squares.cells.json"
    kept = json.loads(path.read_text())
    kept["cells"]["2"]["machine"]["device"] = "cuda:0 (a GPU)"
    path.write_text(json.dumps(kept))
    record = reproduce(squares, tmp_path, Settings(device="cpu")).record
    assert [(machine["device"], machine["cells"]) for machine in record["machines"]] == [
        ("cuda:0 (a GPU)", 1),
        ("cpu", 1),
    ]
    assert {"codebound", "python", "torch", "numpy", "threads"} < set(record["machines"][0])


def test_fewer_epochs_are_another_run_and_a_printed_deviation(squares, tmp_path):
    record = reproduce(squares, tmp_path, Settings(epochs=3)).record
    assert record["command"] == "codebound reproduce test:squares --quick --seed 0 --epochs 3"
    assert record["deviations"] == ["No network was trained for more than 3 epochs.", "None."]
    with pytest.raises(UsageError, match="another run"):
        reproduce(squares, tmp_path, Settings())


@pytest.mark.few(1)
@pytest.mark.parametrize(("id", "epochs"), [("A-T", 299), ("G-T", 300), ("G-ExpX9", 100)])
def test_a_training_cut_short_stands_beside_the_published_one(id, epochs, monkeypatch, tmp_path):
    monkeypatch.setitem(ITEMS, id, replace(ITEMS["S-Fig1"], id=id))
    (deviation,) = reproduce(id, tmp_path, Settings(epochs=3)).record["deviations"]
    assert deviation.endswith(f"3 epochs; the published ones were for {epochs}.")


def test_the_folder_of_pretrained_networks_comes_from_the_environment(squares, tmp_path, monkeypatch):
    seen = []
    lacks = lambda settings: seen.append(settings.models) or ()  # noqa: E731
    item(squares, quick="", full="")(lambda settings: Reproduction(tables={}, sentences=[*lacks(settings)]))
    reproduce(squares, tmp_path, Settings())
    monkeypatch.setenv("CODEBOUND_MODELS", str(tmp_path))
    reproduce(squares, tmp_path, Settings())
    assert seen == [None, tmp_path]
    monkeypatch.setenv("CODEBOUND_MODELS", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="nowhere does not exist"):
        reproduce(squares, tmp_path, Settings())


def test_after_the_deadline_no_part_is_begun(squares, tmp_path):
    late, unhurried = Settings(size="tiny", deadline=0.0), Settings(size="tiny")
    with pytest.raises(OutOfTimeError, match=r"before the part .2. was begun\. The same command"):
        reproduce(squares, tmp_path, late)
    assert list(tmp_path.iterdir()) == []
    finished = reproduce(squares, tmp_path, unhurried).record
    assert reproduce(squares, tmp_path, late).record == finished


def test_a_table_of_networks_has_the_finished_ones_and_names_the_others(squares, tmp_path):
    def run(settings: Settings) -> Reproduction:
        rows = settings.cells.get_some({f"row {n}": lambda n=n: {"n": n} for n in (1, 2, 3)})
        return Reproduction(tables={"Rows": rows}, sentences=["We agree."])

    item(squares, quick="nothing", full="nothing")(run)
    assert (
        reproduce(squares, tmp_path, Settings(size="tiny", device="cpu", deadline=math.inf)).record["not_run"]
        == []
    )
    path = tmp_path / "test-squares.cells.json"
    kept = json.loads(path.read_text())
    del kept["cells"]["row 2"]
    path.write_text(json.dumps(kept))

    record = reproduce(squares, tmp_path, Settings(size="tiny", device="cpu", deadline=0.0)).record
    assert record["tables"] == {"Rows": [{"n": 1}, {"n": 3}]}
    assert record["not_run"] == ["row 2"]
    assert json.loads((tmp_path / "test-squares.json").read_text()) == record


def test_the_command_in_the_record_names_the_gpu(squares, tmp_path):
    record = reproduce(squares, tmp_path, Settings(size="full", epochs=3, device="cpu")).record
    options = "test:squares --full --seed 0 --epochs 3"
    assert record["command"] == f"codebound reproduce {options}"
    assert record["not_run"] == []
    path = tmp_path / "test-squares.cells.json"
    path.write_text(path.read_text().replace('"device": "cpu"', '"device": "cuda:0 (a GPU)"'))
    record = reproduce(squares, tmp_path, Settings(size="full", epochs=3, device="cpu")).record
    assert record["command"] == f"codebound reproduce {options} --device cuda"


def test_a_folder_that_cannot_be_written_is_refused_at_once(squares, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        reproduce(squares, tmp_path / "file" / "folder", Settings())
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(UsageError, match="cannot be written"):
        reproduce(squares, tmp_path, Settings())

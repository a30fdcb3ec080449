"""Parts computed on one machine and shown on another, options, and what every item has."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest

from codebound.run.errors import ModelError, UsageError
from codebound_papers.journal import Journal
from codebound_papers.reproduce.__main__ import main
from codebound_papers.reproduce.items import ITEMS, Reproduction, Settings, item, list_items
from codebound_papers.reproduce.run import find_items, reproduce

list_items()  # fills the table of items
ONE_OF_EACH_KIND = ["A-Fig2L", "G-Tab2", "S-Fig3", "sketch:phase"]
BARE = """
import sys

sys.modules.update(dict.fromkeys(("matplotlib", "typer", "rich", "sklearn", "scipy", "PIL", "jinja2")))
from codebound_papers.reproduce.__main__ import main

raise SystemExit(main([*sys.argv[2:], "--tiny", "--device", "cpu", "--out", sys.argv[1]]))
"""


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


@pytest.mark.thorough
def test_parts_are_computed_without_what_only_pages_need(tmp_path, monkeypatch, tiny_networks):
    """With PyTorch, numpy and safetensors alone; elsewhere nothing but tables and figures is left to do."""
    folder, command = tmp_path / "parts", [sys.executable, "-c", BARE]
    arguments = [*command, folder, *ONE_OF_EACH_KIND]
    computed = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert computed.returncode == 0, computed.stderr
    assert {path.name for path in folder.iterdir()} == {
        f"{ITEMS[id].stem}.cells.json" for id in ONE_OF_EACH_KIND
    }

    def refuse(*_: object) -> None:
        raise AssertionError("a finished part was computed again")

    monkeypatch.setattr(Journal, "_save", refuse)
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "empty"))
    for id in ONE_OF_EACH_KIND:
        record = reproduce(id, folder, Settings(size="tiny")).record
        assert sum(machine["cells"] for machine in record["machines"]) > 0
        assert all((folder / figure).is_file() for figure in record["figures"])
    assert not (tmp_path / "empty").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("S-Fig9",), "nothing is called 'S-Fig9'"),
        (("sketch:phase", "--epochs", "0"), "at least one epoch"),
        (("sketch:phase", "--device", "abacus"), "unknown device"),
        (("sketch:phase", "--models", "nowhere"), "nowhere does not exist"),
    ],
)
def test_the_bare_command_refuses_in_words(tmp_path, capsys, arguments, message):
    assert main([*arguments, "--tiny", "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


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


def test_items_are_found_by_name_by_paper_and_all_at_once_trainings_first():
    assert [item.id for item in find_items(["G-Exp2", "G-Tab1"])] == ["G-Tab1", "G-Exp2"]
    assert {item.id for item in find_items(["G"])} == {id for id in ITEMS if id.startswith("G-")}
    assert [item.id for item in find_items(["sketch"])] == ["sketch:phase"]
    every = find_items(["all", "S"])
    assert {item.id for item in every} == set(ITEMS)
    first = [item.trains for item in every]
    assert first == sorted(first, reverse=True)
    with pytest.raises(UsageError, match="nothing is called 'Q'"):
        find_items(["G", "Q"])


def test_after_the_deadline_no_part_is_begun(squares, tmp_path, capsys):
    arguments = [squares, "S-Fig1", "--tiny", "--out", str(tmp_path)]
    assert main([*arguments, "--deadline", "0"]) == 0
    out = capsys.readouterr().out
    assert "test:squares: the deadline has passed before the part '2' was begun. The same command" in out
    assert out.endswith("Left, for the same command: S-Fig1 test:squares\n")
    assert list(tmp_path.iterdir()) == []
    assert main(arguments) == 0
    assert "Left" not in capsys.readouterr().out
    assert main([*arguments, "--deadline", "0"]) == 0
    assert capsys.readouterr().out == (
        "S-Fig1: every part is finished.\ntest:squares: every part is finished.\n"
    )


def test_a_table_of_networks_has_the_finished_ones_and_names_the_others(squares, tmp_path, capsys):
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
    arguments = [squares, "--tiny", "--device", "cpu", "--out", str(tmp_path)]
    assert main([*arguments, "--deadline", "0"]) == 0
    assert capsys.readouterr().out == (
        "test:squares: the deadline has passed before row 2.\nLeft, for the same command: test:squares\n"
    )
    assert main(arguments) == 0
    assert capsys.readouterr().out == "test:squares: every part is finished.\n"


def test_the_commands_in_the_record_name_the_gpu(squares, tmp_path):
    record = reproduce(squares, tmp_path, Settings(size="full", epochs=3, device="cpu")).record
    options = "test:squares --full --seed 0 --epochs 3"
    assert record["command"] == f"codebound reproduce {options}"
    assert record["parts_command"] == f"python -m codebound_papers.reproduce {options} --out DIR"
    assert record["not_run"] == []
    path = tmp_path / "test-squares.cells.json"
    path.write_text(path.read_text().replace('"device": "cpu"', '"device": "cuda:0 (a GPU)"'))
    record = reproduce(squares, tmp_path, Settings(size="full", epochs=3, device="cpu")).record
    assert record["command"] == f"codebound reproduce {options} --device cuda"
    assert (
        record["parts_command"] == f"python -m codebound_papers.reproduce {options} --device cuda --out DIR"
    )


def test_an_item_that_fails_does_not_keep_others_from_being_made(squares, tmp_path, monkeypatch, capsys):
    def fails(settings):
        raise ModelError("the loss became nan in step 3 of epoch 1.")

    monkeypatch.setitem(ITEMS, "S-Fig1", replace(ITEMS["S-Fig1"], run=fails))
    assert main(["S-Fig1", squares, "--tiny", "--out", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert err.startswith("Error: S-Fig1: the loss became nan")
    assert out == "test:squares: every part is finished.\n"


def test_a_folder_that_cannot_be_written_is_refused_at_once(squares, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        reproduce(squares, tmp_path / "file" / "folder", Settings())
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(UsageError, match="cannot be written"):
        reproduce(squares, tmp_path, Settings())

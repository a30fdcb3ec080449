"""``codebound reproduce`` as a user runs it: list, table, JSON, CSV, files, interruption, refusals."""

import csv
import json
from dataclasses import replace
from functools import partial

import pytest

from codebound_papers.guha23.items import comparisons as guha_table2
from codebound_papers.guha23.items import guha_networks as guha_trained
from codebound_papers.guha23.items import phase as sketch_phase
from codebound_papers.guha23.items.guha_networks import network_settings, parts_of


@pytest.fixture
def command(monkeypatch, codebound, empty_folder):
    """Runs the command in an empty folder, quick being a part of tiny, and with an empty cache."""
    monkeypatch.setenv("CODEBOUND_CACHE", str(empty_folder / "cache"))
    tiny = sketch_phase._SIZES["tiny"]
    monkeypatch.setitem(sketch_phase._SIZES, "quick", replace(tiny, lines=(1,), factors=tiny.factors[:3]))
    return partial(codebound, "reproduce")


@pytest.mark.thorough
def test_the_list_names_costs_and_committed_results(command, tmp_path):
    code, out, _ = command("list", "--format", "json")
    assert code == 0
    row = next(row for row in json.loads(out) if row["item"] == "sketch:phase")
    assert "minutes" in row["quick"]
    assert "hour on a GPU" in row["full"]
    assert row["quick results"].endswith("s of one core")  # in an empty folder: they come with the package
    assert "on cuda" in row["full results"]
    code, out, _ = command("list")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    known = [row["item"] for row in json.loads(command("list", "--format", "json")[1])]
    assert [line.split()[0] for line in lines[: len(known)]] == known
    assert "S-Fig3           Open            Stable rank of last layers" in out


def test_the_list_says_what_cannot_be_had(command, monkeypatch):
    monkeypatch.delenv("CODEBOUND_MODELS", raising=False)
    rows = {row["item"]: row for row in json.loads(command("list", "--format", "json")[1])}
    assert "6 networks: test_32x32.mat of SVHN is not in" in rows["S-Tab1"]["not here"]
    assert "2 networks: no folder of pretrained networks was given" in rows["S-Fig3"]["not here"]
    assert rows["S-Fig1"]["not here"] == "-"


@pytest.mark.thorough
def test_a_run_prints_rows_and_sentences_and_writes_files(command, tmp_path):
    code, out, err = command("sketch:phase", "--device", "cpu")
    assert code == 0
    assert "Smallest side m" in out
    assert "G-E19" in out
    assert "Deviations from the published settings:" in out
    assert "theorem 5.1" in err
    folder = tmp_path / "runs/reproduce/sketch-phase-quick-0"
    assert {path.name for path in folder.iterdir()} == {
        "sketch-phase.cells.json",
        "sketch-phase.json",
        "sketch-phase.svg",
    }
    record = json.loads((folder / "sketch-phase.json").read_text())
    assert record["command"] == "codebound reproduce sketch:phase --quick --seed 0"
    assert command("sketch:phase", "--device", "cpu", "--format", "json", "-q") == (
        0,
        json.dumps(record, indent=2) + "\n",
        "",
    )
    code, out, _ = command("sketch:phase", "--device", "cpu", "--format", "csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert len(rows) == sum(len(table) for table in record["tables"].values())
    assert {row["table"] for row in rows} == set(record["tables"])


@pytest.mark.thorough
def test_an_interrupted_run_says_how_to_continue(command, monkeypatch):
    def interrupt(cases, iterations):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(sketch_phase._DECODERS, sketch_phase.HYBRID, interrupt)
        code, out, err = command("sketch:phase", "--out", "o", "--device", "cpu")
    assert code == 130
    assert out == ""
    assert "kept in o: the same command continues" in err
    assert command("sketch:phase", "--out", "o", "--device", "cpu")[0] == 0


def test_with_no_time_left_it_shows_what_is_finished(command, tmp_path, monkeypatch):
    monkeypatch.setattr(guha_table2, "network_settings", lambda data, size: network_settings(data, "tiny"))
    monkeypatch.setattr(guha_trained, "parts_of", lambda wanted, size: parts_of(wanted, size="tiny"))
    code, _, err = command("G-Tab2", "--deadline", "0", "--device", "cpu")
    assert code == 1
    assert "the deadline has passed before the part 'SGD (code), width 12' was begun" in err
    assert command("G-Tab2", "--device", "cpu")[0] == 0
    path = tmp_path / "runs/reproduce/G-Tab2-quick-0/G-Tab2.cells.json"
    kept = json.loads(path.read_text())
    del kept["cells"]["Adam (text), width 12"]
    path.write_text(json.dumps(kept))
    code, out, _ = command("G-Tab2", "--deadline", "0", "--device", "cpu")
    assert code == 0
    assert "Not run, for want of time: Adam (text), width 12." in out
    assert "positive in no network, for none was run" in out
    assert path.with_name("G-Tab2.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sketch:fase",), "nothing is called 'sketch:fase' here. Known:"),
        (("sketch:phase", "--device", "abacus"), "unknown device 'abacus'"),
        (("sketch:phase", "--out", "file"), "the folder file cannot be made"),
    ],
)
def test_what_cannot_be_done_is_a_usage_error(command, tmp_path, arguments, message):
    (tmp_path / "file").write_text("")
    code, _, err = command(*arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err

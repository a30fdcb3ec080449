"""Parts computed on one machine and shown on another, options, and what every item has."""

import json
import subprocess
import sys

import pytest

from codebound.errors import UsageError
from codebound.reproduce import ITEMS, Cells, Reproduction, Settings, item, reproduce
from codebound.reproduce.__main__ import main
from codebound.reproduce.item import nothing

BARE = """
import sys

sys.modules.update(dict.fromkeys(("matplotlib", "typer", "rich", "sklearn", "scipy", "PIL", "jinja2")))
from codebound.reproduce.__main__ import main

folder, *items = sys.argv[1:]
raise SystemExit(max(main([item, "--tiny", "--device", "cpu", "--out", folder]) for item in items))
"""


@pytest.fixture
def squares(monkeypatch):
    """An item of two parts."""

    def run(settings: Settings) -> Reproduction:
        """About squares."""
        rows = [settings.cells.get(f"{n}", lambda n=n: {"n": n, "square": n * n}) for n in (2, 3)]
        return Reproduction(tables={"Squares": rows}, sentences=["We agree."], deviations=["None."])

    monkeypatch.delitem(ITEMS, "test:squares", raising=False)
    item("test:squares", title="Squares", quick="nothing", full="nothing")(run)
    yield "test:squares"
    del ITEMS["test:squares"]


def test_parts_are_computed_without_what_only_pages_need(tmp_path, monkeypatch):
    """With PyTorch, numpy and safetensors alone; elsewhere nothing but tables and figures is left to do."""
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "cache"))
    folder, command = tmp_path / "parts", [sys.executable, "-c", BARE]
    computed = subprocess.run([*command, folder, *ITEMS], capture_output=True, text=True, check=False)
    assert computed.returncode == 0, computed.stderr
    assert {path.name for path in folder.iterdir()} == {f"{item.stem}.cells.json" for item in ITEMS.values()}

    def refuse(*_: object) -> None:
        raise AssertionError("a finished part was computed again")

    monkeypatch.setattr(Cells, "_save", refuse)
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "empty"))
    for id in ITEMS:
        record = reproduce(id, folder, size="tiny").record
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
    reproduce(squares, tmp_path)
    path = tmp_path / "test-squares.cells.json"
    kept = json.loads(path.read_text())
    kept["cells"]["2"]["machine"]["device"] = "cuda:0 (a GPU)"
    path.write_text(json.dumps(kept))
    record = reproduce(squares, tmp_path, device="cpu").record
    assert [(machine["device"], machine["cells"]) for machine in record["machines"]] == [
        ("cuda:0 (a GPU)", 1),
        ("cpu", 1),
    ]
    assert {"codebound", "python", "torch", "numpy", "threads"} < set(record["machines"][0])


def test_fewer_epochs_are_another_run_and_a_printed_deviation(squares, tmp_path):
    record = reproduce(squares, tmp_path, epochs=3).record
    assert record["command"] == "codebound reproduce test:squares --quick --seed 0 --epochs 3"
    assert record["deviations"] == ["No network was trained for more than 3 epochs (--epochs).", "None."]
    with pytest.raises(UsageError, match="another run"):
        reproduce(squares, tmp_path)


def test_the_folder_of_pretrained_networks_comes_from_the_environment(squares, tmp_path, monkeypatch):
    seen = []
    lacks = lambda settings: seen.append(settings.models) or ()  # noqa: E731
    item(squares, title="Squares", quick="", full="")(
        lambda settings: Reproduction(tables={}, sentences=[*lacks(settings)])
    )
    reproduce(squares, tmp_path)
    monkeypatch.setenv("CODEBOUND_MODELS", str(tmp_path))
    reproduce(squares, tmp_path)
    assert seen == [None, tmp_path]
    monkeypatch.setenv("CODEBOUND_MODELS", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="nowhere does not exist"):
        reproduce(squares, tmp_path)


def test_every_item_says_what_it_is_and_costs():
    for id, entry in ITEMS.items():
        assert entry.id == id
        assert all((entry.title, entry.quick, entry.full, entry.about)), id
        assert entry.lacks is nothing or all(": " in reason for reason in entry.lacks(Settings())), id

"""What every item of ``codebound reproduce`` keeps to, by one run of its smallest size."""

import json
import math
import re
import xml.etree.ElementTree as ET

import pytest

from codebound.run.errors import UsageError
from codebound_papers.guha23.items import phase
from codebound_papers.reproduce.items import Settings, list_items
from codebound_papers.reproduce.run import find_item, reproduce

ITEMS = list_items()
ALL = pytest.mark.parametrize("id", ITEMS)
REQUIRED = {
    *("G-Exp1a", "G-Exp1b", "G-Exp1c", "G-Exp2", "G-Tab1", "G-Tab2", "G-ExpX1", "G-ExpX2"),
    *("A-Fig1", "A-Fig2L", "A-Fig2M", "A-Fig2R", "A-Tab1", *(f"A-FigA{n}" for n in range(1, 8))),
    *("S-Fig1", "S-Fig2", "S-Fig3", "S-Tab1", "sketch:phase"),
    *("G-ExpX1:cifar10", "G-ExpX2:cifar10", "G-Asm3.1:trained", "S-Pow:layers", "S-5.3:synthetic"),
}
ONE_OF_EACH_KIND = pytest.mark.parametrize("id", ["A-Fig2R", "G-Tab2", "S-Fig3", "sketch:phase"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_networks):
    """Runs an item in its smallest size, once for all tests."""
    done = {}

    def run(id):
        if id not in done:
            done[id] = reproduce(
                id, tmp_path_factory.mktemp("reproduce"), Settings(size="tiny", device="cpu")
            )
        return done[id]

    return run


def numbers(value):
    """All numbers in nested rows."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for each in value for number in numbers(each)]
    return [value] if isinstance(value, float) else []


def test_every_table_and_figure_is_there():
    assert set(ITEMS) == REQUIRED


@ALL
def test_it_says_what_it_is_and_what_it_costs(id):
    item = find_item(id)
    assert item.id == id
    assert re.fullmatch(r"[AGS]-[A-Za-z0-9]+(\.\d+)?(:[a-z0-9-]+)?|sketch:[a-z-]+", id)
    assert len(item.title) > 10
    assert len(item.about) > 100
    for cost in (item.quick, item.full):
        assert re.search(r"second|minute|hour", cost)
    assert all(": " in reason for reason in item.lacks(Settings()))


@pytest.mark.thorough
@ALL
def test_what_it_finds_is_plain_regular_and_written(id, finished):
    done = finished(id)
    found, item = done.reproduction, find_item(id)
    for title, rows in {**found.tables, **found.points}.items():
        assert rows, title
        assert all(list(row) == list(rows[0]) for row in rows), title
        assert all(isinstance(v, str | int | float | None) for row in rows for v in row.values()), title
    assert found.tables
    assert found.sentences
    assert all(text.endswith(".") for text in (*found.sentences, *found.deviations))

    (json_path,) = (path for path in done.files if path.suffix == ".json")
    record = json.loads(json_path.read_text())
    assert json_path.stem == item.stem
    assert record == json.loads(json.dumps(done.record))
    assert record["about"] == item.about
    assert record["command"] == f"codebound reproduce {id} --tiny --seed 0"
    assert sum(machine["cells"] for machine in record["machines"]) > 0
    assert all(map(math.isfinite, numbers(record)))
    assert record["figures"] == [f"{stem}.svg" for stem in found.figures]
    for name in record["figures"]:
        assert name.startswith(item.stem)
        assert ET.fromstring(json_path.with_name(name).read_text()).tag == "{http://www.w3.org/2000/svg}svg"

    with pytest.raises(UsageError, match="another run"):
        reproduce(id, json_path.parent, Settings(size="tiny", seed=1, device="cpu"))


@pytest.mark.thorough
@ONE_OF_EACH_KIND
def test_the_same_seed_finds_the_same(id, finished, tmp_path, monkeypatch):
    before = finished(id)
    monkeypatch.setattr(phase, "cache_folder", lambda: tmp_path / "data")  # else it only reads its parts
    again = reproduce(id, tmp_path, Settings(size="tiny", device="cpu"))
    assert again.reproduction == before.reproduction


def test_an_unknown_item_is_answered_with_the_known_ones():
    with pytest.raises(UsageError, match=r"'sketch:fase'.*sketch:phase"):
        find_item("sketch:fase")

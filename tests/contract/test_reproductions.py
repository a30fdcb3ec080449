"""What every item of ``codebound reproduce`` keeps to."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

from codebound.errors import UsageError
from codebound.reproduce import ITEMS, find_item, reproduce

ALL = pytest.mark.parametrize("id", ITEMS)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Runs an item in its smallest size, once for all tests."""
    done = {}

    def run(id):
        if id not in done:
            done[id] = reproduce(id, tmp_path_factory.mktemp("reproduce"), size="tiny", device="cpu")
        return done[id]

    return run


@ALL
def test_it_says_what_it_is_and_what_it_costs(id):
    item = find_item(id)
    assert item.id == id
    assert re.fullmatch(r"[a-z0-9]+:[a-z0-9-]+", id)
    assert len(item.title) > 10
    for cost in (item.quick, item.full):
        assert re.search(r"second|minute|hour", cost)


@ALL
def test_rows_are_plain_and_regular(id, finished):
    found = finished(id).reproduction
    for title, rows in {**found.tables, **found.points}.items():
        assert rows, title
        assert all(list(row) == list(rows[0]) for row in rows), title
        for row in rows:
            assert all(isinstance(value, str | int | float | None) for value in row.values()), title
    assert found.tables
    assert found.sentences
    assert all(text.endswith(".") for text in (*found.sentences, *found.deviations))


@ALL
def test_files_hold_what_was_found(id, finished):
    done = finished(id)
    json_path = next(path for path in done.files if path.suffix == ".json")
    record = json.loads(json_path.read_text())
    assert json_path.stem == find_item(id).stem
    assert record == json.loads(json.dumps(done.record))
    assert record.keys() >= {"command", "seed", "seconds", "codebound", "torch", "python", "sentences"}
    for stem, svg in done.reproduction.figures.items():
        assert stem.startswith(find_item(id).stem)
        assert (json_path.with_name(f"{stem}.svg")).read_text() == svg
        assert ET.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"


@ALL
def test_the_same_seed_finds_the_same(id, finished, tmp_path):
    again = reproduce(id, tmp_path, size="tiny", device="cpu")
    assert again.reproduction == finished(id).reproduction


@ALL
def test_another_seed_is_not_mixed_in(id, finished):
    folder = finished(id).files[0].parent
    with pytest.raises(UsageError, match="another run"):
        reproduce(id, folder, size="tiny", seed=1, device="cpu")


def test_an_unknown_item_is_answered_with_the_known_ones():
    with pytest.raises(UsageError, match=r"'sketch:fase'.*sketch:phase"):
        find_item("sketch:fase")

"""docs/references.md and the code name the same statements, functions and tests, in both directions."""

import importlib
import pkgutil
from pathlib import Path

import pytest

import codebound
from codebound.refs import REGISTRY, implements

ROOT = Path(__file__).parents[1]


def rows() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = {}
    for line in (ROOT / "docs/references.md").read_text().splitlines():
        if line.startswith("| ") and not line.startswith("| ID "):
            ref, statement, function, test, status = (cell.strip() for cell in line.strip("|").split("|"))
            assert ref not in table, f"{ref} has two rows"
            table[ref] = {
                "statement": statement,
                "function": function.strip("`"),
                "test": test.strip("`"),
                "status": status,
            }
    return table


@pytest.fixture(scope="module")
def registry():
    for module in pkgutil.walk_packages(codebound.__path__, "codebound."):
        importlib.import_module(module.name)
    return REGISTRY


def test_every_registered_function_has_its_row(registry):
    table = rows()
    missing = {ref: entry.path for ref, entry in registry.items() if ref not in table}
    assert not missing
    wrong = {r: e.path for r, e in registry.items() if table[r]["function"] != e.path}
    assert not wrong


def test_every_row_with_a_function_is_registered(registry):
    unknown = [ref for ref, row in rows().items() if row["function"] and ref not in registry]
    assert not unknown


def test_every_row_names_a_test_that_uses_the_function():
    for ref, row in rows().items():
        if row["status"] == "rule":
            assert not row["function"], f"{ref}: a rule has no function"
            continue
        path = ROOT / row["test"]
        assert path.is_file(), f"{ref}: {row['test']} does not exist"
        name = row["function"].rsplit(".", 1)[1]
        assert name in path.read_text() or name == "occam_assumptions", (
            f"{ref}: {row['test']} never uses {name}"
        )


def test_every_row_has_a_statement_and_a_known_status():
    for ref, row in rows().items():
        assert row["statement"], ref
        assert row["status"] in {"certified", "corrected", "as published", "rule"}, ref


def test_certificates_are_never_called_published(registry):
    for ref, entry in registry.items():
        if entry.kind == "published-form":
            assert rows()[ref]["status"] == "as published"


def test_an_id_belongs_to_one_function():
    @implements("test:only-once", kind="numerics")
    def first() -> None: ...

    try:
        with pytest.raises(ValueError, match="already implemented"):

            @implements("test:only-once", kind="numerics")
            def second() -> None: ...
    finally:
        del REGISTRY["test:only-once"]

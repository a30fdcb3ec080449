"""docs/references.md and the code name the same statements, functions and tests, in both directions."""

import importlib
import pkgutil
import re
from collections import Counter
from pathlib import Path

import pytest

import codebound
import codebound_papers
from codebound.run.references import REGISTRY, implements
from codebound_papers.reproduce.items import list_items

ROOT = Path(__file__).parents[1]
STATUSES = {"certified", "corrected", "as published", "diagnostic", "rule", "experiment"}

# fmt: off
INVENTORY = (
    "G-DefR", "G-DefRhat", "G-Def3.1", "G-Thm3.1", "G-Asm3.1", "G-Alg1", "G-chi", "G-Lem4.1", "G-LemB.1",
    "G-Lem4.2", "G-LemB.2", "G-LemB.2x", "G-Lem4.3", "G-LemB.3", "G-Disc", "G-Lem4.4", "G-ConC.1", "G-LemC.1",
    "G-LemC.2", "G-LemC.3", "G-LemC.4", "G-ThmD.1", "G-LemD.1", "G-LemD.2", "G-LemD.3", "G-Sk", "G-Def5.1",
    "G-DefE.1", "G-Thm5.1", "G-Rem5.1", "G-LemE.1", "G-Lem5.1", "G-Thm5.2", "G-Thm6.1", "G-Thm6.2",
    "G-Exp1a", "G-Exp1b", "G-Exp1c", "G-Exp2", "G-Tab1", "G-Tab2", "G-ExpX1", "G-ExpX2",
    "A-Def1", "A-Def2", "A-Thm2.1", "A-CorA.1", "A-Remarks", "A-Alg2", "A-Lem4", "A-Lem5", "A-Lem6", "A-Alg3",
    "A-Lem7", "A-Lem8", "A-Lem1", "A-Lem9", "A-Thm2.2", "A-Def3", "A-Prop3.1", "A-Def4", "A-Def5", "A-Def6",
    "A-Def7", "A-Def8", "A-Def9", "A-Def10", "A-CondB.1", "A-Alg1", "A-Lem2", "A-Lem3", "A-Lem10", "A-Thm4.1",
    "A-X4.1", "A-Imp-i", "A-Imp-ii", "A-Alg4", "A-Lem11", "A-Lem12", "A-Lem13", "A-Lem14", "A-Thm5.1",
    "A-CorC.1", "A-Def11", "A-Lem15", "A-Claim1", "A-CorC.2",
    "A-Fig1", "A-Fig2L", "A-Fig2M", "A-Fig2R", "A-Tab1",
    "A-FigA1", "A-FigA2", "A-FigA3", "A-FigA4", "A-FigA5", "A-FigA6", "A-FigA7",
    "S-Thm1", "S-Pow", "S-Stable", "S-Split", "S-Prop1.1", "S-Prop1.1x", "S-Prop1.2", "S-Alg1", "S-Thm2",
    "S-Lem2.1", "S-Lem2.2", "S-Lem2.3", "S-Lem2.4", "S-5.1", "S-5.2", "S-5.3", "S-EM", "S-AppD", "S-AppE",
    "S-Fig1", "S-Fig2", "S-Fig3", "S-Tab1",
    "C-Lem-margin", "C-1", "C-2", "C-3", "C-4", "C-5", "C-5a", "C-5b", "C-5c", "C-6", "C-7", "C-8", "C-9",
    "C-10", "C-11", "C-12a", "C-12b", "C-12c", "C-12d", "C-13", "C-14", "C-15", "C-16", "C-17", "C-18",
    "C-19", "C-20", "C-21",
    "K-HDR", "K-DN", "K-NV", "K-NVa", "K-CB", "K-SK", "K-LT", "K-MP", "K-MP0", "K-MPC", "K-LR", "K-V1",
    "K-V3", "K-HT", "K-B", "K-MIN",
    *(f"I-{number:02}" for number in range(1, 37)),
)
"""What the page answers for. Anything else is a form of one of these, as in ``C-4:fast-rate``."""
# fmt: on


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
    for package in (codebound, codebound_papers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    return REGISTRY


def test_every_registered_function_has_its_row(registry):
    table = rows()
    missing = {ref: entry.path for ref, entry in registry.items() if ref not in table}
    assert not missing
    wrong = {r: e.path for r, e in registry.items() if table[r]["function"] != e.path}
    assert not wrong


def test_every_row_with_a_function_is_registered(registry):
    """With its ID, or for an experiment as an item of ``codebound reproduce``."""
    items = {f"{item.run.__module__}.{item.run.__qualname__}" for item in list_items().values()}
    for ref, row in rows().items():
        if row["status"] == "experiment":
            assert row["function"] in items, f"{ref}: {row['function']} is no item"
        elif row["function"]:
            assert ref in registry, f"{ref} is not registered"


def test_every_id_of_the_inventory_has_its_row():
    table = rows()
    assert len(set(INVENTORY)) == len(INVENTORY)
    assert not [ref for ref in INVENTORY if ref not in table]


def test_every_row_belongs_to_the_inventory_or_to_an_erratum():
    foreign = [ref for ref in rows() if ref.split(":")[0] not in INVENTORY]
    assert all(re.fullmatch(r"[GAS]-E\d+(:.+)?", ref) for ref in foreign), foreign


def test_every_row_names_a_test_that_uses_the_function():
    for ref, row in rows().items():
        if row["status"] == "rule":
            assert not row["function"], f"{ref}: a rule has no function"
            continue
        path = ROOT / row["test"]
        assert path.is_file(), f"{ref}: {row['test']} does not exist"
        name = row["function"].rsplit(".", 1)[1]
        assert name in path.read_text(), f"{ref}: {row['test']} never uses {name}"


def test_every_row_has_a_statement_and_a_known_status():
    for ref, row in rows().items():
        assert row["statement"], ref
        assert row["status"] in STATUSES, ref


def test_certificates_are_never_called_published(registry):
    for ref, entry in registry.items():
        if entry.kind == "published-form":
            assert rows()[ref]["status"] in {"as published", "diagnostic"}, ref


def test_an_id_belongs_to_one_function():
    @implements("test:only-once", kind="numerics")
    def first() -> None: ...

    try:
        with pytest.raises(ValueError, match="already implemented"):

            @implements("test:only-once", kind="numerics")
            def second() -> None: ...
    finally:
        del REGISTRY["test:only-once"]


def test_every_item_of_the_papers_is_where_its_page_says():
    text = (ROOT / "results/paper_items.md").read_text("utf-8")
    items = re.findall(r"^\| ([GAS]\d+) \| ([^|]+) \| (Y|Y\*|P|-) \| (\S+) \| (\S+) \|$", text, re.M)
    ids = [f"{paper}{n}" for paper, most in (("G", 31), ("A", 26), ("S", 20)) for n in range(1, most + 1)]
    assert [id for id, *_ in items] == ids
    states = Counter(state for _, _, state, _, _ in items)
    whole, parts, judged = states["Y"] + states["Y*"], states["P"], states["Y*"]
    assert (judged, states["-"]) == (3, 1)
    assert f"Of {len(ids)} items {whole} are here whole (Y), {parts} in part (P), one not at all" in text
    for id, _, state, function, test in items:
        if state != "-":
            module, name = function.strip("`").rsplit(".", 1)
            assert callable(getattr(importlib.import_module(module), name)), id
            assert name in (ROOT / test.strip("`")).read_text("utf-8"), id
        if state != "Y":
            assert re.search(rf"\b{id}\b", text.partition("| item |")[0]), f"{id} does not say why"

"""docs/errata.md lists every erratum once and in order, and its functions and demonstrations exist."""

import ast
import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
IDS = tuple(f"{paper}-E{i}" for paper, last in (("G", 30), ("A", 28), ("S", 26)) for i in range(1, last + 1))
FIELDS = ("Printed", "True", "Severity", "codebound", "Demonstration")
SEVERITIES = {
    "invalid statement",
    "wrong probability or constant",
    "loose",
    "notation",
    "reproducibility",
    "ambiguous",
    "remark",
}
NO_DEMONSTRATION = {"no demonstration: a reading": {"A-E28"}}  # of a text that is not there
MENTION = re.compile(r"\b[GAS]-E\d+\b")


def entries() -> list[tuple[str, list[tuple[str, str]]]]:
    """ID and fields of every entry, in the order of the page."""
    _, *sections = re.split(r"^### ", (ROOT / "docs/errata.md").read_text(), flags=re.MULTILINE)
    return [
        (section.split(":", 1)[0], re.findall(r"^- \*\*(\w+):?\*\*:? (.+)$", section, flags=re.MULTILINE))
        for section in sections
    ]


ENTRIES = {ref: dict(fields) for ref, fields in entries()}
each_entry = pytest.mark.parametrize("ref", ENTRIES)


@cache
def functions(path: str) -> dict[str, str]:
    """Source of every function of a test file, by its name."""
    source = (ROOT / path).read_text()
    return {
        node.name: ast.get_source_segment(source, node) or ""
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
    }


def mentions(text: str, ref: str) -> bool:
    """Whether a test names the erratum, as ``G-E1`` or as the ``g_e1`` of its own name."""
    return bool(re.search(rf"(?<![a-zA-Z]){ref.replace('-', '[-_]')}(?!\d)", text, flags=re.IGNORECASE))


def test_every_erratum_is_listed_once_and_in_order():
    assert tuple(ref for ref, _ in entries()) == IDS


@each_entry
def test_every_entry_has_its_fields(ref):
    assert tuple(name for name, _ in dict(entries())[ref]) == FIELDS
    assert re.match(r"\(.+\): .", ENTRIES[ref]["Printed"])  # where it stands, and what
    assert set(ENTRIES[ref]["Severity"].split(".")[0].split("; ")) <= SEVERITIES


@each_entry
def test_every_demonstration_exists_and_names_its_erratum(ref):
    named = ENTRIES[ref]["Demonstration"]
    if named in NO_DEMONSTRATION:
        assert ref in NO_DEMONSTRATION[named]
        return
    for test in named.split(", "):
        path, name = test.strip("`").split("::")
        assert name.startswith("test_"), test
        assert name in functions(path), f"{test} does not exist"
        assert mentions(functions(path)[name], ref), f"{test} does not mention {ref}"


def test_a_mention_is_of_that_very_erratum():
    assert mentions("def test_g_e1_x(): ...", "G-E1")
    assert mentions('"""G-E1: text."""', "G-E1")
    assert not mentions("def test_g_e10_x(): ...", "G-E1")
    assert not mentions("def test_wrong_e1(): ...", "G-E1")


@each_entry
def test_every_function_that_an_entry_names_exists(ref):
    for path in re.findall(r"`(codebound\.[\w.]+)`", ENTRIES[ref]["codebound"]):
        pkgutil.resolve_name(path)


def test_every_demonstration_of_the_folder_is_on_the_page():
    named = {test.strip("`") for entry in ENTRIES.values() for test in entry["Demonstration"].split(", ")}
    for file in sorted((ROOT / "tests/errata").glob("test_*.py")):
        path = str(file.relative_to(ROOT))
        tests = {f"{path}::{name}" for name in functions(path) if re.match(r"test_[gas]_e\d", name)}
        assert tests <= named


@pytest.mark.thorough
def test_every_erratum_that_code_or_pages_name_is_on_the_page():
    """Those of ``@implements`` and of ``PublishedValue.errata`` among them."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    unknown = {
        f"{path.relative_to(ROOT)}: {ref}"
        for path in files
        for ref in MENTION.findall(path.read_text())
        if ref not in IDS
    }
    assert not unknown

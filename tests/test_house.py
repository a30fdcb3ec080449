"""Promises about the structure of the three packages: what a newcomer may rely on without reading."""

import ast
import importlib
import re
from pathlib import Path

import pytest
from worlds.commands import python

SOURCES = Path(__file__).parents[1] / "src"
PACKAGES = ("codebound", "codebound_papers", "codebound_verify")
MODULES = sorted(path for package in PACKAGES for path in (SOURCES / package).rglob("*.py"))
LAZY = ("codebound_papers.measure", "codebound_papers.compress", "codebound_papers.guha23.sketch")
LARGEST_IMPORT = 100
"""Modules of ours that a certificate may load: what nobody needs is not read, and not in the way."""
MOST_LINES = 500


def named(path: Path) -> str:
    return path.relative_to(SOURCES).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_no_module_is_named_like_what_it_defines():
    """Else the function hides its module wherever a package exports it. A verb has the file of its name."""
    found = [
        named(path)
        for path in MODULES
        if path.parent.name != "cli"
        and re.search(rf"^(def|class) {path.stem}\b", path.read_text("utf-8"), flags=re.M)
    ]
    assert not found


def test_no_module_is_longer_than_one_reads_at_once():
    assert not [named(path) for path in MODULES if path.read_text("utf-8").count("\n") > MOST_LINES]


@pytest.mark.parametrize("package", ["codebound", *LAZY])
def test_no_public_name_hides_a_module(package):
    exported = importlib.import_module(package).__all__
    modules = {path.stem for path in (SOURCES / package.replace(".", "/")).iterdir()}
    assert not modules.intersection(exported)


def test_packages_import_nothing_but_their_table_of_contents():
    """Whoever needs one module of a package loads that module alone."""
    for path in MODULES:
        if path.name != "__init__.py":
            continue
        imported = {
            each.module if isinstance(each, ast.ImportFrom) else each.names[0].name
            for each in tree(path).body
            if isinstance(each, ast.Import | ast.ImportFrom)
        }
        assert imported <= {"__future__", "typing", "codebound_papers.contents"}, named(path)


def test_a_certificate_loads_few_modules_and_none_of_the_papers():
    code = "import sys, codebound.certification; print(*sys.modules)"
    ours = [name for name in python(code).split() if name.split(".")[0] in PACKAGES]
    assert "codebound.certificate.decoding" in ours  # so that whoever decodes loads no more
    assert len(ours) <= LARGEST_IMPORT
    assert not [name for name in ours if name.startswith("codebound_papers")]


def test_the_product_never_names_the_papers():
    """It finds them by their entry point; only the message that nothing is installed says their name."""
    naming = {
        named(path)
        for path in MODULES
        if named(path).startswith("codebound/") and "codebound_papers" in path.read_text("utf-8")
        for each in ast.walk(tree(path))
        if isinstance(each, ast.Constant) and "codebound_papers" in str(each.value)
    }
    assert naming <= {"codebound/extensions.py"}

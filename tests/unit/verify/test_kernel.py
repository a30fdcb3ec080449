"""What the second program promises its readers: which modules there are, and which need which."""

import ast
import re
from pathlib import Path

import cbound_writer as writer
import numpy as np
import pytest
from worlds.commands import python

import codebound_verify

ROOT = Path(codebound_verify.__file__).parent
PACKAGES = sorted(path.parent for path in ROOT.rglob("*/__init__.py"))
MOST_LINES = 5_680
"""Of the kernel: what can be read in one sitting. It was 7,600 before everything else moved out."""


def read(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def order(folder: Path) -> list[str]:
    """The modules of a package as its docstring names them."""
    modules = {path.stem for path in folder.glob("*.py")}
    named = re.findall(r"``(\w+)``", ast.get_docstring(read(folder / "__init__.py")))
    return [name for name in named if name in modules]


def needed(path: Path) -> set[str]:
    """What a module imports from this program as it is loaded, relative to the program."""
    found = set()
    for node in read(path).body:  # not what stands in functions, nor what type checkers alone see
        if isinstance(node, ast.ImportFrom) and node.level:
            package = path.parent.relative_to(ROOT).parts[: None if node.level == 1 else 1 - node.level]
            found.add(".".join((*package, node.module)))
    return found


@pytest.mark.parametrize("folder", [ROOT, *PACKAGES], ids=lambda folder: folder.name)
def test_docstrings_name_every_module_once_and_after_what_it_needs(folder):
    named, package = order(folder), ".".join(folder.relative_to(ROOT).parts)
    assert sorted([*named, "__init__"]) == sorted(path.stem for path in folder.glob("*.py"))
    full = [f"{package}.{name}".lstrip(".") for name in named]
    for at, name in enumerate(named):
        assert not needed(folder / f"{name}.py").intersection(full[at:]), f"{name} needs later ones"


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_every_package_says_when_it_is_reached(folder):
    assert "\nReached when " in ast.get_docstring(read(folder / "__init__.py"))
    assert f"``{folder.name}``" in ast.get_docstring(read(folder.parent / "__init__.py"))


def test_the_kernel_needs_no_package():
    kernel = {path.stem for path in ROOT.glob("*.py")}
    for path in ROOT.glob("*.py"):
        assert needed(path) <= kernel, path.name
    assert sum(path.read_text("utf-8").count("\n") for path in ROOT.glob("*.py")) <= MOST_LINES


WITHOUT = """
import sys, numpy as np
file, sample, *absent = sys.argv[1:]
for name in absent:
    sys.modules["codebound_verify." + name] = None
from codebound_verify import verify
with np.load(sample) as data:
    found = verify(file, data["x"], data["y"])
print(found.verdict, *found.reasons)
"""


def verdict_without(absent: list[str], message: writer.Message, folder: Path) -> str:
    """What a program says that lacks some packages."""
    x, y = writer.clusters(60)
    (folder / "c.cbound").write_bytes(
        writer.write(message, writer.header(message, x, y, errors=60, classes=3))
    )
    np.savez(folder / "sample.npz", x=x, y=y)
    return python(WITHOUT, folder / "c.cbound", folder / "sample.npz", *absent).strip()


def linear(weight: writer.Tensor) -> writer.Message:
    return writer.Message([["linear", 3, True]], {"0.weight": weight, "0.bias": writer.zero((3,))})


def test_a_certificate_is_checked_by_the_kernel_alone(tmp_path):
    absent = [".".join(folder.relative_to(ROOT).parts) for folder in PACKAGES]
    assert verdict_without(absent, linear(writer.dense(writer.WEIGHT, -3)), tmp_path) == "ACCEPT"


def test_the_papers_can_be_left_out(tmp_path):
    factors = writer.dense(np.eye(3, 2, dtype=int)), writer.dense(np.ones((2, 4), int))
    message = linear(writer.low_rank((3, 4), *factors))
    assert verdict_without([], message, tmp_path) == "ACCEPT"
    said = verdict_without(["networks.papers"], message, tmp_path)
    assert said == (
        "REFUSE Message: tensor mode 9 is one of the papers' compressors; "
        "codebound_verify.networks.papers, which reads it, is not installed."
    )
    assert verdict_without(["networks.papers"], linear(writer.dense(writer.WEIGHT, -3)), tmp_path) == "ACCEPT"

"""What the second program promises its readers: which modules there are, and which need which."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import cbound_writer as writer
import numpy as np
import pytest
from worlds.commands import python

import codebound_verify
from codebound.run.files import read_toml
from codebound_verify.rooms import ROOMS as TABLE
from codebound_verify.rooms import room

ROOT = Path(codebound_verify.__file__).parent
PACKAGES = sorted(path.parent for path in ROOT.rglob("*/__init__.py") if path.parent != ROOT)
ROOMS = [".".join(folder.relative_to(ROOT).parts) for folder in PACKAGES]
TOGETHER = {"__init__", "__main__"}
MOST_LINES = 3_310
"""Of the kernel: what can be read in one sitting. It was 7,600 once, and 5,680 with networks."""


def read(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def order(folder: Path) -> list[str]:
    """The modules of a package as its docstring names them."""
    modules = {path.stem for path in folder.glob("*.py")}
    named = re.findall(r"``(\w+)``", ast.get_docstring(read(folder / "__init__.py")))
    return [name for name in named if name in modules]


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """All of a module that is ever run."""
    for child in ast.iter_child_nodes(node):
        if not is_for_types(child):
            yield child
            yield from inside(child)


def needed(path: Path, *, ever: bool = False) -> set[str]:
    """What a module imports from this program as it is loaded, or ever, relative to the program."""
    module, found = read(path), set()
    for node in inside(module) if ever else module.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            package = path.parent.relative_to(ROOT).parts[: None if node.level == 1 else 1 - node.level]
            names = [node.module] if node.module else [each.name for each in node.names]
            found.update(".".join((*package, name)) for name in names)
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


def test_the_kernel_imports_no_room_even_late():
    """A table of names puts them together."""
    kernel = {path.stem for path in ROOT.glob("*.py")}
    for path in ROOT.glob("*.py"):
        if path.stem not in TOGETHER:
            assert needed(path, ever=True) <= kernel, path.name
    assert sum(path.read_text("utf-8").count("\n") for path in ROOT.glob("*.py")) <= MOST_LINES


def test_the_contract_of_imports_names_the_whole_kernel():
    contracts = read_toml(ROOT.parents[1] / "pyproject.toml", "the settings")["tool"]["importlinter"]
    (own,) = (
        each for each in contracts["contracts"] if each["name"].startswith("The kernel of the verifier")
    )
    kernel = {f"codebound_verify.{path.stem}" for path in ROOT.glob("*.py") if path.stem not in TOGETHER}
    rooms = {f"codebound_verify.{folder.name}" for folder in PACKAGES if folder.parent == ROOT}
    assert ({*own["source_modules"]}, {*own["forbidden_modules"]}) == (kernel, rooms)


def test_every_room_that_is_asked_for_is_in_the_table():
    asked = {
        node.args[0].value
        for path in ROOT.rglob("*.py")
        for node in ast.walk(read(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "room"
    }
    assert asked == {*TABLE}
    for name, module in TABLE.items():
        assert room(name).__name__ == f"codebound_verify.{module}"


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


def test_the_kernel_runs_alone_and_accepts_nothing(tmp_path):
    """Without rooms it reads the file, checks its numbers and its sample, and refuses the rest."""
    said = verdict_without(ROOMS, linear(writer.dense(writer.WEIGHT, -3)), tmp_path)
    assert said == "REFUSE Program: codebound_verify.networks.network, which this needs, is not installed."


def test_a_network_needs_one_room(tmp_path):
    others = [name for name in ROOMS if name != "networks"]
    assert verdict_without(others, linear(writer.dense(writer.WEIGHT, -3)), tmp_path) == "ACCEPT"


def test_a_rule_needs_one_room():
    """Whoever checks picks alone needs nothing that networks are made of."""
    code = "import sys, codebound_verify.learn.picking; print(*sys.modules)"
    assert "codebound_verify.learn.kernel" in python(code).split()
    assert not [name for name in python(code).split() if name.startswith("codebound_verify.networks")]


def test_a_room_that_is_there_and_lacks_something_is_no_reason_to_refuse(monkeypatch):
    """A damaged installation is not the fault of the file."""
    monkeypatch.delitem(sys.modules, "codebound_verify.sources.datasets", raising=False)
    monkeypatch.delattr("codebound_verify.sources.datasets", raising=False)
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ModuleNotFoundError, match="numpy"):
        room("named data")


def test_the_papers_can_be_left_out(tmp_path):
    factors = writer.dense(np.eye(3, 2, dtype=int)), writer.dense(np.ones((2, 4), int))
    message = linear(writer.low_rank((3, 4), *factors))
    assert verdict_without([], message, tmp_path) == "ACCEPT"
    said = verdict_without(["networks.papers"], message, tmp_path)
    absent = "codebound_verify.networks.papers.random_tensors"
    assert said == f"REFUSE Program: {absent}, which this needs, is not installed."
    assert verdict_without(["networks.papers"], linear(writer.dense(writer.WEIGHT, -3)), tmp_path) == "ACCEPT"

"""What the second program promises its readers: which modules there are, and which need which."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from code_writer import encoded, packed
from worlds.commands import python

import codebound_verify
from codebound.run.files import read_toml
from codebound_verify.message import Bits
from codebound_verify.networks.arithmetic import Decoder, Witness
from codebound_verify.networks.tensors import MODES_OF_PAPERS, read_tensor
from codebound_verify.refusal import Refused
from codebound_verify.rooms import ROOMS as TABLE
from codebound_verify.rooms import room

ROOT = Path(codebound_verify.__file__).parent
PACKAGES = sorted(path.parent for path in ROOT.rglob("*/__init__.py") if path.parent != ROOT)
ROOMS = [".".join(folder.relative_to(ROOT).parts) for folder in PACKAGES]
TOGETHER = {"__init__", "__main__"}
MOST_LINES = 3_076
"""Of the kernel: what can be read in one sitting. It was 7,600 once, 5,680 with networks."""


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
    assert "\nReached " in ast.get_docstring(read(folder / "__init__.py"))
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
from pathlib import Path
from safetensors.numpy import load_file
folder, needed, *others = sys.argv[1:]
needed = ["codebound_verify." + name for name in needed.split()]
sys.modules.update(dict.fromkeys([*needed, *("codebound_verify." + name for name in others)]))
from codebound_verify import verify
tables = [load_file(path) for path in sorted(Path(folder).glob("scores*"), key=lambda path: len(path.name))]
with np.load(folder + "/sample.npz") as data:
    x, y = data["x"], data["y"]
for name in [*needed, None]:
    found = verify(folder + "/certificate.cbound", x, y, tables=tables)
    print(found.verdict, *found.reasons)
    sys.modules.pop(name, None)  # from now on it can be imported
"""


@pytest.mark.parametrize(
    ("name", "needed"), [("first_table", ()), ("usual_split", ("learn",)), ("network", ("networks", "learn"))]
)
def test_a_form_needs_its_room_alone(name, needed, folder):
    """Scores that were declared are counted by the kernel; a network has filters in common with rules."""
    place = folder(name)
    others = [each for each in ROOMS if not each.startswith(needed)] if needed else ROOMS
    *refused, accepted = python(WITHOUT, place, " ".join(needed), *others).splitlines()
    assert accepted == "ACCEPT"
    for name, said in zip(needed, refused, strict=True):
        assert re.match(
            rf"REFUSE Program: codebound_verify\.{name}\S*, which this needs, is not installed", said
        )


def test_a_rule_needs_nothing_that_networks_are_made_of():
    loaded = python("import sys, codebound_verify.learn.picking; print(*sys.modules)").split()
    assert "codebound_verify.learn.kernel" in loaded
    assert not [name for name in loaded if name.startswith("codebound_verify.networks")]


def test_a_room_that_is_there_and_lacks_something_is_no_reason_to_refuse(monkeypatch):
    """A damaged installation is not the fault of the file."""
    monkeypatch.delitem(sys.modules, "codebound_verify.sources.datasets", raising=False)
    monkeypatch.delattr("codebound_verify.sources.datasets", raising=False)
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(ModuleNotFoundError, match="numpy"):
        room("named data")


def test_the_papers_can_be_left_out(monkeypatch):
    def read(*steps):
        return read_tensor(Decoder(Bits(*packed(encoded(*steps))), Witness(b"")), (2, 3))

    monkeypatch.setitem(sys.modules, "codebound_verify.networks.papers.random_tensors", None)
    assert read(2)
    with pytest.raises(Refused, match=r"papers\.random_tensors, which this needs, is not installed"):
        read(11, (0, 3), 1, 2)
    monkeypatch.undo()
    assert read(11, (0, 3), 1, 2)
    assert {*room("codes of the papers").READERS} == {*MODES_OF_PAPERS}

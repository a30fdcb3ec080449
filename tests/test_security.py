"""What SECURITY.md promises: nothing is executed or unpickled, and limits are those that it prints."""

import ast
import importlib
import re
from pathlib import Path

import pytest
from certificate_reader import read_container
from example_files import file_of

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
PAGE = (ROOT / "SECURITY.md").read_text()
ALL = sorted(SOURCES.rglob("*.py"))
DANGEROUS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "subprocess", "socket", "ctypes", "urllib"}
DANGEROUS |= {"http", "requests", "runpy", "code"}
RUNS = {"src/codebound_networks/reading/loading.py": "load_file"}
"""Where a Python file that the user names is run, as the page says: the only calls of exec and compile."""


def imports(tree: ast.AST) -> set[str]:
    """Top-level names of all modules that are imported."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def calls(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    """Every call of a name, or of attributes of one, as it is written."""
    return [(written(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def written(function: ast.expr) -> str:
    """A name with its attributes; of what is no name, the attributes alone."""
    if isinstance(function, ast.Attribute):
        return f"{written(function.value)}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""


def keyword(call: ast.Call, name: str) -> object:
    values = [each.value for each in call.keywords if each.arg == name]
    return values[0].value if values and isinstance(values[0], ast.Constant) else None


def broken_rules(path: Path, text: str) -> list[str]:
    """What a source does that the page says it does not."""
    tree, found = ast.parse(text), []
    if path.is_relative_to(ROOT):
        running = RUNS.get(path.relative_to(ROOT).as_posix())
        tree.body = [each for each in tree.body if getattr(each, "name", "") != running or running is None]
    is_verifier = "codebound_verify" in path.parts
    if is_verifier and (taken := imports(tree) & DANGEROUS):
        found.append(f"{path} imports {taken}")
    for name, call in calls(tree):
        if name in ("eval", "exec", "__import__") or (name == "compile" and is_verifier):
            found.append(f"{path} calls {name}")
        if name == "torch.load" and keyword(call, "weights_only") is not True:
            found.append(f"{path} loads a checkpoint with its code")
        if name in ("np.load", "numpy.load", "np.lib.format.read_array") and (
            keyword(call, "allow_pickle") is not False
        ):
            found.append(f"{path} may unpickle an array")
        if name in ("pickle.load", "pickle.loads") and path != SOURCES / "codebound/run/job.py":
            found.append(f"{path} unpickles")
        if name.endswith("import_module") and is_verifier and path.name != "rooms.py":
            found.append(f"{path} imports by name")
    return found


def test_nothing_is_executed_or_unpickled():
    assert [rule for path in ALL for rule in broken_rules(path, path.read_text())] == []


def test_the_page_names_who_runs_a_file_that_the_user_names():
    for name, function in RUNS.items():
        assert f"`{name}`" in PAGE
        (running,) = (
            each for each in ast.parse((ROOT / name).read_text()).body if vars(each).get("name") == function
        )
        assert sorted(each for each, _ in calls(running) if each in ("compile", "exec")) == [
            "compile",
            "exec",
        ]


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "import ctypes",
        "from urllib.request import urlopen",
        "eval('1')",
        "import torch\ntorch.load('a')",
        "import numpy as np\nnp.load('a')",
        "np.load('a', allow_pickle=True)",
        "import importlib\nimportlib.import_module(header.name)",
        "from importlib import import_module\nimport_module(header.name)",
    ],
)
def test_the_rules_have_teeth(text):
    assert broken_rules(Path("codebound_verify/some.py"), text)


ROWS = re.findall(r"^\| ([^|]+) \| ([\d,]+)[^|]*\| `([\w.]+)\.(\w+)` \|$", PAGE, flags=re.MULTILINE)


def test_the_page_has_a_table_of_limits():
    assert len(ROWS) >= 14


@pytest.mark.parametrize(("what", "most", "module", "constant"), ROWS, ids=lambda value: value)
def test_limits_are_those_of_the_page(what, most, module, constant):
    found = getattr(importlib.import_module(f"codebound_verify.{module}"), constant)
    assert found == int(most.replace(",", "")), what


def test_every_field_of_a_file_is_paid_for_declared_or_computed_anew():
    """The page has a row for each: a new field has to find its place."""
    header = read_container(file_of("The usual split")).header
    inner = ("sample", "known", "message", "claim")
    fields = {f"{part}.{key}" for part in inner for key in header[part]} | header.keys() - {*inner}
    table = PAGE.partition("### Field by field")[2].partition("## Limits")[0]
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
        for name in re.findall("`(.*?)`", row)
    }
    assert named == fields

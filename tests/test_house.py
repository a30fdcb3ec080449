"""Promises about the structure of the packages: what a newcomer may rely on without reading."""

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from worlds.commands import python

from codebound.run.files import read_toml

SOURCES = Path(__file__).parents[1] / "src"
PACKAGES = ("codebound", "codebound_networks", "codebound_papers", "codebound_verify")
MODULES = sorted(path for package in PACKAGES for path in (SOURCES / package).rglob("*.py"))
LAZY = (
    "codebound_papers.measure",
    "codebound_papers.compress",
    "codebound_papers.study",
    "codebound_papers.guha23.sketch",
    "codebound.bounds",
    "codebound.holdout",
    "codebound_networks",
)
LARGEST_IMPORT = 100
"""Modules of ours that a certificate may load: what nobody needs is not read, and not in the way."""
MOST_LINES = 500
BUDGETS = {  # lines and modules; what goes lowers them, and only a commit of its own raises them
    "codebound": (23_729, 115),
    "codebound_networks": (10_735, 70),
    "codebound_papers": (23_834, 127),
    "codebound_verify": (9_266, 64),
}
CODE_BUDGETS = {  # lines without blanks, comments and docstrings: words may come, code may not
    "codebound": 16_311,
    "codebound_networks": 7_507,
    "codebound_papers": 16_790,
    "codebound_verify": 6_563,
}
LONGEST_WALKS = {  # functions and files of the product, of the second program; modules loaded by package
    "default": (
        "certify digits --holdout 0.2 --out default --quiet", (450, 50), (174, 24), (78, 2, 4, 35)
    ),
    "picks": (
        "certify digits --holdout 0.2 --method picks --run effort=quick --out picks --quiet",
        (425, 47), (172, 24), (79, 2, 4, 35),
    ),
    "verify": (
        "verify default/certificate.cbound --data default/sample.npz", (14, 4), (202, 28), (13, 2, 4, 37)
    ),
    "compare": (
        "compare --model linear --data digits --holdout 0.2 --out compare",
        (840, 105), (182, 23), (78, 50, 53, 33),
    ),
}  # fmt: skip
"""What is on the way of a command, as ``benchmarks/walk.py`` counts it on one thread."""


TESTS = Path(__file__).parent
PLACES = {
    "codebound": ".",
    "codebound_networks": "networks",
    "codebound_papers": "papers",
    "codebound_verify": "verify",
}
MOST_CODE = 60
"""Lines of code from which on a module has logic of its own, and a test in its place."""
ELSEWHERE = {
    "codebound.known.score_tables": "unit/certificate/test_offers.py",
    # what every code of tensors and every table goes through
    "codebound_networks.codes.arithmetic": "contract/test_tensor_codes.py",
    # a second program, an exact number or an attacker says more about it than a test by itself
    "codebound_networks.about_f.rounding": "oracle/test_rounding.py",
    "codebound.bounds.monitoring": "oracle/test_monitoring_mpmath.py",
    "codebound.bounds.numerics": "oracle/test_numerics_mpmath.py",
    "codebound.bounds.paired": "oracle/test_paired_mpmath.py",
    "codebound.bounds.selective": "oracle/test_selective_exact.py",
    "codebound_verify.holdout.ledger": "attack/test_ledgers.py",
    "codebound_verify.holdout.results": "contract/test_ledgers_agree.py",
    # one test for all who use it
    "codebound.known.messages": "contract/test_operations.py",
    "codebound.known.share_scores": "unit/methods/test_inputs.py",
    "codebound.cli.actions": "unit/cli/test_options.py",
    "codebound.audit.dossier": "unit/cli/test_audit.py",
    "codebound_papers.arora18.arora_requirements": "unit/papers/plan/test_requirements.py",
    "codebound_papers.compress.catalogue": "contract/test_compressors.py",
    "codebound_papers.guha23.guha_requirements": "unit/papers/plan/test_requirements.py",
    "codebound_papers.published": "unit/papers/compare/test_table.py",
    "codebound_papers.shin21.shin_requirements": "unit/papers/plan/test_requirements.py",
}
"""Modules whose test is not in their place, and where it is; it imports them."""
BY_COMMAND = {
    "codebound.cli.audit": ("audit", "unit/cli/test_demands.py"),
    "codebound.cli.certificates": ("certify", "e2e/test_certify_command.py"),
    "codebound.cli.certify": ("certify", "e2e/test_certify_command.py"),
    "codebound_networks.cli.demo": ("demo", "e2e/test_certify_command.py"),
    "codebound_networks.cli.train": ("train", "e2e/test_train_command.py"),
    "codebound_papers.cli.compress": ("compress", "e2e/test_compress_command.py"),
    "codebound_papers.cli.measure": ("measure", "e2e/test_measure_command.py"),
    "codebound_papers.cli.reproduce": ("reproduce", "e2e/test_reproduce_command.py"),
    "codebound_papers.cli.sketch": ("sketch", "e2e/test_sketch_command.py"),
    "codebound_papers.compress.compression": ("compress", "e2e/test_compress_command.py"),
    "codebound_papers.plan.network_plan": ("plan", "unit/papers/cli/test_plan.py"),
}
"""Modules that are a verb, and the test that runs it."""
TWICE = {
    # a tail fit beside its rivals, and bounds beside one another: neither module knows of the other
    "codebound_papers": {"Comparison"},
}
"""Names that two public classes of a package share all the same."""

QUESTION = re.compile(r"\W*(What|Whether|How|Where|Who|Whose|Which|Why|When)\b")


def named(path: Path) -> str:
    return path.relative_to(SOURCES).as_posix()


@cache
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


def imports_of(path: Path) -> set[str]:
    """Modules that a module imports when it is loaded or later, but not for its types alone."""
    nodes, found = [tree(path)], set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        nodes.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def test_no_import_makes_a_cycle_when_a_module_is_loaded_or_later():
    names = {named(path).removesuffix(".py").replace("/", "."): path for path in MODULES}
    imports = {name: imports_of(path) & names.keys() - {name} for name, path in names.items()}
    while free := [name for name, below in imports.items() if not below & imports.keys()]:
        for name in free:
            del imports[name]
    assert sorted(imports) == []  # these import one another in a circle, or what does


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_rooms_of_a_package_have_a_module_of_the_same_name(package):
    names = Counter(
        path.stem
        for path in (SOURCES / package).rglob("*.py")
        if not path.stem.startswith("__") and path.parent.name != "cli"
    )
    assert [name for name, times in names.items() if times > 1] == []


def test_no_module_is_longer_than_one_reads_at_once():
    assert not [named(path) for path in MODULES if path.read_text("utf-8").count("\n") > MOST_LINES]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_stays_within_its_budget(package):
    paths = list((SOURCES / package).rglob("*.py"))
    lines, modules = BUDGETS[package]
    assert sum(path.read_text("utf-8").count("\n") for path in paths) <= lines
    assert len(paths) <= modules
    assert sum(map(lines_of_code, paths)) <= CODE_BUDGETS[package]


@pytest.mark.thorough
def test_the_way_of_a_command_gets_no_longer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for words, *limits in LONGEST_WALKS.values():
        script = [sys.executable, SOURCES.parent / "benchmarks/walk.py", *words.split()]
        done = subprocess.run(script, capture_output=True, text=True, check=True)
        walks = re.findall(r"(?:the first|the second program): (\d+) functions, (\d+) files", done.stdout)
        loaded = re.findall(r"\w+: (\d+) modules loaded", done.stdout)
        found = [*walks, loaded]
        assert [len(each) for each in found] == [len(each) for each in limits]
        for counts, most in zip(found, limits, strict=True):
            assert all(int(count) <= limit for count, limit in zip(counts, most, strict=True)), words


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_public_classes_of_a_package_share_a_name(package):
    """One word, one meaning: whoever reads a name in one module knows it in all others."""
    names = Counter(
        each.name
        for path in (SOURCES / package).rglob("*.py")
        for each in tree(path).body
        if isinstance(each, ast.ClassDef) and not each.name.startswith("_")
    )
    assert {name for name, times in names.items() if times > 1} <= TWICE.get(package, set())


@pytest.mark.parametrize("package", ["codebound", *LAZY])
def test_no_public_name_hides_a_module(package):
    exported = {*importlib.import_module(package).__all__} - {"bounds", "holdout"}  # which are the modules
    modules = {path.stem for path in (SOURCES / package.replace(".", "/")).iterdir()}
    assert not modules & exported


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
        assert imported <= {"__future__", "typing", "codebound.run.extensions"}, named(path)


def test_every_room_is_on_the_plan():
    readme, plan = ((SOURCES.parent / name).read_text("utf-8") for name in ("README.md", "CONTRIBUTING.md"))
    for package in PACKAGES:
        assert f"](src/{package})" in readme
        for path in (SOURCES / package).glob("*/__init__.py"):
            assert f"`{path.parent.name}`" in plan, named(path)


def test_a_certificate_loads_few_modules_and_none_of_the_papers():
    code = (
        "import sys, codebound.certification;"
        "print(*(name for name, module in sys.modules.items() if not hasattr(module, '__path__')))"
    )
    ours = [name for name in python(code).split() if name.split(".")[0] in PACKAGES]
    assert "codebound.certificate.verification" in ours  # so that whoever verifies loads no more
    assert len(ours) <= LARGEST_IMPORT
    assert not [name for name in ours if name.startswith("codebound_papers")]


def test_pyproject_lists_every_package():
    """What is forgotten in one list is not built, not tested, not typed or not kept apart, in silence."""
    packages = sorted(path.name for path in SOURCES.iterdir() if (path / "__init__.py").is_file())
    assert packages == sorted(PACKAGES)
    assert [name for name in packages if not (SOURCES / name / "py.typed").is_file()] == []
    project = read_toml(SOURCES.parent / "pyproject.toml", "the settings")
    tools = project["tool"]
    assert sorted(tools["hatch"]["build"]["targets"]["wheel"]["packages"]) == [
        f"src/{each}" for each in packages
    ]
    assert sorted(tools["pytest"]["ini_options"]["testpaths"]) == [
        *(f"src/{each}" for each in packages),
        "tests",
    ]
    assert sorted(tools["importlinter"]["root_packages"]) == packages
    layered = {name for each in tools["importlinter"]["contracts"] for name in each.get("containers", ())}
    assert layered == {*packages} - {"codebound_verify"}  # which is one room, and imports none of them:
    alone = [each for each in tools["importlinter"]["contracts"] if each["type"] == "forbidden"][-1]
    assert (alone["source_modules"], sorted(alone["forbidden_modules"])) == (
        ["codebound_verify"],
        packages[:-1],
    )
    extensions = [f"{name}.extension" for name in packages if (SOURCES / name / "extension.py").is_file()]
    points = project["project"]["entry-points"]["codebound.extensions"]
    assert sorted(points.values()) == extensions
    programs = {path.parent.name for path in SOURCES.parent.glob("[a-z]*/*.py")} - {"tests", "docs"}
    assert {*tools["mypy"]["files"]} == {"src", *programs}


@pytest.mark.parametrize("package", ["codebound_networks", "codebound_papers"])
def test_the_product_never_names_what_extends_it(package):
    """It finds them by their entry points; only the message that nothing is installed says their names."""
    naming = {
        named(path)
        for path in MODULES
        if named(path).startswith("codebound/") and package in path.read_text("utf-8")
        for each in ast.walk(tree(path))
        if isinstance(each, ast.Constant) and package in str(each.value)
    }
    assert naming <= {"codebound/run/extensions.py"}


def lines_of_code(path: Path) -> int:
    """Without empty lines, comments and docstrings."""
    documented = {
        line
        for each in ast.walk(tree(path))
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
        for line in range(each.lineno, each.end_lineno + 1)
    }
    lines = enumerate(path.read_text("utf-8").splitlines(), start=1)
    return sum(1 for at, line in lines if at not in documented and line.strip() and line.strip()[0] != "#")


def test_docstrings_begin_with_a_noun_or_an_imperative():
    """A question leaves the reader to find the answer: "Return True if ...", "Errors of ..." say it."""
    asking = [
        f"{named(path)}:{each.lineno}"
        for path in MODULES
        for each in ast.walk(tree(path))
        if isinstance(each, ast.Expr)
        and isinstance(each.value, ast.Constant)
        and isinstance(each.value.value, str)
        and QUESTION.match(each.value.value)
    ]
    assert not asking


@cache
def imported_by(path: Path) -> set[str]:
    """The modules that a test takes something from."""
    found = set()
    for module, names in re.findall(
        r"^\s*from ([\w.]+) import (\([^)]*\)|.*)", path.read_text("utf-8"), re.M
    ):
        found |= {module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))}
    return found


def is_tested_in_its_place(path: Path) -> bool:
    """A test of its name, or one that imports it, in the folder of its package or right above it."""
    package, *inside = path.relative_to(SOURCES).with_suffix("").parts
    place = TESTS / "unit" / PLACES[package] / Path(*inside[:-1])
    above = [place.parent] if inside[:-1] else []
    module = ".".join((package, *inside))
    return (place / f"test_{path.stem}.py").is_file() or any(
        module in imported_by(test) for folder in (place, *above) for test in folder.glob("test_*.py")
    )


def test_tests_mirror_the_modules_that_have_logic_of_their_own():
    """Whoever changes a module finds its test where the module is; the exceptions say where it is instead."""
    missing = {
        named(path).removesuffix(".py").replace("/", ".")
        for path in MODULES
        if not path.stem.startswith("__")
        and not is_tested_in_its_place(path)
        and lines_of_code(path) > MOST_CODE
    }
    assert missing <= {*ELSEWHERE, *BY_COMMAND}
    assert {*ELSEWHERE, *BY_COMMAND} <= {
        named(path).removesuffix(".py").replace("/", ".") for path in MODULES
    }
    for module, test in ELSEWHERE.items():
        assert module in imported_by(TESTS / test), f"{test} does not import {module}"
    for module, (verb, test) in BY_COMMAND.items():
        assert f'"{verb}"' in (TESTS / test).read_text("utf-8"), f"{test} does not run {module}"

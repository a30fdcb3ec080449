"""Importing is silent, fast and lazy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import codebound


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_import_is_silent_and_leaves_torch_alone():
    result = run("import sys, codebound; print('torch' in sys.modules, 'numpy' in sys.modules)")
    assert result.stdout == "False False\n"
    assert result.stderr == ""


def test_the_command_line_loads_no_heavy_library():
    heavy = ("torch", "numpy", "sklearn", "PIL", "matplotlib")
    result = run(f"import sys, codebound.cli.main; print([m for m in {heavy!r} if m in sys.modules])")
    assert result.stdout == "[]\n"


@pytest.mark.thorough
def test_the_help_of_every_verb_loads_no_heavy_library():
    code = (
        "import sys, typer.main; from typer.testing import CliRunner; from codebound.cli.main import app\n"
        "verbs = [verb for verb in typer.main.get_command(app).commands if verb != 'verify']\n"
        "outputs = {verb: CliRunner().invoke(app, [verb, '--help']) for verb in verbs}\n"
        "assert all(shown.exit_code == 0 for shown in outputs.values()), outputs\n"
        "assert '--shuffle-labels' in outputs['train'].output\n"
        "assert '--prior-fraction' in outputs['certify'].output\n"
        "print([name for name in ('torch', 'numpy', 'sklearn') if name in sys.modules])"
    )
    assert run(code).stdout == "[]\n"


def test_the_mathematics_loads_no_torch():
    result = run("import sys, codebound.bounds.occam; print('torch' in sys.modules)")
    assert result.stdout == "False\n"


def test_measuring_a_perceptron_loads_no_compiler():
    """PyTorch imports its own, and sympy, for torch.func and its optimisers: a second before any result."""
    code = (
        "import sys, torch\nfrom torch import nn\n"
        "from codebound_papers.measure.noise.meter import stability\n"
        "model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))\n"
        "found = stability(model, torch.randn(8, 4))\n"
        "print('torch._dynamo' in sys.modules)"
    )
    assert run(code).stdout == "False\n"


@pytest.mark.thorough
def test_training_and_measuring_import_with_torch_and_numpy_alone():
    blocked = ("scipy", "sklearn", "PIL", "safetensors", "typer", "rich")
    run(
        f"import sys\nfor name in {blocked!r}: sys.modules[name] = None\n"
        "import codebound_networks.train.harness, codebound_papers.measure.noise.meter\n"
        "import codebound.sample.arrays"
    )


@pytest.mark.thorough
def test_import_touches_no_global_state():
    code = (
        "import logging, random, warnings, torch\n"
        "before = (torch.get_rng_state().tolist(), random.getstate(), list(warnings.filters),"
        " logging.getLogger().handlers[:], torch.get_num_threads())\n"
        "import codebound_networks.train.harness, codebound_papers.measure.noise.meter\n"
        "import codebound.sample.arrays\n"
        "after = (torch.get_rng_state().tolist(), random.getstate(), list(warnings.filters),"
        " logging.getLogger().handlers[:], torch.get_num_threads())\n"
        "assert before == after"
    )
    run(code)


def test_every_public_name_resolves():
    for name in codebound.__all__:
        assert getattr(codebound, name) is not None
    assert dir(codebound) == sorted(codebound.__all__)


def test_type_checkers_see_every_public_name():
    tree = ast.parse(Path(codebound.__file__).read_text())
    seen = {
        name.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.asname
    }
    assert seen == codebound._HOME | {"holdout": "codebound"}


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(codebound, "no_such_name")


def test_questions_to_a_test_set_load_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import codebound as cb\n"
        "assert all(getattr(cb.holdout, name) for name in cb.holdout.__all__)\n"
        "assert dir(cb.holdout) == sorted(cb.holdout.__all__)\n"
        "print('sklearn' in sys.modules, hasattr(cb.holdout, 'nothing'))"
    )
    assert run(code).stdout == "False False\n"

"""Importing is silent, fast and lazy."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from worlds.samples import clouds

import codebound
from codebound.certification import certify
from codebound.known.score_tables import ScoreTable
from codebound.request import Known

WITHOUT_TORCH = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("torch is blocked")
sys.meta_path.insert(0, Blocked())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_import_is_silent_and_leaves_torch_alone():
    result = run("import sys, codebound; print('torch' in sys.modules, 'numpy' in sys.modules)")
    assert result.stdout == "False False\n"
    assert result.stderr == ""


def test_the_command_line_loads_no_heavy_library():
    heavy = ("torch", "numpy", "sklearn", "PIL", "matplotlib")
    code = "import sys, codebound.cli.main, codebound.methods.search as search; search.list_methods()"
    assert run(f"{code}; print([m for m in {heavy!r} if m in sys.modules])").stdout == "[]\n"


@pytest.fixture(scope="module")
def declared(tmp_path_factory):
    """The folder of a certificate of declared scores."""
    folder = tmp_path_factory.mktemp("declared") / "g"
    sample = clouds(300)
    table = ScoreTable(np.ascontiguousarray(sample.x), by="hand", of="nothing", rows=0)
    certify(sample, method="scores", known=Known(scores=table)).save_to(folder)
    return folder


def without_torch(*commands: list[str]) -> dict[str, list]:
    """Exit code, output and errors of commands in one process that cannot import torch."""
    code = (
        f"{WITHOUT_TORCH}\nimport contextlib, io, json\nfrom codebound.cli.main import main\n"
        f"for words in {commands!r}:\n"
        "    sys.argv[1:], code, out, err = words, 0, io.StringIO(), io.StringIO()\n"
        "    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):\n"
        "        try:\n"
        "            main()\n"
        "        except SystemExit as end:\n"
        "            code = end.code or 0\n"
        "    print(json.dumps([' '.join(words), [code, out.getvalue(), err.getvalue()]]))\n"
    )
    return dict(map(json.loads, run(code).stdout.splitlines()))


def test_what_needs_no_network_runs_without_torch(declared):
    found = without_torch(
        ["--help"],
        ["bound", "--errors", "3", "--n", "100", "--bits", "5"],
        ["bound", "--errors", "3", "--n", "100", "--holdout"],
        ["holdout", "plan", "--n", "200", "--errors-guess", "0.05"],
        ["show", f"{declared}/certificate.cbound"],
        ["verify", f"{declared}"],
        ["data", "show", f"{declared}/sample.npz"],
    )
    for words, (code, out, err) in found.items():
        assert (code, "torch" in err, bool(out)) == (0, False, True), (words, err)
        assert out.startswith("ACCEPT, recounted") or not words.startswith("verify")


REFUSED = {
    "nothing.npz": "nothing.npz does not exist",
    "digits --method pick": "Did you mean 'picks'?",
    "digits --claim loss=clas:1": "Did you mean 'class'?",
    "digits --claim lss=wrong": "did you mean loss=...?",
    "digits --delta 0": "failure probability",
    "digits --copies some": "copies are one of any, independent, repeated",
    "digits --known base=nothing.safetensors": "there is no file nothing.safetensors",
    "digits --out .": "exists already",
}


def test_options_are_refused_before_torch_is_loaded():
    for words, (code, _, err) in without_torch(*[["certify", *each.split()] for each in REFUSED]).items():
        assert code in (1, 2), words
        assert REFUSED[words.removeprefix("certify ")] in err
        assert "torch" not in err


def test_the_calculator_loads_numpy_only_where_a_tail_is_summed():
    code = "import sys, codebound.certificate.calculator, codebound.holdout.advice"
    assert run(f"{code}\nprint('numpy' in sys.modules)").stdout == "False\n"


@pytest.mark.thorough
def test_the_help_of_every_verb_loads_no_heavy_library():
    code = (
        "import sys, typer.main; from typer.testing import CliRunner; from codebound.cli.main import app\n"
        "verbs = [verb for verb in typer.main.get_command(app).commands if verb != 'verify']\n"
        "outputs = {verb: CliRunner().invoke(app, [verb, '--help']) for verb in verbs}\n"
        "assert all(shown.exit_code == 0 for shown in outputs.values()), outputs\n"
        "assert '--shuffle-labels' in outputs['train'].output\n"
        "assert '--assurance' in outputs['certify'].output\n"
        "print([name for name in ('torch', 'numpy', 'sklearn') if name in sys.modules])"
    )
    assert run(code).stdout == "[]\n"


def test_the_mathematics_loads_no_torch():
    result = run("import sys, codebound.bounds.occam; print('torch' in sys.modules)")
    assert result.stdout == "False\n"


@pytest.mark.thorough
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


def test_every_public_name_has_an_example():
    for name in set(codebound.__all__) - {"__version__", "holdout"}:
        assert ">>> " in getattr(codebound, name).__doc__, name


def test_type_checkers_see_every_public_name():
    tree = ast.parse(Path(codebound.__file__).read_text())
    seen = {
        name.asname: f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.asname
    }
    assert seen == {name: home.replace(":", ".") for name, home in codebound._HOME.items()}


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

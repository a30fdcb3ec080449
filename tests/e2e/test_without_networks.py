"""The default certifies where neither networks nor papers can be imported; a network is then refused."""

import subprocess
import sys

import numpy as np
import pytest

START = """
import sys
sys.modules["codebound_networks"] = sys.modules["codebound_papers"] = None
from codebound.cli.main import main
main()
"""


def run(folder, *arguments):
    command = [sys.executable, "-c", START, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def table(tmp_path):
    """A table of two columns."""
    x = np.random.default_rng(0).normal(size=(600, 2)).round(3)
    lines = [f"{a},{b},{int(a + b > 0)}" for a, b in x]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,kind", *lines]))
    return "table.csv:kind"


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["auto", "split", "picks"])
def test_rules_are_certified_and_verified(tmp_path, table, method):
    made = run(tmp_path, "certify", table, "--method", method, "--run", "effort=quick", "--out", "c")
    assert made.returncode == 0, made.stderr
    assert "ACCEPT" in made.stdout
    verified = run(tmp_path, "verify", "c/certificate.cbound", "--data", "c/sample.npz")
    assert verified.returncode == 0, verified.stderr
    assert "ACCEPT" in verified.stdout


def test_a_network_is_refused_in_a_sentence(tmp_path, table):
    result = run(tmp_path, "certify", "--model", "linear", table)
    assert result.returncode == 2
    assert "UsageError: nothing here reads networks: codebound_networks does" in result.stderr
    assert "networks (ModuleNotFoundError" in result.stderr
    assert "Traceback" not in result.stderr

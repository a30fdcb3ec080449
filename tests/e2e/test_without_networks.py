"""The default certifies where neither networks nor papers can be imported; a network is then refused."""

import json
import subprocess
import sys

import numpy as np
import pytest

START = """
import contextlib, io, json, sys
sys.modules["codebound_networks"] = sys.modules["codebound_papers"] = None
from codebound.cli.main import main
found = []
for sys.argv[1:] in json.loads(sys.argv[1]):
    code, out, err = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    found.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(found))
"""


def run(folder, *commands):
    """Exit code, output and errors of commands in one process."""
    command = [sys.executable, "-c", START, json.dumps([each.split() for each in commands])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture
def table(tmp_path):
    """A table of two columns."""
    x = np.random.default_rng(0).normal(size=(600, 2)).round(3)
    lines = [f"{a},{b},{int(a + b > 0)}" for a, b in x]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,kind", *lines]))
    return "table.csv:kind"


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["auto", "split", "picks"])
def test_rules_are_certified_and_verified_and_a_network_is_refused_in_a_sentence(tmp_path, table, method):
    *accepted, refused = run(
        tmp_path,
        f"certify {table} --method {method} --run effort=quick --out c",
        "verify c/certificate.cbound --data c/sample.npz",
        f"certify --model linear {table}",
    )
    for code, out, err in accepted:
        assert code == 0, err
        assert "ACCEPT" in out
    code, _, err = refused
    assert code == 2
    assert "UsageError: nothing here reads networks: codebound_networks does" in err
    assert "networks (ModuleNotFoundError" in err
    assert "Traceback" not in err

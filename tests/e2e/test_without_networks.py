"""Certificates are searched for, issued and verified where the package of networks cannot be imported."""

import subprocess
import sys

import pytest

CODE = """
import sys
sys.modules["codebound_networks"] = None
import torch
from codebound.certificate.claims import AboutG
from codebound.certificate.decoding import verify
from codebound.certificate.file import Certificate
from codebound.methods.attempt import Attempts
from codebound.methods.inputs import read_start
from codebound.methods.strategy import Course
from codebound.run.errors import UsageError
from codebound.run.progress import silent
from codebound.sample.load import load_dataset

sample = load_dataset("digits")
common = Attempts(sample=sample, delta=0.05, helper=None, allow_copies=False, seed=0,
                  device=torch.device("cpu"), engine=None, progress=silent)
asked = {"stated": AboutG(), "method": METHOD, "has_helper": False}
start = read_start(None, None, sample, **asked)
course = Course(common=common, start=start, claims=[AboutG()], method=METHOD, effort="quick",
                minutes=None, encoder=None)
attempt, issued = course.run()
again = Certificate.from_bytes(issued.to_bytes())
assert verify(again, sample).is_accepted
assert not [name for name in sys.modules if name.startswith("codebound_networks.")]
try:
    read_start(torch.nn.Linear(64, 10), None, sample, **asked)
except UsageError as reason:
    print(issued.claim.bound, reason)
"""


@pytest.mark.parametrize("method", ["split", pytest.param("picks", marks=pytest.mark.thorough)])
def test_rules_need_no_networks_and_a_network_is_refused_in_a_sentence(method):
    command = [sys.executable, "-c", CODE.replace("METHOD", repr(method))]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    bound, _, reason = result.stdout.partition(" ")
    assert float(bound) < 0.2
    assert reason.startswith("nothing here reads or judges networks (start): codebound_networks does")
    assert "networks (ModuleNotFoundError" in reason

"""SIGKILL at random moments corrupts nothing and loses nothing that was finished."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killing.py")
BROKEN = """
import sys, time
from contextlib import contextmanager
sys.path.insert(0, sys.argv[1])
import killing, codebound.run.files

@contextmanager
def in_place(path):
    with path.open("wb", buffering=0) as file:
        time.sleep(0.1)
        yield file

codebound.run.files.replace_file = in_place
killing.disturb("train", 20, 0)
"""


@pytest.mark.slow
def test_a_hundred_kills_corrupt_nothing_and_lose_nothing():
    found = subprocess.run([sys.executable, SCRIPT, "--kills", "100"], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("ended as undisturbed") == 8


@pytest.mark.slow
def test_files_that_are_written_in_place_would_be_noticed():
    found = subprocess.run([sys.executable, "-c", BROKEN, SCRIPT.parent], capture_output=True, text=True)
    assert found.returncode != 0
    assert "ended as undisturbed" not in found.stdout

"""Every snippet of the README runs: the Python ones as one script, the commands one by one."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
CONSOLE = re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [line[2:] for block in CONSOLE for line in block.splitlines() if line.startswith("$ codebound ")]
OFFLINE = [command for command in COMMANDS if " data get " not in command]


def test_the_readme_has_snippets():
    assert PYTHON
    assert OFFLINE


def test_python_snippets_run(tmp_path):
    script = "\n".join(PYTHON)
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_commands_run_one_after_the_other(tmp_path):
    for command in OFFLINE:
        words = [
            sys.executable,
            "-c",
            "from codebound.cli.main import main; main()",
            *shlex.split(command)[1:],
        ]
        result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{command}\n{result.stderr}"


def test_every_file_the_readme_names_exists():
    for target in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (Path(__file__).parents[1] / target).exists(), target


@pytest.mark.parametrize(
    "example", sorted((Path(__file__).parents[1] / "examples").glob("*.py")), ids=lambda p: p.name
)
def test_examples_run(example, tmp_path):
    result = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout

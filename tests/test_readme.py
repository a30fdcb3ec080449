"""Every snippet of the README and every example runs; with short searches here, in full under ``slow``."""

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
CONSOLE = re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [line[2:] for block in CONSOLE for line in block.splitlines() if line.startswith("$ codebound ")]
_NEED_MORE = ("texts.py", "voices.py")  # tests/e2e/test_encoder_examples.py has them run
SHOWN = re.findall(r"^\$ codebound (.*)\n((?:(?!\$ ).+\n)+)", "\n".join(CONSOLE), flags=re.MULTILINE)
HOWTOS = "\n".join((ROOT / f"docs/howto/{name}.md").read_text() for name in ("guha23", "arora18", "shin21"))
SHOWN_BY_HOWTOS = re.findall(r"^\$ codebound (.*)\n((?:(?!\$ |```).+\n)+)", HOWTOS, flags=re.MULTILINE)
OFFLINE = [command for command in COMMANDS if " data get " not in command]

pytestmark = pytest.mark.usefixtures("empty_folder")


@pytest.fixture(params=["short", pytest.param("full", marks=pytest.mark.slow)])
def searches(request):
    """As short as they can be, or as a user has them."""
    if request.param == "short":
        request.getfixturevalue("short_searches")


def test_the_readme_has_snippets():
    assert PYTHON
    assert OFFLINE


def test_the_readme_is_short():
    assert len(README.split()) <= 900
    assert max(map(len, README.splitlines())) <= 120


def test_python_snippets_run(searches, capsys):
    exec(compile("\n".join(PYTHON), "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out.endswith("ACCEPT\n")


@pytest.mark.thorough
def test_commands_run_one_after_the_other(searches, codebound):
    for command in OFFLINE:
        code, out, err = codebound(*shlex.split(command)[1:])
        assert code == 0, f"{command}\n{err}"
        assert out + err, command


@pytest.mark.thorough
def test_commands_print_what_the_readme_shows(codebound):
    """Every line that stands below a command, in this order; the command prints more. So in the how-tos."""
    assert SHOWN
    for command, shown in SHOWN:
        _, out, _ = codebound(*shlex.split(command))
        check_shown(command, shown, out)
        for _, lines in (each for each in SHOWN_BY_HOWTOS if each[0] == command):
            check_shown(command, lines, out)


def check_shown(command, shown, out):
    printed = iter([" ".join(line.split()) for line in out.splitlines()])
    for line in shown.splitlines():
        assert " ".join(line.split()) in printed, f"{command} does not print: {line}"


@pytest.mark.slow
def test_other_commands_print_what_the_how_tos_show(codebound):
    others = [each for each in SHOWN_BY_HOWTOS if each[0] not in dict(SHOWN)]
    assert [command for command, _ in others] == ["study arora18 --shuffle-labels 1"]
    for command, shown in others:
        _, out, _ = codebound(*shlex.split(command))
        check_shown(command, "".join(shown.splitlines(keepends=True)[1:]), out)  # the head is cut short


def test_every_file_the_readme_names_exists():
    for target in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / target).exists(), target


EXAMPLES = [  # one is quick
    pytest.param(path, marks=[pytest.mark.thorough] * (path.name != "scikit_learner.py"), id=path.name)
    for path in sorted((ROOT / "examples").glob("*.py"))
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(searches, example, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(example)])
    monkeypatch.syspath_prepend(str(example.parent))
    runpy.run_path(str(example), run_name="__main__")
    out = capsys.readouterr().out
    is_skipped = example.name in _NEED_MORE and out.startswith("Skipped: ") and out.count("\n") == 1
    assert "ACCEPT" in out or is_skipped


@pytest.mark.thorough
def test_the_page_about_encoders_runs(empty_folder, codebound, capsys, monkeypatch):
    page = (ROOT / "docs/howto/pretrained.md").read_text()
    (snippet,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    monkeypatch.delitem(sys.modules, "my_encoder", raising=False)
    monkeypatch.setenv("CODEBOUND_CACHE", str(empty_folder / "cache"))
    exec(compile(snippet, "pretrained.md", "exec"), {"__name__": "page"})
    assert "; picks: " in capsys.readouterr().out
    commands = re.findall(
        r"^\$ codebound (.* my_encoder:features .*|verify behind.*)$", page, flags=re.MULTILINE
    )
    assert len(commands) == 3
    outputs = [codebound(*shlex.split(command)) for command in commands]
    assert [code for code, _, _ in outputs] == [0, 0, 0]
    assert "the tables are the same" in outputs[2][1]


@pytest.mark.thorough
def test_the_page_about_learners_runs(empty_folder, codebound, capsys, monkeypatch):
    page = (ROOT / "docs/howto/any_learner.md").read_text()
    snippets = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    monkeypatch.delitem(sys.modules, "my_learner", raising=False)
    exec(compile("\n".join(snippets), "any_learner.md", "exec"), {"__name__": "page"})
    capsys.readouterr()
    (command,) = re.findall(r"^\$ codebound (verify .*)$", page, flags=re.MULTILINE)
    code, out, _ = codebound(*shlex.split(command))
    assert code == 0
    assert out.splitlines()[0] in page.splitlines()

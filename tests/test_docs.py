"""The pages are there, their links lead somewhere, their snippets and notebooks run, and the site builds."""

import csv
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "results").glob("*.md")])
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
_ANSWERS = ("With probability", "g errs on ")  # of a certificate, and of a study
FENCED = re.compile(r"```(\w+)\n(.*?)```", flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_of_the_repository(page):
    text = FENCED.sub("", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)[^)\s]*\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), target


def test_the_page_of_the_format_is_short():
    rules, _, _ = (ROOT / "docs/format.md").read_text("utf-8").partition("## 13.")  # which is generated
    assert sum(any(letter.isalnum() for letter in word) for word in rules.split()) <= 9_000


def test_the_page_of_the_ledger_is_short():
    words = (ROOT / "docs/ledger.md").read_text("utf-8").split()
    assert sum(any(letter.isalnum() for letter in word) for word in words) <= 2_500


MOST_WORDS = 46_000
"""Of the pages in docs, without generated ones."""


def test_the_pages_are_short():
    pages = [path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md") if path.name != "format.md"]
    rules, _, _ = (ROOT / "docs/format.md").read_text("utf-8").partition("## 13.")  # which is generated
    words = " ".join([*pages, rules]).split()
    assert sum(any(letter.isalnum() for letter in word) for word in words) <= MOST_WORDS


def test_every_question_has_a_page():
    text = (ROOT / "docs/index.md").read_text()
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs/howto").glob("*.md")}
    asked = set(re.findall(r"\]\((howto/[^)]+)\)", text))
    assert asked <= pages
    assert len(asked) >= 8


def test_the_figures_of_the_curve_are_those_of_its_rows():
    with (ROOT / "docs/when.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["n"] == "1400"]
    means = [
        100 * sum(float(row[key]) for row in rows) / len(rows) for key in ("certificate", "holdout", "error")
    ]
    certificate, held, error = (f"{mean:.1f} %" for mean in means)
    said = f"promises {certificate} where the hold-out set promises {held} on average; the truth is {error}"
    assert said in " ".join((ROOT / "docs/when.md").read_text().split())


NAMES = re.compile(r"(?<![\w/.])(?:cb|codebound|codebound_papers|codebound_verify)\.[\w.]*\w")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_of_the_library_exist(page):
    if page.name == "CHANGELOG.md":
        pytest.skip("tells what was once there")
    for name in sorted(
        set(NAMES.findall(page.read_text("utf-8"))) - {"codebound.extensions"}
    ):  # entry points
        reached = None
        for part, whole in parts_of(re.sub("^cb", "codebound", name)):
            reached = getattr(reached, part, None) or importlib.import_module(whole)


def parts_of(name):
    """Every part of a dotted name, with all that leads to it."""
    parts = name.split(".")
    return [(part, ".".join(parts[: at + 1])) for at, part in enumerate(parts)]


def test_every_page_is_in_the_menu_of_the_site():
    menu = (ROOT / "mkdocs.yml").read_text()
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert not [page for page in pages if not re.search(rf"[ :]{re.escape(page)}$", menu, re.MULTILINE)]


def snippets(page, kind):
    return [body for name, body in FENCED.findall((ROOT / "docs" / page).read_text()) if name == kind]


@pytest.mark.thorough
def test_the_tutorial_runs_and_prints_what_it_shows(empty_folder, capsys):
    names = {"__name__": "page"}
    for kind, body in FENCED.findall((ROOT / "docs/tutorial.md").read_text()):
        if kind == "python":
            capsys.readouterr()
            exec(compile(body, "tutorial.md", "exec"), names)
        elif kind == "text":
            assert capsys.readouterr().out.split() == body.split()
    (command,) = snippets("tutorial.md", "console")
    from codebound_verify.__main__ import main

    assert main(shlex.split(command.removeprefix("$ codebound-verify "))) == 0


@pytest.mark.thorough
def test_the_page_about_your_model_runs(empty_folder, short_searches, codebound, monkeypatch):
    (module,) = snippets("howto/network.md", "python")
    Path("my_nets.py").write_text(module)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.delitem(sys.modules, "my_nets", raising=False)
    commands = "".join(snippets("howto/network.md", "console"))
    for command in commands.strip().splitlines():
        code, _, err = codebound(*shlex.split(command.removeprefix("$ codebound ")))
        assert code == 0, err


@pytest.mark.thorough
def test_the_page_about_studies_runs(empty_folder, codebound):
    (commands,) = snippets("howto/study.md", "console")
    for command in commands.strip().splitlines():
        code, _, err = codebound(*shlex.split(command.removeprefix("$ codebound ")))
        assert code == 0, err


@pytest.mark.thorough
def test_the_page_about_prompts_runs_and_says_what_is_printed(empty_folder, own_cache, codebound):
    (script,) = snippets("howto/holdout.md", "python")
    exec(compile(script, "holdout.md", "exec"), {"__name__": "page"})
    printed = ""
    for command in "".join(snippets("howto/holdout.md", "console")).strip().splitlines():
        code, out, err = codebound(*shlex.split(command.removeprefix("$ codebound ")))
        assert code == (3 if " watch " in command else 0), err
        printed += out + err
    for text in snippets("howto/holdout.md", "text"):
        for paragraph in re.split(r"\n(?=\n|\(|If |if )", text):
            assert "".join(paragraph.split()) in "".join(printed.split()), paragraph


def test_there_are_notebooks_with_their_outputs():
    assert len(NOTEBOOKS) == 7
    for notebook in NOTEBOOKS:
        cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
        assert any(said in str(cell["outputs"]) for cell in cells for said in _ANSWERS)


@pytest.mark.thorough
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    book = nbformat.read(notebook, as_version=4)
    ran = nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    before, after = (
        [
            "".join("".join(o["text"]) for o in cell.get("outputs", ()) if o.get("name") == "stdout")
            for cell in each["cells"]
        ]
        for each in (json.loads(notebook.read_text()), json.loads(nbformat.writes(ran)))
    )
    assert [text for text in after if "ACCEPT" in text] == [text for text in before if "ACCEPT" in text]
    assert [line for line in "".join(after).splitlines() if line.startswith(_ANSWERS)]


@pytest.mark.thorough
@pytest.mark.skipif(
    not (find_spec("material") and find_spec("mkdocstrings")), reason="pip install codebound[docs]"
)
def test_the_site_builds_without_warnings(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "WARNING" not in ran.stderr
    site = tmp_path / "site"
    assert "https://" not in re.sub(r'href="https?://[^"]*"', "", (site / "index.html").read_text())
    assert "With probability" in (site / "notebooks/own_table.html").read_text()
    reference = (site / "reference.html").read_text()
    assert "codebound.certification.certify" in reference
    assert "<strong>Statement.</strong>" in reference
    picks = (site / "howto/any_learner.html").read_text()
    assert 'href="../why.html#' in picks
    assert "examples/torch_learner.py" in picks  # is not on the site: its name, and no link
    assert 'torch_learner.py"' not in picks

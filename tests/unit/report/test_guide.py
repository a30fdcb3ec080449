"""The README of a folder: its code runs where the folder is, and it names what is there."""

import re
import shlex
import stat
from dataclasses import replace

import markdown
import numpy as np
import pytest
import torch
from worlds.bright_rows import images, solved
from worlds.requests import request

from codebound.certification import certify
from codebound.classifier import load_classifier
from codebound.known.encoder import load_encoder
from codebound.known.provenance import Pretrained
from codebound.request import Claim, Run
from codebound_verify.__main__ import main as verify

SAMPLE = replace(images(), class_names=("top", "middle", "low"))
ENCODER = """
import torch
from torch import nn


def halves():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU())
"""


def learned():
    return certify(SAMPLE, method="picks", run=Run(effort="quick"))


def compressed(**asked):
    return certify(SAMPLE, network=solved().build(), method="prune", **request(effort="quick", **asked))


CASES = {
    "learned": learned,
    "compressed": compressed,
    "from a base": lambda: compressed(base=Pretrained(solved().build(), "rows seen elsewhere")),
    "about f": lambda: compressed(unlabelled=images(80, 1, "unlabelled")),
}


def code_of(text):
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", CASES)
def test_what_the_readme_says_can_be_done(name, tmp_path, monkeypatch, capsys):
    folder = CASES[name]().save_to(tmp_path / "before").folder.rename(tmp_path / "after")
    text = (folder / "README.md").read_text()
    monkeypatch.chdir(folder)
    for code in code_of(text):
        exec(code, {})
        out = capsys.readouterr().out
        assert any(each in out for each in SAMPLE.class_names)
    assert len(code_of(text)) == (name != "about f")
    (command,) = re.findall(r"^\$ (codebound-verify .*)$", text, flags=re.MULTILINE)
    assert verify(shlex.split(command)[1:]) == 0
    named = set(re.findall(r"^\| \[(.*?)\]", text, flags=re.MULTILINE))
    assert named | {"README.md"} == {path.name for path in folder.iterdir()}
    page = (folder / "report.html").read_text()
    assert ("load_classifier" in page) is (name != "about f")


def test_names_of_classes_are_answers(tmp_path):
    g = load_classifier(learned().save_to(tmp_path / "one").folder)
    answers = g.predict(torch.from_numpy(SAMPLE.x))
    right = np.mean(np.array(answers) == np.array(SAMPLE.class_names)[SAMPLE.y])
    assert right > 0.9
    text = (tmp_path / "one" / "README.md").read_text()
    assert "0 is top; 1 is middle; 2 is low." in text


def test_a_table_is_asked_by_the_names_of_its_columns(tmp_path, monkeypatch, capsys):
    stream = np.random.default_rng(0)
    rows = [(f"{x:.2f}", "ab"[int(x > 0.2)], "yes" if x > 0 else "no") for x in stream.normal(size=60)]
    table = tmp_path / "rows.csv"
    table.write_text("width,kind of it,label\n" + "\n".join(map(",".join, rows)))
    folder = certify(f"{table}:label", method="split").save_to(tmp_path / "one").folder
    monkeypatch.chdir(folder)
    (code,) = code_of((folder / "README.md").read_text())
    exec(code, {})
    assert re.fullmatch(r"\['(yes|no)', '(yes|no)'\]\n", capsys.readouterr().out)
    assert "import torch" not in code


def test_a_network_behind_an_encoder_is_loaded_with_it(tmp_path, monkeypatch):
    (tmp_path / "my_halves.py").write_text(ENCODER)
    monkeypatch.chdir(tmp_path)
    encoder = load_encoder("my_halves:halves")
    found = certify(encoder.table(SAMPLE), method="picks", run=Run(effort="quick"))
    folder = found.save_to(tmp_path / "one").folder
    text = (folder / "README.md").read_text()
    inputs = SAMPLE.scaling.apply(torch.from_numpy(SAMPLE.x))
    (code,) = code_of(text)
    exec(code.replace('"."', repr(str(folder))), {"inputs": inputs})
    g = load_classifier(folder, encoder=encoder)
    rows = load_classifier(folder)
    assert g.predict(inputs) == rows.predict(torch.from_numpy(encoder.table(SAMPLE).x))
    assert "my_halves:halves" in (folder / "report.html").read_text()


def test_files_have_the_modes_of_ordinary_ones(tmp_path):
    (tmp_path / "ordinary").touch()
    usual = stat.S_IMODE((tmp_path / "ordinary").stat().st_mode)
    folder = learned().save_to(tmp_path / "one").folder
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {usual}


NAME = "<script>alert(1)</script>\"'><img src=x>[a](javascript:alert(1))|`x`\n```\n<b>"


def test_names_are_shown_and_never_become_parts_of_a_page(tmp_path):
    """Of models, data, classes and folders: in Markdown, in pages, and in a notebook."""
    named = replace(SAMPLE, class_names=(NAME, "b", "c"), name=NAME)
    found = certify(named, method="picks", claim=Claim(by_class=True), run=Run(effort="quick"))
    folder = found.save_to(tmp_path / NAME.replace("/", "_"), settings={"model": NAME, "data": NAME}).folder
    readme = (folder / "README.md").read_text()
    rendered = markdown.markdown(readme, extensions=["tables", "fenced_code"])
    pages = [rendered, (folder / "report.html").read_text(), found._repr_html_()]
    for page in pages:
        assert not re.search(r"<script>alert|<img src=x|<b>\W*<|href=.javascript", page)
    assert "&lt;script&gt;alert(1)" in pages[0]
    assert "&lt;script&gt;alert(1)" in pages[1]

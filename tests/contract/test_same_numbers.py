"""The same number has the same value everywhere: screen, JSON, page, README, notebook, both programs."""

import json
import re
import shlex
from html import unescape

import pytest
from worlds.bright_rows import images, solved

from codebound.bounds.risk import count_of, percent
from codebound.certification import certify
from codebound.cli.certify import print_result
from codebound.cli.console import Format
from codebound.request import Claim, Run
from codebound_verify.__main__ import main as verify

SAMPLE, TEST = images(), images(60, 2, "test")
CASES = {
    "message": lambda: certify(
        SAMPLE, network=solved().build(), method="prune", test=TEST, run=Run(effort="quick")
    ),
    "picked, with f": lambda: certify(SAMPLE, network=solved().build(), method="picks", test=TEST),
    "about f": lambda: certify(
        SAMPLE,
        network=solved().build(),
        method="prune",
        test=TEST,
        claim=Claim(unlabelled=images(80, 1, "unlabelled")),
        run=Run(effort="quick"),
    ),
    "split": lambda: certify(SAMPLE, test=TEST, run=Run(effort="quick")),
    "parts": lambda: certify(SAMPLE, claim=Claim(on="answered:0.5"), run=Run(effort="quick")),
    "every class": lambda: certify(SAMPLE, method="picks", delta=0.01, claim=Claim(by_class=True)),
}


def plain(text):
    return re.sub(r"(?<=\d),(?=\d{3})", "", unescape(re.sub(r"<[^>]*>", "", text))).strip()


def of_screen(text):
    cells = (re.split(r"\s{2,}", line.strip()) for line in text.splitlines())
    return {
        row[0]: plain(row[1]) for row in reversed([*cells]) if len(row) >= 3
    }  # methods have names of counts


def of_readme(text):
    cells = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| "))
    return {row[0]: plain(row[1]) for row in cells if len(row) == 3}


def of_html(text):
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", text, flags=re.DOTALL)
    cells = (
        [plain(each) for each in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)] for row in rows
    )
    return {row[0]: row[1] for row in cells if len(row) >= 2}


def of_scale(text):
    found = re.findall(r'<li class="(\w+)">.*?class="value">(.*?)</span>', text, flags=re.DOTALL)
    return {kind: plain(value) for kind, value in found}


def of_json(result):
    """What a reader of the JSON would print."""
    values = {"certified error": percent(result["bound"]), "paid": count_of(result["code_bits"], "bit")}
    values |= {each["name"]: f"{each['count']} of {each['of']}" for each in result["counts"]}
    if "holdout" in result:
        values["test set"] = percent(result["holdout"])
    if "holdout_f" in result:
        values["test set, your network"] = percent(result["holdout_f"])
    if result["original_errors"] is not None:
        values["your network"] = f"{result['original_errors']} of {result['rows']}"
    return values


def disagreements(pages, wanted):
    """Numbers that a page lacks, or has another value for."""
    return [
        (page, name, found.get(name), value)
        for page, found in pages.items()
        for name, value in wanted.items()
        if found.get(name) != value
    ]


@pytest.fixture(scope="module", params=CASES)
def folder(request, tmp_path_factory):
    found = CASES[request.param]()
    saved = found.save_to(tmp_path_factory.mktemp("same") / "cert")
    return found, saved


def pages_of(found, saved, capsys):
    print_result(saved, Format.table, quiet=True)
    return {
        "screen": of_screen(capsys.readouterr().out),
        "README": of_readme((saved.folder / "README.md").read_text()),
        "report": of_html((saved.folder / "report.html").read_text()),
        "notebook": of_html(found._repr_html_()),
    }


@pytest.mark.few(3)
def test_every_page_has_the_numbers_of_the_json(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    found, saved = folder
    wanted = of_json(json.loads((saved.folder / "result.json").read_text()))
    pages = pages_of(found, saved, capsys)
    assert len(wanted) >= 3  # the bound, the message, and errors
    assert disagreements(pages, wanted) == []
    wrong = {**pages, "README": {**pages["README"], "paid": "3 bits"}}
    assert [page for page, *_ in disagreements(wrong, wanted)] == ["README"]  # it has teeth


def test_the_picture_and_the_sentences_say_the_same(folder, capsys):
    found, saved = folder
    result, page = saved.result, (saved.folder / "report.html").read_text()
    scale, bound = of_scale(page), percent(result["bound"])
    assert scale["certified"] == bound
    for key in ("holdout", "holdout_f"):
        assert (key in scale) is (key in result)
        assert key not in result or scale[key] == percent(result[key])
    for text in (found.sentence, str(found), plain(page), (saved.folder / "README.md").read_text()):
        assert f"at most {bound}" in text
    _, *arguments = shlex.split(result["verify"])
    assert verify(arguments) == 0
    assert f"is at most {bound} ({result['bound']!r}, {result['statement']}" in capsys.readouterr().out
    for row in result.get("by_class", ()):
        assert percent(row["bound"]) == of_html(page)[f"class {row['label']}"]

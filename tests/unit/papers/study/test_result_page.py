"""Tables and page of a study, from records alone."""

import copy
from dataclasses import replace

import pytest
import torch
from scipy.stats import beta
from worlds.commands import Page

from codebound_papers.report.figures import Plot, Series
from codebound_papers.study.guha import guha23
from codebound_papers.study.result_page import make_figure, make_table
from codebound_papers.value import PublishedValue, Refused


def test_a_cell_is_a_rate_a_number_a_word_or_unknown():
    rows = [{"a": 0.25, "b": None, "c": "word", "d": True, "e": 1234}]
    columns = {"a": "share|%", "b": "nothing|.3g", "c": "text|,", "d": "holds", "e": "count|,"}
    table = make_table("A table", rows, columns, share="what it is.")
    assert table.rows == [
        {"share": "25.00 %", "nothing": "unknown", "text": "word", "holds": "yes", "count": "1,234"}
    ]


def test_a_figure_without_points_is_none():
    assert list(make_figure("t", "c", Plot("", "x", "y", [Series("", [], [])]))) == []
    assert len(list(make_figure("t", "c", Plot("", "x", "y", [Series("", [1.0], [2.0])])))) == 1


@pytest.fixture(scope="module")
def found(about):
    return guha23(about, prune="algorithm1", d=1.0)


def test_the_page_begins_with_three_sentences_and_ends_with_commands(found):
    page = Page(found.page())
    for text in ("The paper.", "This network.", "What is true.", "codebound sketch", "Assumption 3.1"):
        assert text in page.text
    assert all(link.startswith("#") for link in page.links)  # nothing to fetch
    assert page.text.index("What is true.") < page.text.index("As published, no guarantee")


def test_published_and_certified_values_stay_apart(found):
    record = found.record()
    assert {each["name"] for each in record["published"]}.isdisjoint(record["certified"])
    assert all(isinstance(each, PublishedValue) for each in found.theorems)
    titles = [table.title for table in found.screen() if not isinstance(table, str)]
    assert "As published, no guarantee" in titles
    assert "Certified, and counted" in titles


def test_what_does_not_apply_or_has_no_certificate_says_why(found):
    refused = Refused("G-Thm5.2", "Guha 5.2: sketching", "risk", "g", "it is no chain.")
    bare = replace(found, theorems=[refused], certified={"g": "Its weights are not finite."})
    assert "does not apply: it is no chain." in bare.sentences[1]
    assert "no certificate: Its weights are not finite." in bare.sentences[2]
    assert bare.record()["certified"]["g"] == {"bound": None, "reason": "Its weights are not finite."}
    assert "it is no chain." in bare.page()


def test_the_last_line_bounds_how_often_g_answers_unlike_f(about, found):
    x = torch.from_numpy(about.test_set.x).double()
    with torch.no_grad():
        f, g = (copy.deepcopy(each).double()(x).argmax(1) for each in (about.f, found.networks["g"]))
    differ, told = int((f != g).sum()), found.record()["faithful"]
    assert 0 < differ < 60
    assert (told["differ"], told["n"]) == (differ, 60)
    assert told["limit"] == pytest.approx(beta.ppf(0.95, differ + 1, 60 - differ), rel=1e-9)
    assert found.screen()[-1] == told["says"]
    assert {each.dtype for each in about.f.parameters()} == {torch.float32}  # they are as they were
    for test_set in (None, about.sample):  # none, and copies of the sample
        blind = replace(found, about=replace(about, test_set=test_set))
        assert blind.record()["faithful"] is None
        assert "is not known" in str(blind.screen()[-1])


def test_commands_name_the_folder(found):
    assert all("out/here/f.safetensors" in each for each in replace(found, place="out/here").commands)

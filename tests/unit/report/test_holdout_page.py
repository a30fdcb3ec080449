"""Pages of ledgers: the sentence is what the lines prove, and no name becomes a page of its own."""

import re
import subprocess
import sys
from html import unescape

import pytest
from worlds.ledgers import GROUPS, abstain, every_page, look, pair, seal

from codebound.holdout.seals import Plan
from codebound.holdout.seals import seal as seal_table
from codebound.holdout.statements import look as look_at
from codebound.report.holdout_page import lines_page, write_page
from codebound.run.errors import FormatError

RUDE = '<img src=x onerror="alert(1)"> {0} {limit}'


def page(*lines):
    return unescape(lines_page(lines, name="answers.ledger.jsonl", head="12" * 32))


def answers(text):
    return re.findall(r'<p class="claim answer( vacuous)?">(.*?)</p>', text)


@pytest.mark.parametrize("name", every_page())
def test_every_page_has_its_parts(name):
    lines = every_page()[name]
    text = page(*lines)
    for title in ("What it means", "What it does not mean", "What has to be true", "Check it yourself"):
        assert title in text
    assert answers(text)
    assert "--head " + "12" * 32 in text
    assert "Undefined" not in text
    assert "None" not in text


def test_the_best_of_three_is_named_with_its_price_and_the_naive_number():
    text = page(seal(), look("a", 60), look("b", 47), look("c", 90))
    ((_, words),) = answers(text)
    assert words == "b is wrong on at most 6.56 % of new rows."
    assert "as the only look it would be 5.96 %" in text
    assert "b has the smallest limit of 3; its limit pays for all of them" in text


def test_the_worst_group_is_named():
    text = page(seal(groups=GROUPS), look("b", 47, by_group=(9, 20, 6, 12)))
    assert "The worst group is dates." in text
    assert text.index(">dates<") < text.index(">arithmetic<")


def test_better_says_by_how_much_and_never_more():
    shown = pair("a", "b", 60, 20)
    ((mark, words),) = answers(page(seal(), shown))
    gain = float(re.search(r"^b errs less often than a, by at least ([\d.]+) % of new rows\.$", words)[1])
    assert 0 < gain <= 100 * shown["result"]["limit"] < gain + 0.01
    assert mark == ""


def test_what_is_not_shown_is_marked_and_limited():
    line = pair("a", "b", 40, 35)
    ((mark, words),) = answers(page(seal(), line))
    most = float(
        re.search(r"^It is NOT shown that b errs less often than a; it errs at most ([\d.]+) % of", words)[1]
    )
    assert most >= -100 * line["result"]["limit"] > most - 0.01
    assert mark == " vacuous"


@pytest.mark.parametrize(("counts", "said"), [((40, 35), "It is shown"), ((40, 90), "It is NOT shown")])
def test_a_margin_is_a_claim_of_its_own(counts, said):
    ((_, words),) = answers(page(seal(), pair("a", "b", *counts, margin=0.02)))
    assert words == f"{said} that b errs at most 2 % of new rows more often than a."


def test_a_threshold_claims_the_risk_and_not_what_was_counted():
    ((_, words),) = answers(page(seal(), abstain("b")))
    assert words == (
        "Where confidence is at least 0.8, b is wrong on at most 3 % of what it answers, "
        "and it answers at least 71.25 % of new rows."
    )
    ((mark, words),) = answers(page(seal(), abstain("b", chosen=None)))
    assert words == "No threshold is shown at which b is wrong on at most 3 %."
    assert mark == " vacuous"


def test_a_level_that_is_not_reached_tells_nothing():
    silent = look("b", 47) | {"result": None}
    text = page(seal(levels=[99, 49]), silent, look("a", 99))
    assert "no more is told: b." in text
    assert "at most 99 of 1,000" in text


@pytest.mark.parametrize(
    ("claim", "said"), [("row", "one random row of a new cluster"), ("any", "any row of a new cluster")]
)
def test_clusters_are_named_as_what_they_are(claim, said):
    about = {"claim": claim, "column": "patient", "sha256": "ff" * 32, "units": 200}
    text = page(seal(clusters=about, n=200), look("b", 7, 200))
    assert said in answers(text)[0][1]
    assert "Not the error per row" in text


def test_a_compressed_model_is_compared_with_the_first_one():
    label = {"column": "f", "is": "answers", "sha256": "aa" * 32}
    text = page(seal(label=label), look("g", 2))
    ((_, words),) = answers(text)
    assert "took no part in making or choosing" in text
    assert "no label was looked at" in text
    assert re.fullmatch(r"g answers unlike the original on at most [\d.]+ % of new rows\.", words)


def test_names_are_only_names():
    about = GROUPS | {"column": RUDE, "names": [RUDE, "b", "c", "d"]}
    lines = [
        seal(data=RUDE, groups=about, loss=["class", RUDE]),
        look(RUDE, 47, by_group=(9, 20, 6, 12)),
        pair(RUDE, RUDE, 60, 20, by_group=((20, 3), (10, 9), (20, 4), (10, 4))),
        abstain(RUDE),
    ]
    text = lines_page(lines, name=RUDE, head="12" * 32)
    assert "<img" not in text
    assert "{0} {limit}" in text


def test_a_page_is_written_of_what_the_reader_accepts(tmp_path, monkeypatch):
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{'yes' if i % 3 else 'no'},{'yes' if i % 3 or i < 9 else 'no'}\n" for i in range(300))
    (tmp_path / "answers.csv").write_text("label,a\n" + rows)
    ledger = seal_table("answers.csv:label", Plan(look=["a"]))
    look_at(ledger.path, "a")
    write_page(ledger.path, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "answers.csv: how often it errs" in text
    assert "a is wrong on at most " in text
    damaged = ledger.path.read_bytes().replace(b'"errors":3', b'"errors":2')
    ledger.path.write_bytes(damaged)
    with pytest.raises(FormatError):
        write_page(ledger.path, tmp_path / "other.html")
    assert not (tmp_path / "other.html").exists()


def test_pages_need_no_torch():
    script = (
        "import sys; import codebound.report.holdout_page, codebound.report.holdout_page\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

"""Tables and notes on a narrow terminal: no number, and no word, is ever broken."""

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.commands import Terminal

from codebound.cli.console import column_widths, note, print_table
from codebound.report.templates import Table

WORDS = st.lists(st.text("abc.123", min_size=1, max_size=12), max_size=6).map(" ".join)
TABLES = st.integers(1, 8).flatmap(
    lambda rows: st.lists(st.lists(WORDS, min_size=rows, max_size=rows), min_size=1, max_size=10)
)


@given(TABLES, st.integers(1, 160))
def test_columns_fit_and_break_no_word(cells, room):
    widths = column_widths(cells, room)
    longest = [max((len(word) for cell in column for word in cell.split()), default=0) for column in cells]
    if widths is None:
        assert sum(longest) > room
        return
    assert sum(widths) <= room
    assert all(width >= least for width, least in zip(widths, longest, strict=True))
    if sum(max(map(len, column)) for column in cells) <= room:
        assert widths == [max(map(len, column)) for column in cells]


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("count", [2, 6, 14])
def test_every_number_is_whole_on_every_terminal(columns, count, monkeypatch):
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", str(columns))
    rows = [{f"column-{at}": 1234567.25 + at for at in range(count)} for _ in range(3)]
    rows[0]["column-0"] = "some words that may be wrapped"
    print_table(Table("title", rows))
    text = re.sub(r"\x1b\[[0-9;]*m", "", sys.stdout.getvalue())
    for at in range(count):
        assert f"column-{at}" in text
        assert text.count(f"{1234567.25 + at}") == 3 - (at == 0)
    assert max(map(len, text.splitlines())) <= columns


HOSTILE = "\x1b[2J\x07\rACCEPT\udcff[/bold]:a:"


def test_names_do_not_draw_on_the_terminal(capsys):
    """Control characters, bytes of file names that are no text, and markup are shown as what they are."""
    note(HOSTILE)
    print_table(Table(HOSTILE, [{HOSTILE: HOSTILE, "other": f"line\n{HOSTILE}"}]))
    print_table(Table("", [{f"{HOSTILE}{at}": HOSTILE for at in range(20)}]))  # row by row
    shown = "".join(capsys.readouterr())
    assert shown.count(r"\x1b[2J\x07\rACCEPT\udcff[/bold]:a:") == 5 + 40
    assert all(each.isprintable() for line in shown.split("\n") for each in line)


@pytest.mark.parametrize("columns", range(20, 60))
def test_notes_are_wrapped_at_words_and_commands_stay_whole(columns, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", str(columns))
    sentence = "With probability at least 1 - 0.05 over the draw of the sample, g errs on at most 39.43 %."
    command = "Check it: codebound-verify some/folder/certificate.cbound --data digits"
    note(f"{sentence}\n{command}")
    *lines, last = sys.stderr.getvalue().splitlines()
    assert (" ".join(lines), last) == (sentence, command)
    assert max(map(len, lines)) <= columns
    assert not any(line.startswith("%") for line in lines)


@pytest.mark.parametrize("columns", [34, 40, 60])
def test_a_number_stays_with_its_per_cent_sign_and_a_hash_may_be_broken(columns, monkeypatch):
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", str(columns))
    sha = "0123456789abcdef" * 4
    rows = [{"what": "kept of it all", "value": "84.84 %"}, {"what": sha, "value": "at most 100.00 %"}]
    print_table(Table("", rows))
    text = re.sub(r"\x1b\[[0-9;]*m", "", sys.stdout.getvalue())
    assert re.search(r"84\.84 %", text)
    assert re.search(r"100\.00 %", text)
    assert max(map(len, text.splitlines())) <= columns
    assert sha.startswith("".join(re.findall(r"[0-9a-f]{4,}", text)))
    assert sha[:16] in text


def test_items_of_a_list_are_indented_where_they_go_on(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "40")
    note("Declared:\n  - The sample is an independent draw from the distribution of use.")
    first, second, *rest = sys.stderr.getvalue().splitlines()
    assert (first, second[:4]) == ("Declared:", "  - ")
    assert rest
    assert all(line.startswith("    ") and len(line) <= 40 for line in rest)

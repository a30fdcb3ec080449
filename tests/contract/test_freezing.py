"""The pages of the formats are frozen once: day and hash stand in both programs, and a change is found."""

import hashlib
import re
import runpy
from pathlib import Path

import pytest

from codebound.certificate.file import PAGE
from codebound.holdout import ledger
from codebound_verify import header
from codebound_verify.holdout import rules

ROOT = Path(__file__).parents[2]
FREEZE = runpy.run_path(str(ROOT / "docs/freeze.py"))
TEXT = FREEZE["PAGE"].read_text("utf-8")


def test_both_programs_name_the_page_and_its_day():
    assert (PAGE.sha256, PAGE.frozen) == (header.PAGE_SHA256, header.FROZEN)
    assert re.findall(r"^Frozen on (\S+):", TEXT, re.M) == [PAGE.frozen]
    assert FREEZE["page_sha256"](TEXT) == PAGE.sha256, "a frozen page was changed, or run make freeze"


def test_both_programs_name_the_page_of_the_ledger_and_its_day():
    content = FREEZE["LEDGER_PAGE"].read_bytes()
    assert re.findall(rb"^Frozen on (\S+):", content, re.M) == [ledger.FROZEN.encode()]
    assert b"Draft" not in content
    assert (ledger.PAGE_SHA256, ledger.FROZEN) == (rules.PAGE_SHA256, rules.FROZEN)
    assert hashlib.sha256(content).hexdigest() == rules.PAGE_SHA256, "a frozen page was changed"
    assert FREEZE["page_sha256"](content.decode()) == rules.PAGE_SHA256


def test_the_hash_is_of_all_bytes_up_to_the_sentence_that_says_so():
    content = FREEZE["PAGE"].read_bytes()
    lines = content.splitlines(keepends=True)
    end = 1 + next(at for at, line in enumerate(lines) if b"line feed behind this sentence." in line)
    assert b"\r" not in content
    assert lines[end - 1].endswith(b"behind this sentence.\n")
    assert FREEZE["page_sha256"](TEXT) == hashlib.sha256(b"".join(lines[:end])).hexdigest()
    assert FREEZE["page_sha256"](TEXT + "more\n") == FREEZE["page_sha256"](TEXT)
    assert not any(line.startswith("## ") for line in TEXT.splitlines()[end:] if "Example" not in line)


def test_a_page_is_frozen_once(tmp_path):
    page, modules = tmp_path / "format.md", tuple(tmp_path / f"{name}.py" for name in "ab")
    page.write_text("# Page\n\n**Draft.** Not yet.\n\nRules.\n" + FREEZE["LAST"] + "\n## 13. Examples\n")
    for module in modules:
        module.write_text('X = 1\nPAGE_SHA256 = "0" * 64  # of the page\nFROZEN = "0001-01-01"\n')
    for _ in range(2):  # the second time nothing happens
        FREEZE["main"](page, modules)
        text, told = page.read_text(), modules[1].read_text()
        assert f'PAGE_SHA256 = "{FREEZE["page_sha256"](text)}"  # of the page\n' in told
        assert "Draft" not in text
        assert modules[0].read_text() == told
    page.write_text(text + "one example more\n")
    FREEZE["main"](page, modules)
    assert modules[0].read_text() == told
    page.write_text(text.replace("Rules", "Other rules"))
    with pytest.raises(SystemExit, match="changed after it was frozen"):
        FREEZE["main"](page, modules)

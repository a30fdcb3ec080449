"""Freezes the pages of the formats, docs/format.md and docs/ledger.md: ``make freeze``.

The day goes into the page, the SHA-256 of the page and the day into both programs. The hash is that of all
bytes up to the sentence that says so, with its line feed, so that examples can follow; without such a
sentence it is that of all bytes. A page that is frozen
is only checked, here as in the tests: whatever changes later is a new version with a page of its own.
"""

import datetime
import hashlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/format.md"
MODULES = (ROOT / "src/codebound/certificate/file.py", ROOT / "src/codebound_verify/header.py")
LEDGER_PAGE = ROOT / "docs/ledger.md"
LEDGER_MODULES = (
    ROOT / "src/codebound/holdout/ledger.py",
    ROOT / "src/codebound_verify/holdout/rules.py",
)
UNFROZEN = {"PAGE_SHA256": '"0" * 64', "FROZEN": '"0001-01-01"'}
LAST = (
    "The hash of the page is the SHA-256 of its bytes (UTF-8, line ends LF) from the first up to and with "
    "the line feed behind this sentence.\n"
)
DRAFT = re.compile(r"^\*\*Draft\.\*\* .*$", flags=re.MULTILINE)
FROZEN = (
    "Frozen on {day}: both programs carry its SHA-256 and that day, every file names them, and whatever "
    "changes later is a new version with its own page."
)
FROZEN_LEDGER = (
    "Frozen on {day}: both programs carry its SHA-256; what changes later is a new version with its own page."
)


def page_sha256(text: str) -> str:
    """Hash of the part of a page that is frozen."""
    end = text.index(LAST) + len(LAST) if LAST in text else len(text)
    return hashlib.sha256(text[:end].encode()).hexdigest()


def main(page: Path = PAGE, modules: tuple[Path, ...] = MODULES) -> None:
    """Writes the day into the page and two constants into each program, unless that was done."""
    text = page.read_text("utf-8")
    if DRAFT.search(text):
        frozen = FROZEN if LAST in text else FROZEN_LEDGER
        text = DRAFT.sub(frozen.format(day=datetime.date.today().isoformat()), text)
        page.write_text(text, "utf-8")
    (day,) = re.findall(r"^Frozen on (\S+):", text, flags=re.MULTILINE)
    digest = page_sha256(text)
    for module in modules:
        _write(module, {"PAGE_SHA256": f'"{digest}"', "FROZEN": f'"{day}"'})
    sys.stdout.write(f"{page.name} {digest}, frozen on {day}\n")


def _write(module: Path, constants: dict[str, str]) -> None:
    text = module.read_text("utf-8")
    for name, value in constants.items():
        (old,) = re.findall(rf'^{name} = ("[^"]*"(?: \* 64)?)', text, flags=re.MULTILINE)
        if old not in (UNFROZEN[name], value):
            sys.exit(
                f"{module} carries {name} = {old}, the page has {value}: it was changed after it was frozen. "
                "Take the change back; what is new belongs into the page of a new version."
            )
        text = text.replace(f"{name} = {old}", f"{name} = {value}", 1)
    module.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
    main(LEDGER_PAGE, LEDGER_MODULES)

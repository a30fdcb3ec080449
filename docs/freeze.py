"""Freezes the page of the newest version, docs/format-3.md: ``make freeze``.

The day goes into the page, the SHA-256 of the page and the day into both programs. A page that is frozen
is only checked, here as in the tests: whatever changes later is a new version with a page of its own.
"""

import datetime
import hashlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/format-3.md"
MODULES = (ROOT / "src/codebound/certificate/versions.py", ROOT / "src/codebound_verify/versions.py")
DRAFT = re.compile(r"^Not frozen yet: .*$", flags=re.MULTILINE)
FROZEN = (
    "Frozen on {day}: both programs carry the SHA-256 of this page and that day, every file of this version "
    "names them, and whatever changes later is a new version with a page of its own."
)


def main(page: Path = PAGE, modules: tuple[Path, ...] = MODULES) -> None:
    """Writes the day into the page and two constants into each program, unless that was done."""
    text = page.read_text()
    if DRAFT.search(text):
        day = datetime.date.today().isoformat()
        page.write_text(DRAFT.sub(FROZEN.format(day=day), text))
    (day,) = re.findall(r"^Frozen on (\S+):", page.read_text(), flags=re.MULTILINE)
    digest = hashlib.sha256(page.read_bytes()).hexdigest()
    for module in modules:
        _write(module, {"PAGE_3_SHA256": digest, "FROZEN_3": day})
    sys.stdout.write(f"{page.name} {digest}, frozen on {day}\n")


def _write(module: Path, constants: dict[str, str]) -> None:
    text = module.read_text()
    for name, value in constants.items():
        (old,) = re.findall(rf'^{name} = "(.*)"$', text, flags=re.MULTILINE)
        if old not in ("", value):
            sys.exit(
                f"{module} carries {name} = {old}, the page has {value}: it was changed after it was frozen. "
                "Take the change back; what is new belongs into the page of a new version."
            )
        text = text.replace(f'{name} = "{old}"', f'{name} = "{value}"')
    module.write_text(text)


if __name__ == "__main__":
    main()

"""Writes the SHA-256 of docs/format.md, and the day that it names, into both programs: ``make freeze``.

Only before a page is frozen; afterwards every change is a new version with a page of its own.
"""

import hashlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/format.md"
MODULES = (ROOT / "src/codebound/certificate/format.py", ROOT / "src/codebound_verify/versions.py")


def main() -> None:
    """Refreshes the two constants of each program."""
    digest = hashlib.sha256(PAGE.read_bytes()).hexdigest()
    (day,) = re.findall(r"^Frozen on (\S+):", PAGE.read_text(), flags=re.MULTILINE)
    for module in MODULES:
        text = module.read_text()
        for name, value in (("PAGE_SHA256", digest), ("FROZEN", day)):
            text, count = re.subn(rf'^{name} = ".*"$', f'{name} = "{value}"', text, flags=re.MULTILINE)
            assert count == 1, f"{module} has no constant {name}"
        module.write_text(text)
    sys.stdout.write(f"docs/format.md {digest}, frozen on {day}\n")


if __name__ == "__main__":
    main()

"""Check a certificate that somebody else made: all you need is the file and the sample.

Run: python examples/verify_someone_elses.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path

import codebound as cb

DEFAULT = Path(__file__).parents[1] / "results" / "certificates" / "digits-linear.cbound"


def main() -> None:
    """Prints what the file claims, the verdict, and what no program can check."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    print(cb.Certificate.load(path))
    verdict = cb.verify(path, cb.load_dataset("digits"))
    print(verdict.verdict)
    for line in (*verdict.reasons, *verdict.assumptions):
        print(f"  - {line}")


if __name__ == "__main__":
    main()

"""Check a certificate that somebody else made: all you need is the file and the sample.

Run: python examples/verify_someone_elses.py [FILE]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import codebound as cb


def main() -> None:
    """Prints what a file claims, the verdict, and what no program can check."""
    digits = cb.load_sample("digits")
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 1:
            path = Path(sys.argv[1])
        else:
            path = cb.certify(digits, run=cb.Run(effort="quick")).save(Path(folder) / "g.cbound")
        print(cb.Certificate.load(path))
        verdict = cb.verify(path, digits)
    print(verdict.verdict)
    for line in (*verdict.reasons, *verdict.assumptions):
        print(f"  - {line}")


if __name__ == "__main__":
    main()

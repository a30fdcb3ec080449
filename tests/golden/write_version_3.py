"""Writes the golden files of version 3: part of ``make freeze``, never after it."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NEW = HERE / "version-3"


def main() -> None:
    """Writes all of them."""
    NEW.mkdir(exist_ok=True)


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests/reference")]
    main()

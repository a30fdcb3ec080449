"""Writes .ci/requirements.txt: every package that `make install` takes, with the hash of its file.

    python .ci/lock.py        # with the Python and on the kind of machine that the file is for

pip chooses the versions, within constraints.txt, from whatever index it is set up with; where that is is not
written down. A file with another hash is refused by `make locked`, also one of another platform.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ("hatchling", "editables")  # which make the package itself


def chosen() -> list[dict[str, object]]:
    """What pip would install here if nothing was."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        wanted = ["--report", str(report), "-c", "constraints.txt", "-e", ".[test]", *BUILD]
        subprocess.run([*pip, *wanted], cwd=ROOT, check=True)
        found: list[dict[str, object]] = json.loads(report.read_text())["install"]
    return found


def lines(packages: list[dict[str, object]]) -> list[str]:
    """A line for every package but ours."""
    found = []
    for each in packages:
        metadata, source = each["metadata"], each["download_info"]
        assert isinstance(metadata, dict)
        assert isinstance(source, dict)
        if "archive_info" in source:  # ours is a folder
            name = re.sub(r"[-_.]+", "-", metadata["name"]).lower()
            version = metadata["version"].split("+")[0]  # the part of one index that others do not know
            found.append(f"{name}=={version} --hash=sha256:{source['archive_info']['hashes']['sha256']}")
    return sorted(found)


def main() -> None:
    """Writes the file."""
    text = "\n".join(["# Written by .ci/lock.py; installed by `make locked`.", *lines(chosen())])
    (ROOT / ".ci/requirements.txt").write_text(text + "\n")


if __name__ == "__main__":
    main()

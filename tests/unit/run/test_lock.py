"""The list of packages with their hashes: every pinned version is in it, and no address."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
LINE = re.compile(r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")


def lock():
    spec = importlib.util.spec_from_file_location("lock", ROOT / ".ci/lock.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_agrees_with_the_constraints_and_names_no_index():
    _, *lines = (ROOT / ".ci/requirements.txt").read_text().splitlines()
    listed = {LINE.fullmatch(line)[1]: LINE.fullmatch(line)[2] for line in lines}
    text = (ROOT / "constraints.txt").read_text().splitlines()
    wanted = dict(line.split("==") for line in text if "==" in line and not line.startswith("#"))
    differ = {name for name in wanted.keys() & listed.keys() if wanted[name] != listed[name]}
    assert not differ, "run python .ci/lock.py"
    assert {"torch", "numpy", "pytest", "hatchling"} <= listed.keys()


def test_a_line_has_the_public_version_and_ours_is_left_out():
    digest = "a" * 64
    packages = [
        {
            "metadata": {"name": "Some_Thing", "version": "2.1+cpu"},
            "download_info": {"url": "file:///x", "archive_info": {"hashes": {"sha256": digest}}},
        },
        {"metadata": {"name": "codebound", "version": "0"}, "download_info": {"dir_info": {}}},
    ]
    assert lock().lines(packages) == [f"some-thing==2.1 --hash=sha256:{digest}"]

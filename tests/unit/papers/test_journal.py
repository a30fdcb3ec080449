"""Finished parts survive an interruption, and are never mixed with those of another run."""

import json
import subprocess
import sys

import pytest

from codebound.run.errors import FormatError, UsageError
from codebound_papers.journal import Journal, OutOfTimeError

RUN = {"item": "x", "seed": 0}
KILLED = """
import os, signal, sys
from pathlib import Path
from codebound_papers.journal import Journal

cells, log = Journal(Path(sys.argv[1])), Path(sys.argv[2])

def compute(n):
    with log.open("a") as file:
        file.write(f"{n}\\n")
    if n == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"square": n * n}

print(sum(cells.get(str(n), lambda: compute(n))["square"] for n in range(5)))
"""


def test_a_value_is_computed_once(tmp_path):
    path, seen = tmp_path / "cells.json", []

    def compute():
        seen.append(1)
        return {"value": 0.1, "pair": (1, 2)}

    first = Journal(path, run=RUN).get("a", compute)
    assert Journal(path, run=RUN).get("a", compute) == first == {"value": 0.1, "pair": [1, 2]}
    assert len(seen) == 1


def test_a_killed_process_is_continued(tmp_path):
    def run(fatal):
        arguments = [sys.executable, "-c", KILLED, tmp_path / "cells.json", tmp_path / "log", str(fatal)]
        return subprocess.run(arguments, capture_output=True, text=True, check=False)

    assert run(3).returncode < 0
    assert run(-1).stdout == f"{0 + 1 + 4 + 9 + 16}\n"
    assert (tmp_path / "log").read_text().split() == ["0", "1", "2", "3", "3", "4"]


def test_an_exception_leaves_the_others(tmp_path):
    cells = Journal(tmp_path / "cells.json")
    cells.get("a", lambda: {"value": 1})
    with pytest.raises(KeyboardInterrupt):
        cells.get("b", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    again = Journal(tmp_path / "cells.json")
    assert again.get("a", dict) == {"value": 1}
    assert again.get("b", dict) == {}
    assert [path.name for path in tmp_path.iterdir()] == ["cells.json"]


def test_a_caller_cannot_change_what_is_kept():
    cells = Journal()
    cells.get("a", lambda: {"value": 1})["value"] = 2
    assert cells.get("a", dict) == {"value": 1}


def test_the_time_of_all_parts_that_were_used_adds_up(tmp_path):
    path = tmp_path / "cells.json"
    parts = {name: {"seconds": 1.5, "cpu_seconds": 0.5, "machine": {}, "value": {}} for name in "abc"}
    path.write_text(json.dumps({"run": {}, "cells": parts}))
    cells = Journal(path)
    for name in "aba":
        cells.get(name, dict)
    assert cells.total("seconds") == 3.0
    assert cells.total("cpu_seconds") == 1.0
    assert cells.machines() == [{"cells": 2, "seconds": 3.0}]


def test_a_part_remembers_the_machine_it_was_computed_on(tmp_path):
    path = tmp_path / "cells.json"
    there = Journal(path, machine={"device": "cuda:0"})
    assert there.machines() == []
    for name in ("a", "b"):
        there.get(name, dict)
    here = Journal(path, machine={"device": "cpu"})
    for name in ("b", "c"):
        here.get(name, dict)
    assert [(each["device"], each["cells"]) for each in here.machines()] == [("cuda:0", 1), ("cpu", 1)]
    assert "a" in here
    assert "d" not in here


def test_progress_hears_of_every_new_part():
    heard = []
    cells = Journal(progress=lambda done, total, note="": heard.append((done, total, note)))
    for name in ("a", "a", "b"):
        cells.get(name, dict)
    assert heard == [(0, None, "a"), (1, None, "b")]


def test_parts_of_another_run_are_refused(tmp_path):
    Journal(tmp_path / "cells.json", run=RUN).get("a", dict)
    with pytest.raises(UsageError, match=r"another run: seed is 0 there, 1 here\. Their"):
        Journal(tmp_path / "cells.json", run=RUN | {"seed": 1})


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"run": {}, "cells": 3}', '{"run": {}, "cells": {"a": 1}}', "\x00\xff"],
)
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / "cells.json").write_text(text, encoding="latin-1")
    with pytest.raises(FormatError, match=r"cells\.json .*Remove it, or choose another folder"):
        Journal(tmp_path / "cells.json")


def test_after_the_deadline_some_parts_are_better_than_none(tmp_path):
    path = tmp_path / "cells.json"
    parts = {name: lambda name=name: {"name": name} for name in "abcd"}
    with pytest.raises(OutOfTimeError, match="'a'"):
        Journal(path, deadline=0.0).get_some(parts)
    early = Journal(path)
    for name in "bd":
        early.get(name, parts[name])
    late = Journal(path, deadline=0.0)
    assert late.get_some(parts) == [{"name": "b"}, {"name": "d"}]
    assert late.left == ("a", "c")
    assert sum(machine["cells"] for machine in late.machines()) == 2
    with pytest.raises(OutOfTimeError):
        late.get_all(parts)
    in_time = Journal(path)
    assert in_time.get_some(parts) == [{"name": name} for name in "abcd"]
    assert in_time.left == ()


def test_a_value_that_is_not_json_is_an_error_of_the_item():
    with pytest.raises(ValueError, match="Out of range float"):
        Journal().get("a", lambda: {"value": float("nan")})

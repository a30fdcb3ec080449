"""The table of benchmarks/README.md is made of what the scripts kept; the scripts can be started."""

import importlib
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from codebound.sample.memmap import sort_blocks

FOLDER = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("run")
    for name in ("run", "ratios"):
        sys.modules.pop(name, None)


def test_rows_become_a_table_with_their_ratio(run, tmp_path, monkeypatch):
    kept = tmp_path / "rows"
    run_ratios = importlib.import_module("ratios")
    run_ratios.beside("nothing asked", ours=1.0, theirs=1.0, peer="nobody")
    monkeypatch.setenv(run_ratios.KEPT_IN, str(kept))
    run_ratios.beside("a fit", ours=0.25, theirs=450.0, peer="a loop")
    run_ratios.beside("a code", ours=4.0, theirs=3.0, peer="zlib", unit="bits")
    rows = [run.json.loads(line) for line in kept.read_text().splitlines()]
    text = run.page([run.Run("coding", rows, 61.4, 100.2, 250.0), run.Run("norms", [], 2.0, 3.0, 90.0)])
    assert "| a fit | 0.25 s | a loop | 450 s | 1,800 | coding |" in text
    assert "| a code | 4 bits | zlib | 3 bits | 0.75 | coding |" in text
    assert "| all | 63 | 103 | |" in text
    assert "nothing asked" not in text


def test_a_script_that_fails_is_named_and_one_that_ends_is_measured(run, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "HERE", tmp_path)
    (tmp_path / "fails.py").write_text("raise SystemExit(3)")
    assert run.run("fails") is None
    (tmp_path / "fine.py").write_text(
        "import json, os, pathlib\n"
        f"pathlib.Path(os.environ['{run.KEPT_IN}']).write_text(json.dumps({{'what': 'x'}}))"
    )
    found = run.run("fine")
    assert found.rows == [{"what": "x"}]
    assert found.seconds > 0.0
    assert found.megabytes > 1.0
    (tmp_path / "fine.py").write_text("import pathlib; pathlib.Path('kept').touch()")
    monkeypatch.setattr(sys, "argv", ["run.py"])
    with pytest.raises(SystemExit, match=r"Nothing is written: fails failed"):
        run.main()
    assert not (tmp_path / "README.md").exists()
    (tmp_path / "fails.py").unlink()
    run.main()
    assert "| fine |" in (tmp_path / "README.md").read_text()
    assert not Path("kept").exists()
    assert not (tmp_path / "kept").exists()


def test_a_peer_that_cannot_be_imported_is_left_out_with_a_line(run, capsys):
    ratios = importlib.import_module("ratios")
    assert ratios.is_installed("json")
    assert not ratios.is_installed("no_such_peer")
    assert capsys.readouterr().out == "no_such_peer is left out: No module named 'no_such_peer'\n"


def test_time_in_calls_of_others_belongs_to_the_function_of_ours_that_made_them(run):
    profiles = importlib.import_module("profiles")
    numbers = np.random.default_rng(0).normal(size=10**6)
    profile = profiles.cProfile.Profile(time.process_time)  # whatever else the machine does
    profile.runcall(sort_blocks, [numbers], len(numbers), np.float64)
    found = profiles.spots(profile)[0]
    assert found.name == "codebound.sample.memmap.sort_blocks"
    assert "sort" in found.dearest
    table = profiles.pstats.Stats(profile).stats
    own = next(row[2] for place, row in table.items() if place[2] == "sort_blocks")
    assert own < found.seconds <= profiles.pstats.Stats(profile).total_tt
    sys.modules.pop("profiles")


def test_a_walk_notes_first_calls_and_turns(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    walked = importlib.import_module("walk")
    from codebound.bounds.occam import occam_binomial
    from codebound.bounds.risk import OccamFacts

    facts = OccamFacts(errors=3, n=100, code_bits=20, delta=0.05)
    occam_binomial(facts)  # loads scipy, which is no part of the walk
    walk = walked.Walk()
    sys.setprofile(walk)
    try:
        for _ in range(2):
            facts.__post_init__()
            occam_binomial(facts)
    finally:
        sys.setprofile(None)
    places = [f"{file.stem}.{function}" for file, function in walk.visits]
    assert places.index("risk.OccamFacts.__post_init__") < places.index("occam.occam_binomial")
    assert len(places) == len(set(places))
    assert not any("<" in function.rsplit(".", 1)[-1] for _, function in walk.visits)
    assert walk.steps().startswith("codebound.bounds: risk.")
    assert walk.summary().endswith("1 packages, 0 package switches")

"""Recipes of first looks, on data made here: run once, whatever comes out is kept and on the page."""

import importlib
import json
import signal
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from worlds.commands import script

from codebound.certificate.file import Certificate

METHODS = ("constant", "picks", "split", "features", "biases", "prune", "subspace", "subspace-f")
ROOT = Path(__file__).parents[2]
RESULT = {
    "bound": 0.25,
    "n": 80,
    "code_bits": 12,
    "copies": 3,
    "vacuous": False,
    "statement": "C-2",
    "method": "prune",
    "counts": [{"name": "training errors", "count": 7, "of": 80}],
    "holdout": 0.31,
    "refuted_by_test": False,
    "certificate": "elsewhere",
    "verify": "codebound-verify way/certificate.cbound --data way/sample.npz",
    "seconds": 1.0,
}


@pytest.fixture
def fresh(monkeypatch):
    """The script, in a working tree that is as it was committed."""
    module = script(ROOT / "results/fresh.py")
    said = {"status": "", "rev-parse": "0" * 40, "log": "1" * 40}
    monkeypatch.setattr(module, "git", lambda verb, *rest: said[verb])
    module.said = said
    return module


def fake(fresh, monkeypatch, tmp_path, body: str) -> None:
    """A program in place of both of ours; what it is called with goes into a file, a line for each call."""
    path = tmp_path / "program"
    head = f"#!{sys.executable}\nimport json, pathlib, sys, time\na = sys.argv[1:]\n"
    head += f"open({str(tmp_path / 'calls')!r}, 'a').write(' '.join(a) + '\\n')\nRESULT = {RESULT!r}\n"
    path.write_text(head + body)
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setattr(fresh, "program", lambda name: str(path))


CERTIFIES = """
if a[0] == "certify":
    way = a[a.index("--out") + 1]
    if way == "features":
        sys.exit("unsuited: this is no image")
    folder = pathlib.Path(way)
    folder.mkdir()
    (folder / "certificate.cbound").write_text(way)
    (folder / "result.json").write_text(json.dumps(RESULT))
"""


@pytest.mark.thorough
def test_every_outcome_is_kept(fresh, monkeypatch, tmp_path):
    fake(fresh, monkeypatch, tmp_path, CERTIFIES)
    out = tmp_path / "fresh"
    record = fresh.look(fresh.RECIPES["letter"], out)
    assert record == json.loads((out / "letter.json").read_text())
    assert (record["state"], record["commit"]) == ("finished", "0" * 40)
    assert list(record["ways"]) == ["default", *METHODS]
    assert record["ways"]["features"]["certificate"] is None
    assert "this is no image" in record["ways"]["features"]["reason"]
    assert (record["ways"]["default"]["bound"], record["ways"]["default"]["verify_status"]) == (0.25, 0)
    assert (out / "certificates/letter-default.cbound").read_text() == "default"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == "-m public_sets letter"
    asked = [line for line in calls if line.startswith(("-m", "train", "certify"))]
    planned = [line.split("  #")[0].partition(" ")[2].strip() for line in record["commands"]]
    assert asked == planned
    assert calls.count("way/certificate.cbound --data way/sample.npz") == len(METHODS)  # all but features


def test_a_first_look_happens_once(fresh, monkeypatch, tmp_path):
    fake(fresh, monkeypatch, tmp_path, "if a[0] == 'train':\n    sys.exit('diverged')\n")
    out = tmp_path / "fresh"
    assert fresh.look(fresh.RECIPES["letter"], out)["state"] == "failed"
    before = (out / "letter.json").read_bytes()
    with pytest.raises(fresh.RefusedError, match="a first look happens once"):
        fresh.look(fresh.RECIPES["letter"], out)
    assert (out / "letter.json").read_bytes() == before
    assert fresh.look(fresh.RECIPES["letter"], tmp_path / "second")["failure"].strip() == "diverged"


@pytest.mark.thorough
def test_a_recipe_may_be_run_in_parts(fresh, monkeypatch, tmp_path):
    fake(fresh, monkeypatch, tmp_path, CERTIFIES)
    first, *rest = fresh.WAYS
    assert fresh.look(fresh.RECIPES["letter"], tmp_path, [first])["state"] == "begun"
    with pytest.raises(fresh.RefusedError, match="a first look happens once"):
        fresh.look(fresh.RECIPES["letter"], tmp_path, [first])
    record = fresh.look(fresh.RECIPES["letter"], tmp_path, rest)
    assert (record["state"], list(record["ways"])) == ("finished", [first, *rest])


def test_what_could_not_be_fetched_was_not_looked_at(fresh, monkeypatch, tmp_path):
    fake(fresh, monkeypatch, tmp_path, "sys.exit('no network')\n")
    with pytest.raises(fresh.RefusedError, match="could not be fetched: no network"):
        fresh.look(fresh.RECIPES["letter"], tmp_path / "fresh")
    assert not (tmp_path / "fresh").exists()


def test_an_interrupted_look_leaves_its_record(fresh, monkeypatch, tmp_path):
    def interrupt(command, **options):
        if "train" in command:
            raise KeyboardInterrupt
        return fresh.Done(0.0, 0.0, 0, False, "")

    monkeypatch.setattr(fresh, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fresh.look(fresh.RECIPES["dna"], tmp_path)
    assert json.loads((tmp_path / "dna.json").read_text())["state"] == "begun"
    with pytest.raises(fresh.RefusedError, match="happens once"):
        fresh.look(fresh.RECIPES["dna"], tmp_path)


def test_recipes_are_committed_and_the_format_is_frozen_before(fresh, monkeypatch, tmp_path):
    fresh.said["status"] = " M src/codebound_networks/methods/pruned.py"
    with pytest.raises(fresh.RefusedError, match=r"commit these before.*pruned\.py"):
        fresh.look(fresh.RECIPES["letter"], tmp_path)
    fresh.said["status"] = ""
    page = fresh.PAGE
    monkeypatch.setattr(fresh, "PAGE", type(page)(sha256="0" * 64, frozen=page.frozen))
    with pytest.raises(fresh.RefusedError, match="freeze the format first"):
        fresh.look(fresh.RECIPES["letter"], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_a_search_is_interrupted_at_its_limit_and_then_stopped(fresh, monkeypatch, tmp_path):
    fake(
        fresh,
        monkeypatch,
        tmp_path,
        "try:\n    while True: time.time()\nexcept KeyboardInterrupt:\n    sys.exit('kept')\n",
    )
    done = fresh.run([fresh.program("codebound")], folder=tmp_path, limit=6.0)  # Python has begun by then
    assert (done.was_stopped, done.status, done.said.strip()) == (True, 1, "kept")
    stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.time()\n"
    fake(fresh, monkeypatch, tmp_path, stubborn)
    monkeypatch.setattr(fresh, "GRACE_SECONDS", 0.5)
    done = fresh.run([fresh.program("codebound")], folder=tmp_path, limit=1.0)
    assert (done.was_stopped, done.status) == (True, -signal.SIGKILL)


def test_every_recipe_is_of_a_public_set_and_tests_on_its_own_part(fresh, monkeypatch):
    monkeypatch.syspath_prepend(str(fresh.SETS))
    sets = importlib.import_module("public_sets")
    for name, recipe in fresh.RECIPES.items():
        known = name.replace("-", "_")
        has_test = "test" in sets.SETS[known].sizes
        test = ["--test", f"public_sets:{known}_test"] if has_test else ["--holdout", "0.2"]
        assert recipe.sample == ["--data", f"public_sets:{known}", *test]
        assert recipe.fetching()[0][-1] == known
        for role in ("", "_test") if has_test else ("",):
            assert callable(getattr(sets, known + role))


@pytest.mark.thorough
def test_the_page_shows_every_record(fresh, monkeypatch, tmp_path):
    page = script(ROOT / "results/page.py")
    assert page.first_looks(tmp_path) == []
    fake(fresh, monkeypatch, tmp_path, CERTIFIES)
    fresh.look(fresh.RECIPES["letter"], tmp_path)
    (tmp_path / "dna.json").write_text(
        json.dumps(
            {
                "data": "dna",
                "rows": "DNA",
                "state": "begun",
                "ways": {"default": None},
                "recipe_commit": "1" * 40,
                "commands": ["codebound certify --out default  # soon", "codebound certify --out prune"],
            }
        )
    )
    *table, empty, taken, not_run = page.first_looks(tmp_path)
    assert (empty, not_run) == ("", "Ways of the recipe that were not run for all data: prune.")
    assert "as committed before (1111111)" in taken
    assert len(table) == 3 + 1 + 1 + len(METHODS)
    assert "| [dna](fresh/dna.json), DNA | default: begun, not finished |" in table[3]
    counted = "7 training errors of 80; 12 bits; 3 copies in the sample"
    assert f"`certify`, by prune | C-2 | {counted} | **25.00 %** | 31.00 % |" in table[4]
    assert any("| features | no certificate |" in line for line in table)
    assert all(line.count("|") == table[1].count("|") for line in table[1:])


@pytest.mark.slow
def test_the_real_commands_on_a_table_made_here(fresh, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (400, 4))
    lines = ["a,b,c,colour{red|green|blue},kind"]
    lines += [
        f"{a},{b},{c},{['red', 'green', 'blue'][d % 3]},{'up' if a + b > c + 4 else 'down'}"
        for a, b, c, d in x
    ]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(lines) + "\n")
    ways = ("default", "features")
    monkeypatch.setattr(fresh, "WAYS", ways)
    starter = tmp_path / "codebound"
    starter.write_text(f"#!{sys.executable}\nfrom codebound.cli.main import main\nmain()\n")
    checker = tmp_path / "codebound-verify"
    checker.write_text(
        f"#!{sys.executable}\nimport sys\nfrom codebound_verify.__main__ import main\nsys.exit(main())\n"
    )
    for path in (starter, checker):
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setattr(fresh, "program", lambda name: str(tmp_path / name))
    recipe = fresh.Recipe(f"{table}:kind", "mlp:widths=8", "rows", "quick")
    record = fresh.look(recipe, tmp_path / "out", ways)
    assert record["state"] == "finished", record
    default = record["ways"]["default"]
    assert default["verify_status"] == 0, default
    facts = Certificate.load(tmp_path / "out" / "certificates" / default["certificate"]).facts
    assert facts.n == default["n"]
    assert facts.n + facts.extra.get("first", 0) == 320, default
    assert 0.0 < default["bound"] < 1.0
    assert "features" in record["ways"]

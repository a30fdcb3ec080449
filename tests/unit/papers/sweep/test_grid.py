"""From a plan to jobs: grids, defaults, references, and everything that is refused before it runs."""

import sys

import pytest

from codebound.run.errors import UsageError
from codebound_papers.sweep.grid import PlannedVerb, Reference, plan_jobs, read_plan


def refuse_odd(arguments):
    if arguments.get("seed") == 13:
        raise UsageError("13 is refused")


VERBS = {
    "train": PlannedVerb(
        name="train",
        function="m:f",
        options=frozenset({"model", "data", "seed", "epochs"}),
        sources=frozenset({"model", "data"}),
        weights="model.bin",
        complete=refuse_odd,
    ),
    "certify": PlannedVerb(
        name="certify",
        function="m:f",
        options=frozenset({"model", "data", "seed", "method", "weights"}),
        files=frozenset({"weights"}),
        sources=frozenset({"model", "data"}),
    ),
}


def plan(**table):
    return plan_jobs(table, VERBS)


def test_every_entry_at_every_point_and_equal_jobs_once():
    jobs = plan(
        defaults={"data": "digits"},
        grid={"seed": [0, 1], "method": ["a", "b", "c"]},
        jobs=[{"verb": "train", "epochs": 2}, {"verb": "certify", "weights": "@train"}],
    )
    assert [job.name for job in jobs].count("train") == 2  # train knows no method
    assert [job.name for job in jobs].count("certify") == 6
    assert len({job.key for job in jobs}) == 8


def test_a_reference_is_the_job_of_the_same_point_and_comes_after_it():
    jobs = plan(
        grid={"seed": [0, 1]},
        jobs=[{"verb": "train"}, {"verb": "certify", "weights": "@train"}],
    )
    place = {job.key: index for index, job in enumerate(jobs)}
    by_key = {job.key: job for job in jobs}
    certified = [job for job in jobs if job.name == "certify"]
    for job in certified:
        (reference,) = job.references
        assert reference.file == "model.bin"
        assert place[reference.job] < place[job.key]
        assert by_key[reference.job].arguments["seed"] == job.arguments["seed"]


def test_a_reference_may_name_a_file():
    jobs = plan(jobs=[{"verb": "train", "name": "nets"}, {"verb": "certify", "weights": "@nets/last/x.bin"}])
    assert jobs[1].arguments["weights"] == Reference(jobs[0].key, "last/x.bin")


def test_a_list_may_hold_references():
    (made, used) = plan(jobs=[{"verb": "train"}, {"verb": "certify", "method": ["@train", "plain"]}])
    assert used.arguments["method"] == [Reference(made.key, "model.bin"), "plain"]
    assert [each.job for each in used.references] == [made.key]
    assert used.record()["arguments"]["method"] == [{"job": made.key, "file": "model.bin"}, "plain"]


def test_the_entry_beats_the_grid_and_the_grid_beats_the_defaults():
    (job,) = plan(
        defaults={"seed": 1, "epochs": 1, "data": "d"},
        grid={"seed": [2], "epochs": [2]},
        jobs=[{"verb": "train", "seed": 3}],
    )
    assert dict(job.arguments) == {"seed": 3, "epochs": 2, "data": "d"}


def test_names_are_written_with_either_dash():
    verbs = {"v": PlannedVerb(name="v", function="m:f", options=frozenset({"batch_size"}))}
    dashed, plain = ({"jobs": [{"verb": "v", name: 3}]} for name in ("batch-size", "batch_size"))
    assert plan_jobs(dashed, verbs)[0].key == plan_jobs(plain, verbs)[0].key


def test_cores_are_for_the_engine_and_no_part_of_the_key():
    (one,) = plan(jobs=[{"verb": "train", "seed": 0}])
    (two,) = plan(jobs=[{"verb": "train", "seed": 0, "cpus": 2, "gpus": 0.5}])
    assert (one.cpus, one.gpus, two.cpus, two.gpus) == (1, 0, 2, 0.5)
    assert one.key == two.key
    assert "cpus" not in two.arguments


def test_a_changed_producer_changes_the_consumer():
    def keys(epochs):
        return [
            job.key
            for job in plan(
                jobs=[{"verb": "train", "epochs": epochs}, {"verb": "certify", "weights": "@train"}]
            )
        ]

    assert not set(keys(1)) & set(keys(2))


def test_the_content_of_a_file_counts_and_so_does_a_factory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = set()
    for content in ("a", "b"):
        (tmp_path / "w.bin").write_text(content)
        (tmp_path / "my_nets_for_plans.py").write_text(f"# {content}")
        folder = tmp_path / "images"
        folder.mkdir(exist_ok=True)
        (folder / "one.png").write_text(content)
        for options in (
            {"weights": "w.bin"},
            {"model": "my_nets_for_plans:make"},
            {"data": "images"},
        ):
            (job,) = plan(jobs=[{"verb": "certify", **options}])
            assert set(job.inputs) == set(options)
            keys.add(job.key)
    assert len(keys) == 6


def test_a_plan_that_is_read_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package_for_plans").mkdir()
    (tmp_path / "package_for_plans/__init__.py").write_text("raise SystemExit('it ran')")
    (tmp_path / "package_for_plans/inner.py").write_text("raise SystemExit('it ran')")
    for named in ("package_for_plans.inner:make", "package_for_plans:make"):
        (job,) = plan(jobs=[{"verb": "certify", "model": named}])
        assert job.inputs["model"]
    (tmp_path / "single_for_plans.py").write_text("")
    for none in ("package_for_plans.none.inner", "single_for_plans.single_for_plans", "none_for_plans"):
        (job,) = plan(jobs=[{"verb": "certify", "model": f"{none}:make"}])
        assert not job.inputs.get("model")
    assert "package_for_plans" not in sys.modules


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, r"\[\[jobs\]\]"),
        ({"jobs": []}, r"\[\[jobs\]\]"),
        ({"jobs": [{"verb": "train"}], "grids": {}}, "Got grids"),
        ({"jobs": [{"verb": "fly"}]}, "Got 'fly'"),
        ({"jobs": [{}]}, "Got None"),
        ({"jobs": [{"verb": ["train"]}]}, "Got .'train'."),
        ({"jobs": ["train"]}, "table of options"),
        ({"jobs": [{"verb": "train", "colour": 1}]}, "no option colour"),
        ({"jobs": [{"verb": "train"}], "defaults": {"colour": 1}}, "colour of .defaults"),
        ({"jobs": [{"verb": "train"}], "grid": {"method": ["a"]}}, "method of .grid"),
        ({"jobs": [{"verb": "train"}], "grid": {"seed": 3}}, "list of values"),
        ({"jobs": [{"verb": "train"}], "grid": {"seed": []}}, "list of values"),
        ({"jobs": [{"verb": "train"}, {"verb": "train"}]}, "name of its own"),
        ({"jobs": [{"verb": "train", "name": "a/b"}]}, "name of its own"),
        ({"jobs": [{"verb": "certify", "weights": "@train"}, {"verb": "train"}]}, "no job above it"),
        (
            {"jobs": [{"verb": "certify"}, {"verb": "certify", "name": "c", "weights": "@certify"}]},
            "names no file",
        ),
        ({"jobs": [{"verb": "train"}, {"verb": "certify", "weights": "@train/../x"}]}, "names no file"),
        ({"jobs": [{"verb": "certify", "weights": "absent.bin"}]}, "does not exist"),
        ({"jobs": [{"verb": "train", "seed": float("nan")}]}, "is a number"),
        ({"jobs": [{"verb": "train", "seed": {"a": 1}}]}, "is a number"),
        ({"jobs": [{"verb": "train", "seed": 13}]}, "job train: 13 is refused"),
        ({"jobs": [{"verb": "train", "cpus": 0}]}, "cpus"),
        ({"jobs": [{"verb": "train", "cpus": True}]}, "cpus"),
        ({"jobs": [{"verb": "train", "gpus": float("nan")}]}, "gpus"),
        ({"jobs": [{"verb": "certify", "weights": "x" * 5000}]}, "cannot be read"),
        ({"jobs": [{"verb": "certify", "weights": "~nobody-of-that-name/w"}]}, "cannot be read"),
        (
            {"jobs": [{"verb": "train"}], "grid": {"seed": list(range(1000)), "epochs": list(range(1000))}},
            "at most",
        ),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(table, message):
    with pytest.raises(UsageError, match=message):
        plan_jobs(table, VERBS)


def test_a_plan_file(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('[grid]\nseed = [0, 1]\n[[jobs]]\nverb = "train"\nepochs = 3\n')
    assert [dict(job.arguments) for job in read_plan(path, VERBS)] == [
        {"seed": 0, "epochs": 3},
        {"seed": 1, "epochs": 3},
    ]


@pytest.mark.parametrize("content", [b"[grid\n", b"\xff\xfe", b"x = 1\n", b"#" * (1 << 21)])
def test_a_file_that_is_no_plan_is_named(tmp_path, content):
    path = tmp_path / "plan.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"plan\.toml"):
        read_plan(path, VERBS)


def test_a_missing_plan_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"absent\.toml"):
        read_plan(tmp_path / "absent.toml", VERBS)

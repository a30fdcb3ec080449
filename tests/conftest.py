"""Shared settings and fixtures: hypothesis never fails a run because a machine is busy."""

import gc
import sys
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path

import drawing  # noqa: F401  profiles
import pytest
from hypothesis import settings

from codebound.cli.main import main

settings.load_profile("quick")  # pytest --hypothesis-profile thorough loads the other one


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names bytes by their number: compressed ones hold the time of day, and workers must agree on names."""
    return f"{len(val)}-bytes" if isinstance(val, bytes) and len(val) > 16 else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """What is imported and collected stays: no search for garbage need look through it again."""
    gc.disable()
    found = yield
    gc.freeze()
    gc.enable()
    return found


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Iterator[None]:
    """Looks for examples in docstrings in the packages alone: tests have none, and it takes seconds."""
    return [each for each in (yield) if type(each) is pytest.Module]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test with the marker ``few(n)``, n cases are quick, evenly spread, and the others thorough."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few") and not item.get_closest_marker("slow"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for each in cases.values():
        (count,) = each[0].get_closest_marker("few").args
        quick = {place * len(each) // count for place in range(count)}
        for place, item in enumerate(each):
            if place not in quick:
                item.add_marker("thorough")


@pytest.fixture(scope="session")
def _trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("networks")


@pytest.fixture(scope="module")
def tiny_networks(_trained: Path) -> Iterator[Path]:
    """The folder of networks that items of ``reproduce`` train, one for all modules of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODEBOUND_CACHE", str(_trained / "data"))
        patch.delenv("CODEBOUND_MODELS", raising=False)
        yield _trained / "trained"


@pytest.fixture
def codebound(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process: exit code, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["codebound", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return (end.value.code or 0, *capsys.readouterr())

    return run


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test works in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that is the test's own."""
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network is never there."""

    def refuse(address: object, timeout: float) -> None:
        raise urllib.error.URLError("no network in tests")

    monkeypatch.setattr("urllib.request.urlopen", refuse)


@pytest.fixture
def all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that run in this process leave its threads alone."""
    monkeypatch.setattr("codebound.run.job.use_threads", lambda count: None)


@pytest.fixture
def short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every method of ``certify`` does all of its work, only less of each: seconds instead of a minute."""
    from codebound.methods import picks as picked
    from codebound_networks.methods import pruned
    from codebound_networks.methods import subspace_networks as subspace
    from codebound_papers.guha23 import masks

    budget = pruned.PruneBudget(steps=60, runs=2, styles=((1e-2, 2),))
    monkeypatch.setattr(picked, "_PART", {"quick": 300, "standard": 300})
    monkeypatch.setattr(picked, "_FAMILIES", {"quick": 0, "standard": 1})
    monkeypatch.setattr(picked, "_NEXT", picked._NEXT[:1])
    monkeypatch.setattr(picked, "_PART_ROUNDS", 8)
    monkeypatch.setattr(picked, "_MOST_ROUNDS", 12)
    monkeypatch.setattr(pruned, "_BUDGETS", dict.fromkeys(("standard", "max"), (budget,)))
    monkeypatch.setattr(subspace, "_STEPS", {"standard": 60})
    monkeypatch.setattr(subspace, "_RUNS", {"standard": 1})
    monkeypatch.setattr(subspace, "_EVALUATIONS", {"standard": 60})
    monkeypatch.setattr(masks, "_STEPS", {"standard": 40})

"""Shared settings: hypothesis never fails a run because a machine is busy."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("codebound", deadline=None)
settings.load_profile("codebound")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names bytes by their number: compressed ones hold the time of day, and workers must agree on names."""
    return f"{len(val)}-bytes" if isinstance(val, bytes) and len(val) > 16 else None


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

"""Shared settings: hypothesis never fails a run because a machine is busy."""

from hypothesis import settings

settings.register_profile("codebound", deadline=None)
settings.load_profile("codebound")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names bytes by their number: compressed ones hold the time of day, and workers must agree on names."""
    return f"{len(val)}-bytes" if isinstance(val, bytes) and len(val) > 16 else None

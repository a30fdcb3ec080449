"""Shared settings: hypothesis never fails a run because a machine is busy."""

from hypothesis import settings

settings.register_profile("codebound", deadline=None)
settings.load_profile("codebound")

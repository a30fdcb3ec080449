"""The seam between independent jobs and what runs them: processes of this machine, or a Ray cluster."""

from codebound.engine.choose import open_engine
from codebound.engine.cluster import RayEngine
from codebound.engine.job import Engine, Failure, Finished, Job, resolve, value_of
from codebound.engine.local import LocalEngine
from codebound.engine.shards import over_shards

__all__ = [
    "Engine",
    "Failure",
    "Finished",
    "Job",
    "LocalEngine",
    "RayEngine",
    "open_engine",
    "over_shards",
    "resolve",
    "value_of",
]

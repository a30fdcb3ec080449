"""Sweeps: a plan of many jobs, each run once, in a folder that any later call continues."""

from codebound.sweep.content import content_key
from codebound.sweep.execute import execute, states
from codebound.sweep.merge import Failed, Merged, arguments_of, merge, shown, write_table
from codebound.sweep.plan import PlannedJob, Reference, plan_jobs, read_plan
from codebound.sweep.verbs import Verb

__all__ = [
    "Failed",
    "Merged",
    "PlannedJob",
    "Reference",
    "Verb",
    "arguments_of",
    "content_key",
    "execute",
    "merge",
    "plan_jobs",
    "read_plan",
    "shown",
    "states",
    "write_table",
]

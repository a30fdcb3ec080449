"""A plan: a few lines of TOML that stand for many jobs.

Every entry of ``[[jobs]]`` runs once at every point of ``[grid]``. Its arguments are those of ``[defaults]``,
of the point, and of the entry itself, the later on top; from the first two it takes what its command has.
``"@name"`` is the output of the entry of that name at the same point. Equal jobs are one job.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from codebound.run.errors import UsageError
from codebound.run.files import content_key, named_sha256, read_toml, source_sha256, versions

_MOST_JOBS = 100_000
_OWN_KEYS = ("verb", "name", "cpus", "gpus")  # of an entry; all others are arguments of its command
_SHORT_DIGITS = 12

Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PlannedVerb:
    """A command whose runs can be jobs."""

    name: str  # its name in a plan
    # ``package.module:name``, called with its options and ``out``, a new folder; returns plain JSON
    function: str
    options: frozenset[str]  # arguments that it takes
    files: frozenset[str] = frozenset()  # those of them that name an existing file or folder
    # those that may name a file, a folder or a ``package.module:factory``
    sources: frozenset[str] = frozenset()
    weights: str = ""  # the file in its folder that another job means by ``@name``; empty when it has none
    columns: tuple[str, ...] = ()  # what to print of its result
    is_resumable: bool = False  # whether a second call goes on in the folder that a killed one left
    # all options of the function, from the arguments of a job; raises where these are wrong
    complete: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict  # accepts everything


@dataclass(frozen=True, slots=True)
class Reference:
    """A file that another job leaves."""

    job: str  # key of that job
    file: str  # path inside its folder

    def __str__(self) -> str:
        return f"@{self.job[:_SHORT_DIGITS]}/{self.file}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PlannedJob:
    """One job of a plan."""

    key: str  # content hash of command, arguments, what they name, and the versions of software
    name: str  # of the entry it comes from
    verb: PlannedVerb  # its command
    arguments: Mapping[str, Any]  # plain values, and references to other jobs
    inputs: Mapping[str, str]  # content hashes of what the arguments name
    cpus: int  # cores it uses
    gpus: float  # GPUs it needs

    @property
    def short_key(self) -> str:
        """The start of the key: enough to tell the jobs of a plan apart."""
        return self.key[:_SHORT_DIGITS]

    @property
    def label(self) -> str:
        """Name and short key."""
        return f"{self.name} {self.short_key}"

    @property
    def references(self) -> tuple[Reference, ...]:
        """References to other jobs that it needs."""
        values = (each for value in self.arguments.values() for each in _each(value))
        return tuple(value for value in values if isinstance(value, Reference))

    def options(self, place: Callable[[Reference], object]) -> dict[str, Any]:
        """Return the arguments of its function, given the places of other jobs' files."""
        return dict(self.verb.complete({k: _map(value, place) for k, value in self.arguments.items()}))

    def record(self) -> dict[str, Any]:
        """Return all that determines its result, as JSON."""
        return {
            "job": self.key,
            "verb": self.verb.name,
            "arguments": {name: _map(value, asdict) for name, value in self.arguments.items()},
            "inputs": dict(self.inputs),
            "versions": versions(),
        }


def read_plan(path: Path, verbs: Mapping[str, PlannedVerb]) -> tuple[PlannedJob, ...]:
    """The jobs of a plan file, those that others need before them; paths are those of this directory."""
    table = read_toml(path, "the plan")
    try:
        return plan_jobs(table, verbs)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def plan_jobs(table: Table, verbs: Mapping[str, PlannedVerb]) -> tuple[PlannedJob, ...]:
    """The jobs of a plan.

    >>> verb = PlannedVerb(name="train", function="m:f", options=frozenset({"seed", "epochs"}))
    >>> table = {"grid": {"seed": [0, 1]}, "jobs": [{"verb": "train", "epochs": 5}]}
    >>> [dict(job.arguments) for job in plan_jobs(table, {"train": verb})]
    [{'seed': 0, 'epochs': 5}, {'seed': 1, 'epochs': 5}]
    """
    unknown = set(table) - {"defaults", "grid", "jobs"}
    if unknown:
        raise UsageError(f"a plan has [defaults], [grid] and [[jobs]]. Got {', '.join(sorted(unknown))}.")
    defaults = _name_options(table.get("defaults", {}), "[defaults]")
    entries = _entries(table.get("jobs"), verbs)
    points = list(_points(_name_options(table.get("grid", {}), "[grid]"), len(entries)))
    taken = {"cpus", "gpus"}.union(*(verb.options for _, verb, _ in entries))
    for where, names in (("[defaults]", defaults), ("[grid]", points[0])):
        unused = sorted(set(names) - taken)
        if unused:
            raise UsageError(f"no job of the plan has the option {', '.join(unused)} of {where}.")
    jobs: dict[str, PlannedJob] = {}
    content = functools.cache(source_sha256)  # many jobs name the same few files
    for point in points:
        above: dict[str, PlannedJob] = {}
        for name, verb, own in entries:
            known = verb.options | {"cpus", "gpus"}
            shared = {key: value for key, value in {**defaults, **point}.items() if key in known}
            job = _plan_job(name, verb, {**shared, **own}, above, content)
            above[name] = jobs.setdefault(job.key, job)
    return tuple(jobs.values())


def _entries(
    entries: object, verbs: Mapping[str, PlannedVerb]
) -> list[tuple[str, PlannedVerb, dict[str, Any]]]:
    if not isinstance(entries, list) or not entries:
        raise UsageError('a plan lists what to run, as [[jobs]] with verb = "train" and arguments below.')
    found: list[tuple[str, PlannedVerb, dict[str, Any]]] = []
    for entry in entries:
        own = _name_options(entry, "[[jobs]]")
        verb_name = own.pop("verb", None)
        if not isinstance(verb_name, str) or verb_name not in verbs:
            raise UsageError(f"verb is {', '.join(verbs)}. Got {verb_name!r}.")
        verb, name = verbs[verb_name], own.pop("name", verb_name)
        if not isinstance(name, str) or not name or "/" in name or name in (each for each, *_ in found):
            raise UsageError(
                f"every job has a name of its own, without '/' (default: its verb). Got {name!r}."
            )
        strange = sorted(set(own) - verb.options - set(_OWN_KEYS))
        if strange:
            raise UsageError(
                f"job {name}: {verb.name} has no option {', '.join(strange)}. "
                f"It has {', '.join(sorted(verb.options))}."
            )
        found.append((name, verb, own))
    return found


def _points(grid: Table, entries: int) -> Iterator[dict[str, Any]]:
    wrong = [name for name, values in grid.items() if not isinstance(values, list) or not values]
    if wrong:
        raise UsageError(f"[grid] gives a list of values for each option. {', '.join(wrong)} is none.")
    count = entries * math.prod(len(values) for values in grid.values())
    if count > _MOST_JOBS:
        raise UsageError(f"the plan has {count} jobs; at most {_MOST_JOBS} are allowed. Split it.")
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _plan_job(
    name: str,
    verb: PlannedVerb,
    options: dict[str, Any],
    above: Mapping[str, PlannedJob],
    content: Callable[[str], str],
) -> PlannedJob:
    cpus, gpus = options.pop("cpus", 1), options.pop("gpus", 0)
    if type(cpus) is not int or cpus < 1 or type(gpus) not in (int, float) or not 0 <= gpus < math.inf:
        raise UsageError(
            f"job {name}: cpus is a whole number from 1, gpus is not negative. Got {cpus}, {gpus}."
        )
    arguments = {key: _argument(name, key, value, above) for key, value in options.items()}
    named = {key: value for key, value in arguments.items() if key in verb.files | verb.sources}
    for key in verb.files & named.keys():
        absent = [each for each in _each(named[key]) if isinstance(each, str) and not content(each)]
        if absent:
            raise UsageError(f"job {name}: {key} = {absent[0]!r} does not exist in {Path.cwd()}.")
    digests = {key: named_sha256(value, content) for key, value in named.items()}
    inputs = {key: digest for key, digest in digests.items() if digest}
    files = {key: _map(value, lambda each: each.file) for key, value in arguments.items()}
    try:
        verb.complete(files)
    except UsageError as error:
        raise UsageError(f"job {name}: {error}") from error
    job = PlannedJob(key="", name=name, verb=verb, arguments=arguments, inputs=inputs, cpus=cpus, gpus=gpus)
    content_of_job = {name: value for name, value in job.record().items() if name != "job"}
    return replace(job, key=content_key(content_of_job))


def _argument(job: str, key: str, value: object, above: Mapping[str, PlannedJob]) -> object:
    """A plain value, or the reference that a text such as ``@train`` or ``@train/history.jsonl`` is."""
    if isinstance(value, list):
        return [_argument(job, key, each, above) for each in value]
    if isinstance(value, str) and value.startswith("@"):
        return _reference(job, f"{key} = {value!r}", value, above)
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise UsageError(
        f"job {job}: {key} is a number, a text, true or false, or a list of such. Got {value!r}."
    )


def _reference(job: str, what: str, text: str, above: Mapping[str, PlannedJob]) -> Reference:
    name, _, file = text[1:].partition("/")
    if name not in above:
        known = ", ".join(above) or "there is none"
        raise UsageError(f"job {job}: {what} refers to no job above it ({known}).")
    file = file or above[name].verb.weights
    if not file or ".." in Path(file).parts or Path(file).is_absolute():
        raise UsageError(
            f"job {job}: {what} names no file. Write @{name}/FILE, a file in the folder that "
            f"{above[name].verb.name} leaves."
        )
    return Reference(above[name].key, file)


def _each(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _map(value: object, change: Callable[[Reference], object]) -> Any:
    """An argument with another value in place of every reference."""
    if isinstance(value, list):
        return [_map(each, change) for each in value]
    return change(value) if isinstance(value, Reference) else value


def _name_options(table: object, where: str) -> dict[str, Any]:
    """A table with option names as functions have them: ``batch-size`` is ``batch_size``."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} is a table of options. Got {table!r}.")
    return {str(name).replace("-", "_"): value for name, value in table.items()}

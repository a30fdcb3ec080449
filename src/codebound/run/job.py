"""A job, what became of it, what an engine promises, and one large sample on many workers."""

from __future__ import annotations

import math
import os
import sys
import traceback
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from codebound.run.errors import CodeboundError, UsageError
from codebound.run.progress import Progress, silent
from codebound.run.user_code import import_named

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Job:
    """One call of a function in another process.

    Attributes:
        function: ``package.module:name``; the process that runs it imports it.
        arguments: Its keyword arguments; they and its value are sent to and from that process.
        cpus: Processor cores it uses: the number of its threads.
        gpus: GPUs it needs; an engine on one machine leaves the choice to the job.
    """

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cpus: int = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        if self.cpus < 1 or self.gpus < 0:
            raise UsageError(
                f"a job has at least one core and no negative number of GPUs. Got {self.cpus}, {self.gpus}."
            )


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason for the failure of a job.

    Attributes:
        message: The exception in one line or a few, or how its process ended.
        traceback: Where it was raised; empty when the process was lost.
    """

    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """A job that ended, with its value or its failure."""

    job: Job
    value: Any = None
    failure: Failure | None = None


def value_of(finished: Finished) -> Any:
    """The value of a job that must not fail.

    Raises:
        CodeboundError: It failed.
    """
    if finished.failure is not None:
        raise CodeboundError(f"{finished.job.function} failed on a worker: {finished.failure.message}")
    return finished.value


def not_sent(error: Exception) -> Failure:
    """The failure of a job that cannot travel between processes."""
    return Failure(
        f"cannot be sent to or from a worker: {type(error).__name__}: {error}. Classes and functions that it "
        "holds must be importable by name."
    )


class Residents(ABC):
    """Objects that stay where they were made, on the nodes of an engine; one that is lost is made again."""

    @abstractmethod
    def tell(self, method: str, *given: Any) -> None:
        """Calls a method of every one of them, and of one that is made again."""

    @abstractmethod
    def tell_anew(self, method: str, *given: Any) -> None:
        """The same, which makes whatever they were told before of no account."""

    @abstractmethod
    def ask(self, method: str, *given: Any) -> list[Any]:
        """Call a method of each and return the results in order."""

    @abstractmethod
    def ask_each(self, method: str, given: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The same, each with arguments of its own."""

    @abstractmethod
    def close(self) -> None:
        """Lets all of them go."""


Own = TypeVar("Own", bound="Engine")


class Engine(ABC):
    """Runs jobs in other processes, here or elsewhere; a context manager that stops them in the end."""

    has_nodes: ClassVar[bool] = False
    """True if there are other machines, with their own memory and cores."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """Jobs of one core that can run at the same time."""

    @abstractmethod
    def as_finished(self, jobs: Iterable[Job]) -> Generator[Finished, None, None]:
        """Runs jobs and yields each when it has ended, in that order; closing it stops the others.

        Args:
            jobs: What to run. A deque is emptied from the left, and jobs may be added to it meanwhile.
        """

    def parts_of(self, sample: Any, size: int) -> Iterable[Any]:
        """A sample in parts of that many examples, as arguments of jobs."""
        return (sample.part(start, start + size) for start in range(0, sample.n, size))

    def residents(self, function: str, each: Iterable[Mapping[str, Any]]) -> Residents:
        """Objects of a class or function that stay on the nodes, one for each of these arguments."""
        raise UsageError(f"{function} would share the cores of one machine: use the engine ray.")

    @abstractmethod
    def close(self) -> None:
        """Stops everything that runs."""

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def call(job: Job) -> tuple[Any, Failure | None]:
    """Runs a job in this process; whatever it raises becomes its failure."""
    use_threads(job.cpus)
    try:
        return import_named(job.function)(**job.arguments), None
    except (Exception, SystemExit) as error:
        return None, Failure(f"{type(error).__name__}: {error}", traceback.format_exc())


def use_threads(count: int) -> None:
    """Has as many threads as the job was given cores; variables count until libraries are first imported."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)


def over_shards(
    function: str, arguments: Mapping[str, Any], *, of: str, engine: Engine, progress: Progress = silent
) -> list[Any]:
    """The values of a function on parts of its argument ``of``, a sample, in their order; one for each slot.

    A part is a number of whole chunks, of the size that the argument ``chunk_size`` says: the batches, and so
    what is found on them, are those of one pass.

    Raises:
        CodeboundError: A job failed; nothing is said about fewer examples.
    """
    sample, chunk_size = arguments[of], arguments["chunk_size"]
    if sample.x.device.type != "cpu":
        raise UsageError(f"an engine works on the CPU. Got a sample on {sample.x.device}.")
    size = chunk_size * math.ceil(sample.n / chunk_size / engine.slots)
    parts = engine.parts_of(sample, size)
    jobs = [Job(function=function, arguments={**arguments, of: part}) for part in parts]
    values: dict[Job, Any] = {}
    with closing(engine.as_finished(jobs)) as ended:
        for finished in ended:
            values[finished.job] = value_of(finished)
            progress(min(sample.n, size * len(values)), sample.n)
    return [values[job] for job in jobs]

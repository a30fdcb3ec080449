"""Jobs in other processes, and the engines that run them."""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from contextlib import closing, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebound.run.errors import CodeboundError, UsageError
from codebound.run.extensions import find_extensions, import_named, resolve
from codebound.run.progress import SIGNALS, Progress, silent

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping
    from typing import Self


# a fresh interpreter: a fork would copy torch's threads in an unknown state
_PROCESSES = multiprocessing.get_context("spawn")
_PATIENCE = 5.0  # seconds for an idle worker to end by itself, so that its libraries clean up


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Job:
    """One call of a function in another process; its arguments and its value are sent there and back."""

    function: str  # "package.module:name", which that process imports
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cpus: int = 1  # the number of its threads
    gpus: float = 0  # an engine on one machine leaves the choice to the job

    def __post_init__(self) -> None:
        if self.cpus < 1 or self.gpus < 0:
            raise UsageError(
                f"a job has at least one core and no negative number of GPUs. Got {self.cpus}, {self.gpus}."
            )


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason for the failure of a job. It has no traceback when the process was lost."""

    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """A job that ended, with its value or its failure."""

    job: Job
    value: Any = None
    failure: Failure | None = None


def not_sent(error: Exception) -> Failure:
    """The failure of a job that cannot travel between processes."""
    return Failure(
        f"cannot be sent to or from a worker: {type(error).__name__}: {error}. Classes and functions that it "
        "holds must be importable by name."
    )


class Engine(ABC):
    """Run jobs in other processes, here or elsewhere; a context manager that stops them in the end."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """Jobs of one core that can run at the same time."""

    @abstractmethod
    def as_finished(self, jobs: Iterable[Job]) -> Generator[Finished, None, None]:
        """Run jobs, and yield each when it has ended; closing stops the others.

        A deque of jobs is emptied from the left, and jobs may be added to it meanwhile.
        """

    def parts_of(self, sample: Any, size: int) -> Iterable[Any]:
        """A sample in parts of that many examples, as arguments of jobs."""
        return (sample.part(start, start + size) for start in range(0, sample.n, size))

    @abstractmethod
    def close(self) -> None:
        """Stop everything that runs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def call(job: Job) -> tuple[Any, Failure | None]:
    """Run a job in this process; whatever it raises becomes its failure."""
    use_threads(job.cpus)
    try:
        return import_named(job.function)(**job.arguments), None
    except (Exception, SystemExit) as error:
        return None, Failure(f"{type(error).__name__}: {error}", traceback.format_exc())


def use_threads(count: int) -> None:
    """Set the number of threads; variables count until libraries are first imported."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)


class LocalEngine(Engine):
    """Run jobs in worker processes of this machine.

    A worker that dies takes its job with it: the job is a failure, and a new worker takes its place.
    Workers end when this process does, however it ends. A script that makes an engine needs the usual
    ``if __name__ == "__main__":``.

    Example:
        >>> with LocalEngine(1) as engine:
        ...     finished = engine.as_finished([Job(function="json:dumps", arguments={"obj": 3})])
        ...     [each.value for each in finished]
        ['3']
    """

    def __init__(self, workers: int | None = None) -> None:
        """Start nothing yet; as many workers as this process has cores, unless told otherwise."""
        has_share = hasattr(os, "sched_getaffinity")
        self._slots = workers or (len(os.sched_getaffinity(0)) if has_share else os.cpu_count()) or 1
        self._idle: list[_Worker] = []

    @property
    def slots(self) -> int:
        """Jobs that run at the same time."""
        return self._slots

    def as_finished(self, jobs: Iterable[Job]) -> Generator[Finished, None, None]:
        """Run jobs, and yield each when it has ended."""
        waiting = jobs if isinstance(jobs, deque) else deque(jobs)
        busy: dict[Connection[Any, Any], tuple[_Worker, Job]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self._slots:
                    job = waiting.popleft()
                    try:
                        message = pickle.dumps(job)
                    except Exception as error:
                        yield Finished(job, None, not_sent(error))
                        continue
                    worker = self._worker_for(message)
                    busy[worker.connection] = worker, job
                for connection in wait(list(busy)) if busy else ():  # nothing may have been sent
                    worker, job = busy.pop(connection)  # type: ignore[call-overload]  # one of ours
                    try:
                        answer = worker.connection.recv_bytes()
                    except (EOFError, OSError):
                        yield Finished(job, None, Failure(worker.end()))
                        continue
                    self._idle.append(worker)
                    yield Finished(job, *_read(answer))
        finally:
            for worker, _ in busy.values():
                worker.stop()

    def close(self) -> None:
        """Let all workers go."""
        for worker in self._idle:
            worker.connection.close()
        while self._idle:
            self._idle.pop().stop(patience=_PATIENCE)

    def _worker_for(self, message: bytes) -> _Worker:
        """A worker that has the job; one that died while it was idle is left out."""
        while self._idle:
            worker = self._idle.pop()
            try:
                worker.connection.send_bytes(message)
            except OSError:
                worker.stop()
                continue
            return worker
        worker = _Worker()
        with suppress(OSError):  # it died at once: its end is the failure of the job
            worker.connection.send_bytes(message)
        return worker


class _Worker:
    """A process and our end of the pipe to it."""

    def __init__(self) -> None:
        self.connection, theirs = _PROCESSES.Pipe()
        self._process = _PROCESSES.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()  # so that its death closes the pipe

    def end(self) -> str:
        """Describe the end of a process that closed its pipe."""
        self._process.join()
        code = self._process.exitcode or 0
        self.stop()
        if code >= 0:
            return f"the process that ran it ended with exit code {code}."
        reason = " Often the memory was used up: try fewer workers." if -code == signal.SIGKILL else ""
        return f"the process that ran it was ended by {signal.Signals(-code).name}.{reason}"

    def stop(self, *, patience: float = 0.0) -> None:
        """End the process, after some seconds to end by itself."""
        self.connection.close()
        self._process.join(patience)
        self._process.kill()
        self._process.join()
        self._process.close()


def _serve(connection: Connection[Any, Any]) -> None:
    """The life of a worker: one job after the other until the engine closes the pipe."""
    for each in SIGNALS:  # these are for the engine, which then stops its workers
        signal.signal(each, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.path.insert(0, str(Path.cwd()))  # where the classes of a user's network may be
    with suppress(EOFError, OSError):  # the engine closed the pipe
        while True:
            connection.send_bytes(_answer(connection.recv_bytes()))


def _answer(message: bytes) -> bytes:
    """Run the job in a message. Plain pickles: those of multiprocessing fill /dev/shm with tensors."""
    try:
        return pickle.dumps(call(pickle.loads(message)))
    except Exception as error:
        return pickle.dumps((None, not_sent(error)))


def _read(answer: bytes) -> tuple[Any, Failure | None]:
    try:
        value, failure = pickle.loads(answer)
    except Exception as error:
        return None, not_sent(error)
    return value, failure


def _end_with_parent() -> None:
    """End this process when its parent is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def open_engine(kind: str, *, workers: int | None = None, address: str | None = None) -> Engine:
    """An engine, ``local`` or one of an extension, such as ``ray``; use it in a ``with`` block.

    An address is that of a cluster that runs. An extension names a function of the address and the workers.

    Example:
        >>> open_engine("local", workers=2).slots
        2
    """
    others = find_extensions()["ENGINES"]
    if kind != "local" and kind not in others:
        names = " or ".join(("local", *others))
        raise UsageError(f"an engine is {names}. Got {kind!r}.{find_extensions().advice}")
    if address is not None and kind == "local":
        raise UsageError("an address is that of a cluster, such as one of Ray: give the engine ray too.")
    if address is not None and workers is not None:
        raise UsageError("a cluster has the workers it has: give workers or an address, not both.")
    if workers is not None and workers < 1:
        raise UsageError(f"at least one worker is needed. Got {workers}.")
    if kind == "local":
        return LocalEngine(workers)
    engine: Engine = resolve(others[kind])(address, workers=workers)
    return engine


def over_shards(
    function: str, arguments: Mapping[str, Any], *, of: str, engine: Engine, progress: Progress = silent
) -> list[Any]:
    """Run a function on parts of its argument ``of``, a sample, one for each slot.

    A part is a number of whole chunks, of the size that the argument ``chunk_size`` says: the batches, and so
    what is found on them, are those of one pass.
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
            if finished.failure is not None:
                raise CodeboundError(f"{function} failed on a worker: {finished.failure.message}")
            values[finished.job] = finished.value
            progress(min(sample.n, size * len(values)), sample.n)
    return [values[job] for job in jobs]

"""Jobs on a Ray cluster."""

from __future__ import annotations

import os
import pickle
import socket
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebound.run.errors import CodeboundError
from codebound.run.job import Engine, Failure, Finished, Job, call, not_sent

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

_RETRIES = 3  # of a job whose node or process was lost; never of one that raised
_ANSWER_SECONDS = 10.0
_SILENCE_SECONDS = 5.0  # without an end of a job, after which the nodes are looked at
_QUEUED = 2  # jobs submitted per core: the next one is there when a core is free
_SAMPLES = 4  # that stay on the nodes: a search counts on the same ones again and again


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """A value that was sent to the cluster once; a node fetches it once, for all of its workers."""

    reference: Any


class RayEngine(Engine):
    """Runs jobs on a Ray cluster, or on a Ray of its own on this machine.

    A job whose node is lost runs again on another one; one that raises does not. Every node needs the same
    packages, and the folders that jobs use, at the same paths: jobs start in the current directory.
    """

    def __init__(self, address: str | None = None, *, workers: int | None = None) -> None:
        """Connects to ``auto``, ``host:port`` or ``ray://host:port``; None starts Ray here, on some cores."""
        self._ray = _import_ray()
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            if address is None:
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
                os.environ.setdefault("RAY_task_oom_retries", str(_RETRIES))  # for ever by default
            try:
                _check_answers(address or "")
                self._ray.init(
                    address=address or "local",
                    num_cpus=workers if address is None else None,
                    include_dashboard=False if address is None else None,
                    logging_level="ERROR",
                    log_to_driver=False,
                )
            except (OSError, RuntimeError, ValueError) as error:
                raise CodeboundError(
                    f"Ray cannot be used at {address or 'this machine'}: {error}\n"
                    "  Start a cluster with `ray start --head` and give its address, or leave it out."
                ) from error
        self._remote = self._ray.remote(call_in)
        self._samples: dict[tuple[Any, ...], tuple[Any, list[_Sent]]] = {}

    @property
    def slots(self) -> int:
        """Cores of the cluster at this moment."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def as_finished(self, jobs: Iterable[Job]) -> Generator[Finished, None, None]:
        """Runs jobs and yields each when it has ended; jobs may be added to a deque meanwhile."""
        ray, waiting = self._ray, jobs if isinstance(jobs, deque) else deque(jobs)
        running: dict[Any, Job] = {}
        try:
            while waiting or running:
                most = _QUEUED * self.slots
                while waiting and len(running) < most:
                    job = waiting.popleft()
                    try:
                        running[self._submit(job)] = job
                    except (TypeError, AttributeError, pickle.PicklingError) as error:
                        yield Finished(job, None, not_sent(error))
                if not running:
                    continue
                if not ray.wait(list(running), timeout=_SILENCE_SECONDS)[0]:
                    self._check_fit(running.values())
                ended, _ = ray.wait(list(running), num_returns=len(running), timeout=0)
                for reference in ended:
                    yield self._finish(running.pop(reference), reference)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)

    def parts_of(self, sample: Any, size: int) -> list[_Sent]:
        """Parts that are sent once, however many jobs there are on them."""
        # the sample is kept, so that its memory is nobody else's as long as its address is known here
        key = (sample.x.data_ptr(), sample.y.data_ptr(), sample.x.shape, sample.x.dtype, sample.scaling, size)
        if key not in self._samples:
            while len(self._samples) >= _SAMPLES:
                del self._samples[next(iter(self._samples))]
            parts = [_Sent(self._ray.put(part)) for part in super().parts_of(sample, size)]
            self._samples[key] = sample, parts
        return self._samples[key][1]

    def close(self) -> None:
        """Disconnects, and stops a Ray that was started here."""
        self._samples.clear()
        if self._is_ours:
            self._ray.shutdown()

    def _submit(self, job: Job) -> Any:
        remote = self._remote.options(
            num_cpus=job.cpus, num_gpus=job.gpus, max_retries=_RETRIES, retry_exceptions=False
        )
        sent = {name: each.reference for name, each in job.arguments.items() if isinstance(each, _Sent)}
        own = {name: each for name, each in job.arguments.items() if name not in sent}
        return remote.remote(replace(job, arguments=own), str(Path.cwd()), list(sent), *sent.values())

    def _finish(self, job: Job, reference: Any) -> Finished:
        try:
            value, failure = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:  # what a job raises is a value of `call`
            return Finished(job, None, not_sent(error.cause))
        except self._ray.exceptions.RayError as error:
            text = str(error).strip().split("\n")[0]
            return Finished(job, None, Failure(f"lost by the cluster, {_RETRIES} retries included: {text}"))
        return Finished(job, value, failure)

    def _check_fit(self, jobs: Iterable[Job]) -> None:
        """Refuses what no node that is alive can run: Ray would wait for ever."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        for job in jobs:
            if not any(node.get("CPU", 0) >= job.cpus and node.get("GPU", 0) >= job.gpus for node in nodes):
                raise CodeboundError(
                    f"no node of the cluster has the {job.cpus} cores and {job.gpus:g} GPUs that "
                    f"{job.function} asks for (cpus and gpus in a plan). Ask for less, or add such a node."
                )


def call_in(job: Job, directory: str, names: Sequence[str], *sent: Any) -> tuple[Any, Failure | None]:
    """Runs a job in the directory where the engine was used, with the arguments that were sent before."""
    try:
        os.chdir(directory)
    except OSError as error:
        node = os.uname().nodename if hasattr(os, "uname") else "this node"
        return None, Failure(f"{directory} cannot be entered on {node}: {error.strerror}. Share it.")
    return call(replace(job, arguments={**job.arguments, **dict(zip(names, sent, strict=True))}))


def _check_answers(address: str) -> None:
    """Fails at once where nothing listens at ``host:port``: Ray would try for many minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise CodeboundError(
            "the engine ray needs Ray, which is not installed: pip install 'codebound[ray]'. "
            "Without it, the engine local runs the same jobs on this machine."
        ) from error
    return ray

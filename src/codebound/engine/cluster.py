"""Jobs on a Ray cluster."""

from __future__ import annotations

import os
import socket
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebound.engine.job import Failure, Finished, Job, call
from codebound.errors import CodeboundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_RETRIES = 3  # of a job whose node or process was lost; never of one that raised
_ANSWER_SECONDS = 10.0
_QUEUED = 2  # jobs submitted per core: the next one is there when a core is free


class RayEngine:
    """Runs jobs on a Ray cluster, or on a Ray of its own on this machine.

    A job whose node is lost runs again on another one; one that raises does not. Every node needs the same
    packages, and the folders that jobs use, at the same paths: jobs start in the current directory.
    """

    def __init__(self, address: str | None = None, *, workers: int | None = None) -> None:
        """Connects.

        Args:
            address: ``auto``, ``host:port`` or ``ray://host:port`` of a cluster; None starts Ray here. A
                process that is connected already stays so.
            workers: Cores of a Ray that is started here; all by default.

        Raises:
            CodeboundError: Ray is not installed, or nothing answers at the address.
        """
        self._ray = _imported_ray()
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            if address is None:
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
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
                    "  Start a cluster with `ray start --head` and give its address, or leave --address out."
                ) from error
        self._remote = self._ray.remote(call_in)
        self._fitting: set[tuple[int, float]] = set()

    @property
    def slots(self) -> int:
        """Cores of the cluster at this moment."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def as_finished(self, jobs: Iterable[Job]) -> Iterator[Finished]:
        """Runs jobs and yields each when it has ended; jobs may be added to a deque meanwhile."""
        ray, waiting = self._ray, jobs if isinstance(jobs, deque) else deque(jobs)
        running: dict[Any, Job] = {}
        try:
            while waiting or running:
                most = _QUEUED * self.slots
                while waiting and len(running) < most:
                    job = waiting.popleft()
                    running[self._submitted(job)] = job
                ray.wait(list(running))
                ended, _ = ray.wait(list(running), num_returns=len(running), timeout=0)
                for reference in ended:
                    yield self._finished(running.pop(reference), reference)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)

    def close(self) -> None:
        """Disconnects, and stops a Ray that was started here."""
        if self._is_ours:
            self._ray.shutdown()

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submitted(self, job: Job) -> Any:
        self._check_fits(job)
        remote = self._remote.options(
            num_cpus=job.cpus, num_gpus=job.gpus, max_retries=_RETRIES, retry_exceptions=False
        )
        return remote.remote(job, str(Path.cwd()))

    def _finished(self, job: Job, reference: Any) -> Finished:
        try:
            value, failure = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            text = str(error).strip().split("\n")[0]
            return Finished(job, None, Failure(f"lost by the cluster, {_RETRIES} retries included: {text}"))
        return Finished(job, value, failure)

    def _check_fits(self, job: Job) -> None:
        """Refuses what no node can run: Ray would wait for ever."""
        if (job.cpus, job.gpus) in self._fitting:
            return
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(node.get("CPU", 0) >= job.cpus and node.get("GPU", 0) >= job.gpus for node in nodes):
            raise CodeboundError(
                f"no node of the cluster has the {job.cpus} cores and {job.gpus:g} GPUs that {job.function} "
                "asks for (cpus and gpus in a plan). Ask for less, or add such a node."
            )
        self._fitting.add((job.cpus, job.gpus))


def call_in(job: Job, directory: str) -> tuple[Any, Failure | None]:
    """Runs a job in the directory where the engine was used."""
    try:
        os.chdir(directory)
    except OSError as error:
        node = os.uname().nodename if hasattr(os, "uname") else "this node"
        return None, Failure(f"{directory} cannot be entered on {node}: {error.strerror}. Share it.")
    return call(job)


def _check_answers(address: str) -> None:
    """Fails at once where nothing listens at ``host:port``: Ray would try for many minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()


def _imported_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise CodeboundError(
            "--engine ray needs Ray, which is not installed: pip install 'codebound[ray]'. "
            "Without it, --engine local runs the same jobs on this machine."
        ) from error
    return ray

"""One large sample on many workers: a value for each of its parts."""

from __future__ import annotations

import math
from contextlib import closing
from typing import TYPE_CHECKING, Any

from codebound.engine.job import value_of
from codebound.errors import UsageError
from codebound.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from codebound.data.dataset import DeviceData
    from codebound.engine.job import Engine, Job


def over_shards(
    sample: DeviceData,
    job_of: Callable[[DeviceData], Job],
    *,
    engine: Engine,
    chunk_size: int,
    progress: Progress = silent,
) -> list[Any]:
    """The values of jobs on parts of a sample, in the order of the parts, at most one for each slot.

    A part is a number of whole chunks: the batches, and so what is found on them, are those of one pass.

    Args:
        sample: The examples, on the CPU.
        job_of: The job of a part.
        engine: Where jobs run.
        chunk_size: Examples in a batch.
        progress: Told the examples done.

    Raises:
        CodeboundError: A job failed; nothing is said about fewer examples.
    """
    if sample.x.device.type != "cpu":
        raise UsageError(f"an engine works on the CPU. Got a sample on {sample.x.device}.")
    size = chunk_size * math.ceil(sample.n / chunk_size / engine.slots)
    jobs = [job_of(sample.part(start, start + size)) for start in range(0, sample.n, size)]
    values: dict[Job, Any] = {}
    with closing(engine.as_finished(jobs)) as ended:
        for finished in ended:
            values[finished.job] = value_of(finished)
            progress(min(sample.n, size * len(values)), sample.n)
    return [values[job] for job in jobs]

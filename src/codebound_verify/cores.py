"""Parallel work on the cores of a machine."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Given = TypeVar("Given")
Result = TypeVar("Result")


def side_by_side(
    function: Callable[[Given], Result], parts: Iterable[Given], workers: int | None = None
) -> Iterator[Result]:
    """Results of ``function`` for all parts, in order, on so many cores; None: all that torch may use.

    Cores that share every small operation wait for each other; on a busy machine that takes many times longer
    than one core alone. So each part has one core, until the last one is done.
    """
    workers = workers or torch.get_num_threads()
    with one_core(), ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Result]] = deque()
        for part in parts:
            waiting.append(pool.submit(function, part))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def one_core() -> Iterator[None]:
    """Every operation on one core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

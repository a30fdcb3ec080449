"""An engine from what a command was told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.engine.cluster import RayEngine
from codebound.engine.local import LocalEngine
from codebound.errors import UsageError

if TYPE_CHECKING:
    from codebound.engine.job import Engine


def open_engine(kind: str, *, workers: int | None = None, address: str | None = None) -> Engine:
    """An engine; use it in a ``with`` block.

    Args:
        kind: ``local`` or ``ray``.
        workers: Jobs at the same time, or cores of a Ray that is started here.
        address: Of a Ray cluster.

    Example:
        >>> open_engine("local", workers=2).slots
        2
    """
    if kind not in ("local", "ray"):
        raise UsageError(f"an engine is local or ray. Got {kind!r}.")
    if address is not None and kind != "ray":
        raise UsageError("--address is that of a Ray cluster: give --engine ray too.")
    if address is not None and workers is not None:
        raise UsageError("a Ray cluster has the workers it has: give --workers or --address, not both.")
    if workers is not None and workers < 1:
        raise UsageError(f"at least one worker is needed. Got {workers}.")
    return LocalEngine(workers) if kind == "local" else RayEngine(address, workers=workers)

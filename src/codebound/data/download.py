"""Fetches known datasets into the cache: every route ends in the same checksums, or leaves nothing behind."""

from __future__ import annotations

import tarfile
import tempfile
import zlib
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Literal, get_args

from codebound.data.catalogue import KNOWN, Known, cache_folder
from codebound.data.layouts import md5_of
from codebound.data.routes import ROUTES, Route
from codebound.errors import DataError, UsageError
from codebound.progress import Progress, silent

RouteKind = Literal["auto", "original", "registry"]
_ROUTE_FAILURES = (DataError, OSError, EOFError, HTTPException, zlib.error, tarfile.TarError)


@dataclass(frozen=True, slots=True)
class Fetched:
    """Where a dataset lies in the cache.

    Attributes:
        folder: Its folder.
        route: How it came there now, in words; empty when it was there before.
        failures: Routes that were tried first, each with its reason.
        size_bytes: Bytes of its files.
    """

    folder: Path
    route: str
    failures: tuple[str, ...]
    size_bytes: int


def fetch(name: str, *, progress: Progress = silent, route: RouteKind = "auto") -> Fetched:
    """Puts a known dataset into the cache, unless it is there intact.

    Files are built in a temporary folder beside the cache entry, compared with the checksums of the
    catalogue, and only then moved into place in one step; a failure or an interruption leaves no trace.

    Args:
        name: A name of the catalogue.
        progress: Called with bytes done and expected.
        route: ``auto`` tries the original address, then the registries.

    Raises:
        DataError: No route gave the right content; each is named with its reason.
    """
    known = KNOWN.get(name.lower())
    if known is None:
        raise UsageError(f"no dataset is called {name!r}. Known: {', '.join(KNOWN)}.")
    if known.name not in ROUTES:
        reason = (
            "is embedded in scikit-learn: there is nothing to fetch"
            if known.layout == "embedded"
            else f"cannot be fetched: copy it in torchvision's layout ({known.folder}) and name the folder"
        )
        raise DataError(f"{known.name} {reason}.")
    if route not in get_args(RouteKind):
        raise UsageError(f"a route is {', '.join(get_args(RouteKind))}. Got {route!r}.")
    entry = cache_folder() / known.name
    if _is_intact(known, entry):
        return Fetched(entry, "", (), _size_bytes(known, entry))
    failures: list[str] = []
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{known.name}-", dir=entry.parent) as temporary:
            for candidate in ROUTES[known.name]:
                if route not in ("auto", candidate.kind):
                    continue
                try:
                    built = _attempt(known, candidate, Path(temporary), progress)
                except _ROUTE_FAILURES as error:
                    failures.append(f"{candidate.words}: {error}")
                else:
                    _move_into_place(known, built, entry)
                    return Fetched(entry, candidate.words, tuple(failures), _size_bytes(known, entry))
    except OSError as error:
        raise DataError(
            f"the cache {entry.parent} cannot be written: {error}. Set CODEBOUND_CACHE to a folder of yours."
        ) from error
    raise DataError(
        f"{known.name} could not be fetched.\n"
        + "".join(f"  {failure}\n" for failure in failures)
        + f"  If you have the files, name their folder instead (torchvision's layout: {known.folder})."
    )


def _attempt(known: Known, route: Route, folder: Path, progress: Progress) -> Path:
    """Runs a route inside ``folder`` and returns the folder it filled, after its checksums."""
    work = Path(tempfile.mkdtemp(dir=folder))
    built = work / "built"
    built.mkdir()
    route.run(known, work, built, progress)
    for file in known.all_files():
        actual = md5_of(built / file)
        if actual != known.md5[file]:
            raise DataError(f"{file} has md5 {actual}, expected {known.md5[file]}: damaged, or another file")
    return built


def _move_into_place(known: Known, built: Path, entry: Path) -> None:
    if entry.exists():  # damaged or incomplete: never merged with what is new
        entry.rename(built.with_name("damaged"))
    try:
        built.rename(entry)
    except OSError:
        if not _is_intact(known, entry):  # unless another process finished the same work first
            raise


def _is_intact(known: Known, entry: Path) -> bool:
    try:
        return all(md5_of(entry / file) == known.md5[file] for file in known.all_files())
    except DataError:
        return False


def _size_bytes(known: Known, entry: Path) -> int:
    return sum((entry / file).stat().st_size for file in known.all_files())

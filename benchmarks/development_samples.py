"""The samples that the format was developed on: python benchmarks/development_samples.py [--write]

Compares developed.json with lists made anew (docs/format.md, section 11), or writes it.
MNIST, Fashion-MNIST and CIFAR-10 have to be in the cache; packages bring the others, as in public_sets.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from public_sets import SETS, PublicSet, load, parse, rdata
from public_sets.__main__ import fetch
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from codebound import load_sample
from codebound_verify.development import SKETCHES, row_keys

HOW = (
    "A row becomes a key as docs/format.md, section 11, says: each of its blocks is moved and scaled to go "
    "from 0 to 4,096, rounded to uint16; the key is the first 6 bytes of the SHA-256 of these, in C order "
    "and little-endian. A row with a constant block, a gap or a word has none. Listed are the 1,024 "
    "smallest; of rows of less than 32 values, those with three different ones, since the others are common."
)
KEYS, FEW = 1024, 32
ALSO = {"cifar10": ["cifar-10"], "mlbench-pima": ["pimaindiansdiabetes"], "kernlab-spam": ["spambase"]}
NAMED = (  # without a list: no package has them, or their rows hold words
    "CIFAR-100, credit_data, EMNIST, ETHOS, ImageNet, KMNIST, mlc_churn, optdigits (digits are its test "
    "part), QMNIST, Reuters R52 (most of it is r8), SpamAssassin, SVHN"
)
PUBLIC = "dna italy_power japanese_vowels letter mfeat newsgroups r8 satellite shuttle"
OF_R = """
mlbench BreastCancer breast-cancer 683 9 - 9db3be6e249253fc65d73f49387edb5aac4a8887021f7f7d9275c176379f0d36
mlbench Ionosphere ionosphere 351 34 Class 523cb7e48833e40bae413dde7889eeed5a54e7900cfd1016aa12502a99186267
mlbench PimaIndiansDiabetes pima 768 8 diabetes \
3d5e123aa310b8875d57645650fd81daa9685c24945264428afa09fea986c63a
mlbench Sonar sonar 208 60 Class c073818b2efccc5a5828d845ecea2d99f0f2a810737d79eab904caca0b21c6e6
kernlab musk musk 476 166 Class 09c998d11820c7ff02bf0f00ec59160a3669d3ae414ddb4a3d142dc67842be58
kernlab spam spam 4601 57 type 7f6ee50cd842dcf923ae023f58c3ccb8ce6e89d1a70dd4464e77350312bcf773
"""


def levels_as_numbers(files: Mapping[str, bytes]) -> parse.Sample:
    """A data frame of names, columns whose levels are numbers, and classes: its rows without gaps."""
    ((name, content),) = files.items()
    _, *inputs, labels = rdata._Reader(content, name, at=7).saved()[0].values
    codes = np.stack([each.values for each in inputs], 1).astype(np.int64) - 1
    whole = (codes >= 0).all(axis=1)
    levels = [np.array(each.strings("levels"), dtype=np.float64) for each in inputs]
    x = np.stack([each[column] for each, column in zip(levels, codes[whole].T, strict=True)], 1)
    return x, labels.values[whole].astype(np.int64) - 1


def samples() -> Iterator[tuple[str, NDArray[Any], int]]:
    """Name, inputs and blocks of every sample."""
    known = {"digits": 1, "mnist": 1, "fashion-mnist": 1, "cifar10": 3}
    for name, blocks in known.items():
        yield name, load_sample(name).x, blocks
    for name in PUBLIC.split():
        fetch(name)
        yield name.replace("_", "-"), load(name).x, 1
    for name, loader in (("breast-cancer", load_breast_cancer), ("wine", load_wine), ("iris", load_iris)):
        yield f"sklearn-{name}", loader().data, 1
    for package, file, short, n, inputs, target, digest in map(str.split, OF_R.strip().splitlines()):
        name, folder = f"{package}-{short}", f"usr/lib/R/site-library/{package}/data/"
        read = partial(parse.frame_of_numbers, target=target, unit=1.0)
        SETS[name] = PublicSet(
            *(file, f"r-cran-{package}", folder, {"train": {f"{file}.rda": digest}}, {"train": int(n)}),
            *((int(inputs),), 2, levels_as_numbers if target == "-" else read),
        )
        fetch(name)
        yield name, load(name).x, 1
    for name, blocks in list(known.items())[1:]:
        yield f"{name}-test", load_sample(name, role="test").x, blocks
    for name in ("japanese_vowels", "newsgroups", "r8"):
        yield f"{name.replace('_', '-')}-test", load(name, "test").x, 1
    both = np.concatenate([load_sample("cifar10", role=role).x for role in ("train", "test")])
    yield "cifar10-channels-last", both.transpose(0, 2, 3, 1), 1


def listed(name: str, x: NDArray[Any], blocks: int) -> dict[str, Any]:
    """The entry of a sample."""
    rows = x.reshape(len(x), -1)
    if rows.shape[1] < FEW:
        rows = rows[(np.diff(np.sort(rows, axis=1), axis=1) > 0).sum(axis=1) >= 2]
    keys = "".join(f"{key:012x}" for key in np.unique(row_keys(rows, blocks))[:KEYS].tolist())
    entry = {"width": rows.shape[1], "blocks": blocks, "keys": keys}
    return entry | ({"also": ALSO[name]} if name in ALSO else {})


def main() -> None:
    """Says which lists differ, or writes them."""
    rows = {name: listed(name, x, blocks) for name, x, blocks in samples()}
    text = json.dumps({"how": HOW, "named": NAMED.split(", "), "rows": rows}, indent=1)
    print(f"{len(rows)} samples, {len(text):,} bytes")
    old = json.loads(SKETCHES.read_text())["rows"]
    differ = [name for name in {**old, **rows} if old.get(name) != rows.get(name)]
    print(f"{SKETCHES.name}: {', '.join(differ) or 'nothing'} differs")
    if "--write" in sys.argv[1:]:
        SKETCHES.write_text(f"{text}\n")


if __name__ == "__main__":
    main()

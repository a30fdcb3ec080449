"""What has to be true for a guarantee and cannot be computed from any file (C-14), in plain sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .header import Disagreement, Domain, Header, PartOfSample, Picked, Split

if TYPE_CHECKING:
    from .factories.factory import Made
    from .rows import Repeats

DEVELOPMENT = {  # samples by their hash: version 2 of the format was made with a view of them
    "d22e38850101f68adc84e9f356f78162646d7c52307dca0577fe23ca92e5960c": "digits",
    "b98a22f5f10987daca90a92b002c534ab2b9adfd56c62d12f1ad12ef9fac35b9": "MNIST",
    "fddd55df4bf9137d7e42a8735dc4d26d0cdb543d359e849ee30b5c484a622f14": "Fashion-MNIST",
    "fff8faed6be6904782e23de72ba76d01c46b8aab6852f2561df24df2713b2f51": "CIFAR-10",
}
DEVELOPMENT_3 = {  # and those that version 3 was made with beside them
    "fbe387d1f393d5163c790f722c0453ec701206a865fffc6b138925f5eb815b25": "dna",
    "84110e3964343c2b06d4a3003ebe446934029f6f81547e85d980e53f62ec34fd": "italy-power",
    "e149879f2c4422478ca9c9b65ecc15879b350c9f0d3c56c035b61dc800d5cc99": "japanese-vowels",
    "ad216d090bd788ccf4760f633feb0e07dc0f6e7ae2f8976f7d5f25007dd2e010": "letter",
    "a2fec3baa0e09a7c7e6b874695b1a6d7567e764083b4c5e16f1b502ab8c6845a": "mfeat",
    "96b1fa6c240e7dc41b52b96cd1041d08274a74f3d24981b83f61670db78f4162": "newsgroups",
    "ce3daef585be9476ce75e2de7b627e1fc8369a85f6a1ed377c50ccd1cc406abe": "r8",
    "6ab00670da4da6b2307179569e804f843c61898cd5d2ba7c1eba0c606d142f5c": "satellite",
    "fe8d458016dca4c31f24bfb869b6a8242ed29215b1d1e2d95a50f75bd61f9e92": "shuttle",
    "ee2439416354aa432218362894436ff94efecbe47dc67ab1aaf08835aee04152": "sklearn-breast-cancer",
    "c2a1ded42f51394ed96b32f9804d08b77295ae14e844bb3d7fb7789e3cca17f8": "sklearn-wine",
}
SKETCHES = Path(__file__).with_name("developed.json")
"""Of each of them, the 64 smallest hashes of its inputs (SHA-256 of their bytes, the first six): so that a
part of it is known, in whatever order."""

ROWS = (
    "Which rows the sample has, how many and in which order was decided before anybody looked at their "
    "labels, or at the errors of a network."
)
STORED = (
    "The stored numbers were made from each example by itself, or with constants fixed beforehand: nothing "
    "was learned, selected, scaled or rotated with the help of the sample."
)


def assumed_by(header: Header, made: Made | None, repeats: Repeats | None) -> tuple[str, ...]:
    """One sentence for each; those that are broken most easily come first."""
    sample = f"the {header.n} examples" + (" after the split" if isinstance(header.extra, Split) else "")
    if isinstance(picked := header.extra, Picked):
        sample += f" after the {picked.first} that the rule starts with"
    lines = []
    if header.base is not None:
        lines.append(
            f"The base, of SHA-256 {header.base.sha256}, was neither trained nor selected on {sample}: "
            f"without that the bound means nothing. The file says that it is {header.base.name!r}."
        )
    if made is not None:
        lines.insert(0 if made.graph is None else len(lines), made.assumption(header, sample))
    lines += [
        _format(header, sample, repeats),
        ROWS,
        STORED,
        f"Independent draws from the distribution that the claim is about: {sample}.{_copies(repeats)}",
        _fixed(header, sample),
    ]
    if isinstance(extra := header.extra, Domain):
        lines.append(f"Every input has stored values from {extra.input_low} to {extra.input_high}.")
    if isinstance(extra, Disagreement):
        lines.append(
            f"The {extra.n_unlabelled} unlabelled inputs are independent draws too, and neither f nor g nor "
            "the fault was chosen with them."
        )
    lines.append(
        "The network is run as it was counted: one example at a time or in batches that change nothing, in "
        "float64 or close enough not to change a prediction."
    )
    return tuple(lines)


def developed_on(header: Header, repeats: Repeats | None) -> str | None:
    """The sample that the version of the file was made with a view of, if this one is it or a part of it."""
    known = DEVELOPMENT | (DEVELOPMENT_3 if header.version.number > 2 else {})
    if repeats is None or header.sample_sha256 in known:
        return known.get(header.sample_sha256)
    for name, sketch in json.loads(SKETCHES.read_text()).items():
        looked_for = np.array([int(each, 16) for each in sketch], dtype=np.uint64)
        if name in known.values() and repeats.begin_with(looked_for):
            return f"a part of {name}, or shares examples with it"
    return None


def _format(header: Header, sample: str, repeats: Repeats | None) -> str:
    if (known := developed_on(header, repeats)) is not None:
        return (
            "This format was developed on this very sample: choices among what it lists are paid for, its "
            f"own design is not. (The sample is {known}.)"
        )
    if (page := header.version.page) is not None:
        state = f"its page of SHA-256 {page.sha256}, frozen on {page.frozen}"
        if not page.frozen:
            state = "a draft whose page may still change: keep no file of it"
        return f"The format (version {header.version.number}, {state}) was fixed without looking at {sample}."
    return (
        f"The format (version {header.version.number}, whose words were changed while it was in use) was "
        f"fixed without looking at {sample}."
    )


def _copies(repeats: Repeats | None) -> str:
    if repeats is None or not repeats.equal:
        return ""
    return (
        f" {repeats.equal} of the {repeats.n} in the sample are exact copies of earlier ones, and have to "
        "be draws of their own."
    )


def _fixed(header: Header, sample: str) -> str:
    free = [f"delta = {header.delta}"]
    if not header.version.codes_setting:
        scaling = header.scaling
        free += [
            f"the number of classes, {header.classes}",
            f"the scaling (x / {scaling.divisor} - {scaling.mean}) / {scaling.std}",
        ]
    if isinstance(part := header.tally, PartOfSample):
        free.append(
            f"the part of the data that {header.fault.text} is about, whose share of new data, at least "
            f"{part.share:.4g}, is estimated for this part alone"
        )
    return f"Chosen without looking at {sample}: {'; '.join(free)}."

"""What a certificate declares: what has to be true and cannot be computed, one plain sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.bounds.risk import CODE_ALONE, CODE_FIRST, RULE_FIRST
from codebound.certificate.format import PAGES

if TYPE_CHECKING:
    from codebound.certificate.assessment import AbstractAssessed
    from codebound.certificate.file import Helper
    from codebound.certificate.task import Task
    from codebound.data.dataset import Dataset

MAX_CHARACTERS = 400

DEVELOPED = (
    "This format was developed on this very sample: choices among what it lists are paid for, its own design "
    "is not."
)
_DEVELOPMENT = {
    "d22e38850101f68adc84e9f356f78162646d7c52307dca0577fe23ca92e5960c": "digits",
    "b98a22f5f10987daca90a92b002c534ab2b9adfd56c62d12f1ad12ef9fac35b9": "mnist",
    "fddd55df4bf9137d7e42a8735dc4d26d0cdb543d359e849ee30b5c484a622f14": "fashion-mnist",
    "fff8faed6be6904782e23de72ba76d01c46b8aab6852f2561df24df2713b2f51": "cifar10",
}
_DEVELOPMENT_3 = _DEVELOPMENT | {
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


def development_sample(sample: Dataset, version: int) -> str:
    """The sample, or the dataset that it is a part of, if that version was made with a view of it."""
    known, name = _DEVELOPMENT_3 if version > 2 else _DEVELOPMENT, sample.name.partition(":")[0]
    return known.get(sample.sha256) or (name if name in known.values() else "")


def declared_by(assessed: AbstractAssessed, task: Task, helper: Helper) -> tuple[str, ...]:
    """The assumptions of the bound and the helper in words, the ones that are broken most easily first."""
    page = PAGES[assessed.version]
    named = f"version {assessed.version}, {page.named}"
    is_developed = bool(development_sample(task.sample, assessed.version))
    lines = [] if helper.base is None else [helper.base.declared(assessed.kind.unseen)]
    lines += task.sample.encoder.splitlines()
    if helper.architecture is not None:
        lines.append(helper.architecture.declared)
        lines.append(f"The architecture {helper.architecture.name} was chosen without looking at the sample.")
    lines.append(
        DEVELOPED if is_developed else f"The format ({named}) was fixed without looking at the sample."
    )
    lines.extend(
        line
        for line in assessed.bound.assumptions
        if not (is_developed and line in (CODE_FIRST, CODE_ALONE, RULE_FIRST))
    )
    if task.rows.equal:
        lines.append(f"{task.rows.sentence}; they are independent draws that happen to be equal.")
    lines.append(_setting(assessed))
    if not assessed.kind.is_learned:  # what is, is defined to the last bit
        lines.append(
            "The network is run in float64, or in float32: there the largest deviation seen on the first "
            f"4,096 examples was {assessed.count.float32_deviation:.1e} of the largest logit."
        )
    lines.extend(f"About the data: {warning}" for warning in task.sample.warnings)
    return tuple(line[:MAX_CHARACTERS] for line in lines)


def _setting(assessed: AbstractAssessed) -> str:
    """Classes and scaling, and where they stand; a short message leaves out what is known without it."""
    classes, scaling = assessed.message.setting.classes, assessed.message.setting.scaling
    said = f"inputs are scaled as (x / {scaling.divisor:g} - {list(scaling.mean)}) / {list(scaling.std)}"
    if assessed.message.is_short:
        return f"There are {classes} classes, {assessed.short_words(said)}."
    return f"The message says that there are {classes} classes, and that {said}."

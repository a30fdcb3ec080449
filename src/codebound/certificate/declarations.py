"""What a certificate declares: what has to be true and cannot be computed, one plain sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codebound.bounds.risk import CODE_ALONE, CODE_FIRST, RULE_FIRST
from codebound.certificate.format import PAGES
from codebound.certificate.named import naming
from codebound.data.developed import DEVELOPED, development_sample

if TYPE_CHECKING:
    from codebound.certificate.assessment import AbstractAssessed
    from codebound.certificate.file import Helper
    from codebound.certificate.task import Task

MAX_CHARACTERS = 400


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
    lines += naming(task.sample, assessed.network.state_dict() if assessed.kind.is_learned else None)
    lines.append(_setting(assessed))
    if not assessed.kind.is_learned:  # what is, is defined to the last bit
        network = "The network behind the encoder" if task.sample.encoder else "The network"
        lines.append(
            f"{network} is run in float64, or in float32: there the largest deviation seen on the first "
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

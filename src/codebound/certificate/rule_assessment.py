"""Assessment of a rule carried out on the sample (C-15)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from codebound.bounds.picked import picked_risk
from codebound.bounds.risk import count_of
from codebound.certificate.assessment import AbstractAssessed, ClassBound, require_same
from codebound.certificate.claims import FromPicks
from codebound.certificate.evaluate import Count
from codebound.learn.kernel_network import PickedNetwork, count_faults
from codebound.learn.picking import faults_of, permutation
from codebound.learn.rule import PickedMessage, decode_rule
from codebound.sample.losses import WRONG, OfClass, possible_examples

if TYPE_CHECKING:
    from codebound.bounds.facts import PickedFacts
    from codebound.certificate.task import Task
    from codebound.learn.picking import Picked
    from codebound.learn.rule import Rule
    from codebound.run.job import Engine
    from codebound.sample.dataset import Dataset
    from codebound.sample.losses import Fault


@dataclass(frozen=True, slots=True, eq=False)
class AssessedPicks(AbstractAssessed):
    """A rule, and what it picked; its network is defined to the last bit, for inputs as they are stored."""

    message: PickedMessage
    facts: PickedFacts
    picked: Picked

    @property
    def rules(self) -> tuple[Rule, ...]:  # noqa: D102
        return (self.picked.rule,)

    def require_read_back(self, task: Task) -> None:  # noqa: D102
        meant, rule = self.message, self.picked.rule
        known = (meant.setting, rule.first) if meant.is_short else None
        read = decode_rule(self.bits, input_shape=task.sample.input_shape, known=known)
        require_same("rule", read.rule, rule)
        require_same("setting", read.setting, meant.setting)
        if meant.is_short:
            require_same("spare classes", read.spare_classes, meant.spare_classes)

    def short_words(self, scaled: str) -> str:  # noqa: D102
        has_pictures = self.picked.rule.features.plain.has_pictures
        said = f", which says that {scaled}" if has_pictures else "; inputs are taken as stored"
        return f"by the labels of the first examples and the message{said}"

    def route(self, method: str) -> tuple[str, str]:  # noqa: D102
        facts, wrong = self.facts, f"{count_of(self.facts.errors, 'error')} of {self.facts.n}"
        if facts.is_held_out:
            learned = f"after learning from the other {facts.n_first} without picks"
            return "split", f"{wrong}, {learned}; {count_of(facts.code_bits, 'bit', form='g')}"
        paid = f"{count_of(facts.picks, 'pick')} and {wrong}, beside {facts.n_first} first ones"
        return "picks", f"{paid}; {count_of(facts.code_bits, 'bit', form='g')}"

    def looser_forms(self, task: Task) -> tuple[float, float]:
        """None: the bound itself."""
        return self.bound.value, self.bound.value

    def errors_on(self, data: Dataset, fault: Fault, engine: Engine | None) -> int:  # noqa: D102
        return count_faults(self.network, data, fault)

    def class_bounds(self, task: Task, rest: Dataset, *, engine: Engine | None) -> tuple[ClassBound, ...]:
        """Picks of a class count on that class alone."""
        sample, delta = task.sample, task.delta / task.sample.classes * (1.0 - 1e-15)
        labels, rows = sample.y[permutation(sample.n)[self.picked.rule.first :]], []
        for label in range(sample.classes):
            row = ClassBound(label, 0, 0, None)
            if (labels == label).any():
                own = _on_part(self.picked, sample, OfClass(label), replace(self.facts, delta=delta))
                row = ClassBound(label, own.errors, own.n, picked_risk(own).value, own.picks)
            rows.append(row)
        return tuple(rows)

    def recounted(self, task: Task, *, engine: Engine | None) -> AssessedPicks:  # noqa: D102
        return assess_picked(self.picked, task)


def assess_picked(picked: Picked, task: Task) -> AssessedPicks:
    """Encodes a rule and bounds the risk of the network that was learned by it."""
    sample, fault = task.sample, task.claim.fault
    order = permutation(sample.n)
    spare = sample.classes - 1 - int(sample.y[order[: picked.rule.first]].max())
    message = PickedMessage(task.options, picked.rule, sample.input_shape, spare)
    bits, ledger = message.encode()
    facts = picked.facts(code_bits=bits.length, delta=task.delta, classes=sample.classes)
    if fault != WRONG:
        facts = _on_part(picked, sample, fault, facts)
    network = PickedNetwork.of(picked, torch.from_numpy(sample.x), sample.scaling.divisor)
    part = {"picks": facts.picks} if fault.has_part else None
    conclusion = FromPicks.conclude(facts, picks=picked.last.picks, part=part)
    rest = sample.select(order[picked.rule.first :], role="certify")
    counted = possible_examples(fault, rest)
    count, alone = Count(facts.errors, 0.0), conclusion.bound.value
    version = 3 if facts.is_held_out else message.version  # the third has the bound of a hold-out set
    return AssessedPicks(
        message, bits, ledger, network, count, facts, conclusion, counted, FromPicks, version, alone, picked
    )


def _on_part(picked: Picked, sample: Dataset, fault: Fault, facts: PickedFacts) -> PickedFacts:
    """Picks and faults on the examples that a fault can happen on (docs/format-3.md, section 10.7)."""
    labels = torch.from_numpy(sample.y)
    rest = torch.from_numpy(permutation(sample.n)[picked.rule.first :])
    is_possible = fault.is_counted(labels)
    is_left = is_possible.clone()
    is_left[torch.from_numpy(picked.order)] = False
    errors = faults_of(picked.learned.outputs[is_left], labels[is_left], fault)
    n, left = int(is_possible[rest].sum()), int(is_left.sum())
    return replace(facts, picks=n - left, errors=errors, n=n)

"""What a rule proves that was carried out on the sample (C-15)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from codebound.bounds.picked import picked_risk
from codebound.certificate.assessment import Assessed, tally_of
from codebound.certificate.claims import FromPicks
from codebound.certificate.evaluate import Count
from codebound.faults import WRONG, OfClass, possible_examples
from codebound.picks.message import PickedMessage
from codebound.picks.network import PickedNetwork
from codebound.picks.picking import fault_counts_of, permutation

if TYPE_CHECKING:
    from codebound.bounds.facts import PickedFacts
    from codebound.certificate.task import Task
    from codebound.data.dataset import Dataset
    from codebound.faults import Fault
    from codebound.picks.picking import Picked


def assess_picked(picked: Picked, task: Task) -> Assessed:
    """Encodes a rule and bounds the risk of the network that was learned by it."""
    sample, fault = task.sample, task.claim.fault
    order = permutation(sample.n)
    spare = sample.classes - 1 - int(sample.y[order[: picked.rule.first]].max())
    message = PickedMessage(task.options, picked.rule, sample.input_shape, spare)
    bits, ledger = message.encode()
    facts = picked.facts(code_bits=bits.length, delta=task.delta, classes=sample.classes)
    counts: tuple[int, ...] = (facts.errors,)
    if fault != WRONG:
        facts, counts = _on_part(picked, sample, fault, facts)
    tally, costs = tally_of(fault, counts, facts.n - facts.picks), fault.costs(sample.classes)
    if fault.has_part:
        tally = {"picks": facts.picks}
    if costs:
        tally["above"] = [counts[cost - 1] for cost in costs]
        facts = replace(facts, errors=-(-tally["cost"] // costs[-1]))
    network = PickedNetwork.of(picked, torch.from_numpy(sample.x), sample.scaling.divisor)
    conclusion = FromPicks.conclude(facts, picks=picked.last.picks, tally=tally or None, costs=costs)
    rest = sample.select(order[picked.rule.first :], role="certify")
    counted = possible_examples(fault, rest)
    return Assessed(message, bits, ledger, network, Count(counts, 0.0), facts, conclusion, counted, picked)


def picked_class_bound(
    picked: Picked, sample: Dataset, label: int, facts: PickedFacts
) -> tuple[PickedFacts | None, float | None]:
    """What was counted on the examples of one class, at the delta of the facts; None without examples."""
    if not (sample.y[permutation(sample.n)[picked.rule.first :]] == label).any():
        return None, None
    own, _ = _on_part(picked, sample, OfClass(label), facts)
    return own, picked_risk(own).value


def _on_part(
    picked: Picked, sample: Dataset, fault: Fault, facts: PickedFacts
) -> tuple[PickedFacts, tuple[int, ...]]:
    """Picks and faults on the examples that a fault can happen on (docs/format-3.md, section 10.7)."""
    labels = torch.from_numpy(sample.y)
    rest = torch.from_numpy(permutation(sample.n)[picked.rule.first :])
    is_possible = fault.is_counted(labels)
    is_left = is_possible.clone()
    is_left[torch.from_numpy(picked.order)] = False
    counts = fault_counts_of(picked.learned.outputs[is_left], labels[is_left], fault)
    n, left = int(is_possible[rest].sum()), int(is_left.sum())
    return replace(facts, picks=n - left, errors=counts[0], n=n), counts

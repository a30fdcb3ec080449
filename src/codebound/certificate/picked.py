"""What a rule proves that was carried out on the sample (C-15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from codebound.certificate.assessment import Assessed
from codebound.certificate.claims import FromPicks
from codebound.certificate.evaluate import Count
from codebound.picks.message import PickedMessage
from codebound.picks.network import PickedNetwork
from codebound.picks.picking import permutation

if TYPE_CHECKING:
    from codebound.certificate.task import Task
    from codebound.picks.picking import Picked


def assess_picked(picked: Picked, task: Task) -> Assessed:
    """Encodes a rule and bounds the risk of the network that was learned by it."""
    message = PickedMessage(task.options, picked.rule, task.sample.input_shape)
    bits, ledger = message.encode()
    facts = picked.facts(code_bits=bits.length, delta=task.delta, classes=task.sample.classes)
    network = PickedNetwork.of(picked, torch.from_numpy(task.sample.x), task.sample.scaling.divisor)
    conclusion = FromPicks.conclude(facts)
    rest = task.sample.select(permutation(task.sample.n)[picked.rule.first :], role="certify")
    return Assessed(message, bits, ledger, network, Count(facts.errors, 0.0), facts, conclusion, rest)

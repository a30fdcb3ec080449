"""``codebound demo``: what its three rows say is what was counted."""

import re

import pytest

from codebound.certification import certify
from codebound.request import Run
from codebound.sample.load import load_sample, split
from codebound_networks.cli.demo import _guarantees


@pytest.mark.thorough
def test_labels_that_were_learned_from_first_are_counted_among_them():
    parts = split(load_sample("digits"), {"train": 0.8, "test": 0.2})
    found = certify(parts["train"], method="picks", test=parts["test"], run=Run(effort="quick"))
    picks, message, held_out = _guarantees(found, found)
    first, picked, counted = map(int, re.findall(r"\d+", picks["words"]))
    assert first + counted == parts["train"].n
    assert first > 0
    assert picked == found.certificate.limit.picks
    assert message["words"].startswith("The network, compressed")
    assert f"on {parts['test'].n} labels that the rows above do not have" in held_out["words"]

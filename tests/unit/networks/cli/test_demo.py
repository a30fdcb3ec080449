"""``codebound demo``: what its three rows say is what was counted."""

import re

import pytest

from codebound.certification import certify
from codebound.request import Run
from codebound.sample.load import load_sample, split
from codebound_networks.cli.demo import _guarantees


@pytest.mark.thorough
def test_the_rows_say_what_was_learned_from_and_what_was_counted():
    parts = split(load_sample("digits"), {"train": 0.8, "test": 0.2})
    found = certify(parts["train"], method="split", test=parts["test"], run=Run(effort="quick"))
    learned, message, held_out = _guarantees(found, found)
    known, counted = map(int, re.findall(r"\d+", learned["words"]))
    assert known + counted == parts["train"].n
    assert known == found.certificate.known.rows > 0
    assert (learned["by"], learned["bound"]) == ("split", found.bound)
    assert "compressed to 1 bits" in message["words"]
    assert f"on {parts['test'].n} labels that the rows above do not have" in held_out["words"]
    assert held_out["bound"] == found.holdout.value

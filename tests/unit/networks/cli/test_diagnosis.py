"""What is said of an installation and of a network, without the command line."""

import sys

import torch
from torch import nn

from codebound_networks.cli.diagnosis import describe_installation, examine


def test_an_installation_names_what_it_has_and_what_to_do_about_the_rest(own_cache):
    rows = {what: (found, note) for what, found, note in describe_installation()}
    assert rows["torch"][0].partition("+")[0] == torch.__version__.partition("+")[0]
    assert rows["data mnist"] == ("not here", "codebound data get mnist")


def test_a_network_of_the_zoo_has_its_own_shape():
    found = examine("linear")
    assert found.shape == (1, 28, 28)
    assert [(row["name"], row["status"]) for row in found.rows] == [
        ("linear1.weight", "seen"),
        ("linear1.bias", "seen"),
    ]
    *_, last = found.sentences
    assert "1 operations with 7,850 numbers" in last


def test_scores_of_one_class_are_no_certificate(monkeypatch):
    module = type(sys)("diagnosed_nets")
    module.make = lambda: nn.Sequential(nn.Flatten(), nn.Linear(3072, 1))
    monkeypatch.setitem(sys.modules, "diagnosed_nets", module)
    found = examine("diagnosed_nets:make")
    assert found.shape == (3, 32, 32)
    *_, last = found.sentences
    assert last.startswith("A certificate cannot be about this network")

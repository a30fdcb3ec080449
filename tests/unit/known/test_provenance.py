"""What a network was trained on is known as long as nobody changes it, and decides what stands beside."""

import pytest
import torch
from torch import nn
from worlds.bright_rows import images

from codebound.certification import certify
from codebound.known.provenance import UNKNOWN, origin_of
from codebound.request import Run
from codebound_networks.reading.loading import load_model
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit

SAMPLE, OTHER, TEST = images(), images(100, 5), images(60, 2, "test")
SHORT = TrainConfig(epochs=1)


def fresh():
    return load_model("linear", input_shape=(1, 4, 4), classes=3)


def own():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))


def trained(model, *samples):
    for sample in samples:
        model = fit(model, sample, SHORT).model
    return model


def changed(model):
    with torch.no_grad():
        next(model.parameters()).add_(1e-3)
    return model


CASES = {
    "drawn here, trained on the sample": (lambda: trained(fresh(), SAMPLE), True, ""),
    "twice": (lambda: trained(fresh(), SAMPLE, SAMPLE), True, ""),
    "made elsewhere": (lambda: trained(own(), SAMPLE), True, ", IF it had seen none of them before"),
    "changed since": (lambda: changed(trained(fresh(), SAMPLE)), True, ", IF it was neither trained"),
    "also on other data": (lambda: trained(fresh(), OTHER, SAMPLE), False, ": NO GUARANTEE"),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CASES)
def test_the_hold_out_bound_of_f_says_if_only_where_it_has_to(name):
    make, is_shown, words = CASES[name]
    result = certify(SAMPLE, network=make(), method="prune", test=TEST, run=Run(effort="quick")).result
    assert ("holdout_f" in result) is is_shown
    assert result["holdout_f_words"].startswith(words)
    assert bool(result["holdout_f_words"]) is bool(words)


def test_a_folder_remembers_for_the_next_process(tmp_path):
    first = fit(fresh(), SAMPLE, SHORT, out=tmp_path / "run").model
    again = fit(fresh(), SAMPLE, SHORT, out=tmp_path / "run").model  # read, not trained
    assert origin_of(first) == origin_of(again) != UNKNOWN
    assert origin_of(again).data_sha256 == SAMPLE.sha256

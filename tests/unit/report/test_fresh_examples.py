"""What test examples may say of g that was made of a network which may have seen them."""

import numpy as np
import pytest
import torch
from torch import nn
from worlds.bright_rows import images

from codebound.certification import certify
from codebound.sample.dataset import Dataset, split
from codebound_networks.reading.loading import load_model
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit

SAMPLE, OTHER, TEST = images(), images(100, 5), images(60, 2, "test")
SHORT = TrainConfig(epochs=1)


def trained(*samples):
    model = load_model("linear", input_shape=(1, 4, 4), classes=3)
    for sample in samples:
        model = fit(model, sample, SHORT).model
    return model


def made_elsewhere():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))


CASES = {
    "on the sample": (lambda: trained(SAMPLE), True, ""),
    "nobody knows": (made_elsewhere, True, ", IF f was neither trained nor selected on them"),
    "first elsewhere": (
        lambda: fit(made_elsewhere(), SAMPLE, SHORT).model,
        True,
        ", IF f had seen none of them before",
    ),
    "on other data": (lambda: trained(OTHER, SAMPLE), False, ": NO GUARANTEE, f was trained on other data"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("fault", ["wrong", "class:1"])
def test_what_is_withheld_of_f_is_withheld_of_what_was_made_of_it(name, fault):
    make, is_shown, words = CASES[name]
    found = certify(make(), SAMPLE, method="prune", effort="quick", test_set=TEST, fault=fault)
    result = found.result
    assert ("holdout" in result) is is_shown
    assert result["holdout_words"].startswith(words)
    assert bool(result["holdout_words"]) is bool(words)
    assert result["test_errors"] == found.confrontation.test.errors  # an alarm is one all the same
    assert words in str(found)
    if fault == "wrong":
        assert ("holdout_f" in result) is is_shown


@pytest.mark.parametrize("name", CASES)
def test_a_network_of_its_own_has_seen_no_test_example(name):
    result = certify(CASES[name][0](), SAMPLE, method="picks", effort="quick", test_set=TEST).result
    assert (result["holdout_words"], "holdout" in result) == ("", True)


def test_a_helper_of_the_first_part_is_no_network_that_was_given():
    model = trained(OTHER, SAMPLE)
    found = certify(model, SAMPLE, prior_tenths=5, method="prune", effort="quick", test_set=TEST)
    assert "holdout" in found.result


def test_a_network_that_saw_sample_and_test_data_has_no_hold_out_bound_in_any_form():
    """Random labels: every risk is 1/2, and errors on the test data say nothing of it."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 600)).astype(np.float32), rng.integers(0, 2, 400)
    whole = Dataset("random", "train", x, y, 2)
    parts = split(whole, {"train": 0.5, "test": 0.5})
    torch.manual_seed(0)
    start = load_model("linear", input_shape=(600,), classes=2)
    f = fit(start, whole, TrainConfig(epochs=60, learning_rate=0.01)).model
    found = certify(f, parts["train"], method="lowrank", effort="quick", test_set=parts["test"])
    assert found.holdout.value < 0.5  # it would be false
    assert not {"holdout", "holdout_f", "through_f"} & set(found.result)
    assert str(found).count("NO GUARANTEE") == 2

"""The network that a rule learned says what the learner says, also from its file."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from codebound.bits.plain_code import FIRST_TABLE, PICKS, SPLIT
from codebound.learn.column_features import ColumnFeatures
from codebound.learn.features import FilterFeatures
from codebound.learn.learner import KernelNetwork
from codebound.learn.patch_features import PatchFeatures
from codebound.learn.picking import carry_out
from codebound.learn.rule import Rule
from codebound.run.errors import FormatError
from codebound.sample.dataset import Sample
from codebound.sample.load import load_sample
from codebound.sample.order import Design, arrange

DIGITS = arrange(load_sample("digits").select(range(300), role="train"), Design())
CASES = {
    "split": (SPLIT, Rule(FilterFeatures(True, 3, 2), 2, 7)),
    "mirrored": (SPLIT, Rule(PatchFeatures(3, 256, 4, 2, 3), 1, 1)),
    "columns": (SPLIT, Rule(ColumnFeatures(True), 3)),
    "picks": (PICKS, Rule(FilterFeatures(False, 1, 3), 0, 2, batch=5, rounds=3, longer=())),
    "table": (FIRST_TABLE, Rule(gamma_index=3)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_network_says_what_was_learned_also_from_its_file(name: str) -> None:
    form, rule = CASES[name]
    learned = carry_out(rule, DIGITS, form=form, first=100)
    network = KernelNetwork.of(learned, DIGITS.sample)
    values, room = network.scores(DIGITS.sample.x)
    counted = DIGITS.split(100)[1]
    assert np.abs(values - learned.scores()[0])[counted].max() < 1e-11
    assert np.allclose(room[counted], learned.scores()[1][counted])
    assert network.examples.tolist() == [*learned.known, *learned.picks]
    assert (network.known, network.classes.tolist()) == (100, learned.classes.tolist())
    state = load(save(network.state_dict()))
    again = KernelNetwork.load(learned.rule, state)
    assert again.rule == learned.rule
    assert np.array_equal(again.scores(DIGITS.sample.x)[0], values)
    assert network.float() is network.double() is network
    one = torch.from_numpy(DIGITS.sample.x[7:8])
    assert np.allclose(network(one).numpy(), values[7:8], atol=1e-12)


def test_cells_are_read_again_from_the_file() -> None:
    rng = np.random.default_rng(0)
    words = np.array([0x7FF9_0000_0000_0001, 0x7FF9_0000_0000_0002, 0x7FF8_0000_0000_0000]).view(np.float64)
    y = rng.integers(0, 2, 60)
    x = np.stack([words[np.where(rng.random(60) < 0.2, 2, y)], rng.normal(size=60)], axis=1)
    x[::9, 1] = words[2]
    arranged = arrange(Sample("cells", "train", x, y, 2, is_cells=True), Design())
    learned = carry_out(Rule(), arranged, form=SPLIT, first=30)
    assert learned.features.dimension == 4
    state = load(save(KernelNetwork.of(learned, arranged.sample).state_dict()))
    values = KernelNetwork.load(None, state).scores(x)[0]
    counted = arranged.split(30)[1]
    assert np.abs(values - learned.scores()[0])[counted].max() < 1e-12
    assert (values[counted].argmax(1) == y[counted]).mean() > 0.8


def test_a_file_of_another_rule_or_no_network_is_refused() -> None:
    form, rule = CASES["columns"]
    state = KernelNetwork.of(carry_out(rule, DIGITS, form=form, first=50), DIGITS.sample).state_dict()
    said = json.loads(bytes(state["said"].tolist()))

    def tensor(words: object) -> torch.Tensor:
        return torch.tensor(list(json.dumps(words).encode()), dtype=torch.uint8)

    crafted = [
        {},
        {name: value for name, value in state.items() if name != "coefficients"},
        state | {"coefficients": state["coefficients"][:-1]},
        state | {"said": tensor([])},
        state | {"said": tensor(said | {"kind": 7})},
        state | {"said": tensor(said | {"gamma_index": 5})},
        state | {"said": tensor(said | {"unknown": 5})},
    ]
    for tensors in crafted:
        with pytest.raises(FormatError, match=r"g\.safetensors"):
            KernelNetwork.load(rule, tensors)
    with pytest.raises(FormatError, match="not the weights"):
        KernelNetwork.load(Rule(), state)

"""Trainings as functions: where they go by default, and what the command line alone does not know."""

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from worlds.samples import cloud_arrays

from codebound.run.files import content_key
from codebound_networks.cli.actions import train_from_options
from codebound_networks.cli.train import command
from codebound_networks.train import runs


@pytest.fixture
def asked(empty_folder):
    x, y = cloud_arrays(60, features=4)
    np.savez("sample.npz", x=x, y=y)
    defaults = {name: each.default for name, each in inspect.signature(command).parameters.items()}
    return defaults | {"arch": "linear", "data": "sample.npz", "epochs": 1, "device": "cpu"}


def test_a_run_is_named_by_the_key_of_all_that_determines_it(asked):
    folder = Path(train_from_options(asked)["out"])
    run = json.loads((folder / runs.CONFIG).read_text())
    assert folder == Path("runs") / f"linear-sample-npz-{content_key(run)[:10]}"
    assert train_from_options(asked)["out"] == str(folder)  # finished before
    assert train_from_options(asked | {"seed": 1})["out"] != str(folder)

"""Folders of certificates that the third program wrote."""

import numpy as np
import pytest
from file_worlds import made
from file_writer import write_file
from safetensors.numpy import save_file


@pytest.fixture
def folder(tmp_path):
    """Make a folder of a form: a certificate, its sample, and its tables of scores."""

    def fill(name):
        world, text = made(name)
        (tmp_path / "certificate.cbound").write_bytes(write_file(world, text))
        numbers = {key: getattr(world.sample, key) for key in ("clusters", "groups")}
        numbers = {key: values for key, values in numbers.items() if values is not None}
        mark = {"cells": np.array(True)} if world.cells else {}
        np.savez(tmp_path / "sample.npz", x=world.sample.x, y=world.sample.y, **numbers, **mark)
        for place, table in enumerate(world.tables, 1):
            arrays = {"scores": table.scores} | ({} if table.picks is None else {"picks": table.picks})
            save_file(arrays, tmp_path / f"scores{'' if place == 1 else f'-{place}'}.safetensors")
        return tmp_path

    return fill

"""The fixed filters are Morlet wavelets, integer for integer: nothing in them was learned from any sample."""

import json
from importlib import resources

import numpy as np
import pytest

TABLES = json.loads((resources.files("codebound_verify") / "dictionaries.json").read_text())
# of the first of two scales: deviation along the wave, frequency; the second doubles one and halves the other
FORMULAS = {"1": (1.6, np.pi / 2), "3": (1.2, 2 * np.pi / 3)}
ANGLES = 8


def morlet(size: int, deviation: float, frequency: float, angle: float) -> np.ndarray:
    """A wave under a bell that is sqrt(2) times as long across it; mean 0, norm 1, in units of 1/4096."""
    steps = np.arange(size) - size // 2
    turned = (steps + 1j * steps[:, None]) * np.exp(-1j * angle)
    bell = np.exp(-(turned.real**2 + turned.imag**2 / 2) / (2 * deviation**2))
    wave = bell * np.exp(1j * frequency * turned.real)
    wave -= bell * wave.sum() / bell.sum()
    return np.round(4096 * wave / np.linalg.norm(wave))


def test_every_table_has_a_formula():
    assert set(TABLES) == set(FORMULAS)


@pytest.mark.parametrize("name", FORMULAS)
def test_filters_are_those_of_the_formula(name):
    deviation, frequency = FORMULAS[name]
    assert len(TABLES[name]) == 2
    for scale, table in zip((1, 2), TABLES[name], strict=True):
        assert len(table["filters"]) == ANGLES
        for turn, (real, imaginary) in enumerate(table["filters"]):
            expected = morlet(table["size"], scale * deviation, frequency / scale, np.pi * turn / ANGLES)
            assert real == expected.real.astype(int).ravel().tolist()
            assert imaginary == expected.imag.astype(int).ravel().tolist()

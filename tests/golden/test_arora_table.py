"""Arora et al. 2018, table 1: seven layers of VGG-19, with percentages that the paper prints truncated."""

import math

import pytest
from worlds.facts import layer_facts, network_facts

from codebound_papers.arora18.noise_stability import table_rows

# layer, c^2 beta^2 ceil(kappa/s)^2 / (mu^2 mu_{i->}^2), rows, columns, percent, as printed
TABLE_1 = [
    (1, 1644.87, 64, 27, 95.189, 95.18),
    (4, 644654.14, 128, 1152, 437.184, 437.18),
    (6, 3457882.42, 256, 2304, 586.257, 586.25),
    (9, 36920.60, 512, 2304, 3.130, 3.129),
    (12, 22735.09, 512, 4608, 0.964, 0.963),
    (15, 26583.81, 512, 4608, 1.127, 1.126),
    (18, 5052.15, 512, 512, 1.927, 1.927),
]


@pytest.mark.parametrize(("number", "complexity", "rows", "columns", "percent", "printed"), TABLE_1)
def test_a_e22_table_1_compares_a_complexity_with_weights(
    number, complexity, rows, columns, percent, printed
):
    """Any cushion that gives the second column gives the last one; convolutions are 3 x 3 with stride 1.

    The percentages are the ratio of the two columns, cut off; depth, logarithm and margin are left out. With
    d^2 of 19 layers alone, and none of the other factors, no layer of the table is compressed.
    """
    contraction, spread = 1.5, 1.1
    patch = None if number == 18 else 3
    norms = dict.fromkeys(("frobenius", "spectral", "l2_1", "l1_inf", "variance"), 1.0)
    factor = contraction * (1.0 if patch is None else spread * patch)
    layer = layer_facts(
        str(number),
        rows=rows,
        columns=columns,
        patch=patch,
        cushion=factor / math.sqrt(complexity) * math.sqrt(rows),
        interlayer_cushion=1.0 / math.sqrt(rows),
        contraction=contraction,
        spread=spread,
        **norms,
    )
    sizes = {"margin": 1.0, "input_norm": 1.0, "input_size": 3072, "largest_output": 1.0}
    row = table_rows(network_facts(layer, layer, examples=50_000, **sizes))[0]
    assert row.value == pytest.approx(complexity)
    assert row.percent == pytest.approx(percent, abs=5e-4)
    assert 19**2 * complexity > rows * columns
    digits = len(str(printed).split(".")[1])
    assert math.floor(row.percent * 10**digits) / 10**digits == printed

"""Values of a ledger's lines that nobody can write by mistake."""

import pytest

from codebound_verify.holdout import rules
from codebound_verify.refusal import Refused

FINE = [["wrong"], ["class", "a"], ["confused", "a", "b"], ["false-alarm", "1"], ["precision", "a b"]]
FINE += [["residual", "0.5"], ["residual", "1e-3"], ["residual", ".5"]]
BAD = [[], ["wrong", "a"], ["class"], ["class", " a"], ["class", "01"], ["class", ""], ["class", 1], "wrong"]
BAD += [
    ["confused", "a", "a"],
    ["top", "2"],
    ["residual", "-1"],
    ["residual", "0"],
    ["residual", "1e999"],
    None,
]
BAD += [
    ["residual", "2.0"],
    ["residual"],
    ["residual", "1", "1"],
    ["residual", "+1"],
    ["class", "a\ud800"],
    [["wrong"]],
    ["class", "a" * 401],
    ["residual", "\u0661"],
]


@pytest.mark.parametrize("loss", FINE + BAD, ids=repr)
def test_a_loss_is_written_in_one_way(loss):
    if loss in FINE:
        rules.LOSS(loss, "x")
    else:
        with pytest.raises(Refused, match="a loss of the page"):
            rules.LOSS(loss, "x")


@pytest.mark.parametrize(
    "day", ["2026-02-29", "2026-13-01", "9999-99-99", "0000-01-01", "2026-1-01", "2026-01-1"]
)
def test_a_date_exists(day):
    assert rules.DATE("2028-02-29T23:59:59Z", "x")
    for text in (f"{day}T00:00:00Z", "2028-02-29T24:00:00Z", "2028-02-29T23:59:59", "", 5, None):
        with pytest.raises(Refused):
            rules.DATE(text, "x")


@pytest.mark.parametrize("value", [1, True, -0.0, float("nan"), float("inf"), "1.0", None])
def test_a_number_is_a_float_and_finite(value):
    with pytest.raises(Refused):
        rules.NUMBER(value, "x")


@pytest.mark.parametrize("value", [[], [0.5, 0.5], [0.1, 0.2], [1], 0.5, None, [0.5] * 257, ["a"]])
def test_thresholds_fall(value):
    assert rules.GRID([0.5, -1.0], "x") == [0.5, -1.0]
    with pytest.raises(Refused, match="thresholds that fall"):
        rules.GRID(value, "x")


def test_limits_on_sizes_come_before_all_else():
    for content in (b"", b"{}", b"\n" * (1 << 17), b"[" * 100 + b"\n", b"a" * ((1 << 24) + 1) + b"\n"):
        with pytest.raises(Refused, match="Ledger: "):
            list(rules.read_chain(content, []))

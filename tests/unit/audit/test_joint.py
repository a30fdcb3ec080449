"""Statements together: the sum, and what counts once."""

import dataclasses
import json
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import rates

import codebound as cb
from codebound.audit.joint import FileStatement, joint_delta, read_statement
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import OccamFacts
from codebound.run.errors import UsageError
from codebound.sample.arrays import from_arrays
from codebound_networks import load_model


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(1e-12, 0.4)), min_size=1, max_size=9))
def test_events_add_up_and_count_once(drawn):
    made = [FileStatement(str(i), "C-2", "s", delta, event) for i, (event, delta) in enumerate(drawn)]
    exact = sum(max(Fraction(d) for e, d in drawn if e == event) for event in {e for e, _ in drawn})
    assert min(exact, 1) <= Fraction(joint_delta(made)) <= exact * Fraction(1 + 1e-15)


def test_nothing_is_no_statement():
    with pytest.raises(UsageError, match="at least one"):
        joint_delta([])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two certificates of one sample, one of another."""
    folder = tmp_path_factory.mktemp("made")
    x = np.random.default_rng(0).normal(size=(300, 4)).astype("f4")
    for name, shift, seed, delta in (("a", 0, 0, 0.05), ("b", 0, 1, 0.02), ("c", 1, 0, 0.05)):
        sample = from_arrays(x + shift, (x[:, 0] > 0).astype(int), name="made", role="train")
        network = load_model("linear", input_shape=(4,), classes=2, seed=seed)
        found = cb.certify(sample, network=network, method="prune", delta=delta, run=cb.Run(effort="quick"))
        found.save(folder / f"{name}.cbound")
    return folder


def test_certificates_of_one_sample_by_one_code_cost_the_largest_delta(files, codebound):
    code, out, err = codebound(
        "audit", "joint", *(files / f"{name}.cbound" for name in "ab"), "--format", "json"
    )
    assert code == 0, err
    assert json.loads(out)["delta"] == 0.05
    code, out, err = codebound("audit", "joint", *(files / f"{name}.cbound" for name in "abc"))
    assert "at least 1 - 0.1: the deltas of 2 different events" in err


def test_another_base_is_another_event(files):
    made = read_statement(files / "a.cbound")
    assert joint_delta([made, dataclasses.replace(made, event="another")]) == 0.1


N, BITS, DELTA, REPS = 100, 6, 0.1, 1500


def together_misses(*, deltas: tuple[float, ...], codes: int) -> int:
    """How often any of the luckiest networks of several codes has a limit below its risk of 0.3."""
    rng = np.random.default_rng(0)
    limit = {
        (k, delta): occam_binomial(OccamFacts(errors=k, n=N, code_bits=BITS, delta=delta)).value
        for k in range(N + 1)
        for delta in deltas
    }
    found = 0
    for _ in range(REPS):
        errors = rng.binomial(N, 0.3, size=(codes, 2**BITS)).min(axis=1)
        found += any(limit[int(k), delta] < 0.3 for k in errors for delta in deltas)
    return found


exceeds = partial(rates.exceeds, reps=REPS)


def test_all_messages_of_a_code_hold_at_the_largest_delta():
    assert not exceeds(together_misses(deltas=(DELTA, DELTA / 2), codes=1), delta=DELTA)


def test_several_codes_need_the_sum():
    count = together_misses(deltas=(DELTA,), codes=8)
    assert not exceeds(count, delta=8 * DELTA)
    assert exceeds(count, delta=DELTA)

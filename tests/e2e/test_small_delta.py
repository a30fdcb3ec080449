"""A failure probability of 1e-12 all the way: every command beside limits in multiple precision."""

import json

import mpmath
import numpy as np
import pytest
from certificate_counts import limit_of
from worlds.samples import clouds

import codebound as cb
from codebound_networks import load_model

DELTA = 1e-12
pytestmark = pytest.mark.usefixtures("empty_folder")


def is_just_above(found: float, exact: float) -> bool:
    return exact - 2.0**-50 <= found <= exact * (1 + 1e-9)


def limit(errors: int, n: int, *, bits: mpmath.mpf | int = 0, parts: int = 1) -> float:
    return float(limit_of(errors, n, mpmath.mpf(DELTA) / parts / mpmath.mpf(2) ** bits))


def picked_limit(counted: int, n: int, bits: int) -> float:
    return float(limit_of(counted, n, mpmath.mpf(DELTA) / mpmath.mpf(2) ** bits, 0))


@pytest.mark.thorough
def test_certificates_of_both_kinds():
    sample = clouds(150, apart=4.0)
    found = cb.certify(
        sample, method="picks", delta=DELTA, claim=cb.Claim(by_class=True), run=cb.Run(effort="quick")
    )
    claim, limit_, bits = found.certificate.claim, found.certificate.limit, found.certificate.message.bits
    assert claim.delta == DELTA
    assert repr(DELTA) in found.certificate.sentence
    assert is_just_above(claim.bound, picked_limit(limit_.picks + limit_.errors, limit_.n, bits))
    verdict = cb.verify(found.certificate, sample)
    assert (verdict.verdict, verdict.delta) == ("ACCEPT", DELTA)
    model = load_model("linear", input_shape=(3,), classes=3)
    for network, method in ((None, "split"), (model, "prune")):
        certificate = cb.certify(
            sample,
            network=network,
            method=method,
            delta=DELTA,
            claim=cb.Claim(loss="class:1"),
            run=cb.Run(effort="quick"),
        ).certificate
        exact = limit(certificate.limit.errors, certificate.limit.n, bits=certificate.message.bits)
        assert is_just_above(certificate.claim.bound, exact)
        assert cb.verify(certificate, sample).verdict == "ACCEPT"


def test_bound_holdout_and_plan(codebound, tmp_path, monkeypatch):
    monkeypatch.setenv("CODEBOUND_CACHE", str(tmp_path / "cache"))
    _, out, _ = codebound(
        "bound", "--errors", 7, "--n", 500, "--bits", 40, "--delta", DELTA, "--format", "json"
    )
    assert is_just_above(json.loads(out)["binomial"], limit(7, 500, bits=40))
    arguments = ("--errors", 7, "--n", 150, "--picks", 12, "--bits", 40, "--delta", DELTA)
    _, out, _ = codebound("bound", *arguments, "--format", "json")
    assert is_just_above(json.loads(out)["picked"], picked_limit(19, 150, 40))
    np.savez("test.npz", x=np.arange(600.0).reshape(300, 2), y=np.arange(300) % 3)
    told = np.arange(300) % 3
    told[:4] = (told[:4] + 1) % 3
    np.save("p.npy", told)
    codebound("holdout", "seal", "test.npz", "--delta", DELTA, "--looks", 5, "--group", "y")
    code, out, err = codebound("holdout", "look", "test.ledger.jsonl", "p.npy", "--final", "--format", "json")
    assert code == 0, err
    line = json.loads(out)["statements"][-1]
    told = 1 + 3 * mpmath.log(301, 2)  # no line was planned: the seal tells copies, none, and three sizes
    assert is_just_above(line["result"]["bound"], limit(4, 300, bits=told, parts=10))
    errors = line["groups"][2]["errors"]
    assert is_just_above(line["groups"][2]["bound"], limit(errors, 100, bits=told, parts=30))
    code, out, _ = codebound("verify", "test.ledger.jsonl", "--data", "test.npz")
    assert (code, out.split()[0]) == (0, "ACCEPT")
    code, out, err = codebound(
        *("holdout", "plan"),
        "--n",
        2000,
        "--errors-guess",
        0.02,
        "--delta",
        DELTA,
        "--bits",
        60,
        "--format",
        "json",
    )
    assert code == 0, err
    ways = {way["name"]: way["expected"] for way in json.loads(out)["ways"]}
    assert is_just_above(ways["message"], limit(40, 2000, bits=60))

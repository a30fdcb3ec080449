"""From message to certificate: each statement is accepted, and refused as soon as one fact is a lie."""

import copy
import hashlib
import json
from dataclasses import replace
from types import SimpleNamespace

import cbound_writer as reference
import numpy as np
import pytest
import torch
from worlds.samples import written_clusters

from codebound.bits.messages import Options
from codebound.certificate import assessment
from codebound.certificate.assessment import assess, issue
from codebound.certificate.claims import AfterSplit, ByDisagreement, OnDomain, prior_and_rest
from codebound.certificate.decoding import decode
from codebound.certificate.file import Certificate
from codebound.certificate.task import Task
from codebound.certificate.verification import verify
from codebound.run.errors import CertificateError, UsageError
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import Dictionary, Linear, NormalisedConv, Shifts
from codebound_networks.chains.original import Original
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.codes.tensors import Adaptive, Dense, Enumerative, Zero

CHAIN = Chain((1, 2, 2), (Linear(3, True),))
CODES = {
    "0.weight": Adaptive(reference.WEIGHT.astype(np.int32), -3, 2),
    "0.bias": Dense(reference.BIAS.astype(np.int32), 1, 1),
}


SAMPLE = written_clusters()
FRESH = written_clusters(300, seed=1, role="unlabelled")


def near(size: float = 0.01) -> Original:
    """The network f: g with one weight moved a little."""
    tensors = {name: code.weights() for name, code in CODES.items()}
    tensors["0.weight"] = tensors["0.weight"].copy()
    tensors["0.weight"][0, 0] += np.float32(size)
    return Original(CHAIN, {name: torch.from_numpy(value) for name, value in tensors.items()})


BASE = {
    "0.weight": (reference.WEIGHT * 0.7).astype(np.float32),
    "0.bias": np.array([0.0, 0.0, 1.0], np.float32),
}
DIFFERENCES = {"0.weight": Adaptive(np.eye(3, 4, dtype=np.int32), -30, 1), "0.bias": Zero((3,))}
# the plane itself is the last of the features: top row against bottom row, and a constant between them
FEATURES = np.zeros((3, 17, 2, 2), dtype=np.int32)
FEATURES[:2, -1] = [[[1, 1], [-1, -1]], [[-1, -1], [1, 1]]]
FIXED = Chain((1, 2, 2), (Shifts(1), Dictionary(3, 1), Linear(3, True)))
FIXED_CODES = {
    "2.weight": Enumerative(FEATURES.reshape(3, -1), -4, 1),
    "2.bias": Dense(reference.BIAS.astype(np.int32), 1, 1),
}
STILL = Subspace(Zero((2,)), entries_log2=2, step=-20, zero_head=True, seed=1)


def tasks() -> dict[str, tuple[Task, Message]]:
    """Every statement, with a base and without, and a message for each."""
    plain, based = Task(sample=SAMPLE, delta=0.05), ("pretrained", BASE)
    return {
        "C-2": (plain, Message(Options(), CHAIN, CODES)),
        "C-2 with a base": (
            replace(plain, base=based),
            Message(Options(has_base=True), CHAIN, DIFFERENCES),
        ),
        "C-2 with views and features": (plain, Message(Options(), FIXED, FIXED_CODES)),
        "C-2 in a subspace around a base": (
            replace(plain, base=based),
            Message(Options(has_base=True), CHAIN, STILL),
        ),
        "C-10": (
            replace(plain, claim=AfterSplit(3), base=based),
            Message(Options(tenths=3, has_base=True), CHAIN, DIFFERENCES),
        ),
        "C-12a": (
            replace(plain, claim=OnDomain(0.0, 16.0), original=near()),
            Message(Options(), CHAIN, CODES),
        ),
        "C-12b": (
            replace(plain, claim=ByDisagreement(FRESH), original=near(2.5)),
            Message(Options(), CHAIN, CODES),
        ),
    }


CASES = {name: (task, assess(message, task)) for name, (task, message) in tasks().items()}
ISSUED = {name: issue(assessed, task) for name, (task, assessed) in CASES.items()}


def verdict_of(data: bytes | Certificate, task: Task, **changes):
    """The verifier's verdict with the helpers of a task; ``changes`` replaces some of them."""
    given = {
        "base": task.base_tensors,
        "unlabelled": task.claim.unlabelled,
        "original": task.f.arrays if task.claim.is_about_f else None,
        **changes,
    }
    sample = given.pop("sample", task.sample)
    return verify(data, sample, **given)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CASES)
def test_every_statement_is_accepted(name):
    task, assessed = CASES[name]
    certificate = ISSUED[name]
    verdict = verdict_of(certificate, task)
    assert verdict.reasons == ()
    assert verdict.bound == certificate.claim.bound == assessed.bound.value < 0.45
    assert not certificate.claim.vacuous
    assert certificate.claim.statement == name.split(" ")[0]
    assert certificate.claim.subject == ("f" if name.startswith("C-12") else "g")
    assert certificate.claim.bound <= certificate.claim.kl <= certificate.claim.hoeffding
    assert sum(bits for _, bits in certificate.ledger) == certificate.facts.code_bits == assessed.bits.length
    assert certificate.facts.sample_sha256 == task.sample.sha256
    assert Certificate.from_bytes(certificate.to_bytes()) == certificate


def test_errors_are_those_of_the_decoded_network_counted_by_hand():
    weights = {name: code.values() for name, code in CODES.items()}
    logits = SAMPLE.x.reshape(400, 4) / 16 @ weights["0.weight"].T + weights["0.bias"]
    errors = reference.count(logits, SAMPLE.y)
    assert 0 < errors == ISSUED["C-2"].facts.errors
    order = np.argsort(np.random.Philox(key=split_key()).random_raw(400), kind="stable")
    based = (SAMPLE.x.reshape(400, 4) / 16) @ (
        BASE["0.weight"].astype(float) + DIFFERENCES["0.weight"].values()
    ).T + BASE["0.bias"]
    rest = order[120:]
    assert ISSUED["C-10"].facts.n == 280
    assert ISSUED["C-10"].facts.errors == reference.count(based[rest], SAMPLE.y[rest])
    assert ISSUED["C-10"].facts.extra == {"n_prior": 120}


def split_key() -> np.ndarray:
    return np.frombuffer(hashlib.sha256(b"codebound/0/split").digest()[:16], "<u8").astype(np.uint64)


@pytest.mark.thorough
def test_the_bound_of_c2_is_the_exact_binomial_limit():
    facts = ISSUED["C-2"].facts
    exact = reference.binomial_limit(facts.errors, facts.n, facts.code_bits, 0.05)
    assert exact <= ISSUED["C-2"].claim.bound * (1 + 1e-12) <= exact * (1 + 1e-6)


def test_both_parts_of_a_split():
    prior, rest = prior_and_rest(SAMPLE, 3)
    assert (prior.n, rest.n, prior.role, rest.role) == (120, 280, "prior", "certify")
    rows = np.concatenate([prior.x, rest.x]).reshape(400, -1)
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, SAMPLE.x.reshape(400, -1).tolist()))
    for tenths in (-1, 0, 10):
        with pytest.raises(UsageError, match="1 to 9"):
            prior_and_rest(SAMPLE, tenths)
    with pytest.raises(UsageError, match="cannot be split"):
        prior_and_rest(SAMPLE.select([0, 1, 2], role="train"), 1)


def fields_of(certificate: Certificate) -> dict:
    content = certificate.to_bytes()
    return json.loads(content[12 : 12 + int.from_bytes(content[8:12], "little")])


def rewritten(name: str, change) -> bytes:
    """The file with changed fields, sealed again: every hash is right."""
    fields = copy.deepcopy(fields_of(ISSUED[name]))
    change(fields)
    return reference.seal(reference.canonical(fields), ISSUED[name].message.data)


def with_honest_forms(fields: dict) -> None:
    """The bounds that follow from the facts, so that only a look at data and message shows the lie."""
    facts, claim = fields["facts"], fields["claim"]
    delta = facts["extra"].get("delta_risk", claim["delta"])
    forms = reference.forms(facts["errors"], facts["n"], facts["code_bits"], delta)
    if "disagreements" in facts["extra"]:
        extra = facts["extra"]
        added = reference.binomial_limit(
            extra["disagreements"], extra["n_unlabelled"], 0, extra["delta_disagreement"]
        )
        forms = {key: min(1.0, (value + added) * (1 + 1e-9)) for key, value in forms.items()}
    claim.update(forms, vacuous=forms["bound"] >= 1 - 1 / facts["classes"])


@pytest.mark.thorough
def test_the_file_rewritten_with_its_own_facts_is_still_accepted():
    """The lies below are refused for what they say, not for how they are written."""
    for name, (task, _) in CASES.items():
        assert verdict_of(rewritten(name, with_honest_forms), task).reasons == ()


def add(path: str, amount: float):
    *parents, last = path.split(".")

    def change(fields: dict) -> None:
        record = fields
        for key in parents:
            record = record[key]
        record[last] += amount
        with_honest_forms(fields)

    return change


def fewer_bits(fields: dict) -> None:
    fields["facts"]["code_bits"] -= 1
    fields["ledger"][-1][1] -= 1
    with_honest_forms(fields)


def smaller_bound(fields: dict) -> None:
    fields["claim"]["bound"] *= 1 - 1e-9


def smaller_delta(fields: dict) -> None:
    fields["claim"]["delta"] /= 10


def other_ledger(fields: dict) -> None:
    fields["ledger"][0][1] += 1
    fields["ledger"][1][1] -= 1


LIES = {
    "errors - 1": (add("facts.errors", -1), "the certificate states"),
    "n + 1": (add("facts.n", 1), "examples; the certificate is about"),
    "code_bits - 1": (fewer_bits, ""),
    "a smaller bound": (smaller_bound, "bound is printed as"),
    "a smaller delta": (smaller_delta, "Claim:"),
    "another ledger": (other_ledger, "Ledger:"),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_in_any_fact_is_refused(name, lie):
    change, because = LIES[lie]
    if lie == "errors - 1" and ISSUED[name].facts.errors == 0:
        pytest.skip("nobody can make fewer errors")
    verdict = verdict_of(rewritten(name, change), CASES[name][0])
    assert not verdict.is_accepted
    assert any(because in reason for reason in verdict.reasons), verdict.reasons


SPECIFIC = {
    ("C-10", "n_prior + 1"): (add("facts.extra.n_prior", 1), "is about 401"),
    ("C-12a", "a smaller domain"): (add("facts.extra.input_high", -1.0), "the domain is"),
    ("C-12a", "a larger domain"): (add("facts.extra.input_high", 32.0), "margin theta"),
    ("C-12b", "disagreements - 1"): (add("facts.extra.disagreements", -1), "f and g disagree on"),
    ("C-12b", "n_unlabelled + 1"): (add("facts.extra.n_unlabelled", 1), "found 300 inputs"),
    ("C-12b", "a larger share of delta"): (add("facts.extra.delta_risk", 0.01), "half of delta"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "lie"), SPECIFIC)
def test_a_lie_in_what_a_statement_adds_is_refused(name, lie):
    change, because = SPECIFIC[name, lie]
    verdict = verdict_of(rewritten(name, change), CASES[name][0])
    assert any(because in reason for reason in verdict.reasons), verdict.reasons


def moved(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: value + np.float32(1e-3) for name, value in tensors.items()}


OTHERS = {
    "another sample": ("C-2", {"sample": written_clusters(seed=9)}, "the sample has SHA-256"),
    "a relabelled sample": (
        "C-2",
        {"sample": replace(SAMPLE, y=(SAMPLE.y + 1) % 3)},
        "the sample has SHA-256",
    ),
    "a smaller sample": ("C-2", {"sample": SAMPLE.select(range(399), role="train")}, "399 examples"),
    "another base": ("C-2 with a base", {"base": moved(BASE)}, "Base: its tensors have SHA-256"),
    "no base": ("C-2 with a base", {"base": None}, "--base"),
    "another base after a split": ("C-10", {"base": moved(BASE)}, "Base: its tensors have SHA-256"),
    "another f on a domain": ("C-12a", {"original": moved(near().arrays)}, "Subject"),
    "another f": ("C-12b", {"original": moved(near(2.5).arrays)}, "Subject"),
    "no f": ("C-12b", {"original": None}, "--subject-weights"),
    "other unlabelled inputs": (
        "C-12b",
        {"unlabelled": written_clusters(300, seed=2, role="unlabelled")},
        "Unlabelled: the inputs have SHA-256",
    ),
    "no unlabelled inputs": ("C-12b", {"unlabelled": None}, "--unlabelled"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_given_beside_the_file_has_to_be_what_it_names(name):
    case, changes, because = OTHERS[name]
    verdict = verdict_of(ISSUED[case], CASES[case][0], **changes)
    assert any(because in reason for reason in verdict.reasons), verdict.reasons


def test_a_certificate_that_the_verifier_refuses_is_never_issued(monkeypatch):
    task, assessed = CASES["C-2"]
    lucky = replace(assessed, facts=replace(assessed.facts, errors=assessed.facts.errors - 1))
    with pytest.raises(CertificateError, match=r"not issued:\n .*printed"):
        issue(lucky, task)


@pytest.mark.parametrize("name", CASES)
def test_the_network_that_is_handed_over_is_the_decoded_one(name):
    task, assessed = CASES[name]
    base = None if task.base is None else task.base[1]
    network = decode(ISSUED[name], base=base)
    expected = assessed.message.weights(base)
    assert not network.training
    for key, tensor in network.state_dict().items():
        assert tensor.dtype == torch.float32
        assert tensor.numpy().tobytes() == expected[key].tobytes()


def test_decoding_needs_the_named_helpers():
    with pytest.raises(CertificateError, match="give the base"):
        decode(ISSUED["C-10"])
    with pytest.raises(CertificateError, match="not the one"):
        decode(ISSUED["C-10"], base=moved(BASE))


def test_the_caller_keeps_his_tensors():
    before = {name: value.copy() for name, value in BASE.items()}
    task, message = tasks()["C-2 with a base"]
    issue(assess(message, task), task)
    assert all((BASE[name] == before[name]).all() for name in before)


def test_declarations_say_what_cannot_be_checked():
    words = {name: " ".join(certificate.declarations) for name, certificate in ISSUED.items()}
    assert "(x / 16 -" in words["C-2"]
    assert "float32" in words["C-2"]
    assert "neither trained nor selected on the sample" in words["C-2 with a base"]
    assert "neither trained nor selected on the examples after the split" in words["C-10"]


def test_a_message_is_judged_by_its_bits_and_not_by_what_was_meant(monkeypatch):
    """Teeth: if the decoder gave another network, the errors would be those of that network."""
    task, message = tasks()["C-2"]

    zeros = CHAIN.build({"0.weight": torch.zeros(3, 4), "0.bias": torch.zeros(3)})
    garbled = SimpleNamespace(build=lambda base: zeros)
    monkeypatch.setattr(assessment, "form_of", lambda name: lambda bits, **known: garbled)
    assert assess(message, task).facts.errors == 400


@pytest.mark.parametrize("operation", [NormalisedConv(1, 1), Dictionary(3, 1), Shifts(1)])
def test_no_certificate_is_about_an_original_with_fixed_operations(operation):
    chain = Chain((1, 2, 2), (operation, Linear(3, False)))
    with pytest.raises(CertificateError, match="about a network f"):
        Task(sample=SAMPLE, delta=0.05, claim=ByDisagreement(FRESH), original=Original(chain, {}))

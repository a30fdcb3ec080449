"""Certificates that count another fault than plain errors: made, counted again, verified, and forged."""

import dataclasses
from functools import cache

import cbound_writer as reference
import numpy as np
import pytest
import torch
from worlds.networks import largest_coordinate
from worlds.samples import clouds

import codebound as cb
from codebound.bits.arithmetic import Reader, Writer
from codebound.bits.numbers import gamma
from codebound.bits.setting import code_fault, write_fault
from codebound.bounds.facts import OccamFacts
from codebound.bounds.occam import occam_binomial
from codebound.certificate.claims import AboutG, AfterSplit, prior_and_rest
from codebound.certificate.file import Certificate
from codebound.run.errors import DataError, UsageError
from codebound.sample.losses import WRONG, parse_fault
from codebound_verify.arithmetic import Decoder
from codebound_verify.losses import decode_fault, read_fault
from codebound_verify.verdict import verify

FAULTS = ("class:3", "confused:2:1", "false-alarm:0", "top:2")
N, CLASSES = 600, 4


@cache
def overlapping():
    """Four clouds that overlap a little."""
    return clouds(N, classes=CLASSES)


@cache
def best():
    return largest_coordinate(CLASSES)


@cache
def certified(fault: str):
    return cb.certify(best(), overlapping(), method="prune", effort="quick", fault=fault)


@cache
def of_class(c: int) -> int:
    return int((overlapping().y == c).sum())


def faults_by_hand(fault: str, logits: np.ndarray, y: np.ndarray) -> tuple[int, int]:
    """Faults and examples that they can happen on, from the logits alone."""
    kind, *numbers = fault.split(":")
    named = [int(number) for number in numbers]
    order = np.argsort(-logits, axis=1)
    first = order[:, 0]
    if kind == "class":
        return int(((y == named[0]) & (first != y)).sum()), int((y == named[0]).sum())
    if kind == "confused":
        return int(((y == named[0]) & (first == named[1])).sum()), int((y == named[0]).sum())
    if kind == "false-alarm":
        return int(((y != named[0]) & (first == named[0])).sum()), int((y != named[0]).sum())
    return int((order[:, : named[0]] != y[:, None]).all(1).sum()), len(y)


@pytest.mark.parametrize("fault", FAULTS)
def test_it_counts_the_fault_on_its_examples_and_both_programs_agree(fault):
    found = certified(fault)
    claim, facts = found.certificate.claim, found.certificate.facts
    x = overlapping().on("cpu")
    logits = found.network.double()(next(x.chunks(N, torch.float64))[0]).detach().numpy()
    found.network.float()
    errors, n = faults_by_hand(fault, logits, overlapping().y)
    assert (claim.fault, facts.n) == (fault, n)
    assert errors <= facts.errors <= errors + 2  # what is not clear counts
    verdict = verify(found.certificate.to_bytes(), overlapping().x, overlapping().y)
    assert (verdict.verdict, verdict.fault, verdict.n) == ("ACCEPT", fault, n)
    assert str(n) in verdict.counts[0].sentence
    assert parse_fault(fault).says(cb.bounds.risk.percent(claim.bound)) in found.certificate.sentence


def test_the_network_is_that_of_the_plain_certificate():
    plain, other = certified("wrong"), certified("class:3")
    for name, tensor in plain.network.state_dict().items():
        assert torch.equal(tensor, other.network.state_dict()[name])
    assert other.certificate.facts.code_bits - plain.certificate.facts.code_bits in range(8, 16)


@pytest.mark.thorough
def test_after_a_split_it_counts_on_the_rest(monkeypatch):
    monkeypatch.setattr("codebound_networks.methods.inputs._PRIOR_STEPS", 50)
    claim = AfterSplit(tenths=5, fault=parse_fault("class:3"))
    found = cb.certify(best(), overlapping(), effort="quick", claim=claim)
    _, rest = prior_and_rest(overlapping(), 5)
    assert found.certificate.facts.n == int((rest.y == 3).sum())
    assert verify(found.certificate.to_bytes(), overlapping().x, overlapping().y, base=found.base).is_accepted


@pytest.mark.thorough
def test_test_data_count_the_same_fault():
    parts = cb.split(overlapping(), {"train": 0.8, "test": 0.2})
    found = cb.certify(best(), parts["train"], effort="quick", fault="class:3", test_set=parts["test"])
    assert found.holdout.facts.n == int((parts["test"].y == 3).sum())


def changed(certificate: Certificate, **claim) -> bytes:
    return dataclasses.replace(certificate, claim=dataclasses.replace(certificate.claim, **claim)).to_bytes()


@pytest.mark.parametrize("other", ["wrong", "class:2", "confused:3:2", "top:1"])
def test_a_header_that_names_another_fault_than_the_message_is_refused(other):
    verdict = verify(changed(certified("class:3").certificate, fault=other), overlapping().x, overlapping().y)
    assert verdict.verdict == "REFUSE"
    assert any("it counts the fault class:3" in reason for reason in verdict.reasons)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Wrong",
        "class",
        "class:10",
        "class:03",
        "class:-1",
        "confused:3:3",
        "top:0",
        "top:10",
        "cost:1",
        "cost:distance",
        "cost-above:1:distance",
        "abstain:0.5",
        3,
    ],
)
def test_a_fault_that_does_not_exist_is_refused(text):
    assert read_fault(text, CLASSES, has_new=False) is None
    verdict = verify(changed(certified("class:3").certificate, fault=text), overlapping().x, overlapping().y)
    assert any("claim.fault must be" in reason for reason in verdict.reasons)


@pytest.mark.parametrize("more", [1, N])
def test_another_number_of_examples_is_refused(more):
    certificate = certified("class:3").certificate
    n = certificate.facts.n + more
    forged = dataclasses.replace(certificate, facts=dataclasses.replace(certificate.facts, n=n))
    reasons = " ".join(verify(forged.to_bytes(), overlapping().x, overlapping().y).reasons)
    assert f"{of_class(3)} of the {N} examples count; the certificate is about {n}" in reasons


def test_a_fault_less_is_refused():
    certificate = certified("class:3").certificate
    facts = dataclasses.replace(certificate.facts, errors=0)
    assert certificate.facts.errors > 0
    reasons = verify(
        dataclasses.replace(certificate, facts=facts).to_bytes(), overlapping().x, overlapping().y
    ).reasons
    assert any("the certificate states 0" in reason for reason in reasons)


def test_vacuous_is_what_a_guess_achieves():
    certificate = certified("confused:2:1").certificate
    assert certificate.claim.vacuous == (certificate.claim.bound >= 0.25)
    forged = changed(certificate, vacuous=not certificate.claim.vacuous)
    assert any("guessing" in reason for reason in verify(forged, overlapping().x, overlapping().y).reasons)


@pytest.mark.thorough
def test_what_cannot_be_counted_is_refused():
    with pytest.raises(UsageError, match="does not fit"):
        cb.certify(best(), overlapping(), effort="quick", fault="class:4")
    without = overlapping().select(np.flatnonzero(overlapping().y != 3), role="train")
    with pytest.raises(DataError, match="no example"):
        cb.certify(best(), without, effort="quick", claim=AboutG(fault=parse_fault("class:3")))


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_every_fault_is_coded_and_read_in_both_programs(classes):
    numbers = range(classes)
    texts = [
        *(f"class:{c}" for c in numbers),
        *(f"false-alarm:{c}" for c in numbers),
        *(f"confused:{a}:{b}" for a in numbers for b in numbers if a != b),
        *(f"top:{k}" for k in range(1, classes)),
    ]
    codes = set()
    for text in texts:
        literal, writer = reference.Coder(), Writer()
        reference.write_fault(literal, classes, text)
        write_fault(writer, parse_fault(text), classes)
        bits = writer.finish()
        assert str(bits) == literal.end()
        reader, decoder = Reader(bits), Decoder(bits.data, bits.length)
        assert (gamma(reader, 0), decoder.gamma()) == (4, 4)
        assert str(code_fault(reader, 4, WRONG, classes)) == decode_fault(decoder, classes).text == text
        codes.add(str(bits))
    assert len(codes) == len(texts)


def test_a_fault_stands_in_the_message_and_plain_errors_do_not():
    parts = dict(certified("class:3").certificate.ledger)
    assert parts["fault"] == 5 + 2 + 2
    assert "fault" not in dict(certified("wrong").certificate.ledger)


def test_a_table_of_classes_holds_at_once_in_both_programs():
    found = cb.certify(best(), overlapping(), method="prune", effort="quick", by_class=True)
    facts = found.certificate.facts
    assert sum(row.errors for row in found.by_class) == facts.errors
    theirs = verify(found.certificate.to_bytes(), overlapping().x, overlapping().y, by_class=True).by_class
    for row, other in zip(found.by_class, theirs, strict=True):
        assert (row.label, row.n) == (other.label, other.n) == (row.label, of_class(row.label))
        assert other.errors <= row.errors
        told = OccamFacts(errors=row.errors, n=row.n, code_bits=facts.code_bits, delta=0.05 / CLASSES)
        assert row.bound == pytest.approx(occam_binomial(told).value, rel=1e-9)
        assert other.bound <= row.bound * (1 + 1e-9)
        assert other.bound == pytest.approx(row.bound, rel=1e-6) or other.errors < row.errors


@pytest.mark.thorough
def test_a_table_is_printed_and_written(tmp_path, codebound):
    found = cb.certify(best(), overlapping(), method="prune", effort="quick", by_class=True)
    saved = found.save_to(tmp_path / "cert")
    assert [row["n"] for row in saved.result["by_class"]] == [of_class(c) for c in range(CLASSES)]
    assert "Error on each class" in (tmp_path / "cert" / "report.html").read_text()
    path = tmp_path / "cert" / "certificate.cbound"
    _, out, _ = codebound("verify", path, "--data", tmp_path / "cert" / "sample.npz", "--by-class")
    assert f"errors on {of_class(2)} examples" in out


@pytest.mark.thorough
def test_a_class_without_examples_has_no_limit():
    wide = dataclasses.replace(overlapping(), classes=CLASSES + 1)
    model = cb.load_model("linear", input_shape=(CLASSES,), classes=CLASSES + 1)
    found = cb.certify(model, wide, effort="quick", by_class=True)
    assert (found.by_class[CLASSES].n, found.by_class[CLASSES].bound) == (0, None)
    theirs = verify(found.certificate.to_bytes(), wide.x, wide.y, by_class=True).by_class
    assert (theirs[CLASSES].n, theirs[CLASSES].bound) == (0, None)


@pytest.mark.parametrize("fault", ["class:1", "confused:1:0", "false-alarm:2", "top:2"])
def test_a_file_written_by_hand_from_the_page_is_accepted(fault):
    case = reference.linear_case(30)
    plain = case.message
    message = reference.Message(plain.operations, plain.tensors, fault=fault, scaling=plain.scaling)
    theirs = read_fault(fault, 3, has_new=False)
    counted = case.y[theirs.possible(case.y)]
    n = len(counted)
    guess = theirs.guessing(3)
    printed = reference.forms(n, n, len(message.bits), 0.05)
    header = reference.header(
        message,
        case.x,
        case.y,
        errors=n,
        classes=3,
        n=n,
        commonest=int(np.bincount(counted).max()),
        vacuous=printed["bound"] >= guess,
    )
    content = reference.seal(reference.canonical(header), message.packed())
    verdict = verify(content, case.x, case.y)
    assert (verdict.verdict, verdict.fault, verdict.n) == ("ACCEPT", fault, n), verdict.reasons

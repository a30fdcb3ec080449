"""Certificates that count another loss than plain errors: made, counted again, verified, and forged."""

import itertools
from dataclasses import replace
from functools import cache

import cbound_writer as reference
import numpy as np
import pytest
import torch
from worlds.networks import largest_coordinate
from worlds.samples import cloud_arrays

import codebound as cb
from codebound.bits.arithmetic import Reader, Writer
from codebound.bits.bitstring import Bits
from codebound.bits.numbers import gamma
from codebound.bits.setting import Setting, code_loss, write_loss
from codebound.bounds.facts import OccamFacts
from codebound.bounds.occam import occam_binomial
from codebound.bounds.risk import PART_FIRST
from codebound.certificate.claims import AboutG, AfterSplit, prior_and_rest
from codebound.certificate.file import Certificate
from codebound.certificate.versions import PAGE, PAGE_3
from codebound.learn.picking import permutation
from codebound.run.errors import CertificateError, DataError, FormatError, UsageError
from codebound.sample.arrays import from_arrays
from codebound.sample.losses import WRONG, cost_matrix, parse_loss
from codebound_verify.arithmetic import Decoder
from codebound_verify.losses import decode_loss, decode_new_loss, read_loss
from codebound_verify.refusal import Refused
from codebound_verify.verdict import verify

N, CLASSES = 600, 4
DEAR = "0115,1011,1101,f110"
LOSSES = ("class:3", "confused:2:1", "false-alarm:0", "top:2")
ON_PARTS = LOSSES[:3]
NEW = ("cost-above:1:distance", f"cost-above:4:{DEAR}")
CLAIMS = {"g": {}, "f on a domain": {"input_range": (-9.0, 9.0)}, "f by disagreement": {"unlabelled": 1}}


def within_nine(seed: int, n: int = N):
    x, y = cloud_arrays(n, classes=CLASSES, apart=3.0, seed=seed)
    return x.clip(-9.0, 9.0), y


@cache
def labelled():
    return from_arrays(*within_nine(0), name="clouds", role="train", classes=CLASSES)


@cache
def unlabelled():
    x, y = within_nine(1, 400)
    return from_arrays(x, 0 * y, name="more clouds", role="unlabelled", classes=CLASSES)


@cache
def best():
    return largest_coordinate(CLASSES)


@cache
def certified(loss: str, about: str = "g"):
    claim = {"unlabelled": unlabelled()} if "unlabelled" in CLAIMS[about] else CLAIMS[about]
    return cb.certify(best(), labelled(), method="prune", effort="quick", loss=loss, **claim)


@cache
def picked(loss: str):
    return cb.certify(None, labelled(), method="picks", effort="quick", loss=loss)


def verdict_on(found, certificate=None):
    return cb.verify(
        certificate or found.certificate, labelled(), unlabelled=found.unlabelled, original=found.original
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("loss", "about"),
    [
        *itertools.product(NEW, ["g", "f on a domain"]),
        *itertools.product(LOSSES, ["f on a domain", "f by disagreement"]),
        *itertools.product(NEW, ["f by disagreement"]),
    ],
)
def test_both_programs_agree(loss, about):
    found = certified(loss, about)
    certificate = found.certificate
    assert (certificate.version, certificate.claim.loss) == (3, loss)
    assert Certificate.from_bytes(certificate.to_bytes()) == certificate
    verdict = verdict_on(found)
    assert (verdict.reasons, verdict.loss, verdict.subject) == ((), loss, certificate.claim.subject)
    assert "at most" in certificate.sentence


def by_hand(loss: str, logits: np.ndarray, y: np.ndarray) -> int:
    """Errors, from the logits alone and in exact arithmetic."""
    first, (_, limit, rows) = logits.argmax(1), loss.split(":")
    costs = np.abs(first - y)
    if rows != "distance":
        costs = np.array([[int(digit, 16) for digit in row] for row in rows.split(",")])[y, first]
    return int((costs > int(limit)).sum())


@pytest.mark.few(2)
@pytest.mark.parametrize("loss", NEW)
def test_it_counts_what_the_definition_says(loss):
    found = certified(loss)
    facts = found.certificate.facts
    inputs = next(labelled().on("cpu").chunks(N, torch.float64))[0]
    logits = found.network.double()(inputs).detach().numpy()
    found.network.float()
    errors = by_hand(loss, logits, labelled().y)
    assert errors > 0
    assert errors <= facts.errors <= errors + 2


@pytest.mark.few(1)
@pytest.mark.parametrize("loss", [*LOSSES, *NEW])
def test_picked_networks_count_losses_on_their_part(loss):
    found = picked(loss)
    facts = found.certificate.facts
    assert found.certificate.claim.statement == "C-15"
    assert cb.verify(found.certificate, labelled()).reasons == ()
    counted = labelled().y[permutation(N)[facts.extra["first"] :]]
    possible = {"class:3": counted == 3, "confused:2:1": counted == 2, "false-alarm:0": counted != 0}
    part = possible.get(loss, counted >= 0)
    assert facts.n == part.sum()
    if loss in ON_PARTS:
        assert 0 <= facts.tally["picks"] <= facts.extra["picks"]
        others = len(counted) - facts.n
        assert facts.extra["picks"] - facts.tally["picks"] <= others


@pytest.mark.thorough
def test_picks_of_all_classes_are_all_picks():
    found = cb.certify(None, labelled(), method="picks", effort="quick", by_class=True)
    facts = found.certificate.facts
    assert found.certificate.version == 2
    assert sum(row.picks for row in found.by_class) == facts.extra["picks"]
    assert sum(row.errors for row in found.by_class) == facts.errors
    theirs = verify(found.certificate.to_bytes(), labelled().x, labelled().y, by_class=True).by_class
    for row, other in zip(found.by_class, theirs, strict=True):
        assert (row.n, row.picks) == (other.n, other.picks)
        assert other.bound <= row.bound * (1 + 1e-9)


def put(certificate: Certificate, where: str, value) -> Certificate:
    record, key = where.split(".")
    inner = getattr(certificate, record)
    if key in ("share", "examples", "picks"):
        inner = replace(inner, tally={**inner.tally, key: value(inner.tally[key])})
    else:
        inner = replace(inner, **{key: value(getattr(inner, key))})
    return replace(certificate, **{record: inner})


LIES = {
    "fewer errors": ("cost-above:1:distance", "g", "facts.errors", lambda v: v - 1, "makes"),
    "the bound of g for f": (
        *("class:3", "f by disagreement", "claim.bound"),
        *(lambda v: certified("class:3").certificate.claim.bound, "bound is printed as"),
    ),
    "a larger part": ("class:3", "f by disagreement", "facts.examples", lambda v: v - 1, "examples"),
    "a larger share": ("class:3", "f by disagreement", "facts.share", lambda v: v * 1.01, "share is printed"),
    "no tally": ("class:3", "f by disagreement", "facts.tally", lambda v: None, "facts.tally must be"),
    "a tally too many": ("top:2", "f on a domain", "facts.tally", lambda v: {"cost": 0}, "facts.tally must"),
    "a tally of costs": (NEW[0], "g", "facts.tally", lambda v: {"cost": 0}, "facts.tally must"),
    "another loss": (NEW[0], "g", "claim.loss", lambda v: "cost-above:0:distance", "it counts the loss"),
    "a smaller bound": (NEW[0], "g", "claim.bound", lambda v: v * 0.99, "bound is printed as"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused(lie):
    loss, about, where, value, reason = LIES[lie]
    found = certified(loss, about)
    verdict = verdict_on(found, put(found.certificate, where, value))
    assert verdict.verdict == "REFUSE"
    assert any(reason in each for each in verdict.reasons), verdict.reasons


def test_the_smallest_delta_has_a_half_too():
    """Which is no float64: the limit is refused, and nothing is raised."""
    found = certified("class:3", "f by disagreement")
    verdict = verdict_on(found, put(found.certificate, "claim.delta", lambda v: 5e-324))
    assert any("bound is printed as" in each for each in verdict.reasons)


def test_that_nobody_looked_is_declared_of_a_part_whose_share_is_estimated():
    for about, is_said in (("g", False), ("f by disagreement", True)):
        found = certified("class:3", about)
        assert (PART_FIRST in found.certificate.declarations) == is_said
        said = " ".join(verdict_on(found, found.certificate).assumptions)
        assert ("the part of the data that class:3 is about" in said) == is_said


@pytest.mark.thorough
@pytest.mark.parametrize("change", [-1, 1])
def test_other_picks_of_a_part_are_refused(change):
    found = picked("false-alarm:0")
    forged = put(found.certificate, "facts.picks", lambda picks: picks + change)
    assert any("tally.picks" in reason for reason in cb.verify(forged, labelled()).reasons)


def test_what_version_3_says_version_2_cannot():
    certificate = certified(NEW[0]).certificate
    early = replace(certificate, format=PAGE)
    assert any("claim.fault" in each for each in verify(early.to_bytes(), labelled().x, labelled().y).reasons)
    with pytest.raises(CertificateError, match="version 2 have no such message"):
        cb.decode(early)
    plain = certified("wrong").certificate
    content = replace(plain, format=PAGE_3).to_bytes()
    content = content.replace(b"\x03", b"\x02", 1)
    with pytest.raises(FormatError):
        Certificate.from_bytes(content)


MATRICES = ("distance", DEAR, "0001,1001,0101,0110", "0f11,f0ff,1101,1110", "0100,0000,0000,0000")


def texts(classes: int) -> list[str]:
    numbers, found = range(classes), []
    for each in MATRICES if classes == CLASSES else ():
        largest = max(map(max, cost_matrix(each, classes)))
        found += [f"cost-above:{limit}:{each}" for limit in range(largest)]
    return [
        *found,
        *(f"class:{c}" for c in numbers),
        *(f"false-alarm:{c}" for c in numbers),
        *(f"confused:{a}:{b}" for a in numbers for b in numbers if a != b),
        *(f"top:{k}" for k in range(1, classes)),
    ]


@pytest.mark.parametrize("classes", [2, 3, CLASSES, 10])
def test_every_loss_is_coded_and_read_in_both_programs(classes):
    codes = set()
    for text in texts(classes):
        literal, writer = reference.Coder(), Writer()
        reference.write_loss(literal, classes, text)
        loss = parse_loss(text, classes=classes)
        write_loss(writer, Setting(classes, loss=loss), [].append)
        bits, is_new = writer.finish(), text.startswith("cost")
        method = 6 if is_new else 4
        assert str(bits) == literal.end()
        reader, decoder = Reader(bits), Decoder(bits.data, bits.length)
        assert (gamma(reader, 0), decoder.gamma()) == (method, method)
        ours = code_loss(reader, method, WRONG, classes)
        theirs = (decode_new_loss if is_new else decode_loss)(decoder, classes)
        assert str(ours) == theirs.text == text
        assert theirs == read_loss(text, classes, has_new=is_new)
        assert ours.guess_rate(classes) == theirs.guessing(classes)
        codes.add(str(bits))
    assert len(codes) == len(texts(classes))


NO_LOSSES = [
    *(f"cost-above:0{each}" for each in (
        "", ":", ":0", ":01,10", ":0111,1011,1101,1111", ":0000,0000,0000,0000", ":0111,1011,1101,111",
        ":011g,1011,1101,1110", ":Distance", ":distance:1",
    )),
    "cost-above", "cost-above:distance", "cost-above:3:distance", "cost-above:-1:distance",
    "cost-above:00:distance", f"cost-above:15:{DEAR}",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_LOSSES)
def test_what_is_no_loss_is_refused_by_both(text):
    with pytest.raises(UsageError, match=r"unknown loss|costs|no cost"):
        parse_loss(text, classes=CLASSES)
    assert read_loss(text, CLASSES, has_new=True) is None


@pytest.mark.parametrize(("costs", "classes"), [("distance", 17), (",".join(["0" + "1" * 19] * 20), 20)])
def test_too_many_classes_have_no_costs(costs, classes):
    with pytest.raises(UsageError, match="classes"):
        parse_loss(f"cost-above:0:{costs}", classes=classes)
    assert read_loss(f"cost-above:0:{costs}", classes, has_new=True) is None


def test_reserved_and_unattained_are_refused_by_both():
    kind = reference.Coder()
    kind.uniform(3, 4)
    largest = reference.Coder()
    largest.uniform(1, 4)
    largest.bit(1)
    largest.uniform(4, 15)
    context = reference.Context(6)
    for _ in range(CLASSES * (CLASSES - 1)):
        context.code(largest, 3)
    for coder, reason in ((kind, "reserved"), (largest, "largest")):
        word = coder.end()
        data = int(word.ljust(-(-len(word) // 8) * 8, "0"), 2).to_bytes(-(-len(word) // 8), "big")
        with pytest.raises(FormatError, match=reason):
            code_loss(Reader(Bits(data, len(word))), 6, WRONG, CLASSES)
        with pytest.raises(Refused, match=reason):
            decode_new_loss(Decoder(data, len(word)), CLASSES)


def test_what_is_not_covered_says_so():
    with pytest.raises(UsageError, match="single classes"):
        cb.certify(best(), labelled(), unlabelled=unlabelled(), by_class=True, effort="quick")


@pytest.mark.parametrize(
    "loss", ["class:1", "confused:1:0", "false-alarm:2", "top:2", "cost-above:1:distance"]
)
def test_a_file_written_by_hand_from_the_page_is_accepted(loss):
    case = reference.linear_case(30)
    plain = case.message
    message = reference.Message(plain.operations, plain.tensors, loss=loss, scaling=plain.scaling)
    theirs = read_loss(loss, 3, has_new=True)
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
        **({"tally": None} if loss.startswith("cost") else {}),
    )
    version = 3 if loss.startswith("cost") else 2
    content = reference.seal(reference.canonical(header), message.packed(), version=version)
    verdict = verify(content, case.x, case.y)
    assert (verdict.verdict, verdict.loss, verdict.n) == ("ACCEPT", loss, n), verdict.reasons


@pytest.mark.few(2)
@pytest.mark.parametrize("loss", ["class:1", "top:2", "cost-above:0:distance"])
@pytest.mark.parametrize("is_picked", [False, True])
def test_test_data_refute_what_is_false_and_nothing_else(loss, is_picked):
    found = picked(loss) if is_picked else certified(loss)
    x, y = within_nine(2, 300)
    fresh = verify(found.certificate.to_bytes(), labelled().x, labelled().y, test=(x, y))
    assert (fresh.verdict, fresh.refuted_by_test) == ("ACCEPT", False)
    wrong = verify(found.certificate.to_bytes(), labelled().x, labelled().y, test=(x, (y + 2) % CLASSES))
    assert (wrong.verdict, wrong.refuted_by_test) == ("ACCEPT", True)


def test_both_programs_say_whether_the_page_is_a_draft():
    found = certified(NEW[0])
    for lines in (found.certificate.declarations, verdict_on(found).assumptions):
        named = next(line for line in lines if "(version 3, " in line)
        assert ("keep no file" in named) == (not PAGE_3.frozen)
        assert PAGE_3.sha256 in named


@pytest.mark.parametrize("loss", ["cost-above:1:distance", "cost-above:0:"])
def test_a_header_without_classes_has_no_costs(loss):
    """As the verifier meets it in a damaged file."""
    assert read_loss(loss, 0, has_new=True) is None


@cache
def of_class(c: int) -> int:
    return int((labelled().y == c).sum())


def counts_by_hand(loss: str, logits: np.ndarray, y: np.ndarray) -> tuple[int, int]:
    """Losses and examples that they are about, from the logits alone."""
    kind, *numbers = loss.split(":")
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


@pytest.mark.parametrize("loss", LOSSES)
def test_it_counts_the_loss_on_its_examples_and_both_programs_agree(loss):
    found = certified(loss)
    claim, facts = found.certificate.claim, found.certificate.facts
    x = labelled().on("cpu")
    logits = found.network.double()(next(x.chunks(N, torch.float64))[0]).detach().numpy()
    found.network.float()
    errors, n = counts_by_hand(loss, logits, labelled().y)
    assert (claim.loss, facts.n) == (loss, n)
    assert errors <= facts.errors <= errors + 2  # what is not clear counts
    verdict = verify(found.certificate.to_bytes(), labelled().x, labelled().y)
    assert (verdict.verdict, verdict.loss, verdict.n) == ("ACCEPT", loss, n)
    assert str(n) in verdict.counts[0].sentence
    assert parse_loss(loss).says(cb.bounds.risk.percent(claim.bound)) in found.certificate.sentence


def test_the_network_is_that_of_the_plain_certificate():
    plain, other = certified("wrong"), certified("class:3")
    for name, tensor in plain.network.state_dict().items():
        assert torch.equal(tensor, other.network.state_dict()[name])
    assert other.certificate.facts.code_bits - plain.certificate.facts.code_bits in range(8, 16)


@pytest.mark.thorough
def test_after_a_split_it_counts_on_the_rest(monkeypatch):
    monkeypatch.setattr("codebound_networks.methods.inputs._PRIOR_STEPS", 50)
    claim = AfterSplit(tenths=5, loss=parse_loss("class:3"))
    found = cb.certify(best(), labelled(), effort="quick", claim=claim)
    _, rest = prior_and_rest(labelled(), 5)
    assert found.certificate.facts.n == int((rest.y == 3).sum())
    assert verify(found.certificate.to_bytes(), labelled().x, labelled().y, base=found.base).is_accepted


@pytest.mark.thorough
def test_test_data_count_the_same_loss():
    parts = cb.split(labelled(), {"train": 0.8, "test": 0.2})
    found = cb.certify(best(), parts["train"], effort="quick", loss="class:3", test_set=parts["test"])
    assert found.holdout.facts.n == int((parts["test"].y == 3).sum())


def claiming(certificate: Certificate, **claim) -> bytes:
    return replace(certificate, claim=replace(certificate.claim, **claim)).to_bytes()


@pytest.mark.parametrize("other", ["wrong", "class:2", "confused:3:2", "top:1"])
def test_a_header_that_names_another_loss_than_the_message_is_refused(other):
    verdict = verify(claiming(certified("class:3").certificate, loss=other), labelled().x, labelled().y)
    assert verdict.verdict == "REFUSE"
    assert any("it counts the loss class:3" in reason for reason in verdict.reasons)


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
def test_a_loss_that_does_not_exist_is_refused(text):
    assert read_loss(text, CLASSES, has_new=False) is None
    verdict = verify(claiming(certified("class:3").certificate, loss=text), labelled().x, labelled().y)
    assert any("claim.fault must be" in reason for reason in verdict.reasons)


@pytest.mark.parametrize("more", [1, N])
def test_another_number_of_examples_is_refused(more):
    certificate = certified("class:3").certificate
    n = certificate.facts.n + more
    forged = replace(certificate, facts=replace(certificate.facts, n=n))
    reasons = " ".join(verify(forged.to_bytes(), labelled().x, labelled().y).reasons)
    assert f"{of_class(3)} of the {N} examples count; the certificate is about {n}" in reasons


def test_a_loss_less_is_refused():
    certificate = certified("class:3").certificate
    facts = replace(certificate.facts, errors=0)
    assert certificate.facts.errors > 0
    reasons = verify(replace(certificate, facts=facts).to_bytes(), labelled().x, labelled().y).reasons
    assert any("the certificate states 0" in reason for reason in reasons)


def test_vacuous_is_what_a_guess_achieves():
    certificate = certified("confused:2:1").certificate
    assert certificate.claim.vacuous == (certificate.claim.bound >= 0.25)
    forged = claiming(certificate, vacuous=not certificate.claim.vacuous)
    assert any("guessing" in reason for reason in verify(forged, labelled().x, labelled().y).reasons)


@pytest.mark.thorough
def test_what_cannot_be_counted_is_refused():
    with pytest.raises(UsageError, match="does not fit"):
        cb.certify(best(), labelled(), effort="quick", loss="class:4")
    without = labelled().select(np.flatnonzero(labelled().y != 3), role="train")
    with pytest.raises(DataError, match="no example"):
        cb.certify(best(), without, effort="quick", claim=AboutG(loss=parse_loss("class:3")))


def test_a_loss_stands_in_the_message_and_plain_errors_do_not():
    parts = dict(certified("class:3").certificate.ledger)
    assert parts["fault"] == 5 + 2 + 2
    assert "fault" not in dict(certified("wrong").certificate.ledger)


def test_a_table_of_classes_holds_at_once_in_both_programs():
    found = cb.certify(best(), labelled(), method="prune", effort="quick", by_class=True)
    facts = found.certificate.facts
    assert sum(row.errors for row in found.by_class) == facts.errors
    theirs = verify(found.certificate.to_bytes(), labelled().x, labelled().y, by_class=True).by_class
    for row, other in zip(found.by_class, theirs, strict=True):
        assert (row.label, row.n) == (other.label, other.n) == (row.label, of_class(row.label))
        assert other.errors <= row.errors
        told = OccamFacts(errors=row.errors, n=row.n, code_bits=facts.code_bits, delta=0.05 / CLASSES)
        assert row.bound == pytest.approx(occam_binomial(told).value, rel=1e-9)
        assert other.bound <= row.bound * (1 + 1e-9)
        assert other.bound == pytest.approx(row.bound, rel=1e-6) or other.errors < row.errors


@pytest.mark.thorough
def test_a_table_is_printed_and_written(tmp_path, codebound):
    found = cb.certify(best(), labelled(), method="prune", effort="quick", by_class=True)
    saved = found.save_to(tmp_path / "cert")
    assert [row["n"] for row in saved.result["by_class"]] == [of_class(c) for c in range(CLASSES)]
    assert "Error on each class" in (tmp_path / "cert" / "report.html").read_text()
    path = tmp_path / "cert" / "certificate.cbound"
    _, out, _ = codebound("verify", path, "--data", tmp_path / "cert" / "sample.npz", "--by-class")
    assert f"errors on {of_class(2)} examples" in out


@pytest.mark.thorough
def test_a_class_without_examples_has_no_limit():
    wide = replace(labelled(), classes=CLASSES + 1)
    model = cb.load_model("linear", input_shape=(CLASSES,), classes=CLASSES + 1)
    found = cb.certify(model, wide, effort="quick", by_class=True)
    assert (found.by_class[CLASSES].n, found.by_class[CLASSES].bound) == (0, None)
    theirs = verify(found.certificate.to_bytes(), wide.x, wide.y, by_class=True).by_class
    assert (theirs[CLASSES].n, theirs[CLASSES].bound) == (0, None)

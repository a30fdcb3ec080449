"""What results/ says is what its certificates hold."""

import json
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from worlds.commands import script

from codebound.certificate.decoding import decode, rule_message
from codebound.certificate.file import Certificate
from codebound.learn.rule import decode_rule
from codebound.run.errors import CodeboundError
from codebound.sample.load import load_dataset
from codebound_verify import decode_network, verify
from codebound_verify.container import read
from codebound_verify.learn.rule import decode_rule as their_rule
from codebound_verify.message import Message
from codebound_verify.refusal import Refused

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def page():
    return script(RESULTS / "page.py")


def test_the_page_is_that_of_the_records(page):
    assert page.table() in (RESULTS / "README.md").read_text(), "run python results/page.py"


def test_the_readme_repeats_the_numbers_with_the_whole_design_paid(page):
    """As the page has them, in the order of the samples."""
    value = page.BEST["ours, whole design paid"]
    best = [
        page.percent(min(filter(None, map(value, map(page.numbers, page.present(key))))))
        for key in ("mnist", "fashion-mnist", "cifar10")
    ]
    readme = " ".join((RESULTS.parent / "README.md").read_text().split())
    assert f"{best[0]} (MNIST), {best[1]} (Fashion-MNIST) and {best[2]} (CIFAR-10)" in readme


def test_more_bits_and_picks_are_counted_by_their_own_bounds(page):
    common = {"program_bits": None, "test_errors": None, "holdout": None, "bound": 0.0}
    coded = page.Numbers(n=60_000, errors=300, picks=None, bits=4500, **common)
    assert page.percent(coded.with_more_bits) == "7.38 %"  # as the calculator says for 5000 bits
    picked = page.Numbers(n=60_000, errors=100, picks=700, bits=30, **common)
    assert picked.at(30) == pytest.approx(0.01703, abs=5e-6)
    assert picked.with_more_bits > picked.at(30)


def test_every_certificate_is_on_the_page(page):
    files = {path.stem for path in (RESULTS / "certificates").glob("*.cbound")}
    assert files == {name for key in page.DATA for name in page.present(key)}


@pytest.mark.parametrize("name", ["italy-power-default", "dna-picks"])
def test_both_programs_read_a_rule_of_version_2_that_picks_nothing_or_something(name):
    """Where nothing is picked the third version says more; files of the second are read on."""
    path = RESULTS / "fresh/certificates" / f"{name}.cbound"
    certificate = Certificate.load(path)
    theirs = their_rule(Message(read(path.read_bytes())))
    ours = rule_message(certificate)
    assert certificate.version == ours.version == 2
    assert (ours.rule.first, ours.rule.rounds) == (theirs.first, len(theirs.batches))
    with pytest.raises(CodeboundError, match="no-such-file"):  # all but its weights is there
        decode(certificate, weights="no-such-file.safetensors")


each_certificate = pytest.mark.parametrize(
    "path", sorted((RESULTS / "certificates").glob("*.cbound")), ids=lambda path: path.stem
)


def base_of(path):
    file = path.with_suffix(".base.safetensors")
    return load_file(file) if file.exists() else None


@each_certificate
def test_both_programs_decode_the_same_network(path):
    certificate = Certificate.load(path)
    if certificate.claim.statement == "C-15":  # a rule; test_two_pickers.py compares the rest
        rule = decode_rule(certificate.message, input_shape=certificate.helper.input_shape).rule
        assert {"first": rule.first, "picks": rule.picks} == certificate.facts.extra
        with pytest.raises(Refused, match="learned"):
            decode_network(path.read_bytes())
        return
    _, theirs = decode_network(path.read_bytes(), base=base_of(path))
    ours = decode(Certificate.load(path), base=base_of(path)).state_dict()
    assert [ours[name].numpy().tobytes() for name in theirs] == [
        values.tobytes() for values in theirs.values()
    ]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "path", sorted((RESULTS / "certificates").glob("digits*.cbound")), ids=lambda p: p.stem
)
def test_the_verifier_accepts_what_it_can_check_quickly(path):
    digits = load_dataset("digits")
    verdict = verify(path.read_bytes(), digits.x, digits.y, base=base_of(path))
    assert verdict.reasons == ()


@each_certificate
def test_records_repeat_their_certificate(path):
    certificate = Certificate.load(path)
    record = json.loads((RESULTS / f"{path.stem}.json").read_text())
    assert record["verdict"] == "ACCEPT"
    numbers = record.get("from_base", record)
    assert numbers["bound"] == certificate.claim.bound
    assert numbers["train_errors"] == certificate.facts.errors
    assert numbers["code_bits"] == certificate.facts.code_bits == certificate.message.length
    assert numbers["n"] == certificate.facts.n


def test_first_looks_repeat_their_certificates():
    """All of them, finished or not; a certificate without a record would be a look that is kept back."""
    folder, kept = RESULTS / "fresh", set()
    for path in folder.glob("*.json"):
        record = json.loads(path.read_text())
        for found in record["ways"].values():
            if found is not None and found["certificate"]:
                certificate = Certificate.load(folder / "certificates" / found["certificate"])
                assert (found["bound"], found["n"]) == (certificate.claim.bound, certificate.facts.n)
                assert certificate.format is not None
                assert certificate.format.sha256 == record["format_sha256"]
                kept.add(found["certificate"])
    assert kept == {path.name for path in folder.glob("certificates/*.cbound")}

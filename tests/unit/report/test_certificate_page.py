"""The page about a certificate says what the certificate says; tests/browser has what needs a browser."""

import shlex
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.bright_rows import images, solved

from codebound.bounds import risk
from codebound.bounds.facts import HoldoutFacts, OccamFacts, PickedFacts
from codebound.bounds.occam import occam_binomial
from codebound.bounds.original import occam_disagreement, part_disagreement
from codebound.bounds.picked import picked_risk
from codebound.certificate.claims import CLAIMS, AboutG, AfterSplit, ByDisagreement, OnDomain
from codebound.certificate.statement import bound_at
from codebound.certification import certify
from codebound.known.base import Pretrained
from codebound.report.html import ExampleTiles, _tile, certificate_page, costs, formulas, select_examples
from codebound.report.plain import answer, describe_confidence, describe_failure, in_words, meanings
from codebound.sample.arrays import from_arrays
from codebound.sample.caveats import DEVELOPED
from codebound.sample.losses import WRONG, parse_loss
from codebound_verify.__main__ import main as verify

SAMPLE, TEST = images(150, 0), images(60, 2, "test")
ASKED = {
    "C-2": {"by_class": True},
    "C-15": {"method": "picks"},
    "C-10": {"claim": AfterSplit(3)},
    "C-12a": {"claim": OnDomain(0, 255)},
    "C-12b": {"claim": ByDisagreement(images(80, 1, "unlabelled"))},
    "C-17": {"claim": AboutG(loss=parse_loss("class:1"))},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A saved certificate of each statement, with the certification."""
    root, network = tmp_path_factory.mktemp("pages"), solved().build()
    for tensor in network.parameters():
        noise = np.random.default_rng(0).normal(scale=0.05, size=tensor.shape)
        tensor.data += tensor.data.new_tensor(noise)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("codebound_networks.methods.inputs._PRIOR_STEPS", 50)
        found = {
            name: certify(network, SAMPLE, **{"method": "prune", "effort": "quick", "test_set": TEST} | asked)
            for name, asked in ASKED.items()
        }
    return {name: (each, each.save_to(root / name)) for name, each in found.items()}


def library(certificate, delta):
    """The bound by the public functions of the statements."""
    facts = certificate.facts
    counted = {"errors": facts.errors, "n": facts.n, "code_bits": facts.code_bits}
    if certificate.claim.statement == "C-15":
        is_held_out = certificate.version == 3 and not facts.extra["picks"]
        found = PickedFacts(picks=facts.extra["picks"], delta=delta, is_held_out=is_held_out, **counted)
        return picked_risk(found).value
    if certificate.claim.statement != "C-12b":
        return occam_binomial(OccamFacts(delta=delta, **counted)).value
    apart = HoldoutFacts(errors=facts.extra["disagreements"], n=facts.extra["n_unlabelled"], delta=delta / 2)
    risk_facts = OccamFacts(delta=delta / 2, **counted)
    return occam_disagreement(risk=risk_facts, disagreement=apart).value


def test_every_statement_has_a_page():
    assert set(CLAIMS) <= set(ASKED)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ASKED)
def test_the_terms_of_the_slider_are_those_of_the_library(name, folders):
    found, saved = folders[name]
    terms = formulas(found.certificate, saved.result)
    assert {"certified", "holdout"} <= set(terms)
    certified = terms["certified"]
    assert bound_at(certified, 0.05) == pytest.approx(found.certificate.claim.bound, rel=1e-8)
    for delta in (0.5, 1e-3, 1e-9):
        assert bound_at(certified, delta) == pytest.approx(library(found.certificate, delta), rel=1e-8)


def test_every_class_has_its_terms(folders, other_losses):
    for found, result in ((folders["C-2"][0], folders["C-2"][1].result), other_losses("picked classes")):
        terms = formulas(found.certificate, result)
        for row in found.by_class:
            assert bound_at(terms[f"class-{row.label}"], 0.05) == pytest.approx(row.bound)


LOSSES = {
    "picked classes": {"method": "picks", "by_class": True},
    "picked class": {"method": "picks", "loss": "class:1"},
    "cost above": {"loss": "cost-above:1:distance"},
    "class of f": {
        "claim": ByDisagreement(images(500, 1, "unlabelled"), loss=parse_loss("class:1")),
    },
}


@pytest.fixture(scope="module")
def other_losses(tmp_path_factory):
    """By name: a certificate of a loss that version 3 of the format knows, with its result."""
    sample = images(900)
    sample.y[::30] = (sample.y[::30] + 1) % 3
    root, network = tmp_path_factory.mktemp("losses"), solved().build()

    @cache
    def made(name):
        found = certify(network, sample, **{"method": "prune", "effort": "quick"} | LOSSES[name])
        return found, found.save_to(root / name).result

    return made


def of_the_library(name, certificate, delta):
    """The bound of a loss by the public functions of its statement."""
    facts, tally = certificate.facts, certificate.facts.tally or {}
    occam = OccamFacts(errors=facts.errors, n=facts.n, code_bits=facts.code_bits, delta=delta)
    picks = tally.get("picks", facts.extra.get("picks", 0))
    if name.startswith("picked"):
        return library(replace(certificate, facts=replace(facts, extra={"picks": picks})), delta)
    if name == "class of f":
        apart = HoldoutFacts(errors=facts.extra["disagreements"], n=500, delta=delta / 4)
        risk_facts = replace(occam, delta=delta / 2)
        return part_disagreement(risk=risk_facts, disagreement=apart, examples=900)[0]
    return occam_binomial(occam).value


@pytest.mark.few(3)
@pytest.mark.parametrize("name", LOSSES)
def test_the_terms_of_losses_are_those_of_the_library(name, other_losses):
    found, result = other_losses(name)
    terms = formulas(found.certificate, result)["certified"]
    for delta in (0.05, 0.5, 1e-6):
        assert bound_at(terms, delta) == pytest.approx(
            of_the_library(name, found.certificate, delta), rel=1e-8
        )
    parts = costs(found.certificate)
    assert not parts or sum(value for _, value in parts) == pytest.approx(found.certificate.claim.bound)
    assert all(map(describe_failure, found.certificate.declarations))


def test_a_bound_that_the_page_would_get_wrong_has_no_slider(folders):
    found, saved = folders["C-2"]
    claim = replace(found.certificate.claim, bound=found.certificate.claim.bound + 1e-6)
    other = replace(found.certificate, claim=claim)
    assert "certified" not in formulas(other, saved.result)
    assert 'type="range"' not in certificate_page(other, saved.result, title="")
    assert 'type="range"' in certificate_page(found.certificate, saved.result, title="")


@pytest.mark.parametrize("name", ASKED)
def test_the_parts_of_the_error_add_up(name, folders):
    certificate = folders[name][0].certificate
    parts = costs(certificate)
    assert sum(value for _, value in parts) == pytest.approx(certificate.claim.bound, rel=1e-8)
    assert all(value >= 0.0 for _, value in parts)


@pytest.mark.parametrize("name", ASKED)
def test_every_declaration_says_how_it_could_fail(name, folders):
    found, saved = folders[name]
    page = (saved.folder / "report.html").read_text()
    for line in found.certificate.declarations:
        assert describe_failure(line), line
        assert describe_failure(line) in page


def test_every_assumption_of_the_library_says_how_it_could_fail():
    known = [value for key, value in vars(risk).items() if key.isupper() and key != "TWO_DRAWS"]
    assert len(known) > 10
    assert all(map(describe_failure, [*known, DEVELOPED]))
    assert describe_failure("Nobody ever wrote this.") == ""


def test_declarations_of_bases_say_how_they_could_fail():
    network, copied = solved().build(), SAMPLE.select([*range(150), *range(3)], role="train")
    given = {"method": "prune", "effort": "quick", "base": Pretrained(network, "elsewhere")}
    declared = certify(network, copied, allow_copies=True, **given).certificate.declarations
    assert all(map(describe_failure, declared)), declared


def test_a_sample_outside_the_folder_is_named_from_there(folders, tmp_path, monkeypatch, capsys):
    np.savez(tmp_path / "rows.npz", x=SAMPLE.x, y=SAMPLE.y)
    monkeypatch.chdir(tmp_path)
    saved = folders["C-2"][0].save_to("here", data="rows.npz")
    assert saved.result["verify_needs"] == ["../rows.npz"]
    assert "<code>../rows.npz</code>" in (tmp_path / "here" / "report.html").read_text()
    assert verify(shlex.split(saved.result["verify"])[1:]) == 0
    monkeypatch.chdir(tmp_path / "here")
    assert verify(shlex.split(saved.result["verify_here"])[1:]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("name", ["C-2", "C-15"])
def test_what_is_shown_as_wrong_is_wrong_and_all_of_it_is_there(name, folders):
    found, _ = folders[name]
    names = ("top", "middle", "low")
    liar = replace(SAMPLE, y=(SAMPLE.y + (np.arange(SAMPLE.n) % 10 == 0)) % 3, class_names=names)
    shown = select_examples(found.network, liar, WRONG)
    picked = found.network.examples.tolist() if name == "C-15" else []
    first = found.network.rule.first if picked else 0
    assert [tile.number for tile in shown.learned] == picked[first : first + 48]
    truth = SAMPLE.y  # what a network says that has no errors
    expected = [i for i in range(SAMPLE.n) if liar.y[i] != truth[i] and i not in picked]
    assert found.certificate.facts.errors == 0
    assert [tile.number for tile in shown.wrong] == expected[:24]
    assert all(
        (tile.label, tile.said) == (names[liar.y[tile.number]], names[truth[tile.number]])
        for tile in shown.wrong
    )
    assert all(tile.picture.startswith("data:image/png;base64,") for tile in (*shown.wrong, *shown.learned))


def test_what_can_be_said_of_the_network_that_was_given_stands_beside(folders):
    found, saved = folders["C-15"]
    _, not_means = meanings(found.certificate, saved.result)
    (line,) = (each for each in not_means if each.startswith("Nothing about the network that was given"))
    assert f"the test set promises at most {risk.percent(saved.result['holdout_f'])}" in line
    alone = {key: value for key, value in saved.result.items() if key not in ("holdout_f", "through_f")}
    assert any("unlabelled inputs, would say" in line for line in meanings(found.certificate, alone)[1])


def test_a_table_is_shown_as_rows():
    stream = np.random.default_rng(0)
    y = stream.integers(2, size=200)
    x = stream.normal(size=(200, 20)) + y[:, None]
    sample = from_arrays(x.astype(np.float32), y, name="table")
    found = certify(None, sample, method="picks", effort="quick")
    shown = select_examples(found.network, sample, WRONG)
    tiles = (*shown.learned, *shown.wrong)
    assert tiles
    for tile in tiles:
        assert tile.picture == ""
        assert tile.row.startswith(f"{x[tile.number, 0]:.4g}, ")
        assert tile.row.endswith(", ...")


def test_a_page_is_small(folders):
    """The limit is three megabytes; four dozen pictures of 64 x 64 colours stay below a third of it."""
    noise = np.random.default_rng(0).integers(256, size=(150, 3, 300, 300), dtype=np.uint8)
    large = from_arrays(noise, SAMPLE.y, name="large", classes=3)
    found, saved = folders["C-15"]
    shown = select_examples(found.network, SAMPLE, WRONG)
    tiles = tuple(_tile(large, number, 0) for number in range(48))
    page = certificate_page(
        found.certificate, saved.result, title="", shown=ExampleTiles(tiles, tiles[:24], 150)
    )
    assert len(shown.learned) <= 48
    assert len(page.encode()) < 2_000_000


def test_a_vacuous_certificate_promises_nothing(folders):
    found, saved = folders["C-2"]
    claim = replace(found.certificate.claim, vacuous=True)
    words = answer(replace(found.certificate, claim=claim), saved.result)
    assert words.startswith("Nothing useful can be promised")
    assert "is wrong on at most" not in words


def test_the_answer_names_the_network(folders):
    words = {}
    for name, (found, saved) in folders.items():
        claim = replace(found.certificate.claim, vacuous=False)
        words[name] = answer(replace(found.certificate, claim=claim), saved.result)
    assert words["C-15"].startswith("A new classifier, not the one given,")
    assert words["C-12b"].startswith("The network that was given")
    assert words["C-2"].startswith("The compressed network")
    assert "new data of class 1" in words["C-17"]
    assert "stored values from 0 to 255" in words["C-12a"]
    assert "provided that" in words["C-10"]


@given(st.floats(1e-6, 1.0))
def test_a_count_in_words_is_never_smaller_than_the_share(share):
    count, of = map(int, in_words(share).replace(",", "").split(" in "))
    assert Fraction(count, of) >= Fraction(share)


@given(st.floats(1e-9, 0.5))
def test_the_promise_never_sounds_surer_than_it_is(delta):
    samples = int(describe_confidence(delta).split()[1].replace(",", ""))
    assert Fraction(1, samples) >= Fraction(delta) * (1 - Fraction(1, 10**6))


def test_an_encoder_makes_the_answer_conditional(folders):
    found, saved = folders["C-15"]
    claim = replace(found.certificate.claim, vacuous=False)
    result = saved.result | {"encoder_declared": "The inputs are rows of the encoder x."}
    words = answer(replace(found.certificate, claim=claim), result)
    assert words.endswith(", provided that the encoder in front of it never saw these examples.")
    assert describe_failure("The inputs are rows of the encoder x (SHA-256 0), which never saw the sample.")


def test_test_data_that_object_take_the_green_away(folders):
    found, saved = folders["C-15"]
    claim = replace(found.certificate.claim, vacuous=False)
    certificate, calm = (
        replace(found.certificate, claim=claim),
        saved.result | {"vacuous": False, "alarm": ""},
    )
    alarmed = calm | {"alarm": "REFUTED BY TEST DATA: too many."}
    assert '<section class="claim" ' in certificate_page(certificate, calm, title="")
    page = certificate_page(certificate, alarmed, title="")
    assert '<section class="claim vacuous" ' in page
    assert page.index("REFUTED BY TEST DATA") < page.index("is wrong on at most")


def test_a_better_promise_of_the_test_set_is_recommended_unless_it_is_none(folders):
    found, saved = folders["C-15"]
    better = saved.result | {"holdout": 0.01}
    assert "quote that instead" in " ".join(meanings(found.certificate, better)[0])
    for other in ({"holdout": 1.0}, {"holdout": 0.01, "test_copies_in_sample": 1}):
        assert "quote that" not in " ".join(meanings(found.certificate, saved.result | other)[0])

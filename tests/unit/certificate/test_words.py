"""Every number says what it is: on the screen, in the report, in JSON, and from the second program."""

import contextlib
import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
import torch
import typer
from worlds.bright_rows import images, solved

from codebound.bounds.facts import HoldoutFacts
from codebound.bounds.held_out import REFUTING_LEVEL, holdout
from codebound.certificate.claims import CLAIMS, AboutG, AfterSplit, ByDisagreement, OnDomain
from codebound.certificate.file import Certificate
from codebound.certification import certify
from codebound.cli.certificates import show
from codebound.cli.certify import print_result
from codebound.cli.console import REFUTED, Format
from codebound.learn.kernel_network import PickedNetwork
from codebound.run.errors import FormatError
from codebound.sample.losses import parse_loss
from codebound_verify.__main__ import main as verify


def faint(n=150, seed=0, role="train"):
    """Rows hardly brighter than the others: margins are small, and some examples are wrong."""
    rows = images(n, seed, role)
    labels = np.random.default_rng(seed).integers(3, size=n)  # as they were drawn there
    rows.x[np.arange(n), 0, labels] -= 60
    return rows


SAMPLE, TEST = faint(), faint(60, 2, "test")
ASKED = {
    "C-2": {},
    "C-15": {"method": "picks"},
    "C-10": {"claim": AfterSplit(3)},
    "C-12a": {"claim": OnDomain(0, 255)},
    "C-12b": {"claim": ByDisagreement(faint(80, 1, "unlabelled"))},
}
ORDER = tuple(ASKED)


@pytest.fixture(scope="module")
def moved():
    """f: the network of the rows, moved a little, so that it is not what the message decodes to."""
    model = solved().build()
    stream = np.random.default_rng(0)
    for tensor in model.parameters():
        tensor.data += tensor.data.new_tensor(stream.normal(scale=0.05, size=tensor.shape))
    return model


@pytest.fixture(scope="module")
def folders(moved, tmp_path_factory):
    """A saved certificate of each statement, with the result."""
    root = tmp_path_factory.mktemp("words")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("codebound_networks.methods.inputs._PRIOR_STEPS", 50)
        found = {
            name: certify(moved, SAMPLE, **{"method": "prune", "effort": "quick", "test_set": TEST, **asked})
            for name, asked in ASKED.items()
        }
    return {name: (each, each.save_to(root / name)) for name, each in found.items()}


def printed(saved, capsys) -> str:
    with contextlib.suppress(typer.Exit):
        print_result(saved, Format.table, quiet=False)
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())


def second_program(saved, capsys, *more: str) -> tuple[int, str, dict]:
    arguments = [*shlex.split(saved.result["verify"])[1:], *more]
    status = verify(arguments)
    text = capsys.readouterr().out
    verify([*arguments, "--format", "json"])
    return status, text, json.loads(capsys.readouterr().out)


def right_answers(network, data) -> tuple[np.ndarray, np.ndarray]:
    """Which examples are right, and the margins, in plain float64."""
    takes_stored = isinstance(network, PickedNetwork)
    inputs = torch.from_numpy(data.x) if takes_stored else data.on("cpu").batch(slice(None))[0].double()
    logits = network.double()(inputs).detach().numpy()
    network.float()
    own = logits[np.arange(data.n), data.y]
    logits[np.arange(data.n), data.y] = -np.inf
    margins = own - logits.max(1)
    return margins > 0, margins


def test_every_statement_has_words():
    assert set(CLAIMS) == set(ASKED)
    assert all(kind.statement == name for name, kind in CLAIMS.items())


@pytest.mark.thorough
def test_picks_are_counted_beside_the_errors_on_the_rest(folders, capsys):
    found, saved = folders["C-15"]
    facts = found.certificate.facts
    picks, first = facts.extra["picks"], facts.extra["first"]
    assert facts.n + first == SAMPLE.n
    assert len((saved.folder / "picks.csv").read_text().splitlines()) == 1 + first + picks
    text = printed(saved, capsys)
    assert f"picked examples {picks} of {facts.n}" in text
    assert f"errors of g {facts.errors} of {facts.n - picks}" in text
    assert "a new one" in text
    status, second, record = second_program(saved, capsys)
    assert status == 0
    assert f"{picks} of {facts.n}" in second
    assert record["statement"] == "C-15"


def test_training_errors_are_those_of_g_on_the_whole_sample(folders, capsys):
    found, saved = folders["C-2"]
    errors = int((~right_answers(found.network, SAMPLE)[0]).sum())
    assert saved.result["train_errors"] == errors
    assert f"training errors of g {errors} of {SAMPLE.n}" in printed(saved, capsys)
    assert f"training errors of g: {errors} of {SAMPLE.n}" in str(found)
    assert "training errors of g" in (saved.folder / "report.html").read_text()
    _, text, record = second_program(saved, capsys)
    assert f"{errors} of {SAMPLE.n}: training errors of g on the whole sample." in text
    assert record["counts"] == [
        {"what": "training errors of g on the whole sample", "count": errors, "out_of": SAMPLE.n}
    ]


def test_counts_after_a_split_have_their_own_n(folders, capsys):
    found, saved = folders["C-10"]
    rest = SAMPLE.n - 3 * SAMPLE.n // 10
    count = saved.result["errors_after_split"]
    assert "train_errors" not in saved.result
    assert (saved.result["n"], saved.result["original_train_n"]) == (rest, SAMPLE.n)
    words = printed(saved, capsys)
    assert f"errors of g after the split {count} of {rest}" in words
    assert f"training errors of f {saved.result['original_train_errors']} of {SAMPLE.n}" in words
    assert "training errors of g" not in words + (saved.folder / "report.html").read_text() + str(found)
    assert "provided that the base never saw the examples after the split" in str(found)
    _, text, _ = second_program(saved, capsys)
    assert f"{count} of {rest}: errors of g on the examples after the split" in text
    assert "if the base never saw the examples after the split" in text


def test_a_count_at_a_margin_is_not_called_training_errors(folders, capsys):
    found, saved = folders["C-12a"]
    errors = int((~right_answers(found.network, SAMPLE)[0]).sum())
    count = saved.result["margins_within_theta"]
    assert count == found.certificate.facts.errors > errors  # else this test could not fail
    assert "train_errors" not in saved.result
    words = printed(saved, capsys)
    assert f"margins of g up to theta {count} of {SAMPLE.n}" in words
    for text in (words, str(found), (saved.folder / "report.html").read_text()):
        assert "training errors of g" not in text
        assert "stored values from 0 to 255" in text
    _, text, _ = second_program(saved, capsys)
    assert f"{count} of {SAMPLE.n}: examples on which the margin of g is at most theta" in text
    assert "stored values from 0.0 to 255.0" in text


def test_disagreements_and_the_second_draw_are_named(folders, capsys):
    found, saved = folders["C-12b"]
    apart = found.certificate.facts.extra["disagreements"]
    errors = int((~right_answers(found.network, SAMPLE)[0]).sum())
    assert (saved.result["disagreements"], saved.result["train_errors"]) == (apart, errors)
    words = printed(saved, capsys)
    assert f"disagreements of f and g {apart} of 80" in words
    for text in (words, str(found), (saved.folder / "report.html").read_text(), found.certificate.sentence):
        assert "over the draw of the sample and of the unlabelled inputs" in text
    _, text, _ = second_program(saved, capsys)
    assert "over the draw of the sample and of the 80 unlabelled inputs" in text
    assert f"{apart} of 80: unlabelled inputs, a second draw, on which f and g disagree." in text


@pytest.mark.parametrize("statement", ORDER)
def test_the_hold_out_line_is_of_the_network_that_the_claim_is_about(
    statement, folders, moved, tmp_path, capsys
):
    found, saved = folders[statement]
    subject = found.certificate.claim.subject
    tested = moved if subject == "f" else found.network
    wrong = int((~right_answers(tested, TEST)[0]).sum())
    assert (saved.result["test_errors"], saved.result["test_n"]) == (wrong, TEST.n)
    assert found.holdout.subject == subject
    for text in (printed(saved, capsys), (saved.folder / "report.html").read_text()):
        assert f"hold-out bound of {subject}" in text
        assert f"{subject} errs on {wrong} of {TEST.n} test examples" in text
    np.savez(tmp_path / "test.npz", x=TEST.x, y=TEST.y)
    status, text, record = second_program(saved, capsys, "--test", str(tmp_path / "test.npz"))
    assert status == 0
    assert (record["test"]["errors"], record["refuted_by_test"]) == (wrong, False)
    assert f"Test data: {subject} errs on {wrong} of {TEST.n} test examples" in text


@pytest.mark.few(2)
@pytest.mark.parametrize("statement", ORDER)
def test_test_data_that_refute_the_claim_raise_an_alarm_everywhere(
    statement, moved, tmp_path, capsys, monkeypatch
):
    """Labels that are all wrong: of another distribution, and no bound survives them unless it is vacuous."""
    monkeypatch.setattr("codebound_networks.methods.inputs._PRIOR_STEPS", 50)
    liar = faint(60, 2, "test")
    liar.y[:] = (liar.y + 1) % 3
    asked = ASKED[statement]
    found = certify(moved, SAMPLE, **{"method": "prune", "effort": "quick", "test_set": liar, **asked})
    saved = found.save_to(tmp_path / "one")
    np.savez(tmp_path / "test.npz", x=liar.x, y=liar.y)
    is_refuted = found.confrontation.tail < REFUTING_LEVEL
    assert is_refuted or (found.certificate.claim.bound > 0.85 and statement != "C-2")
    assert saved.result["refuted_by_test"] is is_refuted
    status, text, record = second_program(saved, capsys, "--test", str(tmp_path / "test.npz"))
    assert record["verdict"] == "ACCEPT"
    assert record["refuted_by_test"] is is_refuted
    assert status == (REFUTED if is_refuted else 0)
    shown = (printed(saved, capsys), str(found), (tmp_path / "one" / "report.html").read_text(), text)
    for each in shown:
        assert ("REFUTED BY TEST DATA" in each) is is_refuted
    if is_refuted:
        for cause in ("copies", "base", "another distribution"):
            assert all(cause in each for each in shown)
        with pytest.raises(typer.Exit) as leaving:
            print_result(saved, Format.json, quiet=True)
        assert leaving.value.exit_code == REFUTED


def test_a_hold_out_bound_on_copies_of_the_sample_is_no_guarantee(moved, tmp_path, capsys):
    again = replace(SAMPLE, role="test")
    saved = certify(moved, SAMPLE, method="prune", effort="quick", test_set=again).save_to(tmp_path / "one")
    assert saved.result["test_copies_in_sample"] == SAMPLE.n
    assert not {"holdout", "holdout_f"} & set(saved.result)
    for text in (printed(saved, capsys), (tmp_path / "one" / "report.html").read_text()):
        assert f"of which {SAMPLE.n} also occur in the sample: NO GUARANTEE" in text
    np.savez(tmp_path / "test.npz", x=SAMPLE.x, y=SAMPLE.y)
    _, text, record = second_program(saved, capsys, "--test", str(tmp_path / "test.npz"))
    assert f"test examples, of which {SAMPLE.n} occur in the sample" in text
    assert record["test"]["shared"] == SAMPLE.n


TRAINED_ON = {
    "nobody knows": (None, True, "IF it was neither trained nor selected on them"),
    "the sample": (SAMPLE.sha256, True, ""),
    "other data": ("0" * 64, False, "NO GUARANTEE, f was trained on other data"),
}


@pytest.mark.parametrize("name", TRAINED_ON)
def test_the_hold_out_bound_of_f_needs_examples_that_f_has_not_seen(name, moved, tmp_path, capsys):
    seen, is_shown, words = TRAINED_ON[name]
    asked = {"method": "prune", "effort": "quick", "test_set": TEST, "trained_on": seen}
    saved = certify(moved, SAMPLE, **asked).save_to(tmp_path / "one")
    wrong = int((~right_answers(moved, TEST)[0]).sum())
    assert saved.result["test_errors_f"] == wrong
    if is_shown:
        facts = HoldoutFacts(errors=wrong, n=TEST.n, delta=0.05)
        assert saved.result["holdout_f"] == holdout(facts).value
    assert ("holdout_f" in saved.result) is is_shown
    for text in (printed(saved, capsys), (tmp_path / "one" / "report.html").read_text()):
        assert f"which errs on {wrong} of them" in text
        assert words in text
        assert words or "IF it was" not in text


def test_a_network_that_shares_nothing_with_the_one_that_was_given_is_called_new(folders, tmp_path, capsys):
    found, saved = folders["C-2"]
    assert saved.result["g_is_new"] is False
    assert "Certificate for Sequential on rows" in (saved.folder / "report.html").read_text()
    assert "shares nothing" not in printed(saved, capsys)
    new = replace(found, method="features").save_to(tmp_path / "new")
    assert new.result["g_is_new"] is True
    page = (tmp_path / "new" / "report.html").read_text()
    assert "Certificate for a new network made by features on rows" in page
    assert "a new network, made by features, not yours" in printed(new, capsys)
    for text in (page, printed(new, capsys)):
        assert "g shares nothing with it" in text


def test_losses_are_not_called_errors(moved, tmp_path, capsys):
    liar = faint(60, 2, "test")
    liar.y[:] = (liar.y + 1) % 3
    claim = AboutG(loss=parse_loss("class:1"))
    found = certify(moved, faint(900, 5), method="prune", effort="quick", test_set=liar, claim=claim)
    saved = found.save_to(tmp_path / "one")
    among = int((liar.y == 1).sum())
    assert saved.result["test_n"] == among
    words = f"g incurs the loss class:1 on {saved.result['test_errors']} of {among} test examples"
    for text in (printed(saved, capsys), (tmp_path / "one" / "report.html").read_text()):
        assert words in text
        assert "training errors of g" not in text
    assert saved.result["refuted_by_test"] is True
    assert words in str(found)


def test_show_names_the_counts(folders, capsys):
    _, saved = folders["C-12b"]
    show(saved.folder / "certificate.cbound", Format.json)
    assert json.loads(capsys.readouterr().out)["counts"] == saved.result["counts"]
    show(saved.folder / "certificate.cbound", Format.table)
    assert f"disagreements of f and g: {saved.result['disagreements']} of 80" in capsys.readouterr().out


def test_a_file_without_the_facts_of_its_statement_is_no_certificate(folders):
    certificate = folders["C-10"][0].certificate
    for changed in (
        replace(certificate, facts=replace(certificate.facts, extra={})),
        replace(certificate, claim=replace(certificate.claim, statement="C-99")),
    ):
        with pytest.raises(FormatError):
            Certificate.from_bytes(changed.to_bytes())


def test_test_data_for_another_network_are_wrong_usage(folders, tmp_path, capsys):
    _, saved = folders["C-2"]
    for x, y in ((np.zeros((3, 2, 2), np.uint8), np.zeros(3, int)), (TEST.x[:3], np.full(3, 9))):
        np.savez(tmp_path / "test.npz", x=x, y=y)
        with pytest.raises(SystemExit) as leaving:
            second_program(saved, capsys, "--test", str(tmp_path / "test.npz"))
        assert leaving.value.code == 2
        assert "Test data" in capsys.readouterr().err

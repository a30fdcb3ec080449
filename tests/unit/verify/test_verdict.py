"""The whole flow: files of every form are accepted, lies are refused, and the command says which."""

import json

import numpy as np
import pytest
from certificate_counts import Sample
from file_judges import given
from file_worlds import made
from file_writer import Table, World, edited, write_file

from codebound_verify import Lacking, Refused, verify
from codebound_verify.__main__ import main

QUICK = [
    "first_table",
    "table_with_biases",
    "table_with_picks_by_group",
    "answered_of_first_table",
    "costs_of_first_table",
    "clusters_one_row_of_a_table",
    "table_of_copies_repeated",
    "usual_split",
    "picks_by_class",
    "network_with_base",
    "class_on_a_domain",
    "network_and_unlabelled_inputs",
    "declared_answers",
]


def check(name, data=None, **changes):
    world, text = made(name)
    data = write_file(world, text) if data is None else data
    return verify(data, world.sample.x, world.sample.y, **given(world) | changes)


@pytest.mark.parametrize("name", QUICK)
def test_a_file_is_accepted_and_its_lies_are_refused(name):
    world, text = made(name)
    data = write_file(world, text)
    verdict = check(name, data)
    assert verdict, verdict.reasons
    assert (verdict.reasons, bool(verdict.claim), verdict.bound) == ((), True, verdict.bound)

    def other(own):
        return [each | {"of": each["of"] + "x"} for each in own]

    assert not check(name, write_file(world, text, lie=other))  # other counts: tests/format
    bound, bits = verdict.limits[0].bound, verdict.code_bits
    for price in (0, bits - 1, bits + 1):
        assert not check(name, write_file(world, text, price=price))
    for change in (
        {"claim.limits.0.bound": bound * (1 - 1e-6)},
        {"claim.bound": float(np.nextafter(verdict.bound, 0))},
        {"claim.vacuous": not verdict.vacuous},
        {"claim.loss": "top:1"},
        {"claim.law": "picked" if verdict.law == "binomial" else "binomial"},
        {"claim.assurance": "recounted" if verdict.assurance != "recounted" else "replayed"},
        {"claim.delta": 0.06},
        {"sample.sha256": "0" * 64},
        {"known.rows": verdict.limits[0].n // 3 + 1},
    ):
        assert not check(name, edited(data, change)), change


def test_what_is_not_given_is_lacking_and_says_nothing():
    lacking = {
        "first_table": {"tables": []},
        "table_with_biases": {"tables": [None, None]},
        "clusters_one_row_of_a_table": {"clusters": None},
        "each_group": {"groups": None},
        "network_with_base": {"base": None},
        "network_on_a_domain": {"subject_weights": None},
        "network_and_unlabelled_inputs": {"unlabelled": None},
        "declared_answers": {"answers": None},
    }
    for name, changes in lacking.items():
        with pytest.raises(Lacking, match="cannot be checked without"):
            check(name, **changes)
    with pytest.raises(Lacking):
        verify(write_file(*made("first_table")))
    data = edited(write_file(*made("first_table")), {"sample.sha256": "0" * 64})
    assert check("first_table", data, tables=[]).verdict == "REFUSE"  # there is a reason already


def test_other_things_than_those_that_were_named_are_refused():
    first = given(made("first_table")[0])["tables"]
    others = {
        "first_table": {"tables": first[1:]},
        "table_with_picks": {
            "tables": [{"scores": given(made("table_with_picks")[0])["tables"][0]["scores"]}]
        },
        "network_and_unlabelled_inputs": {"unlabelled": made("declared_answers")[0].unlabelled},
        "clusters_one_row_of_a_table": {"clusters": np.arange(360)},
        "each_group": {"groups": np.zeros(300, int)},
        "declared_answers": {"answers": {"scores": np.zeros((400, 3), np.float32)}},
    }
    for name, changes in others.items():
        verdict = check(name, **changes)
        assert (verdict.verdict, verdict.bound, len(verdict.reasons)) == ("REFUSE", None, 1)
        assert ("SHA-256" in verdict.reasons[0]) == (name != "table_with_picks")
    assert verify(b"nothing", np.zeros((1, 1)), np.zeros(1, int)).verdict == "REFUSE"


def test_a_domain_that_theta_does_not_cover_or_that_leaves_rows_out_is_refused():
    data = write_file(*made("class_on_a_domain"))
    for domain in ([-1e3, 1e3], [0.0, 1.0]):
        [reason] = check("class_on_a_domain", edited(data, {"original.domain": domain})).reasons
        assert reason.startswith("Original: ")


def test_what_is_in_doubt_is_a_disagreement(monkeypatch):
    world, text = made("declared_answers")
    kept = world.answers
    agreed = next(i for i in range(0, 400, 2) if (kept[i] > 5).sum() == 1)
    try:
        world.answers = kept.copy()
        world.answers[agreed : agreed + 2, :] = kept[agreed].max()  # a tie, of an input that is there twice
        assert check("declared_answers", write_file(world, text))

        def hidden(own):
            return [own[0], own[1] | {"errors": own[1]["errors"] - 2, "n": own[1]["n"] - 1}]

        lie = check("declared_answers", write_file(world, text, lie=hidden))
    finally:
        world.answers = kept
    assert any(each.startswith("Claim: disagreement") for each in lie.reasons)

    from codebound_verify.networks.evaluation import Evaluator

    predict = Evaluator.predict
    calls = []

    def in_doubt(self, x, *others):
        labels, _ = predict(self, x, *others)
        calls.append(len(x))
        return labels, np.full(len(x), len(calls) == wanted)

    monkeypatch.setattr(Evaluator, "predict", in_doubt)
    for wanted in (0, 1, 2):
        calls.clear()
        assert check("network_and_unlabelled_inputs").is_accepted == (wanted == 0)
        assert calls == [400, 400]


def test_an_unlabelled_input_of_the_sample_is_refused():
    world, text = made("declared_answers")
    kept = world.unlabelled
    try:
        world.unlabelled = np.concatenate([kept[:-1], world.sample.x[:1]])
        verdict = check("declared_answers", write_file(world, text))
    finally:
        world.unlabelled = kept
    assert any("of the sample too" in each for each in verdict.reasons)


def test_each_class_is_bounded_on_demand_and_test_data_can_refute():
    world, _ = made("usual_split")
    sample = world.sample
    verdict = check("usual_split", by_class=True, test=(sample.x, sample.y))
    assert [row.label for row in verdict.by_class] == [0, 1, 2]
    assert sum(row.errors for row in verdict.by_class) == verdict.limits[0].errors
    assert all(0 < row.errors / row.n < row.bound <= 1 or not row.errors for row in verdict.by_class)
    assert (verdict.test.n, verdict.test.shared, verdict.refuted_by_test) == (300, 300, False)
    verdict = check("usual_split", test=(sample.x, (sample.y + 1) % 3))
    assert verdict.is_accepted
    assert not verdict
    assert "not to be believed" in verdict.test.sentence
    for name in ("first_table", "clusters_one_row", "declared_answers"):
        own = made(name)[0].sample
        with pytest.raises(Refused, match="Test data"):
            check(name, test=(own.x, own.y))


RECOUNTED = "ACCEPT, recounted: that the scores were made without the counted examples is declared"
FIRST_LINES = {"usual_split": "ACCEPT, replayed", "clusters_one_row": "ACCEPT, replayed"}
FIRST_LINES |= {"each_group": RECOUNTED, "table_with_biases": RECOUNTED}


@pytest.mark.parametrize("name", FIRST_LINES)
def test_the_command_prints_what_was_done_and_what_cannot_be_checked(name, folder, capsys):
    assert main([str(folder(name)), "--by-class"]) == 0
    first, claim, *rest = capsys.readouterr().out.splitlines()
    assert first == FIRST_LINES[name]
    assert claim.startswith(
        "With probability at least 1 - 0.05 over the draw of the sample, the error of g on"
    )
    for title in ("Checked:", "Cannot be checked, and has to be true:", "The file declares:"):
        assert title in rest


def test_statuses_are_those_of_the_answer(folder, capsys):
    place = folder("first_table")
    loss = check("first_table").loss
    assert main([str(place), "--max-error", "1", "--max-delta", "0.05", "--loss", loss]) == 0
    assert capsys.readouterr().out.startswith("PASS\n")
    for demand in (["--max-error", "0.01"], ["--max-delta", "0.01"], ["--loss", "top:2"]):
        assert main([str(place), *demand]) == 1
        assert capsys.readouterr().out.startswith("FAIL\n")
    file = place / "certificate.cbound"
    alone = place / "alone.cbound"
    alone.write_bytes(file.read_bytes())
    for arguments in ([str(alone)], [str(alone), "--data", str(place / "sample.npz")]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
    scores = ["--scores", str(place / "scores.safetensors")]
    assert main([str(alone), "--data", str(place / "sample.npz"), *scores, "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["verdict"], record["assurance"], record["unmet"]) == ("ACCEPT", "recounted", [])
    file.write_bytes(edited(file.read_bytes(), {"claim.vacuous": True}))
    assert main([str(place)]) == 1
    assert capsys.readouterr().out.startswith("REFUSE\nReasons to refuse:\n")


def test_a_loss_on_some_rows_is_demanded_with_them(folder, capsys):
    place = folder("answered_of_first_table")
    for loss, status in (("wrong", 1), ("wrong on answered:0.2", 0), ("wrong on answered:1", 1)):
        assert main([str(place), "--loss", loss]) == status
    assert "nothing is shown about the loss wrong on answered:1" in capsys.readouterr().out


def test_refuted_by_test_data_is_status_3(folder, capsys):
    place = folder("usual_split")
    sample = made("usual_split")[0].sample
    np.savez(place / "test.npz", x=sample.x + np.float32(1e-3), y=(sample.y + 1) % 3)
    assert main([str(place), "--test", str(place / "test.npz")]) == 3
    assert "REFUTED BY TEST DATA" in capsys.readouterr().out


def test_more_than_1024_classes_have_no_table_of_classes():
    y = np.arange(2100) % 1050
    scores = np.eye(1050, dtype=np.float32)[y]
    x = np.random.default_rng(0).normal(size=(2100, 2)).astype(np.float32)
    data = write_file(World(Sample(x, y), tables=[Table(scores)]), "10")
    verdict = verify(data, x, y, tables=[{"scores": scores}], by_class=True)
    assert (verdict.verdict, verdict.by_class) == ("ACCEPT", ())
    assert "above 1,024 classes there is none" in verdict.assumptions[-1]

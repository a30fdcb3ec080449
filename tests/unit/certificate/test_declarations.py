"""What no file can show is said, and only where it applies; hashes of what lies beside a file have teeth."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from worlds.outcomes import CODES, FORMS, SAMPLE, issued, outcome, table_of, task_of

from codebound.bits.plain_code import FIRST_TABLE, NETWORK, PICKS, TABLE, USUAL_SPLIT
from codebound.certificate.decoding import decode, require_declared
from codebound.certificate.offers import assess, draft, table_outcome
from codebound.certificate.words import ONLY_TABLE, require_learned, require_names
from codebound.known.encoder import Encoder
from codebound.known.score_tables import Biased
from codebound.report.plain import describe_failure
from codebound.run.errors import CertificateError, FormatError
from codebound.sample.dataset import MAX_CHARACTERS, Made
from codebound.sample.order import Design
from codebound.sample.questions import Question

NAMED = replace(SAMPLE, class_names=("a", "b", "c"))
CLUSTERS = np.arange(240, dtype=np.int64) // 2


def declared(form=USUAL_SPLIT, **given):
    task = task_of(**given)
    return draft(assess(outcome(form, task), task), task).declarations


@pytest.mark.parametrize("form", FORMS)
def test_every_line_says_how_it_could_fail_and_tables_come_first(form):
    lines = declared(form, sample=NAMED)
    assert all(map(describe_failure, lines))
    assert all(len(line) <= MAX_CHARACTERS and line.isprintable() for line in lines)
    assert (lines[0] == ONLY_TABLE) == (ONLY_TABLE in lines) == (form in (FIRST_TABLE, TABLE))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"design": Design(copies="independent")}, "Equal rows are independent draws"),
        ({"design": Design(copies="repeated")}, "one record that was stored more than once"),
        ({"design": Design(order="file")}, "order of the rows as stored"),
        (
            {"design": Design(salt="0" * 64, seal="a seal")},
            "Nothing in the file shows that this salt was the only",
        ),
        (
            {"sample": replace(SAMPLE, features=Made("an encoder", "other pictures", 0, "a" * 64))},
            "an encoder",
        ),
        ({"sample": NAMED}, "names of classes and columns"),
    ],
)
def test_what_was_asked_for_is_said_and_nothing_else(given, words):
    assert any(words in line for line in declared(**given))
    assert not any(words in line for line in declared())


def test_of_clusters_and_of_picks_of_a_table_it_is_said():
    lines = declared(
        FIRST_TABLE,
        design=Design("clusters", "independent", clusters=CLUSTERS),
        question=Question(on="any row of a cluster"),
    )
    assert "The clusters are independent draws from where new data come from." in lines
    picked = declared(FIRST_TABLE, tables=(table_of(picks=np.array([3, 9])),))
    assert any("made by a rule that would pick the same" in line for line in picked)


def test_learned_tensors_are_named_and_others_are_refused():
    certificate, _, assessed = issued(PICKS)
    state = assessed.outcome.classifier.state_dict()
    require_learned(certificate, state)
    state["coefficients"] = state["coefficients"] + 1.0
    with pytest.raises(FormatError, match="not the weights of this certificate"):
        require_learned(certificate, state)


def test_names_are_compared_with_those_of_the_certificate():
    certificate, *_ = issued(USUAL_SPLIT, sample=NAMED)
    told = {"class_names": ["a", "b", "c"], "inputs": {"columns": []}}
    require_names(certificate, told)
    require_names(certificate, {})  # nothing is beside it
    silent = replace(certificate, declarations=("nothing",))
    require_names(silent, {**told, "class_names": []})
    for file, names in ((certificate, ["b", "a", "c"]), (certificate, []), (silent, ["a", "b", "c"])):
        with pytest.raises(FormatError, match="answers would have wrong names"):
            require_names(file, {**told, "class_names": names})
    more = "The names of classes and columns, as in result.json, have SHA-256 0."
    twice = replace(certificate, declarations=(*certificate.declarations, more))
    with pytest.raises(FormatError, match="says twice"):
        require_names(twice, told)


def test_a_network_is_decoded_from_the_file_alone():
    certificate, *_ = issued(NETWORK)
    state = decode(certificate).state_dict()
    assert {name: tensor.numpy().tobytes() for name, tensor in state.items()} == {
        name: code.weights().tobytes() for name, code in CODES.items()
    }
    with pytest.raises(CertificateError, match="names no base"):
        decode(certificate, base={})


def test_what_was_learned_needs_its_file_and_answers_like_what_was_counted(tmp_path):
    from safetensors.torch import save_file

    for form in (USUAL_SPLIT, PICKS):
        certificate, task, assessed = issued(form)
        with pytest.raises(CertificateError, match="give its weights"):
            decode(certificate)
        path = tmp_path / f"{form}.safetensors"
        save_file(assessed.outcome.classifier.state_dict(), path)
        g = decode(certificate, weights=path)
        values, counted = assessed.outcome.made.scores()[0], task.arranged.split(certificate.known.rows)[1]
        found = g(torch.from_numpy(task.sample.x[counted])).numpy()
        assert np.allclose(found, np.asarray(values)[counted], atol=1e-7)


def test_biases_stand_on_the_classifier_of_the_table_that_is_named():
    inner = torch.nn.Flatten()
    certificate, *_ = issued(FIRST_TABLE)
    assert decode(certificate, scored_by=inner) is inner
    task = task_of()
    first = table_outcome(replace(outcome(TABLE, task).choice, table=1), task.tables[0], task.sample)
    biased = decode(draft(assess(first, task), task), scored_by=inner)
    assert isinstance(biased, Biased)
    assert biased.biases.tolist() == [0.5, 0.0, -0.5]
    with pytest.raises(CertificateError, match="names table 2"):
        decode(issued(TABLE)[0], scored_by=inner)
    with pytest.raises(CertificateError, match="is not in the file"):
        decode(certificate)


def test_another_encoder_than_the_declared_one_is_refused():
    encoder = Encoder("plane", torch.nn.Flatten(), "a" * 64)
    sample = replace(SAMPLE, features=Made("plane", "other pictures", 0, "a" * 64))
    certificate, *_ = issued(USUAL_SPLIT, sample=sample)
    require_declared(encoder, certificate)
    for other in (certificate, issued(USUAL_SPLIT)[0]):
        with pytest.raises(CertificateError, match="does not declare the encoder"):
            require_declared(replace(encoder, sha256="b" * 64), other)

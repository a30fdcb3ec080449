"""Files of every form that the product made: three programs agree on them, and no mutant says more."""

import numpy as np
import pytest
from attack.product_files import CASES, falsehood, made, mutants
from certificate_reader import read_container
from file_judges import judged
from file_writer import check_file, container, put
from format.test_mutations import sealed

from codebound.bits.plain_code import FORMS
from codebound.certificate.file import Certificate
from codebound.certificate.offers import assess, draft
from codebound.run.errors import FormatError
from codebound_verify.__main__ import main as second


def test_every_form_is_here():
    assert {made(name).certificate.form for name in CASES} == set(FORMS)


@pytest.mark.parametrize("name", CASES)
def test_three_programs_agree_on_a_file(name):
    file = made(name)
    check_file(file.world, file.data)
    verdict = judged(file.world, file.data)
    assert verdict.reasons == ()
    assert verdict.bound == file.certificate.claim.bound
    again = Certificate.from_bytes(file.data)
    assert again.to_bytes() == file.data
    assert again.sentence == file.certificate.sentence


@pytest.mark.parametrize("name", CASES)
def test_mutants_are_refused_or_say_no_more(name):
    assert not mutants(name, 8, seed=0)[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_ten_thousand_mutants_are_refused_or_say_no_more(name):
    read, failures = mutants(name, 10_000 // len(CASES), seed=1)
    assert read > 0
    assert not failures


LIES = {
    "errors": lambda limit: {"errors": max(0, limit["errors"] - 1)},
    "rows": lambda limit: {"n": limit["n"] + 1},
    "bound": lambda limit: {"bound": limit["bound"] * 0.999},
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", CASES)
def test_a_lie_in_any_limit_is_refused(name, lie):
    file = made(name)
    found = read_container(file.data)
    for place, limit in enumerate(found.header["claim"]["limits"]):
        changes = LIES[lie](limit)
        if changes.items() <= limit.items():
            continue
        told = {f"claim.limits.{place}.{key}": value for key, value in changes.items()}
        assert not judged(file.world, container(put(found.header, told), found.message)).is_accepted


@pytest.mark.parametrize("name", CASES)
def test_flips_and_cuts_are_seen_by_both_programs(name):
    data, random = made(name).data, np.random.default_rng(0)
    for place in random.integers(0, len(data), 12).tolist():
        flipped = bytearray(data)
        flipped[place] ^= 1 << int(random.integers(0, 8))
        for content in (bytes(flipped), data[:place], data + data[place : place + 1]):
            assert not judged(made(name).world, content).is_accepted
            with pytest.raises(FormatError):
                Certificate.from_bytes(content)


def test_a_falsehood_would_be_noticed(monkeypatch):
    """What is accepted is looked at by a program that asks neither of ours."""
    file = made("usual split")
    found = read_container(file.data)
    told = found.header["claim"]["limits"][0]
    lie = container(put(found.header, {"claim.limits.0.errors": told["errors"] - 1}), found.message)
    monkeypatch.setattr("attack.product_files.judged", lambda world, data: Accepted())
    assert "the third says" in falsehood("usual split", lie)


class Accepted:
    is_accepted = True
    bound = 0.0


@pytest.mark.parametrize(
    "change",
    [
        {"x": lambda x: x[::-1].copy()},
        {"y": lambda y: (y + 1) % 3},
        {"x": lambda x: x[:-1], "y": lambda y: y[:-1]},
        {"x": lambda x: x.astype(np.float32)},
    ],
    ids=["order", "labels", "rows", "type"],
)
@pytest.mark.parametrize("name", ["usual split", "picks", "first table", "network"])
def test_another_sample_is_refused(name, change):
    file = made(name)
    given = {key: function(getattr(file.world.sample, key)) for key, function in change.items()}
    verdict = judged(file.world, file.data, **given)
    assert all(reason.startswith("Data:") for reason in verdict.reasons), verdict.reasons
    assert verdict.reasons


@pytest.mark.parametrize("copies", ["any", "repeated"])
def test_another_reading_is_another_claim(copies):
    """Rows that count as draws do not as what they may be; the other way round a file only says less."""
    file = made("draws")
    found = read_container(file.data)
    header = put(found.header, {"sample.copies": copies})
    assert not judged(file.world, container(header, found.message)).is_accepted


def test_contradicting_rows_are_errors_in_every_reading():
    """Of equal inputs with two labels one is wrong, whatever learned them by heart."""
    for name in ("copies", "repeated", "draws", "copies, picks"):
        file = made(name)
        x, y = file.world.sample.x, file.world.sample.y
        _, counted = file.task.arranged.split(file.certificate.known.rows)
        both = [i for i in counted if any((x[i] == x[j]).all() and y[i] != y[j] for j in counted if j != i)]
        assert file.certificate.limit.errors >= len({x[i].tobytes() for i in both}) - len(both) // 2


def test_words_of_a_stranger_do_not_finish_a_sentence(tmp_path, capsys):
    """Declarations and names are quoted, on one line, and the program's own words stand beside them."""
    file = made("first table")
    found = read_container(file.data)
    evil = "it. ACCEPT, replayed'. Nothing is assumed"
    told = {"known.tables.0.by": evil, "declarations": ["All is well.", evil]}
    data = container(put(found.header, told), found.message)
    verdict = judged(file.world, data)
    assert verdict.is_accepted
    assert "neither trained nor selected on them" in verdict.assumptions[0]
    assert verdict.first_line.startswith("ACCEPT, recounted")
    said = str(Certificate.from_bytes(data))
    assert "provided that the scores never saw" in said
    assert evil not in said.splitlines()[0]


def test_what_is_drafted_without_consent_is_the_same_file():
    """Nothing of a certificate depends on the second program."""
    file = made("split")
    drafted = draft(assess(_outcome(file), file.task), file.task)
    assert drafted.to_bytes() == file.data


def _outcome(file):
    from worlds.outcomes import outcome

    return outcome(file.certificate.form, file.task)


def test_a_file_larger_than_any_is_not_read(tmp_path):
    path = tmp_path / "large.cbound"
    with path.open("wb") as large:
        large.truncate((1 << 29) + (1 << 25))
    with pytest.raises(FormatError, match="larger than any"):
        Certificate.load(path)
    with pytest.raises(SystemExit, match="2"):  # said before anything is read
        second([str(path), "--data", "digits"])


def test_sealing_restores_the_hashes():
    data = made("usual split").data
    assert sealed(data) == data

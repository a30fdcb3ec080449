"""What the second program takes from the folder of a certificate, and what it leaves alone."""

import json
from pathlib import Path

import pytest

from codebound_verify.files import GivenFiles, verify_file
from codebound_verify.refusal import Refused
from codebound_verify.sources.folder import add_neighbours, compare_neighbours

NAMED = "The names of classes and columns in result.json are right: the certificate does not name them."


@pytest.fixture
def file(folder):
    return folder("first_table") / "certificate.cbound"


def test_a_folder_is_its_certificate_with_what_lies_beside_it(file):
    assert verify_file(file.parent, GivenFiles()).is_accepted
    assert verify_file(file, GivenFiles()).is_accepted
    file.with_name("other.cbound").write_bytes(file.read_bytes())
    with pytest.raises(Refused, match="the sample is needed"):  # a file that is no folder's
        verify_file(file.with_name("other.cbound"), GivenFiles())


def test_what_is_given_wins(file):
    names = {"base": "base", "answers": "answers", "subject_weights": "f", "weights": "g"}
    for name in names.values():
        file.with_name(f"{name}.safetensors").write_bytes(b"")
    file.with_name("unlabelled.npz").write_bytes(b"")
    found = add_neighbours(file, GivenFiles())
    for option, name in names.items():
        assert getattr(found, option) == file.with_name(f"{name}.safetensors")
    assert found.data == str(file.with_name("sample.npz"))
    assert found.unlabelled == str(file.with_name("unlabelled.npz"))
    given = GivenFiles(data="d", unlabelled="u", scores=[Path("s")], **{name: Path(name) for name in names})
    assert add_neighbours(file, given) == given


def test_tables_are_taken_up_to_the_first_that_is_not_there(file):
    def names():
        return [path.name for path in add_neighbours(file, GivenFiles()).scores]

    assert names() == ["scores.safetensors", "scores-2.safetensors"]
    file.with_name("scores-4.safetensors").write_bytes(b"")
    assert names() == ["scores.safetensors", "scores-2.safetensors"]
    file.with_name("scores.safetensors").unlink()
    assert names() == []


@pytest.mark.parametrize(
    ("result", "data"),
    [
        ({"verify_with": {"data": "digits"}}, "digits"),
        ({"verify_with": {"data": "mnist:test"}}, "mnist:test"),
        ({"verify_with": {"data": "/etc/passwd"}}, None),
        ({"verify_with": {"data": ["digits"]}}, None),
        ({"verify_with": "digits"}, None),
        (["digits"], None),
        ({}, None),
    ],
)
def test_a_result_names_a_known_sample_and_nothing_else(file, result, data):
    file.with_name("sample.npz").unlink()
    file.with_name("result.json").write_text(json.dumps(result))
    assert add_neighbours(file, GivenFiles(scores=["s"])) == GivenFiles(scores=["s"], data=data)
    file.with_name("result.json").write_text("[" * 100_000)
    assert add_neighbours(file, GivenFiles()).data is None


def test_names_that_a_certificate_does_not_declare_are_assumed_in_words(file):
    verdict = verify_file(file, GivenFiles())
    assert compare_neighbours(file, verdict) == verdict
    for result in ({"class_names": ["a", "b", "c"]}, {"inputs": {"columns": ["a"]}}):
        file.with_name("result.json").write_text(json.dumps(result))
        found = verify_file(file, GivenFiles())
        assert found.is_accepted
        assert set(found.assumptions) - set(verdict.assumptions) == {NAMED}


@pytest.mark.parametrize("content", [b"[" * 100_000, b"[]", b" " * ((1 << 24) + 1) + b"{}"])
def test_a_result_that_is_not_read_may_have_names(file, content):
    """Else a file a little longer than this program reads would hide them from who reads the verdict."""
    file.with_name("result.json").write_bytes(content)
    assert verify_file(file, GivenFiles()).assumptions[-1] == NAMED

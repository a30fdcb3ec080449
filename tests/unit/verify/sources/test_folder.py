"""What the second program takes from the folder of a certificate, and what it leaves alone."""

import json
from pathlib import Path

import cbound_writer as writer
import numpy as np
import pytest

from codebound_verify.files import GivenFiles, verify_file
from codebound_verify.refusal import Refused
from codebound_verify.sources.folder import add_neighbours, compare_neighbours


@pytest.fixture
def file(tmp_path):
    """A certificate by the literal writer, and its sample."""
    case = writer.linear_case()
    np.savez(tmp_path / "sample.npz", x=case.x, y=case.y)
    (tmp_path / "certificate.cbound").write_bytes(case.data())
    return tmp_path / "certificate.cbound"


def test_a_folder_is_its_certificate_with_what_lies_beside_it(file):
    assert verify_file(file.parent, GivenFiles()).is_accepted
    assert verify_file(file, GivenFiles()).is_accepted
    (file.with_name("other.cbound")).write_bytes(file.read_bytes())
    with pytest.raises(Refused, match="the sample is needed"):  # a file that is no folder's
        verify_file(file.with_name("other.cbound"), GivenFiles())


def test_what_is_given_wins(file):
    for name in ("base", "f", "g"):
        file.with_name(f"{name}.safetensors").write_bytes(b"")
    file.with_name("unlabelled.npz").write_bytes(b"")
    found = add_neighbours(file, GivenFiles())
    assert (found.base, found.subject_weights, found.weights) == tuple(
        file.with_name(f"{name}.safetensors") for name in ("base", "f", "g")
    )
    assert (found.data, found.unlabelled) == tuple(
        str(file.with_name(name)) for name in ("sample.npz", "unlabelled.npz")
    )
    given = GivenFiles(data="d", base=Path("b"), subject_weights=Path("s"), weights=Path("w"), unlabelled="u")
    assert add_neighbours(file, given) == given


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
def test_a_result_names_a_known_sample_or_none(file, result, data):
    file.with_name("sample.npz").unlink()
    file.with_name("result.json").write_text(json.dumps(result))
    assert add_neighbours(file, GivenFiles()).data == data


def test_copies_and_code_are_never_taken_from_a_folder(file):
    asked = {"data": "digits", "allow_copies": True, "model": "evil.py:make", "trust_code": True}
    file.with_name("result.json").write_text(json.dumps({"verify_with": asked}))
    found = add_neighbours(file, GivenFiles())
    assert found.allow_copies is False


def test_names_that_a_certificate_does_not_declare_are_assumed_in_words(file):
    verdict = verify_file(file, GivenFiles())
    assert compare_neighbours(file, verdict) == verdict
    file.with_name("result.json").write_text(json.dumps({"class_names": ["a", "b", "c"]}))
    found = verify_file(file, GivenFiles())
    assert found.is_accepted
    assert set(found.assumptions) - set(verdict.assumptions) == {
        "The names of classes and columns in result.json are right: the certificate does not name them."
    }

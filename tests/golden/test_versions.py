"""Files of every version stay readable, by both programs, and say which page they are written by."""

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

import codebound.certificate.format as ours
import codebound_verify.versions as theirs
from codebound.certificate.decoding import decode
from codebound.certificate.file import Certificate
from codebound.data.load import load_dataset
from codebound_verify import decode_network, verify

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/format.md"
FILES = sorted(HERE.glob("version-*/*.cbound"))

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")


def given(path: Path) -> dict[str, np.ndarray]:
    """The data that a golden file is about, and what else its verification needs."""
    if path.stem.startswith("digits"):
        digits = load_dataset("digits")
        return {"x": digits.x, "y": digits.y}
    with np.load(path.parent / "given.npz") as arrays:
        found = dict(arrays)
    if path.stem == "tiny":
        found |= {"x": found["x_tiny"], "y": found["y_tiny"]}
    return found


def tensors(found: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray] | None:
    return {name[len(prefix) :]: value for name, value in found.items() if name.startswith(prefix)} or None


def test_there_are_files_of_every_version():
    assert {path.parent.name for path in FILES} == {f"version-{number}" for number in theirs.VERSIONS}


@each_file
def test_both_programs_read_it(path):
    content, version = path.read_bytes(), int(path.parent.name[-1])
    certificate = Certificate.from_bytes(content)
    assert content[7] == version == certificate.version
    assert certificate.to_bytes() == content
    base = tensors(given(path), "base/") if certificate.helper.base else None
    _, found = decode_network(content, base=base)
    state = decode(certificate, base=base).state_dict()
    assert [state[name].numpy().tobytes() for name in found] == [each.tobytes() for each in found.values()]


@each_file
def test_the_verifier_accepts_it(path):
    found = given(path)
    verdict = verify(
        path,
        found["x"],
        found["y"],
        base=tensors(found, "base/"),
        unlabelled=found.get("unlabelled"),
        subject_weights=tensors(found, f"{path.stem}/"),
    )
    assert verdict.reasons == ()


def test_both_programs_carry_the_hash_and_the_day_of_the_page():
    digest = hashlib.sha256(PAGE.read_bytes()).hexdigest()
    days = re.findall(r"^Frozen on (\S+):", PAGE.read_text(), flags=re.MULTILINE)
    assert (digest, days) == (ours.PAGE_SHA256, [ours.FROZEN]), "run make freeze"
    assert (digest, days) == (theirs.PAGE_SHA256, [theirs.FROZEN]), "run make freeze"

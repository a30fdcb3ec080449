"""Old certificates become new ones of the same network, in as many bits more as the page says."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from worlds.commands import script

from codebound.certificate.file import Certificate
from codebound.run.errors import UsageError
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Scaling
from codebound.sample.load import load_dataset
from codebound_verify import decode_network

ROOT = Path(__file__).parents[2]
OLD = Path(__file__).parent / "version-1"


@pytest.fixture(scope="module")
def reissue():
    return script(ROOT / "results/reissue.py")


@pytest.fixture(scope="module")
def reissued(reissue):
    return reissue.reissued


def given(name: str):
    """The sample and the base of a golden file."""
    if name.startswith("digits"):
        return load_dataset("digits"), None
    with np.load(OLD / "given.npz") as arrays:
        found = dict(arrays)
    base = {key[5:]: value for key, value in found.items() if key.startswith("base/")}
    sample = from_arrays(found["x"], found["y"], name="clusters", scaling=Scaling(16.0))
    return sample, base if name in ("base", "split", "subspace") else None


@pytest.mark.parametrize("name", ["digits-linear", "plain", "base", "features", "subspace", "split"])
def test_the_network_stays_and_the_setting_is_paid_for(reissued, name):
    old, (sample, base) = Certificate.load(OLD / f"{name}.cbound"), given(name)
    new = reissued(old, sample, base=base)
    setting = {10: 7, 3: 3}[old.facts.classes] + 2  # gamma(classes - 1), and a word of the catalogue
    assert (old.version, new.version) == (1, 2)
    assert new.facts.code_bits == old.facts.code_bits + setting
    assert new.facts.errors == old.facts.errors
    assert new.claim.bound > old.claim.bound
    first, second = (decode_network(each.to_bytes(), base=base)[1] for each in (old, new))
    assert {k: v.tobytes() for k, v in first.items()} == {k: v.tobytes() for k, v in second.items()}


def test_what_cannot_be_reissued(reissued):
    sample, base = given("base")
    with pytest.raises(UsageError, match="about f"):
        reissued(Certificate.load(OLD / "domain.cbound"), sample)
    with pytest.raises(UsageError, match="another sample"):
        reissued(Certificate.load(OLD / "digits-linear.cbound"), sample)
    with pytest.raises(UsageError, match="give the base exactly"):
        reissued(Certificate.load(OLD / "plain.cbound"), sample, base=base)


@pytest.mark.parametrize("folder", ["certificates", "elsewhere"])
def test_the_record_is_written_beside_the_certificate(reissue, tmp_path, monkeypatch, folder):
    """In the folder above where that is called certificates, and never beside the script."""
    name = "mnist-default"
    known = (ROOT / f"results/{name}.json").read_text()
    (tmp_path / folder).mkdir()
    record = tmp_path / (f"{name}.json" if folder == "certificates" else f"{folder}/{name}.json")
    for suffix in (".cbound", ".npz", ".base.safetensors"):
        shutil.copy(ROOT / f"results/certificates/{name}{suffix}", tmp_path / folder)
    record.write_text(json.dumps({**json.loads(known), "bound": 1.0}, indent=1) + "\n")
    path = tmp_path / folder / name
    asked = [f"{path}.cbound", "--data", f"{path}.npz", "--base", f"{path}.base.safetensors"]
    monkeypatch.setattr(sys, "argv", ["reissue.py", *asked])
    reissue.main()
    assert record.read_text() == known == (ROOT / f"results/{name}.json").read_text()
    declared = Certificate.load(f"{path}.cbound").declarations
    assert declared == Certificate.load(ROOT / f"results/certificates/{name}.cbound").declarations
    assert any(each.startswith("The inputs are rows of the encoder") for each in declared)

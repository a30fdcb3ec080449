"""Old certificates become new ones of the same network, in as many bits more as the page says."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from codebound.certificate.file import Certificate
from codebound.data.arrays import from_arrays
from codebound.data.dataset import Scaling
from codebound.data.load import load_dataset
from codebound.errors import UsageError
from codebound_verify import decode_network

ROOT = Path(__file__).parents[2]
OLD = Path(__file__).parent / "version-1"


@pytest.fixture(scope="module")
def reissued():
    spec = importlib.util.spec_from_file_location("results_reissue", ROOT / "results/reissue.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.reissued


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

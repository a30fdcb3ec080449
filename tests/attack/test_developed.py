"""Samples that the format was developed on: both programs say so, however the sample is given."""

import json
import re

import cbound_writer as writer
import numpy as np
import pytest
import rule_writer as rules
import torch
from attack import crafting
from attack.test_settings_and_rows import X, Y, claimed
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from codebound.certificate import declarations
from codebound.certificate.file import Certificate
from codebound.certification import certify
from codebound.methods.kernel_share import kernel_helper
from codebound.run.errors import CertificateError
from codebound.sample import caveats as developed
from codebound.sample.arrays import from_arrays
from codebound.sample.caveats import DEVELOPED, development_sample
from codebound.sample.load import load_dataset
from codebound_verify import verify
from codebound_verify.development import SKETCHES, read_lists, row_keys
from codebound_verify.weights import read_weights

DEVELOPMENT, DEVELOPMENT_3 = read_lists()["samples"].values()


def test_digits_are_no_fresh_sample_to_either_program():
    digits = load_dataset("digits")
    assert DEVELOPMENT[digits.sha256] == "digits" == development_sample(digits, 1)
    path = next(iter(sorted((writer.PAGE.parents[1] / "tests/golden/version-1").glob("digits-l*.cbound"))))
    verdict = verify(path, digits.x, digits.y)
    assert verdict.development_sample == "digits"
    assert any("developed on this very sample" in line for line in verdict.assumptions)
    assert not any("was fixed without looking" in line for line in verdict.assumptions)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    declared = certify(model, digits, effort="quick", method="prune").certificate.declarations
    assert DEVELOPED in declared
    assert not any("before the sample was seen" in line for line in declared)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("load", "name"), [(load_digits, "digits"), (load_wine, "sklearn-wine")])
def test_a_part_of_a_sample_that_the_format_was_made_with_is_no_fresh_one(version, load, name):
    """In another order, too: its rows say what the hash of the whole does not."""
    x, y = load(return_X_y=True)
    x = x.reshape(-1, 1, 8, 8).astype(np.uint8) if name == "digits" else x
    some = np.random.default_rng(0).permutation(len(x))[: len(x) // 2]
    classes = int(y.max()) + 1
    message = rules.RuleMessage(classes=classes, scaling={"divisor": 1, "mean": [0.0], "std": [1.0]})
    data = rules.certificate(
        message, x[some], y[some], errors=len(some) - message.first - message.picks, version=version
    )
    verdict = verify(data, x[some], y[some])
    assert verdict.reasons == ()
    is_known = name == "digits" or version == 3
    assert (f"a part of {name}" in str(verdict.development_sample)) == is_known
    assert any("was fixed without looking" in line for line in verdict.assumptions) != is_known


def test_lists_are_those_of_the_samples_and_the_same_in_both_programs():
    own, other = (json.loads(path.read_text()) for path in (developed.LISTS, SKETCHES))
    both = DEVELOPMENT | DEVELOPMENT_3
    titles = {name: both[sha256] for sha256, name in developed._DEVELOPMENT_3.items()}
    assert {titles[name]: each for name, each in own["rows"].items()} == other["rows"]
    assert {sha256: titles[name] for sha256, name in own["tables"].items()} == other["tables"]
    assert set(other["rows"]) == {*DEVELOPMENT.values(), *DEVELOPMENT_3.values()}
    for name, x in (
        ("digits", load_dataset("digits").x),
        ("sklearn-wine", load_wine().data),
        ("sklearn-breast-cancer", load_breast_cancer().data),
    ):
        smallest = sorted(key.hex() for key in developed.row_keys(x))[:1024]
        assert smallest == sorted({key.hex() for key in row_keys(x, 1)})[:1024]
        assert other["rows"][name] == {"width": x[0].size, "blocks": 1, "keys": "".join(smallest)}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "given",
    [
        lambda x: x.reshape(-1, 64).astype(np.float64),
        lambda x: x[:, 0].astype(np.float64),
        lambda x: (x.reshape(-1, 64) / 16).astype(np.float32),
        lambda x: x.reshape(-1, 64),
        lambda x: x.reshape(-1, 64)[::-1][:200].copy(),
    ],
    ids=["data", "images", "sixteenths", "bytes", "a part"],
)
def test_digits_in_any_array_are_the_ones_that_the_format_was_developed_on(given):
    """In the file that is issued, and in the words of the second program about it."""
    digits = load_dataset("digits")
    x = given(digits.x)
    sample = from_arrays(x, digits.y[::-1][: len(x)] if len(x) == 200 else digits.y, name="given")
    assert development_sample(sample, 3) == "digits"
    certificate = certify(None, sample, method="split", effort="quick").certificate
    assert DEVELOPED in certificate.declarations
    assert not any("was fixed without looking" in line for line in certificate.declarations)
    silent = crafting.changed(certificate.to_bytes(), declarations=["trust me"])
    for data in (certificate.to_bytes(), silent):
        verdict = verify(data, sample.x, sample.y)
        assert verdict.is_accepted
        assert "digits" in verdict.development_sample
        assert any(line.startswith(DEVELOPED) for line in verdict.assumptions)
        assert not any("was fixed without looking" in line for line in verdict.assumptions)


def test_no_file_is_issued_that_the_verifier_contradicts(monkeypatch):
    digits = load_digits(return_X_y=True)
    monkeypatch.setattr(declarations, "development_sample", lambda *_: "")
    with pytest.raises(CertificateError, match=r"developed on the sample.*would not say it"):
        certify(None, digits, method="split", effort="quick")


def test_scores_of_a_helper_are_made_of_the_sample_that_they_come_from():
    """The table has other values; the file says of what it was made, and the second program believes that."""
    digits = load_digits(return_X_y=True)
    found = certify(None, digits, prior_tenths=5, helper=kernel_helper, effort="quick")
    assert found.sample.development == "digits" == found.result["development_sample"]
    assert DEVELOPED in found.certificate.declarations
    verdict = verify(found.certificate.to_bytes(), found.sample.x, found.sample.y, base=found.base)
    assert verdict.is_accepted
    assert "as the file says" in verdict.development_sample
    assert not any("was fixed without looking" in line for line in verdict.assumptions)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
@pytest.mark.parametrize("kind", ["helped", "default"])
def test_headline_tables_are_known_whatever_their_file_says(name, kind):
    path = writer.PAGE.parents[1] / f"results/certificates/{name}-{kind}"
    base = read_weights(path.with_name(f"{path.name}.base.safetensors"))
    with np.load(path.with_suffix(".npz")) as table:
        x, y = table["x"], table["y"]
    content = path.with_suffix(".cbound").read_bytes()
    assert DEVELOPED in Certificate.load(path.with_suffix(".cbound")).declarations
    title = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}[name]
    for data in (content, crafting.changed(content, declarations=["trust me"])):
        verdict = verify(data, x, y, base=base)
        assert verdict.is_accepted
        assert verdict.development_sample == f"a table made of {title}"
        assert any(line.startswith(DEVELOPED) for line in verdict.assumptions)
        assert not any("was fixed without looking" in line for line in verdict.assumptions)
        assert "if the base never" in verdict.claim
        assert any("no encoder that made them saw it" in line for line in verdict.assumptions)
        assert any(line.startswith("The base, of SHA-256") for line in verdict.assumptions)
    told = verify(content, x, y, base=base)
    assert "if the encoder never saw the sample" in told.claim
    assert any(line.startswith("The encoder '") for line in told.assumptions)
    declared = Certificate.load(path.with_suffix(".cbound")).declarations
    assert any(each.startswith("There are 10 classes, as many as the base has") for each in declared)


def test_both_programs_have_the_samples_of_the_page():
    section = writer.PAGE.read_text().partition("## 11.")[2]
    stated = dict(map(str.split, re.findall(r"^    (\S+ +[0-9a-f]{64})$", section, flags=re.MULTILINE)))
    assert {sha256: name for name, sha256 in stated.items()} == DEVELOPMENT
    assert set(DEVELOPMENT) == set(developed._DEVELOPMENT)
    section = writer.PAGE.with_name("format-3.md").read_text().partition("## 11.")[2]
    stated = dict(map(str.split, re.findall(r"^    (\S+ +[0-9a-f]{64})$", section, flags=re.MULTILINE)))
    assert {sha256: name for name, sha256 in stated.items()} == DEVELOPMENT_3
    assert developed._DEVELOPMENT_3 == developed._DEVELOPMENT | DEVELOPMENT_3


@pytest.mark.parametrize("version", [2, 3])
def test_version_3_alone_was_made_with_a_view_of_wine(version):
    """Files of version 2 on the same sample are about a format that was fixed before anybody looked."""
    x, y = load_wine(return_X_y=True)
    sample = from_arrays(x, y, name="wine")
    assert development_sample(sample, version) == ("sklearn-wine" if version == 3 else "")
    message = rules.RuleMessage(classes=3, scaling={"divisor": 1, "mean": [0.0], "std": [1.0]})
    verdict = verify(rules.certificate(message, x, y, errors=138, version=version), x, y)
    assert verdict.reasons == ()
    assert verdict.development_sample == ("sklearn-wine" if version == 3 else None)
    assert any("developed on this very sample" in line for line in verdict.assumptions) == (version == 3)
    assert any("was fixed without looking" in line for line in verdict.assumptions) == (version == 2)
    loss = "class:1" if version == 3 else "wrong"  # which version 2 cannot count under picks
    certificate = certify(None, sample, method="picks", effort="quick", loss=loss).certificate
    assert certificate.version == version
    assert (DEVELOPED in certificate.declarations) == (version == 3)


def test_other_samples_are_declared_unseen():
    verdict = verify(claimed(), X, Y)
    assert verdict.development_sample is None
    assert any(line.startswith("The format (version 2") for line in verdict.assumptions)

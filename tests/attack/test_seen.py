"""Networks that know the sample: whatever order or company they saw it in, both ways in refuse them."""

from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import save_file
from torch import nn

from codebound.certification import certify
from codebound.known.provenance import Pretrained
from codebound.request import Known, Run
from codebound.run.errors import CertificateError
from codebound.sample.arrays import from_arrays
from codebound.sample.order import Design, arrange
from codebound_networks.about_f.base import load_base
from codebound_networks.reading.loading import load_model
from codebound_networks.train.config import TrainConfig
from codebound_networks.train.harness import fit

SHORT = TrainConfig(epochs=1)
ONLY = "must not have seen any"


def drawn(n, seed=0):
    stream = np.random.default_rng(seed)
    return from_arrays(
        stream.integers(0, 17, (n, 1, 4, 4)).astype(np.uint8), stream.integers(0, 3, n), name="drawn"
    )


WHOLE = drawn(120)
SAMPLE = WHOLE.select(range(80), role="train")
OTHERS = WHOLE.select(range(80, 120), role="train")


def shuffled(sample, seed=1):
    return sample.select(np.random.default_rng(seed).permutation(sample.n), role="train")


def stored_as(sample, dtype):
    return replace(sample, x=sample.x.astype(dtype))


def with_minus_zeros(sample):
    x = sample.x.astype(np.float32)
    x[x == 0] = -0.0
    return replace(sample, x=x)


def trained(*samples):
    model = load_model("linear", input_shape=(1, 4, 4), classes=3)
    for sample in samples:
        model = fit(model, sample, SHORT).model
    return model


SEEN = {
    "the sample": lambda: [SAMPLE],
    "in another order": lambda: [shuffled(SAMPLE)],
    "all but one": lambda: [SAMPLE.select(range(79), role="train")],
    "one of them": lambda: [WHOLE.select([3, *range(80, 120)], role="train")],
    "more than it": lambda: [shuffled(WHOLE)],
    "with other labels": lambda: [replace(SAMPLE, y=(SAMPLE.y + 1) % 3)],
    "as float32": lambda: [stored_as(SAMPLE, np.float32)],
    "as float64": lambda: [stored_as(SAMPLE, np.float64)],
    "with minus zeros": lambda: [shuffled(with_minus_zeros(SAMPLE))],
    "and others after it": lambda: [shuffled(SAMPLE), OTHERS],
}


@pytest.mark.parametrize("name", SEEN)
def test_a_base_that_saw_an_example_is_refused(name):
    model = trained(*SEEN[name]())
    for network in (model, nn.Sequential(model)):
        with pytest.raises(CertificateError, match=ONLY):
            certify(
                SAMPLE,
                network=network,
                method="prune",
                known=Known(base=Pretrained(network, "elsewhere")),
                run=Run(effort="quick"),
            )


@pytest.mark.parametrize("name", SEEN)
def test_a_folder_of_a_training_says_what_its_weights_saw(name, tmp_path):
    first, *more = SEEN[name]()
    model = fit(trained(), first, SHORT, out=tmp_path / "0").model
    for place, sample in enumerate(more, start=1):
        model = fit(model, sample, SHORT, out=tmp_path / str(place)).model
    with pytest.raises(CertificateError, match=ONLY):
        load_base(tmp_path / str(len(more)) / "model.safetensors", trained(), sample=SAMPLE)


def test_a_base_that_saw_other_examples_is_taken(tmp_path):
    model = fit(trained(), OTHERS, SHORT, out=tmp_path / "run").model
    base = load_base(tmp_path / "run" / "model.safetensors", model, sample=SAMPLE)
    for each in (base, Pretrained(model, "elsewhere")):
        assert certify(
            SAMPLE, network=model, method="prune", known=Known(base=each), run=Run(effort="quick")
        ).certificate.known.base


def test_what_was_certified_is_no_base_for_the_same_examples():
    found = certify(SAMPLE, network=trained(OTHERS), method="prune", run=Run(effort="quick"))
    again = shuffled(SAMPLE)
    with pytest.raises(CertificateError, match=ONLY):
        certify(
            again,
            network=found.network,
            method="prune",
            known=Known(base=Pretrained(found.network, "g")),
            run=Run(effort="quick"),
        )


def halves(sample):
    known, counted = arrange(sample, Design()).split(40)
    return sample.select(known, role="prior"), sample.select(counted, role="certify")


PRIOR, REST = halves(SAMPLE)
SEEN_BY_HELPERS = {
    "the rest": lambda: REST,
    "the rest in another order": lambda: shuffled(REST),
    "the rest but one": lambda: REST.select(range(REST.n - 1), role="train"),
    "one of the rest": lambda: REST.select([0], role="train"),
    "the whole": lambda: SAMPLE,
    "the whole in another order": lambda: shuffled(SAMPLE),
    "more than the whole": lambda: shuffled(WHOLE),
    "the whole as float64": lambda: stored_as(SAMPLE, np.float64),
}


@pytest.mark.parametrize("method", ["auto", "prune"])
@pytest.mark.parametrize("name", SEEN_BY_HELPERS)
def test_a_helper_that_saw_an_example_of_the_rest_is_refused(name, method):
    liar = trained(SEEN_BY_HELPERS[name]())
    for helper in (Pretrained(liar, "of the first part"), lambda first: liar):
        with pytest.raises(CertificateError, match=ONLY):
            certify(SAMPLE, method=method, known=Known(helper=helper, share=0.5), run=Run(effort="quick"))


@pytest.mark.parametrize("method", ["auto", "prune"])
def test_a_helper_of_the_first_part_is_taken_also_where_an_input_was_drawn_twice(method):
    """Equal rows fall where their keys say: here into both parts."""
    x = SAMPLE.x.copy()
    x[1::2] = x[::2]
    sample = replace(SAMPLE, x=x)
    prior, rest = halves(sample)
    assert {row.tobytes() for row in prior.x} & {row.tobytes() for row in rest.x}
    made = trained(shuffled(prior))
    found = certify(
        sample,
        method=method,
        known=Known(helper=Pretrained(made, "honest"), share=0.5),
        run=Run(effort="quick"),
    )
    known = found.certificate.known
    assert (known.tables[0] if method == "auto" else known.base).rows == 40


@pytest.mark.parametrize("holdout", [(), ("--holdout", "0.1")])
def test_the_command_knows_what_weights_saw(holdout, codebound, empty_folder):
    """Of the whole file: with and without a part of it that is held out."""
    np.savez("s.npz", x=WHOLE.x, y=WHOLE.y)
    assert codebound("train", "linear", "--data", "s.npz", "--epochs", "1", "--out", "f")[0] == 0
    asked = ("certify", "--model", "linear", "s.npz", *holdout, "--run", "effort=quick", "--out", "c")
    for way in (
        ("--known", "helper=f/model.safetensors", "--known", "share=0.5"),
        ("--known", "base=f/model.safetensors"),
    ):
        code, _, err = codebound(*asked, *way)
        assert code == 1
        assert ONLY in " ".join(err.split())
    assert not (empty_folder / "c").exists()


def test_weights_that_were_trained_further_have_seen_what_they_began_with(codebound, empty_folder):
    np.savez("s.npz", x=SAMPLE.x, y=SAMPLE.y)
    np.savez("o.npz", x=OTHERS.x, y=OTHERS.y)
    again = shuffled(SAMPLE)
    np.savez("again.npz", x=again.x, y=again.y)
    assert codebound("train", "linear", "--data", "s.npz", "--epochs", "1", "--out", "f")[0] == 0
    further = ("train", "linear", "--data", "o.npz", "--network", "f/model.safetensors", "--epochs", "1")
    assert codebound(*further, "--out", "g")[0] == 0
    code, _, err = codebound(
        "certify", "--model", "linear", "again.npz", "--known", "base=g/model.safetensors"
    )
    assert code == 1
    assert ONLY in " ".join(err.split())


def test_weights_without_a_folder_are_believed(tmp_path):
    """Nobody knows what they saw: the declaration says so, and the certificate names them by their hash."""
    save_file(trained(SAMPLE).state_dict(), tmp_path / "copied.safetensors")
    assert load_base(tmp_path / "copied.safetensors", trained(), sample=SAMPLE).name

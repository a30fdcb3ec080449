"""The network to use: takes what is stored, needs its folder alone, and says what is missing."""

import shutil

import numpy as np
import pytest
import torch
from worlds.bright_rows import images, solved

from codebound.certificate.base import Pretrained
from codebound.certification import certify
from codebound.classifier import load_classifier
from codebound.errors import FormatError, UsageError

SAMPLE = images()
STORED = torch.from_numpy(SAMPLE.x)


def test_a_compressed_network_scales_its_inputs_by_itself(tmp_path):
    found = certify(solved().build(), SAMPLE, method="prune", effort="quick")
    g = load_classifier(found.save_to(tmp_path / "one").folder)
    assert torch.equal(g(STORED), found.network(SAMPLE.scaling.apply(STORED)))
    assert (g.input_shape, g.classes) == ((1, 4, 4), 3)
    wrong = int((g(STORED).argmax(dim=1) != torch.from_numpy(SAMPLE.y)).sum())
    assert wrong <= found.certificate.facts.errors  # ambiguous ones count there
    single = load_classifier(found.save(tmp_path / "alone.cbound"))
    assert torch.equal(single(STORED), g(STORED))


@pytest.mark.parametrize("method", ["prune", "picks"])
def test_it_takes_arrays_and_lists_and_names_the_shape_that_it_takes(method, tmp_path):
    network = solved().build() if method == "prune" else None
    found = certify(network, SAMPLE, method=method, effort="quick")
    g = load_classifier(found.save_to(tmp_path / "one").folder)
    labels = g.predict(STORED[:9])
    assert g.predict(SAMPLE.x[:9]) == labels
    assert g.predict(SAMPLE.x[:9].tolist()) == labels
    for wrong in (STORED[0], STORED[:2, :, :3], SAMPLE.x[:2].reshape(2, -1)):
        with pytest.raises(UsageError, match=r"takes inputs of shape \(n, 1, 4, 4\), .*Got shape"):
            g.predict(wrong)


def test_a_network_of_picks_and_one_around_a_base(tmp_path):
    learned = certify(None, SAMPLE, method="picks", effort="quick")
    base = Pretrained(solved().build(), "rows seen elsewhere")
    moved = certify(solved().build(), SAMPLE, method="prune", effort="quick", base=base)
    for name, found, needed in (("picks", learned, "g.safetensors"), ("base", moved, "base.safetensors")):
        folder = found.save_to(tmp_path / name).folder
        inputs = STORED if name == "picks" else SAMPLE.scaling.apply(STORED)
        assert torch.equal(load_classifier(folder)(STORED), found.network(inputs))
        away = shutil.copy(folder / "certificate.cbound", tmp_path / f"{name}.cbound")
        with pytest.raises(FormatError, match=f"needs {needed}"):
            load_classifier(away)


def test_frames_are_read_as_the_table_of_the_sample_was(tmp_path):
    pandas = pytest.importorskip("pandas")
    stream = np.random.default_rng(0)
    town = stream.choice(["Rome", "Oslo", "Pune"], 120)
    frame = pandas.DataFrame(
        {"size": stream.random(120), "town": town, "label": np.where(town == "Rome", "b", "a")}
    )
    frame.loc[::7, "size"] = np.nan
    found = certify(None, frame, method="split", effort="quick", allow_copies=True)
    g = load_classifier(found.save_to(tmp_path / "one").folder)
    wanted = g.predict(found.sample.x)
    assert g.predict(frame[["town", "label", "size"]]) == wanted  # in any order, beside others
    alone = frame[frame["size"].notna()].head(1)
    assert g.predict(alone) == wanted[alone.index[0] : alone.index[0] + 1]
    with pytest.raises(UsageError, match="columns of the sample are not known"):
        load_classifier(certify(None, SAMPLE, method="constant").save_to(tmp_path / "two").folder).predict(
            frame
        )


def test_a_folder_without_a_certificate_is_named(tmp_path):
    np.savez(tmp_path / "x.npz", x=SAMPLE.x)
    with pytest.raises(FormatError, match=r"certificate\.cbound cannot be read"):
        load_classifier(tmp_path)

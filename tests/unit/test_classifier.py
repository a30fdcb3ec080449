"""The network to use: takes what is stored, needs its folder alone, and says what is missing."""

import shutil

import numpy as np
import pytest
import torch
from worlds.bright_rows import images, solved

from codebound.certification import certify
from codebound.classifier import load_classifier
from codebound.known.base import Pretrained
from codebound.methods.kernel_share import kernel_helper
from codebound.run.errors import DataError, FormatError, UsageError
from codebound.sample.tables import from_frame

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


@pytest.fixture(scope="module")
def of_table(tmp_path_factory):
    """A network of a table of numbers, words, declared levels and truth values, none of which is missing."""
    pandas = pytest.importorskip("pandas")
    stream = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "size": stream.normal(5.0, 1.0, 200),
            "town": stream.choice(["Rome", "Oslo", "Pune"], 200),
            "hue{red|green|blue}": stream.choice(["red", "green", "blue"], 200),
            "count": stream.integers(0, 1000, 200),
        }
    )
    frame["label"] = np.where(frame["size"] > 5.0, "big", "small")
    found = certify(None, frame, method="split", effort="quick")
    return frame.drop(columns="label"), found.save_to(tmp_path_factory.mktemp("table") / "one").folder


def _renamed(frame):
    return frame.rename(columns={"hue{red|green|blue}": "hue"})


def test_a_row_that_lacks_what_the_sample_never_lacked_has_an_answer_that_g_alone_fixes(of_table):
    pandas = pytest.importorskip("pandas")
    frame, folder = of_table
    g = load_classifier(folder)
    rows = _renamed(frame.head(8).astype(object))
    for value, column in (
        (None, "size"),
        (float("nan"), "size"),
        (pandas.NA, "size"),
        ("", "size"),
        (float("inf"), "size"),
        ("a word", "size"),
        (pandas.NA, "town"),
        ("mauve", "hue"),
        (None, "hue"),
        (pandas.NaT, "count"),
    ):
        rows.loc[2, column] = value
        with pytest.warns(UserWarning, match=r"^1 of 8 rows lack a value that the sample never lacked"):
            labels = g.predict(rows)
        rows.loc[2] = _renamed(frame).loc[2]
        whole = g.predict(rows)
        assert labels[:2] + labels[3:] == whole[:2] + whole[3:]
    rows.loc[2, "size"] = None
    with pytest.warns(UserWarning, match="1 of 8"):
        filled = g(rows)
    rows.loc[2, "size"] = float(np.sort(g.network.picks[:, 0].numpy())[(len(g.network.picks) - 1) // 2])
    assert torch.equal(filled, g(rows))  # the median of what g was learned from
    rows.loc[2, "town"] = "a town that nobody saw"
    assert len(g.predict(rows)) == 8  # a word has its place by its hash


def test_arrays_may_lack_values_too_and_others_keep_their_scores(of_table, recwarn):
    frame, folder = of_table
    g = load_classifier(folder)
    stored = torch.from_numpy(from_frame(frame.head(9), role="unlabelled").x)
    known = g(stored)
    assert not recwarn.list
    holed = stored.clone()
    holed[4, 0], holed[5, 1] = float("nan"), float("-inf")
    with pytest.warns(UserWarning, match="^2 of 9 rows"):
        found = g(holed)
    assert torch.equal(found[[0, 1, 2, 3, 6, 7, 8]], known[[0, 1, 2, 3, 6, 7, 8]])
    holed[4, 0], holed[5, 1] = g.typical[0], g.typical[1]
    assert torch.equal(found, g(holed))
    rows = frame.head(9).to_numpy(dtype=object)
    assert torch.equal(g(rows), known)
    assert torch.equal(g(rows.tolist()), known)


def test_a_dictionary_is_columns_or_one_row(of_table):
    frame, folder = of_table
    g = load_classifier(folder)
    rows = _renamed(frame.head(3))
    wanted = g.predict(rows)
    assert g.predict({name: rows[name].tolist() for name in rows}) == wanted
    assert g.predict(rows.iloc[1].to_dict()) == wanted[1:2]
    with pytest.raises(DataError, match="different numbers of values"):
        g.predict({**{name: rows[name] for name in rows}, "size": [1.0]})
    with pytest.raises(DataError, match="lacks columns of the sample: size"):
        g.predict({"town": ["Rome"]})
    with pytest.raises(UsageError, match="Rows of a table are given as a data frame"):
        g.predict([["Rome", 1.0]])


def test_networks_without_kept_examples_take_what_their_scaling_maps_to_zero(tmp_path):
    found = certify(solved().build(), SAMPLE, method="prune", effort="quick")
    g = load_classifier(found.save_to(tmp_path / "one").folder)
    holed = STORED[:5].double()
    holed[1, 0, 2, 2] = float("nan")
    with pytest.warns(UserWarning, match="^1 of 5 rows"):
        scores = g(holed)
    holed[1, 0, 2, 2] = SAMPLE.scaling.mean[0] * SAMPLE.scaling.divisor
    assert torch.equal(scores, g(holed))


def test_the_helper_of_certify_fills_in_what_is_missing(tmp_path):
    stream = np.random.default_rng(1)
    x = stream.normal(size=(300, 3))
    found = certify(
        None, (x, (x[:, 0] > 0).astype(int)), helper=kernel_helper, prior_tenths=5, effort="quick"
    )
    g = load_classifier(found.save_to(tmp_path / "one").folder)
    rows = x[:4].copy()
    rows[2, 1] = np.nan
    with pytest.warns(UserWarning, match="^1 of 4 rows"):
        scores = g(rows)
    assert scores.isfinite().all()
    rows[2, 1] = float(g.typical[1])
    assert torch.equal(scores, g(rows))


def test_a_folder_without_a_certificate_is_named(tmp_path):
    np.savez(tmp_path / "x.npz", x=SAMPLE.x)
    with pytest.raises(FormatError, match=r"certificate\.cbound cannot be read"):
        load_classifier(tmp_path)

"""The network to use: answers like g, takes what is stored, and needs its folder alone."""

import shutil

import numpy as np
import pandas
import pytest
import torch
from worlds.bright_rows import images, solved
from worlds.requests import request
from worlds.samples import clouds, rows_of

from codebound.certification import certify
from codebound.classifier import load_classifier
from codebound.known.provenance import Pretrained
from codebound.request import Known, Run
from codebound.run.errors import DataError, FormatError, UsageError
from codebound.sample.load import load_sample
from codebound.sample.order import Design, arrange
from codebound_verify.__main__ import main as verify

SAMPLE = images()
STORED = torch.from_numpy(SAMPLE.x)


def learned(sample, tmp_path, method="split", **asked):
    found = certify(sample, method=method, **request(effort="quick", **asked))
    return found, load_classifier(found.save_to(tmp_path / "one").folder)


def test_a_compressed_network_scales_its_inputs_by_itself(tmp_path):
    found = certify(SAMPLE, network=solved().build(), method="prune", run=Run(effort="quick"))
    g = load_classifier(found.save_to(tmp_path / "one").folder)
    assert torch.equal(g(STORED), found.network(SAMPLE.scaling.apply(STORED)))
    wrong = int((g(STORED).argmax(dim=1) != torch.from_numpy(SAMPLE.y)).sum())
    assert wrong <= found.certificate.limit.errors  # ambiguous ones count there
    single = load_classifier(found.save(tmp_path / "alone.cbound"))
    assert torch.equal(single(STORED), g(STORED))
    holed = STORED[:5].double()
    holed[1, 0, 2, 2] = float("nan")
    with pytest.warns(UserWarning, match="^1 of 5 rows"):
        scores = g(holed)
    holed[1, 0, 2, 2] = SAMPLE.scaling.mean[0] * SAMPLE.scaling.divisor
    assert torch.equal(scores, g(holed))


@pytest.mark.parametrize("method", ["split", "picks"])
def test_errors_are_those_that_were_counted(method, tmp_path):
    sample = clouds(300, features=4, apart=2.0)
    found, g = learned(sample, tmp_path, method)
    known = found.certificate.known.rows
    labels = np.array(g.predict(sample.x))
    counted = arrange(sample, Design()).split(known)[1]
    if method == "picks":
        counted = np.setdiff1d(counted, found.network.examples.numpy())
    assert int((labels[counted] != sample.y[counted]).sum()) == found.certificate.limit.errors


def test_labels_are_those_of_the_known_share_and_need_not_count_from_zero(tmp_path):
    y = np.random.default_rng(0).choice([1, 4, 7], 240)
    x = np.random.default_rng(1).normal(size=(240, 3)) + 6.0 * (y[:, None] == [1, 4, 7])
    y[200:] = 2  # no known row has it
    sample = rows_of(x, y, classes=8)
    found, g = learned(sample, tmp_path, order="file")
    assert (found.certificate.sample.classes, g.labels.tolist()) == (3, [1, 4, 7])
    labels = np.array(g.predict(x))
    assert set(labels.tolist()) <= {1, 4, 7}
    assert int((labels[120:] != y[120:]).sum()) == found.certificate.limit.errors >= 40


@pytest.mark.parametrize("method", ["prune", "picks"])
def test_it_takes_arrays_and_lists_and_names_the_shape_that_it_takes(method, tmp_path):
    network = solved().build() if method == "prune" else None
    found = certify(SAMPLE, network=network, method=method, run=Run(effort="quick"))
    g = load_classifier(found.save_to(tmp_path / "one").folder)
    labels = g.predict(STORED[:9])
    assert g.predict(SAMPLE.x[:9]) == labels
    assert g.predict(SAMPLE.x[:9].tolist()) == labels
    for wrong in (STORED[0], STORED[:2, :, :3], SAMPLE.x[:2].reshape(2, -1)):
        with pytest.raises(UsageError, match=r"takes inputs of shape \(n, 1, 4, 4\), .*Got shape"):
            g.predict(wrong)


def test_what_is_needed_beside_it_is_named(tmp_path):
    base = Pretrained(solved().build(), "rows seen elsewhere")
    cases = {
        "g.safetensors": certify(SAMPLE, method="picks", run=Run(effort="quick")),
        "base.safetensors": certify(
            SAMPLE, network=solved().build(), method="prune", known=Known(base=base), run=Run(effort="quick")
        ),
    }
    for needed, found in cases.items():
        folder = found.save_to(tmp_path / needed).folder
        inputs = STORED if needed == "g.safetensors" else SAMPLE.scaling.apply(STORED)
        assert torch.equal(load_classifier(folder)(STORED), found.network(inputs))
        away = shutil.copy(folder / "certificate.cbound", tmp_path / f"{needed}.cbound")
        with pytest.raises(FormatError, match=f"needs {needed}"):
            load_classifier(away)
    with pytest.raises(FormatError, match=r"certificate\.cbound cannot be read"):
        load_classifier(tmp_path)


def frame_of(n=200, *, has_gaps):
    stream = np.random.default_rng(0)
    town = stream.choice(["Rome", "Oslo", "Pune"], n)
    frame = pandas.DataFrame({"size": stream.normal(5.0, 1.0, n), "count": stream.integers(0, 1000, n)})
    if has_gaps:
        frame["town"] = town
        frame.loc[::7, "size"] = np.nan
        frame.loc[3::9, "town"] = None
    is_big = frame["size"].fillna(5.0) + (town == "Rome") * has_gaps > 5.0
    return frame, frame.assign(label=np.where(is_big, "big", "small"))


@pytest.mark.parametrize("method", ["split", "picks"])
def test_words_and_gaps_are_read_as_the_table_of_the_sample_was(method, tmp_path, recwarn):
    frame, whole = frame_of(has_gaps=True)
    found, g = learned(whole, tmp_path, method)
    assert found.sample.is_cells
    assert verify([str(tmp_path / "one")]) == 0
    scores = found.network(torch.from_numpy(found.sample.x))
    recwarn.clear()
    assert torch.equal(g(found.sample.x), scores)
    assert torch.equal(g(frame[["town", "count", "size"]]), scores)  # in any order
    assert torch.equal(g(whole), scores)  # beside others
    assert torch.equal(g(frame.to_numpy(dtype=object)), scores)
    assert torch.equal(g({name: frame[name].tolist() for name in frame}), scores)
    assert g.predict(frame.iloc[1].to_dict()) == g.predict(frame.iloc[1:2])
    assert not recwarn.list
    wrong = np.mean(np.array(g.predict(frame)) != whole["label"])
    assert wrong < 0.25
    new = frame.head(2).assign(town="a town that nobody saw")
    assert len(g.predict(new)) == 2
    with pytest.raises(DataError, match="lacks columns of the sample: count"):
        g.predict({"town": ["Rome"], "size": [1.0]})
    with pytest.raises(DataError, match="different numbers of values"):
        g.predict({**{name: frame[name] for name in frame}, "size": [1.0]})
    with pytest.raises(UsageError, match="Rows of a table are given as a data frame"):
        g.predict([["Rome", 1.0]])


def test_a_row_that_lacks_what_the_sample_never_lacked_has_an_answer_that_g_alone_fixes(tmp_path):
    frame, whole = frame_of(has_gaps=False)
    _, g = learned(whole, tmp_path)
    rows = frame.head(8).astype(object)
    whole_scores, middle = g(rows), g.network._features.tensors["middle"]
    for value in (None, float("nan"), pandas.NA, "", "a word", float("inf")):
        rows.loc[2, "size"] = value
        with pytest.warns(UserWarning, match=r"^1 of 8 rows lack a value that the sample never lacked"):
            scores = g(rows)
        assert torch.equal(scores[[0, 1, 3, 4, 5, 6, 7]], whole_scores[[0, 1, 3, 4, 5, 6, 7]])
        rows.loc[2, "size"] = float(middle[0])
        assert torch.equal(scores, g(rows))
    stored = torch.from_numpy(load_sample(frame.head(9), role="unlabelled").x)
    holed = stored.clone()
    holed[4, 0], holed[5, 1] = float("nan"), float("-inf")
    with pytest.warns(UserWarning, match="^2 of 9 rows"):
        found = g(holed)
    holed[4, 0], holed[5, 1] = middle
    assert torch.equal(found, g(holed))


def test_frames_need_a_folder_of_a_table(tmp_path):
    _, g = learned(SAMPLE, tmp_path)
    with pytest.raises(UsageError, match="columns of the sample are not known"):
        g.predict(frame_of(has_gaps=False)[0])


def test_weights_and_names_of_another_folder_are_refused(tmp_path):
    found, _ = learned(frame_of(has_gaps=True)[1], tmp_path)
    other = certify(SAMPLE, method="split", run=Run(effort="quick")).save_to(tmp_path / "two").folder
    shutil.copy(other / "g.safetensors", tmp_path / "one" / "g.safetensors")
    with pytest.raises(FormatError, match="not the weights of this certificate"):
        load_classifier(tmp_path / "one")
    folder = found.save_to(tmp_path / "three").folder
    text = (folder / "result.json").read_text().replace('"big"', '"tall"')
    (folder / "result.json").write_text(text)
    with pytest.raises(FormatError, match="answers would have wrong names"):
        load_classifier(folder)

"""A table of encoded inputs: rounded as said, in order, of one input at a time, kept by content, declared."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from codebound.certificate.decoding import decode
from codebound.certification import certify
from codebound.classifier import load_classifier
from codebound.known.encoder import (
    Encoded,
    Encoder,
    describe_differences,
    load_encoder,
    quantise_rows,
)
from codebound.request import Run
from codebound.run.errors import CertificateError, CodeboundError, DataError, ModelError, UsageError
from codebound.sample.dataset import Sample
from codebound.sample.description import save_sample
from codebound.sample.load import load_sample

FACTORY = """
import torch
from torch import nn

def features():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 40), nn.ReLU())
    net.licence, net.origin = "CC0-1.0", "random numbers"
    return net

def batch_statistics():
    return lambda x: x.flatten(1) - x.flatten(1).mean(0)

def one_input():
    return lambda x: x.flatten(1) - 0.3

def letters():
    def count(texts):
        return torch.tensor([[text.count(each) for each in "aeiou"] for text in texts]).double()
    count.takes_texts = True
    return count

def failing():
    raise RuntimeError("no weights here")

def number():
    return 3
"""


@pytest.fixture
def here(tmp_path, monkeypatch, own_cache):
    (tmp_path / "my_encoders.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def some(n=60):
    return load_sample("digits").select(range(n), role="train")


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=4))
def test_a_byte_is_the_feature_in_units_of_the_row(rows):
    found = quantise_rows(np.array(rows), "any")
    for row, bytes_ in zip(rows, found.tolist(), strict=True):
        size = (sum(each * each for each in row) / 3) ** 0.5
        for value, byte in zip(row, bytes_, strict=True):
            exact = 0.0 if size == 0.0 else 32.0 * value / size
            assert abs(byte - 128 - max(-127.0, min(127.0, exact))) <= 0.5 + 1e-6


def test_numbers_that_are_none_are_refused():
    with pytest.raises(DataError, match="NaN"):
        quantise_rows(np.array([[1.0, np.nan]]), "broken")


def test_rows_keep_their_order_and_labels_and_do_not_depend_on_the_batch(here):
    sample, encoder = some(), load_encoder("my_encoders:features")
    whole, parts = encoder.table(sample), encoder.table(sample, batch=7)
    assert np.abs(whole.x.astype(int) - parts.x).max() <= 1
    assert (whole.y == sample.y).all()
    reordered = encoder.table(sample.select(range(59, -1, -1), role="train"))
    assert np.abs(reordered.x[::-1].astype(int) - whole.x).max() <= 1
    assert whole.name == "digits:my_encoders:features"
    assert whole.features == encoder.made
    assert (whole.features.name, whole.features.rows) == ("my_encoders:features", 0)
    assert "CC0-1.0" in whole.features.by


def test_statistics_of_a_batch_are_refused_and_the_refusal_has_teeth(here):
    with pytest.raises(ModelError, match="other inputs"):
        load_encoder("my_encoders:batch_statistics").table(some())
    assert load_encoder("my_encoders:one_input").table(some()).n == 60


def test_other_weights_have_another_name(here):
    before = load_encoder("my_encoders:features").sha256
    (here / "my_encoders.py").write_text(FACTORY.replace("manual_seed(1)", "manual_seed(2)"))
    import sys

    sys.modules.pop("my_encoders")
    assert load_encoder("my_encoders:features").sha256 != before
    sys.modules.pop("my_encoders")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "no encoder"),
        ("my_encoders:failing", "no weights here"),
        ("my_encoders:number", "function"),
    ],
)
def test_an_encoder_that_is_none_says_why(here, name, reason):
    with pytest.raises(UsageError, match=reason):
        load_encoder(name)


def test_an_encoder_must_return_a_row_for_each_input():
    with pytest.raises(ModelError, match="a row of numbers"):
        Encoder("flat", lambda batch: batch.sum(), "0" * 64).table(some())


def test_an_encoder_that_fails_says_so_in_a_sentence():
    def fails(batch):
        raise RuntimeError("out of memory")

    with pytest.raises(ModelError, match="failed on 2 inputs with RuntimeError: out of memory"):
        Encoder("x", fails, "0" * 64).rows(torch.zeros(2, 3))


@pytest.mark.thorough
def test_g_takes_raw_inputs_with_its_encoder_in_front(here):
    sample, encoder = some(300), load_encoder("my_encoders:features")
    table = encoder.table(sample)
    found = certify(table, method="picks", delta=0.1, run=Run(effort="quick"))
    assert found.certificate.known.features == table.features
    found.save_to("cert")
    save_sample(encoder.table("digits"), here / "again.npz")
    path, weights = "cert/certificate.cbound", "cert/g.safetensors"
    g = load_classifier(path, encoder=encoder)
    raw = sample.scaling.apply(torch.from_numpy(sample.x[:20]))
    assert torch.equal(g(raw), decode(path, weights=weights)(torch.from_numpy(encoder.rows(raw))))
    with pytest.raises(CertificateError, match="does not declare"):
        load_classifier(path, encoder=load_encoder("my_encoders:one_input"))
    with pytest.raises(UsageError, match=r'load_encoder\("my_encoders:features"\)'):
        load_classifier(path)(raw)


def test_tables_are_compared(here):
    table = load_encoder("my_encoders:features").table(some())
    assert "the same" in describe_differences(table, table)
    x = table.x.copy()
    x[0, 0] ^= 1
    other = Sample("x", "train", x, table.y, 10)
    assert describe_differences(table, other).startswith("1 of 2400 bytes differs, by at most 1")
    assert "another table" in describe_differences(table, table.select(range(5), role="train"))
    save_sample(table, here / "t.npz")
    with pytest.raises(UsageError, match="new file"):
        save_sample(table, here / "t.npz")


def test_texts_come_from_a_table_or_a_factory(here):
    (here / "t.csv").write_text("label,title,body\nnews,an eel,ou\nsport,a ball,\n")
    texts = load_sample("t.csv:label", texts=True)
    assert texts.texts == ("an eel\nou", "a ball")
    assert (texts.class_names, texts.y.tolist()) == (("news", "sport"), [0, 1])
    table = load_encoder("my_encoders:letters").table("t.csv:label")
    assert (table.n, table.input_shape, table.classes) == (2, (5,), 2)
    (here / "fresh.csv").write_text("label,title,body\nsport,a ball,\n")
    fresh = load_encoder("my_encoders:letters").table("fresh.csv:label", role="test", like=table)
    assert (fresh.y.tolist(), fresh.classes, fresh.role) == ([1], 2, "test")
    with pytest.raises(UsageError, match="takes texts"):
        load_encoder("my_encoders:letters").table(some())
    with pytest.raises(UsageError, match="takes numbers"):
        load_encoder("my_encoders:one_input").table(texts)
    for wrong in ("nothing", "my_encoders:number", "t.csv:nothing"):
        with pytest.raises(CodeboundError):
            load_sample(wrong, texts=True)


def test_texts_in_memory_are_those_of_the_file(here):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    encoder = load_encoder("my_encoders:letters")
    texts, labels = ["an eel", "", "NA", "\u732b \U0001f600" * 50_000], ["news", "sport", "news", "sport"]
    frame = pandas.DataFrame({"label": labels, "text": texts})
    frame.to_csv(here / "t.csv", index=False)
    frame.to_parquet(here / "t.parquet")
    wanted = encoder.table("t.csv")
    assert load_sample("t.csv", texts=True).texts == tuple(texts)
    for given_texts in ((texts, labels), (frame["text"], frame["label"]), frame, "t.csv:label", "t.parquet"):
        table = encoder.table(given_texts)
        assert (table.sha256, table.class_names) == (wanted.sha256, ("news", "sport"))
    fresh = encoder.table((["a ball"], ["sport"]), role="test", like=wanted)
    assert (fresh.y.tolist(), fresh.classes, fresh.role) == ([1], 2, "test")
    assert encoder.table((texts, [0, 1, 0, 1])).sha256 == wanted.sha256
    for wrong, words in (
        ((texts, labels[1:]), r"4 inputs, and int64 labels of shape \(3,\)"),
        (("one text", [0]), "a pair"),
        (([1, 2], [0, 1]), "nothing but texts"),
    ):
        with pytest.raises(DataError, match=words):
            encoder.table(wrong)
    with pytest.raises(UsageError, match=r"give \[text\]"):
        Encoded(encoder, torch.nn.Identity(), takes_stored=True)("one text")


def test_the_hash_of_texts_tells_their_borders_apart():
    def hashed(*texts):
        return load_sample((texts, [0] * len(texts)), texts=True).sha256

    assert hashed("ab", "c") != hashed("a", "bc")


def test_a_declaration_fits_the_header_and_keeps_the_name():
    made = Encoder("x", lambda x: x, "0" * 64, licence="l" * 1000, origin="o" * 1000).made
    assert (made.name, len(made.by), len(made.of)) == ("x", 400, 400)
    assert Encoder("x", lambda x: x, "0" * 64).made.of == "unknown data"

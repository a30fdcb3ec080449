"""Declared tables: their files, their hashes, their picks, and biases in a message."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from certificate_counts import hash_of
from code_writer import packed

from codebound_verify.header import Table
from codebound_verify.message import Bits
from codebound_verify.refusal import Refused
from codebound_verify.sample import Data
from codebound_verify.tables import (
    TableChoice,
    check_table,
    read_answers,
    read_table,
    read_table_choice,
    scores_of_table,
)

SCORES = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
PICKS = np.array([1, 4])
DATA = Data(np.zeros((6, 1)), np.zeros(6, np.int64))


def table(*arrays, rows=2, columns=3, picks=None) -> Table:
    return Table(by="a", of="b", rows=rows, sha256=hash_of(*arrays), columns=columns, picks=picks)


def tensors_file(path, gap=0, **tensors):
    head, content = {}, b""
    for name, values in tensors.items():
        start, kind = len(content), {"float32": "F32", "float64": "F64", "int64": "I64"}[values.dtype.name]
        content += values.tobytes()
        head[name] = {"dtype": kind, "shape": values.shape, "data_offsets": [start, len(content)]}
        content += bytes(gap)
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)
    return path


def test_tables_are_read_from_files_as_they_are(tmp_path):
    file = tensors_file(tmp_path / "scores.safetensors", scores=SCORES, picks=PICKS)
    found = read_table(file, table(SCORES, PICKS, picks=2), DATA)
    assert found.scores.tobytes() == SCORES.tobytes()
    assert found.picks.tolist() == [1, 4]
    with pytest.raises(Refused, match="overlap"):
        read_table(tensors_file(tmp_path / "b.safetensors", 1, scores=SCORES), table(SCORES), DATA)
    assert read_answers({"scores": SCORES}, hash_of(SCORES), 6).shape == (6, 3)
    with pytest.raises(Refused):
        read_answers({"scores": SCORES}, hash_of(SCORES), 5)


def test_tables_of_other_numbers_types_or_picks_are_refused():
    other = SCORES.copy()
    other[0, 0] = np.nextafter(other[0, 0], 2)
    wrong = [({"scores": other}, table(SCORES)), ({"scores": SCORES}, table(SCORES, columns=4))]
    wrong += [
        ({"scores": SCORES, "picks": PICKS}, table(SCORES)),
        ({"scores": SCORES}, table(SCORES, picks=0)),
    ]
    for values in (SCORES[:5], SCORES.astype(np.float16), SCORES.astype(np.int64), SCORES[:, :, None]):
        wrong.append(({"scores": values}, table(values)))
    for picks in ([4, 1], [1, 1], [-1, 2], [1, 6], [1, 2, 3]):
        wrong.append(({"scores": SCORES, "picks": np.array(picks)}, table(SCORES, np.array(picks), picks=2)))
    for arrays, declared in wrong:
        with pytest.raises(Refused, match="Table"):
            read_table(arrays, declared, DATA)


def test_scores_of_known_rows_may_be_anything_and_picks_are_not_known():
    scores = SCORES.copy()
    scores[0] = np.nan
    found = read_table({"scores": scores, "picks": PICKS}, table(scores, PICKS, picks=2), DATA)
    check_table(found, SimpleNamespace(known=np.array([0, 2]), counted=np.array([1, 3, 4, 5])))
    for known in ([2, 3], [0, 1]):  # a score that is none is counted; a pick is known
        counted = np.setdiff1d(np.arange(6), known)
        with pytest.raises(Refused):
            check_table(found, SimpleNamespace(known=np.array(known), counted=counted))


def choice(text: str, form="another table", **changes):
    tables = (table(SCORES), table(SCORES, rows=3), table(SCORES, columns=2))
    known = SimpleNamespace(tables=tables, rows=changes.get("rows", 2))
    bits = Bits(*packed(text or "0"))
    header = SimpleNamespace(known=known, sample=SimpleNamespace(classes=changes.get("classes", 3)))
    return read_table_choice(bits, form, header), bits.ledger


def test_choices_and_biases_are_what_the_bits_say():
    assert choice("", "first table") == (TableChoice(0), [])
    assert choice("010 0", rows=3) == (TableChoice(1), [("table", 3), ("biases", 1)])
    found, ledger = choice("1 1 1101 0 10 11")
    assert found == TableChoice(0, 1, (0, 1, -1))
    assert ledger == [("table", 1), ("biases", 10)]
    [(rows, values, room)] = scores_of_table(
        read_table({"scores": SCORES}, table(SCORES), DATA), found
    ).blocks(PICKS)
    assert (values == SCORES[rows].astype(np.float64) + np.array([0.0, 2.0, -2.0])).all()
    assert rows.tolist() == [1, 4]
    assert not room.any()


def test_tables_that_are_not_there_or_do_not_fit_are_refused():
    for text, changes in (
        ("00100 0", {}),
        ("011 0", {}),
        ("010 0", {}),
        ("1 0", {"classes": 2}),
        ("1 1 11", {}),
    ):
        with pytest.raises(Refused, match="Message"):
            choice(text, **changes)
    with pytest.raises(Refused, match="Message"):
        choice("", "first table", rows=1)

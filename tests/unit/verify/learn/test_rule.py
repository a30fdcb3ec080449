"""Splits and picks, read field by field (sections 5.4, 5.5, 7.1, 7.2 and 7.10)."""

from contextlib import nullcontext
from types import SimpleNamespace

import certificate_reader as other
import numpy as np
import pytest
import rule_learner

from codebound_verify.learn.rule import (
    Columns,
    Filters,
    Patches,
    Rule,
    check_limits,
    read_picks,
    read_split,
)
from codebound_verify.message import Bits
from codebound_verify.order import arrange
from codebound_verify.refusal import Lacking, Refused
from codebound_verify.sample import Data, cell


def word(*fields) -> str:
    """Fields as bits: (value, width), or an integer for gamma."""
    found = ""
    for field in fields:
        if isinstance(field, tuple):
            found += f"{field[0]:0{field[1]}b}" if field[1] else ""
        else:
            found += "0" * (field.bit_length() - 1) + f"{field:b}"
    return found


def bits_of(text: str) -> Bits:
    size = -(-len(text) // 8)
    return Bits(int(text.ljust(8 * size, "0") or "0", 2).to_bytes(max(size, 1), "big"), len(text))


def header(rows: int, *, classes: int = 3, order: str = "file", features: int | None = None, copies="any"):
    return SimpleNamespace(
        sample=SimpleNamespace(
            classes=classes, salt="", order=order, copies=copies, clusters=None, groups=None
        ),
        known=SimpleNamespace(
            rows=rows, features=None if features is None else SimpleNamespace(rows=features)
        ),
    )


def data(rows: int = 200, shape=(4,), *, classes: int = 3, is_cells: bool = False) -> Data:
    random = np.random.default_rng(0)
    return Data(random.normal(size=(rows, *shape)), np.arange(rows) % classes, is_cells)


GREY, COLOUR = (1, 8, 9), (3, 17, 16)


def split(text: str, rows: int, given: Data | None = None, form: str = "another split", **options):
    given, bits, about = given or data(), bits_of(text), header(rows, **options)
    found = read_split(bits, form, given, arrange(given, about, None, None), about)
    bits.finish()
    return found, bits.ledger


@pytest.mark.parametrize(
    ("n", "i", "t"),
    [
        *[(207, i, i * 207 // 10) for i in range(1, 10)],
        (207, 0, 103),
        (207, 10, 100),
        (1999, 11, 300),
        (1999, 12, 1000),
        (1999, 0, 999),
        (3000, 0, 1800),
        (4000, 13, 3000),
        (20_000, 14, 10_000),
        (20_000, 0, 10_000),
        (31_000, 15, 30_000),
    ],
)
def test_shares(n, i, t):
    text = word((i, 4), (1, 1), (0, 2), (7, 4), (5, 4))
    found, ledger = split(text, t, data(n, (2,)))
    assert found.rule == Rule(features=Columns(normalised=True), copies=0, gamma=4.0, ridge=2.0**-3)
    assert found.classes.tolist() == [0, 1, 2]
    assert ledger == [("share", 4), ("rule", 11)]
    with pytest.raises(Refused, match=f"known.rows is {t - 1}; the message has a known share of {t}"):
        split(text, t - 1, data(n, (2,)))


FILTERS = [
    (Filters(bool(s), (3, 1)[d], p + 2), ((1, 2), (s, 1), (d, 1), (p, 2)))
    for s, d, p in ((0, 0, 0), (1, 1, 3), (1, 0, 2), (0, 1, 1))
]
PATCHES = [
    (
        Patches(size + 3, 256 << f, threshold, grid + 2, 2.0 ** -(7 + w), seed),
        ((2, 2), (size, 3), (f, 2), (threshold, 3), (grid, 2), (w, 3), (seed, 2)),
    )
    for size, f, threshold, grid, w, seed in ((0, 0, 0, 0, 0, 0), (3, 1, 7, 2, 7, 3), (4, 3, 4, 1, 6, 1))
]


@pytest.mark.parametrize(("features", "fields"), [*FILTERS, *PATCHES])
@pytest.mark.parametrize(
    ("weights", "copies", "gamma", "ridge"), [(0, 0, 0, 0), (3, 7, 15, 15), (2, 4, 5, 6)]
)
def test_pictures(features, fields, weights, copies, gamma, ridge):
    text = word((1, 4), *fields, (weights, 2), (copies, 3), (gamma, 4), (ridge, 4))
    found, ledger = split(text, 20, data(200, COLOUR))
    wanted = Rule(
        features=features, weights=weights, copies=copies, gamma=2.0 ** (gamma - 5), ridge=2.0 ** (ridge - 8)
    )
    assert found.rule == wanted
    assert ledger == [("share", 4), ("rule", len(text) - 4)]
    for cut in (1, len(text) - 4):
        with pytest.raises(Refused, match="more is needed"):
            split(text[:-cut], 20, data(200, COLOUR))
    with pytest.raises(Refused, match="but ends after"):
        split(text + "0", 20, data(200, COLOUR))


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_one_support_of_two_images_is_of_patches_alone(kind):
    fields = ((0, 2), (0, 1)), FILTERS[0][1], PATCHES[0][1]
    text = word((1, 4), *fields[kind], (0, 2), *([(1, 3)] if kind else []), (0, 4), (0, 4))
    if kind == 1:
        with pytest.raises(Refused, match="for patches alone"):
            split(text, 20, data(200, GREY))
    else:
        assert split(text, 20, data(200, GREY))[0].rule.copies == (0, None, 1)[kind]


@pytest.mark.parametrize(
    "shape", [(4,), (2, 8, 8), (4, 8, 8), (1, 2, 8), (1, 8, 129), (8, 8, 1), (3, 129, 3)]
)
def test_other_inputs_have_columns(shape):
    found, _ = split(word((1, 4), (0, 1), (0, 2), (0, 4), (0, 4)), 20, data(200, shape))
    assert found.rule.features == Columns(normalised=False)


def test_features_that_are_not_known_or_do_not_fit_are_refused():
    rest = ((0, 2), (0, 3), (0, 4), (0, 4))
    for fields, shape, because in (
        (((3, 2),), GREY, "features of kind 3"),
        (FILTERS[1][1], (1, 4, 9), "windows of 5 do not fit"),
        (PATCHES[1][1], (1, 5, 9), "patches of 6 do not fit"),
        (PATCHES[1][1], (1, 8, 9), "fewer patches than the 4 windows"),
    ):
        with pytest.raises(Refused, match=because):
            split(word((1, 4), *fields, *rest), 20, data(200, shape))
    cells = Data(np.array([[cell(float(i))] for i in range(200)]), np.arange(200) % 3, is_cells=True)
    with pytest.raises(Refused, match="cells are not normalised"):
        split(word((1, 4), (1, 1), (0, 2), (0, 4), (0, 4)), 20, cells)


def test_known_rows_that_teach_nothing_are_refused():
    one = Data(np.arange(200.0)[:, None], (np.arange(200) >= 150).astype(np.int64))
    text = word((1, 4), (0, 1), (0, 2), (0, 4), (0, 4))
    with pytest.raises(Refused, match="the known rows have 1 label"):
        split(text, 20, one, classes=2)
    with pytest.raises(Refused, match=r"sample.classes is 4; by the labels of the known rows they are 3"):
        split(text, 20, classes=4)
    with pytest.raises(Refused, match="leaves nothing to learn"):
        split("", 0, data(1), form="usual split", classes=1)


@pytest.mark.parametrize(
    ("shape", "rows", "usual"),
    [
        ((64,), 200, Rule(features=Columns(normalised=False), copies=0)),
        ((2, 20, 20), 200, Rule(features=Columns(normalised=False), copies=0)),
        ((1, 5, 20), 200, Rule(features=Columns(normalised=False), copies=0)),
        ((1, 20, 129), 40, Rule(features=Columns(normalised=False), copies=0)),
        ((3, 15, 20), 200, Rule(features=Columns(normalised=False), copies=0)),
        ((1, 6, 30), 200, Rule(features=Filters(True, 3, 2), copies=2)),
        ((1, 28, 21), 200, Rule(features=Filters(True, 3, 3), copies=2)),
        ((1, 28, 28), 200, Rule(features=Filters(True, 3, 4), copies=2)),
        ((1, 40, 128), 40, Rule(features=Filters(True, 3, 5), copies=2)),
        ((1, 6, 7), 3333, Rule(features=Filters(True, 3, 2), copies=2)),  # 1,999 known rows
        ((1, 6, 7), 3336, Rule(features=Filters(True, 3, 2), copies=0)),  # 2,001
        ((3, 16, 17), 200, Rule(features=Patches(6, 1024, 4, 3, 2.0**-13, 0), copies=1)),
    ],
)
def test_usual_rules(shape, rows, usual):
    from codebound_verify.order import usual_share

    given = Data(np.zeros((rows, *shape), np.uint8), np.arange(rows) % 3)
    found, ledger = split("", usual_share(rows, is_rule=True), given, form="usual split")
    assert found.rule == usual
    assert ledger == []


def test_growth_counts_for_what_is_usual():
    """Copies of one record: the known share grows to the last of them, and pictures are not moved."""
    x = np.zeros((3000, 1, 6, 6), np.uint8)
    x[:1000, 0, 0, 0], x[:1000, 0, 0, 1] = np.arange(1000) % 256, np.arange(1000) // 256
    x[1000:, 0, 5, 5] = 1
    given = Data(x, np.arange(3000) % 3)
    for copies, moved in (("any", 2), ("repeated", 0)):
        about = header(1800, order="rows", copies=copies)
        arranged = arrange(given, about, None, None)
        assert (len(arranged.known) > 2000) == (copies == "repeated")
        rule = read_split(bits_of("0"), "usual split", given, arranged, about).rule
        assert rule.copies == moved


FIRST = "10 20 30 50 100 200 300 500 1000 2000 3000 5000 10000 15000 20000 30000"
BATCH = """1 2 3 4 5 6 8 10 12 15 20 25 30 40 50 60 80 100 125 150 200 250 300 400 500 600 800 1000
           1250 1500 2000 2500"""
ROUNDS = """1 2 3 4 5 6 7 8 9 10 12 14 16 18 20 23 26 30 34 38 43 48 54 61 69 78 88 99 112 126 142 160"""


def picks(text: str, rows: int, given: Data | None = None, **options):
    given, bits, about = given or data(), bits_of(text), header(rows, **options)
    found = read_picks(bits, given, arrange(given, about, None, None), about)
    bits.finish()
    return found, bits.ledger


def test_a_machine_without_the_memory_says_so():
    """Neither ACCEPT nor REFUSE (7.10): nothing is wrong with such a file."""
    sizes = {"rows": 2**14, "from_": 2**13, "dimension": 4}
    columns(**sizes)
    with pytest.raises(Lacking, match=r"without 0\.5 GiB of memory; this machine has 0\.2"):
        columns(**sizes, memory=2**28 - 2**26)


def test_so_many_first_rows_have_too_large_a_kernel():
    """Of picks the supports are points, too."""
    with pytest.raises(Refused, match="numbers in the kernel would be 1800390011"):
        picks(word(2, (15, 4), (1, 1), (0, 5), (0, 5), 1), 30_000, data(30_010, (1,)))


@pytest.mark.parametrize("i", range(15))
def test_first_rows_of_picks(i):
    first = int(FIRST.split()[i])
    given = data(first + 10, (1,))
    found, _ = picks(word(2, (i, 4), (1, 1), (0, 5), (0, 5), 1), first, given)
    assert found.batches == (1,)
    with pytest.raises(Refused, match=f"known.rows is {first - 1}; the message has a known share of {first}"):
        picks(word(2, (i, 4), (1, 1), (0, 5), (0, 5), 1), first - 1, given)


@pytest.mark.parametrize("i", range(32))
def test_batches_and_rounds(i):
    batch, rounds = int(BATCH.split()[i]), int(ROUNDS.split()[i])
    given = data(10 + max(batch, rounds), (1,))
    found, _ = picks(word(2, (0, 4), (1, 1), (i, 5), (0, 5), 1), 10, given)
    assert found.batches == (batch,)
    found, _ = picks(word(2, (0, 4), (1, 1), (0, 5), (i, 5), 1), 10, given)
    assert found.batches == (1,) * rounds


def test_usual_picks():
    found, ledger = picks(word(2, (1, 4), (1, 1), (2, 5), (4, 5), 1), 20, data(200, GREY))
    usual = Rule(features=Filters(True, 3, 2), copies=2, gamma=0.5, ridge=1 / 16)
    assert (found.rule, found.score, found.batches) == (usual, 0.5, (3,) * 5)
    assert found.classes.tolist() == [0, 1, 2]
    assert ledger == [("classes", 3), ("first", 4), ("rule", 11), ("longer", 1)]


@pytest.mark.parametrize("c", range(8))
def test_picks_that_are_not_usual(c):
    features, fields = PATCHES[0]
    text = word(2, (1, 4), (0, 1), *fields, (1, 2), (1, 3), (3, 4), (9, 4), (c, 3), (0, 5), (0, 5), 1)
    found, _ = picks(text, 20, data(200, GREY))
    assert found.rule == Rule(features=features, weights=1, copies=1, gamma=0.25, ridge=2.0)
    assert found.score == (c + 1) / 8


def test_longer_batches():
    def of(*fields):
        return picks(word(2, (0, 4), (1, 1), (1, 5), (3, 5), *fields), 10)

    assert of(1)[0].batches == (2, 2, 2, 2)
    assert of(2, 1, (0, 3))[0].batches == (3, 2, 2, 2)
    assert of(3, 2, (7, 3), 2, (1, 3))[0].batches == (2, 10, 2, 4)
    assert of(5, *[1, (0, 3)] * 4)[0].batches == (3, 3, 3, 3)
    assert of(2, 4, (4, 3))[1][-1] == ("longer", 3 + 5 + 3)
    with pytest.raises(Refused, match="5 longer batches are coded for 4 rounds"):
        of(6)
    with pytest.raises(Refused, match="the batch of round 4 is longer; there are 4"):
        of(3, 4, (0, 3), 1, (0, 3))
    with pytest.raises(Refused, match="the batch of round 4 is longer"):
        of(2, 5, (0, 3))


def test_classes_of_picks():
    text = ((0, 4), (1, 1), (0, 5), (0, 5), 1)
    given = data(200)
    found, _ = picks(word(9, *text), 10, given, classes=10)
    assert found.classes.tolist() == [*range(10)]
    with pytest.raises(Refused, match=r"sample.classes is 9; by the message they are 10"):
        picks(word(9, *text), 10, given, classes=9)
    with pytest.raises(Refused, match="starts with has label 2; it has 2 classes"):
        picks(word(1, *text), 10, given, classes=2)
    given.y[11:] = 7  # not one of the first rows
    given.y[:11] %= 2
    assert picks(word(1, *text), 10, given, classes=2)[0].classes.tolist() == [0, 1]


def test_picks_that_are_more_than_the_sample_are_refused():
    text = word(2, (0, 4), (1, 1), (5, 5), (0, 5), 1)
    assert sum(picks(text, 10, data(16))[0].batches) == 6
    with pytest.raises(Refused, match="starts with 10 rows and picks 6; the sample has 15"):
        picks(text, 10, data(15))


def test_clusters_are_not_picked():
    given, about = data(40), header(10)
    arranged = SimpleNamespace(clusters=np.arange(40))
    with pytest.raises(Refused, match="clusters are not picked"):
        read_picks(bits_of("1"), given, arranged, about)


def zeros(rows: int, *shape: int) -> Data:
    """A sample that takes no memory."""
    return Data(np.broadcast_to(np.uint8(0), (rows, *shape)), np.broadcast_to(np.int64(0), (rows,)))


def columns(rows: int, dimension: int = 1, *, from_: int, classes: int = 2, rounds: int = 0, memory=2**60):
    rule = Rule(features=Columns(normalised=False), copies=0, gamma=1.0, ridge=1.0)
    check_limits(
        rule,
        zeros(rows, dimension),
        np.arange(1),
        learned_from=from_,
        classes=classes,
        rounds=rounds,
        memory=memory,
    )


@pytest.mark.parametrize(
    ("most", "more", "because"),
    [
        ({"rows": 2**15, "from_": 2**15}, {"rows": 2**15, "from_": 2**15 + 1}, "number of supports"),
        ({"rows": 2**20, "from_": 2**10}, {"rows": 2**20 + 1, "from_": 2**10}, "numbers in the kernel"),
        (
            {"rows": 2**15, "dimension": 2**15, "from_": 2**15},
            {"rows": 2**15 + 1, "dimension": 2**15, "from_": 2**15},
            "numbers in",
        ),
        (
            {"rows": 2**16 - 10, "from_": 10, "dimension": 2**15},
            {"rows": 2**16 - 9, "from_": 10, "dimension": 2**15},
            "numbers in all vectors would be 2147516416",
        ),
        (
            {"rows": 2**16 - 10, "from_": 10, "classes": 2**10},
            {"rows": 2**16 - 9, "from_": 10, "classes": 2**10},
            "the scores would be",
        ),
        (
            {"rows": 2**20 - 2**10, "from_": 2**10, "classes": 2**6, "rounds": 2**8 - 1},
            {"rows": 2**20 - 2**10, "from_": 2**10, "classes": 2**6, "rounds": 2**8},
            "multiplications for the scores",
        ),
        (
            {"rows": 2**20 - 2**10, "from_": 2**10, "rounds": 1},
            {"rows": 2**20 - 2**10 + 1, "from_": 2**10, "rounds": 1},
            "numbers in the kernel",
        ),
        (
            {"rows": 10, "dimension": 2**16, "from_": 1},
            {"rows": 10, "dimension": 2**16 + 1, "from_": 1},
            "length of a vector would be 65537",
        ),
    ],
)
def test_limits_of_columns(most, more, because):
    most = {"dimension": 1} | most
    if "classes" in most and "rounds" in most:
        most["classes"] = more["classes"] = 2**5
        most["rounds"], more["rounds"] = 2**9 - 1, 2**9 + 1
    for sizes, is_fine in ((most, True), (more, False)):
        with nullcontext() if is_fine else pytest.raises(Refused, match=because):
            columns(**sizes)
        n, d, t, rounds = sizes["rows"], sizes.get("dimension", 1), sizes["from_"], sizes.get("rounds", 0)
        rule = {"features": "columns", "copies": 0, "rounds": rounds}
        with nullcontext() if is_fine else pytest.raises(other.Refused):  # the third reader
            rule_learner.check_limits(rule, n, d, t, t, classes=sizes.get("classes", 2), shape=(d,))


@pytest.mark.parametrize(
    ("shape", "features", "rows", "known", "because"),
    [
        ((1, 128, 128), Patches(3, 4096, 1, 2, 2**-7, 0), 10, 5, "numbers that a picture becomes"),
        ((3, 72, 72), Patches(8, 2048, 1, 2, 2**-7, 0), 10, 5, "multiplications for a picture"),
        ((3, 46, 46), Patches(8, 2048, 1, 2, 2**-7, 0), 140_000, 5, "multiplications for all pictures"),
        ((3, 46, 46), Patches(10, 256, 1, 2, 2**-7, 0), 20_000, 10_000, "multiplications for whitening"),
    ],
)
def test_limits_of_patches(shape, features, rows, known, because):
    rule = Rule(features=features, copies=0, gamma=1.0, ridge=1.0)
    with pytest.raises(Refused, match=because):
        check_limits(rule, zeros(rows, *shape), np.arange(known), learned_from=known, classes=2, rounds=0)

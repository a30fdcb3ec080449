"""Files of every form, which a third program wrote from the page alone, before the second program.

What is accepted is also tight: one error less, or one right row more, is refused.
"""

import numpy as np
import pytest
from certificate_counts import Sample, cell
from certificate_reader import Refused, read_container, usual_rows
from file_judges import judged
from file_worlds import MAKERS, any_counts, bars, blobs, made
from file_writer import World, bits, check_file, of_picks, of_split, write_file

from codebound_verify.order import usual_share

QUICK = ("each_class_of_usual_split", "answered_class_of_usual_split")
"""Of the losses on what a rule learned; the others are quick on a table."""
FORMS = [
    pytest.param(name, marks=[pytest.mark.thorough] * (is_dear and name not in QUICK))
    for name in MAKERS
    for is_dear in [name == "patches" or name.endswith("_of_usual_split")]
]
FIRST_LINES = {
    "replayed": "ACCEPT, replayed",
    "replayed on declared inputs": "ACCEPT, replayed on declared inputs",
    "recounted": "ACCEPT, recounted: that the scores were made without the counted examples is declared",
}


def fewer_errors(own: list[dict]) -> list[dict]:
    place = max(range(len(own)), key=lambda i: own[i]["errors"])
    changed = {name: own[place][name] - 1 for name in ("errors", "n")}
    return [each | (changed if i == place else {}) for i, each in enumerate(own)]


def more_right(own: list[dict]) -> list[dict]:
    return [own[0] | {"n": own[0]["n"] + 1}, *own[1:]]


def error_for_right(own: list[dict]) -> list[dict]:
    place = max(range(len(own)), key=lambda i: own[i]["errors"])
    return [each | ({"errors": each["errors"] - 1} if i == place else {}) for i, each in enumerate(own)]


def check_an_error_less(world: World, text: str) -> None:
    limits = read_container(write_file(world, text)).header["claim"]["limits"]
    is_full = limits[0]["n"] == len(world.sample.y)
    lies = [(more_right, "counts do not fit" if is_full else "right rows are counted")]
    if any(limit["errors"] for limit in limits):
        lies += [(fewer_errors, "errors are counted"), (error_for_right, "errors are counted")]
    for lie, reason in lies:
        verdict = judged(world, write_file(world, text, lie=lie))
        assert not verdict.is_accepted
        assert any(reason in each for each in verdict.reasons), verdict.reasons


@pytest.mark.parametrize("form", FORMS)
def test_files_are_accepted_and_said_again_and_not_with_an_error_less(form):
    world, text = made(form)
    data = write_file(world, text)
    check_file(world, data)
    claim, verdict = read_container(data).header["claim"], judged(world, data)
    assert verdict.reasons == ()
    assert verdict.is_accepted
    assert verdict.first_line == FIRST_LINES[claim["assurance"]]
    assert (verdict.bound, verdict.vacuous, verdict.code_bits) == (
        claim["bound"],
        claim["vacuous"],
        len(text),
    )
    for name in ("loss", "on", "law", "subject", "assurance", "delta"):
        assert getattr(verdict, name) == claim[name]
    assert verdict.assumptions
    check_an_error_less(world, text)


@pytest.mark.parametrize(
    "form", ["usual_split", "first_table", "picks", "network", "each_class_of_first_table"]
)
def test_more_errors_and_fewer_right_rows_may_be_stated(form):
    """A writer may round against itself: its room is twice the verifier's."""
    world, text = made(form)

    def careful(own):
        return [each | {"errors": each["errors"] + 1, "n": each["n"] - 1} for each in own]

    assert judged(world, write_file(world, text, lie=careful)).is_accepted


def any_rule(seed: int) -> tuple[World, str]:
    """Draw noisy rows, and a rule: many errors, so that two learners that differ count otherwise."""
    random = np.random.default_rng(seed)
    kind, copies = seed % 5, ("any", "independent", "repeated")[random.integers(0, 3)]
    kernel, ridge, weights = (
        int(random.integers(2, 9)),
        int(random.integers(2, 11)),
        int(random.integers(0, 4)),
    )
    told = {"weights": weights, "kernel": kernel, "ridge": ridge}
    rows, share = int(random.integers(120, 260)), int(random.integers(2, 8))
    if kind == 4:  # pictures, their filters and copies
        x, y = bars(70, int(random.integers(6, 10)), (1, 3)[random.integers(0, 2)], seed)
        y = np.where(random.random(70) < 0.3, random.integers(0, 3, 70), y)
        x = (x / 16).astype(np.uint8) if random.integers(0, 2) else (x / 255).astype(np.float32)
        a = (0, 2, 3, 4, 5, 6, 7)[random.integers(0, 7)]
        features = "01" + bits(int(random.integers(0, 4)), 2) + bits(int(random.integers(0, 3)), 2)
        return World(Sample(x, y, copies=copies)), of_split(share, features, copies=bits(a, 3), **told)
    x, y = blobs(rows, int(random.integers(2, 5)), int(random.integers(1, 6)), seed, wide=2.5)
    if kind == 3:  # cells with few values, words and gaps
        x = np.rint(x).astype(np.float64)
        x[random.random(x.shape) < 0.1] = cell(None)
        x[random.random(rows) < 0.7, 0] = cell("a word")
        x[random.random(rows) < 0.1, 0] = cell("another")
        return World(Sample(x, y, copies=copies), cells=True), of_split(share, "0", **told)
    if kind == 2:
        rule = "0" + "01"[seed // 5 % 2] + bits(weights, 2) + bits(kernel, 4) + bits(ridge, 4)
        first, batch, rounds = 1, int(random.integers(0, 6)), int(random.integers(0, 6))
        rule += bits(int(random.integers(0, 8)), 3)
        told = of_picks(int(y.max()) + 1, first, batch, rounds, rule=rule, longer=((1, 4),))
        return World(Sample(x, y, copies=copies)), told
    return World(Sample(x, y, copies=copies)), of_split(share, "01"[kind], **told)


def written(world: World, text: str, *excuses: str) -> bytes | None:
    """Write a file, and check it by the third program; None if there is none about these rows."""
    try:
        data = write_file(world, text)
        check_file(world, data)
    except Refused as refused:
        if str(refused) not in excuses:
            raise
        return None
    return data


@pytest.mark.few(20)
@pytest.mark.parametrize("seed", range(100))
def test_two_learners_count_the_same_errors(seed):
    world, text = any_rule(seed)
    data = written(world, text, "no gap")
    if data is None:
        return
    limit = read_container(data).header["claim"]["limits"][0]
    assert limit["errors"] > 2
    assert judged(world, data).reasons == ()
    check_an_error_less(world, text)


@pytest.mark.few(60)
@pytest.mark.parametrize("seed", range(600))
def test_two_programs_count_alike_whatever_changes_how_rows_count(seed):
    """Copies, groups, clusters, picks, salts, losses and ties, all at once."""
    world, text = any_counts(seed)
    data = written(world, text, "nothing is counted", "no row is counted")
    if data is None:
        return
    assert judged(world, data).reasons == ()
    check_an_error_less(world, text)


STORED = {
    "bool": (lambda x: x > 0, np.float32),
    "float16": (lambda x: x.astype(np.float16), np.float32),
    "int8": (lambda x: np.rint(8 * x).astype(np.int8), np.float32),
    "uint8": (lambda x: np.clip(20 * x + 128, 0, 255).astype(np.uint8), np.uint8),
    "int64": (lambda x: np.rint(100 * x).astype(np.int64), np.float64),
    "float64": (lambda x: x.astype(np.float64), np.float64),
    "big-endian": (lambda x: x.astype(">f8"), np.float64),
    "not contiguous": (lambda x: np.asfortranarray(x), np.float32),
}


@pytest.mark.parametrize("kind", STORED)
def test_inputs_become_one_of_four_types(kind):
    """A certificate names what is stored after the conversions of 3.1, whatever was handed over."""
    convert, dtype = STORED[kind]
    x, y = blobs(wide=1.0)
    x = convert(x)
    world = World(Sample(np.ascontiguousarray(x, dtype), y))
    data = write_file(world, of_split(5))
    assert judged(world, data, x=x, y=y.astype(np.int16)).reasons == ()


def test_images_without_channels_get_one():
    x, y = bars(100)
    world = World(Sample(x, y))
    assert judged(world, write_file(world, "0"), x=x[:, 0]).reasons == ()


def test_usual_shares_are_those_of_the_page():
    for n in [*range(2, 2_500), *range(2_500, 200_000, 331)]:
        assert usual_share(n, is_rule=True) == usual_rows(n)


def test_the_order_of_rows_in_the_file_does_not_matter_to_the_order_of_the_sample():
    """The same rows stored otherwise have another hash, and the same counts."""
    x, y = blobs()
    places = np.random.default_rng(0).permutation(len(y))
    worlds = [World(Sample(x, y)), World(Sample(x[places], y[places]))]
    files = [write_file(world, "0") for world in worlds]
    claims = [read_container(data).header["claim"] for data in files]
    assert claims[0] == claims[1]
    assert [judged(world, data).is_accepted for world, data in zip(worlds, files, strict=True)] == [
        True,
        True,
    ]
    assert not judged(worlds[0], files[1]).is_accepted


def test_what_is_missing_beside_a_file_is_named():
    for form, name, what in (
        ("first_table", "tables", "table 1 of its scores"),
        ("network_with_base", "base", "its base"),
        ("network_on_a_domain", "subject_weights", "the weights of f"),
        ("network_and_unlabelled_inputs", "unlabelled", "the unlabelled inputs"),
        ("declared_answers", "answers", "the answers of f"),
        ("clusters_one_row", "clusters", "the clusters of its rows"),
        ("each_group", "groups", "the groups of its rows"),
    ):
        world, text = made(form)
        verdict = judged(world, write_file(world, text), **{name: () if name == "tables" else None})
        assert not verdict.is_accepted
        assert any(what in each for each in verdict.reasons), (form, verdict.reasons)

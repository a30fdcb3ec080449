"""Files in which one thing is wrong: each is refused, with the sentence that says what."""

import dataclasses

import numpy as np
import pytest
from certificate_counts import Sample, cell, hash_of, limit_of
from certificate_reader import Refused, read_container
from code_writer import packed
from file_judges import judged, refuse
from file_worlds import blobs, made, scores_of
from file_writer import (
    Table,
    World,
    bits,
    changed,
    check_file,
    container,
    edited,
    gamma,
    of_biases,
    of_network,
    of_picks,
    of_split,
    put,
    write_file,
)

LINEAR = [[1, "1"]]


# Numbers of the claim


@pytest.mark.parametrize("form", ["usual_split", "first_table", "picks", "network", "table_with_picks"])
@pytest.mark.parametrize("factor", [1 - 1e-9, 1 + 2e-6])
def test_limits_are_those_of_the_law(form, factor):
    world, text = made(form)
    data = write_file(world, text)
    claim = read_container(data).header["claim"]
    limit = claim["limits"][0]
    bound = float(limit_of(limit["errors"], limit["n"], 0.05 / 2 ** len(text), limit["picks"])) * factor
    told = edited(data, {"claim.bound": bound, "claim.limits.0.bound": bound})
    refuse(world, told, "which is smaller than" if factor < 1 else "which is larger than")


@pytest.mark.parametrize("form", ["usual_split", "another_loss", "first_table", "network", "picks"])
def test_a_message_pays_for_each_bit(form):
    world, text = made("class_of_first_table" if form == "another_loss" else form)
    refuse(world, write_file(world, text, price=len(text) - 1), "which is smaller than")


@pytest.mark.parametrize("form", ["answered_of_first_table", "each_class_of_usual_split", "declared_answers"])
def test_several_limits_share_delta(form):
    world, text = made(form)
    data = write_file(dataclasses.replace(world, delta=0.1), text)
    refuse(world, edited(data, {"claim.delta": 0.05}), "which is smaller than")


def test_the_bound_is_the_largest_of_parts_the_first_of_two_and_the_sum_of_a_sum():
    for form, change in (
        ("each_class_of_first_table", min),
        ("answered_of_first_table", max),
        ("network_and_unlabelled_inputs", min),
        ("first_table", lambda bounds: bounds[0] * (1 - 1e-12)),
    ):
        world, text = made(form)
        data = write_file(world, text)
        claim = read_container(data).header["claim"]
        wrong = change([limit["bound"] for limit in claim["limits"]])
        assert wrong != claim["bound"]
        refuse(world, edited(data, {"claim.bound": wrong}), "the bound is printed as")


def test_limits_are_all_there_and_in_order():
    world, text = made("each_class_of_first_table")
    data = write_file(world, text)
    limits = read_container(data).header["claim"]["limits"]
    for wrong in (
        limits[::-1],
        limits[:2],
        [*limits, limits[0]],
        [limits[0] | {"of": "class 3"}, *limits[1:]],
    ):
        refuse(world, edited(data, {"claim.limits": wrong}), "its limits are on")


@pytest.mark.parametrize(
    "form", ["usual_split", "network_of_pictures", "each_class_of_missing_labels", "picks"]
)
def test_vacuous_is_said_where_it_is_so_and_nowhere_else(form):
    world, text = made(form)
    is_so = read_container(write_file(world, text)).header["claim"]["vacuous"]
    refuse(world, write_file(world, text, claim__vacuous=not is_so), f"vacuous is {not is_so}")


WORDS = ("replayed", "replayed on declared inputs", "recounted")


@pytest.mark.parametrize("form", ["usual_split", "network_with_base", "first_table", "declared_answers"])
def test_the_assurance_is_that_of_the_form(form):
    world, text = made(form)
    data = write_file(world, text)
    own = read_container(data).header["claim"]["assurance"]
    for word in {*WORDS} - {own}:
        refuse(world, edited(data, {"claim.assurance": word}), f"assurance is {word!r}")


def test_the_law_is_that_of_the_form():
    for form, law in (("first_table", "picked"), ("picks", "binomial"), ("table_with_picks", "binomial")):
        world, text = made(form)
        lie = (lambda own: [each | {"picks": 0} for each in own]) if law == "picked" else None
        refuse(world, write_file(world, text, law=law, lie=lie), f"law is '{law}'")
    world, text = made("network_and_unlabelled_inputs")
    refuse(world, write_file(world, text, law="binomial"), "claim.law: sum exactly with unlabelled inputs")
    world, text = made("network")
    refuse(world, write_file(world, text, law="sum"), "claim.law: sum exactly with unlabelled inputs")


@pytest.mark.parametrize("more", [-1, 1])
def test_picks_are_counted(more):
    for form in ("picks", "table_with_picks", "picks_by_class"):
        world, text = made(form)

        def lie(own):
            return [own[0] | {"picks": own[0]["picks"] + more, "n": own[0]["n"] + more}, *own[1:]]

        refuse(world, write_file(world, text, lie=lie), "picks are")


def test_rows_that_count_by_scores_take_no_picks():
    for on in ("10" + bits(7, 5), "110" + gamma(2)):
        world, _ = made("picks")
        data = write_file(world, "1111110101" + on + of_picks(3, 1, 3, 3), law="picked")
        refuse(world, data, "with picked rows errors are counted on all or in parts")


# Copies, clusters and groups


def test_copies_do_not_count_as_right_rows():
    for form in ("split", "table", "picks"):
        honest, text = made(f"{form}_of_copies_any")
        more = made(f"{form}_of_copies_independent")[0]
        claim = read_container(write_file(more, text)).header["claim"]
        data = write_file(honest, text)
        assert read_container(data).header["claim"]["limits"][0]["n"] < claim["limits"][0]["n"]
        refuse(
            honest,
            edited(data, {"claim.limits": claim["limits"], "claim.bound": claim["bound"]}),
            "right rows are",
        )


def test_copies_of_known_rows_are_not_right():
    """Of repeated rows one label is known and another counted: it can only be wrong."""
    x, y = blobs(300)
    y[1::2], x[1::2] = y[::2], x[::2]
    sample = Sample(x, y, copies="any")
    world = World(sample, tables=[Table(np.eye(3, dtype=np.float32)[y], rows=100)])
    known, others = sample.split(100)
    seen = {sample.inputs[i] for i in known}
    new = {sample.inputs[i] for i in others} - seen
    assert read_container(data := write_file(world, "10")).header["claim"]["limits"][0]["n"] == len(new)
    assert judged(world, data).is_accepted
    data = write_file(world, "10", lie=lambda own: [own[0] | {"n": len({sample.inputs[i] for i in others})}])
    refuse(world, data, "right rows are counted")


def test_repeated_rows_are_known_together():
    """A writer that lets no share grow counts rows whose copies it learned from."""
    x, y = blobs(100)
    x, y = np.repeat(x, 3, axis=0), np.repeat(y, 3)
    own = Sample(x, y, copies="repeated")
    known, _ = own.split(100)
    assert len(known) == 102
    world = World(own, tables=[Table(np.eye(3, dtype=np.float32)[y], 100)])
    data = write_file(world, "10")
    assert judged(world, data).reasons == ()
    assert read_container(data).header["claim"]["limits"][0]["n"] == 66
    lie = write_file(world, "10", lie=lambda counts: [counts[0] | {"n": 67}])
    refuse(world, lie, "right rows are counted")


def test_another_reading_of_copies_is_another_file():
    world, text = made("split_of_copies_independent")
    data = write_file(world, text)
    for copies in ("any", "repeated"):
        refuse(world, edited(data, {"sample.copies": copies}))


def test_clusters_are_those_of_the_file_and_count_as_such():
    world, text = made("clusters_one_row")
    data = write_file(world, text)
    others = world.sample.clusters.copy()
    others[0] = others[1]
    refuse(world, data, "the clusters have SHA-256", clusters=others)
    refuse(world, edited(data, {"sample.copies": "any"}), "sample.copies: independent with clusters")
    refuse(world, edited(data, {"sample.order": "rows"}), "sample.clusters: null but in the order clusters")
    refuse(world, edited(data, {"claim.on": "any row of a cluster"}), "the claim says")
    refuse(world, edited(data, {"claim.on": "all"}), "the claim says")
    wrong = write_file(changed(world, order="file", clusters=None), "1111110" + "000" + gamma(1) + "0" + "10")
    header = put(read_container(wrong).header, {"sample": read_container(data).header["sample"]})
    refuse(world, container(header, read_container(wrong).message), "and the sample has clusters")


def test_groups_are_those_of_the_file_and_copies_have_one():
    world, text = made("each_group")
    data = write_file(world, text)
    others = world.sample.groups.copy()
    others[0] += 1
    refuse(world, data, "the groups have SHA-256", groups=others)
    x, groups = world.sample.x.copy(), world.sample.groups
    i, j = np.flatnonzero(groups == 1)[0], np.flatnonzero(groups == 6)[0]
    x[i] = x[j]
    for copies, sentences in (
        ("any", ["in two groups"]),
        ("repeated", ["in two groups"]),
        ("independent", None),
    ):
        apart = changed(world, x=x, copies=copies)
        if sentences:
            refuse(apart, write_file(apart, text), *sentences)
        else:
            assert judged(apart, write_file(apart, text)).is_accepted


# Known rows, tables and inputs


@pytest.mark.parametrize("form", ["usual_split", "split_normalised", "picks", "clusters_one_row"])
@pytest.mark.parametrize("more", [-1, 1])
def test_the_known_share_is_that_of_the_message(form, more):
    world, text = made(form)
    rows = read_container(write_file(world, text)).header["known"]["rows"]
    refuse(world, write_file(world, text, known__rows=rows + more), "known.rows")


def test_what_saw_rows_does_not_count_them():
    world, text = made("table_with_biases")
    data = write_file(world, text)
    refuse(world, edited(data, {"known.tables.1.rows": 41}), "known.rows")
    refuse(world, edited(data, {"known.tables.1.rows": 41, "known.rows": 0}), "known.rows")
    refuse(world, edited(data, {"known.rows": 39}), "known.rows")
    world, text = made("network_with_base")
    data = write_file(world, text)
    refuse(world, edited(data, {"known.rows": 0}), "known.rows")
    refuse(world, edited(data, {"known.base.rows": 26}), "known.rows")
    world, text = made("table_in_the_order_of_the_file_with_features")
    data = write_file(world, text)
    refuse(world, edited(data, {"known.features.rows": 41}), "known.rows: features learned from more")
    refuse(world, edited(data, {"sample.order": "rows"}), "sample.order: file")


@pytest.mark.parametrize("form", ["usual_split", "split_normalised", "picks", "network"])
def test_every_message_knows_what_features_saw(form):
    """Features that learned from more rows than are known are refused with every form."""
    world, text = made(form)
    features = {"by": "an encoder", "of": "this sample", "rows": 10, "sha256": "0" * 64}
    world = changed(world, order="file", features=features)
    data = write_file(world, text)
    assert judged(world, data).reasons == ()
    rows = read_container(data).header["known"]["rows"]
    refuse(world, edited(data, {"known.features.rows": rows + 1}), "known.rows")


def test_tables_are_those_that_the_header_names():
    world, text = made("first_table")
    data, own = write_file(world, text), world.tables[0].scores
    for scores, sentence in (
        (own + np.float32(1e-6), "Table: its arrays have SHA-256"),
        (own.astype(np.float64), "Table: its arrays have SHA-256"),
        (own.astype(np.float16), "float32 or float64"),
        (own[:-1], "Table: the scores are"),
        (own[:, :2], "Table: the scores are"),
    ):
        refuse(world, data, sentence, tables=[{"scores": scores}])
    refuse(world, data, "tensors", tables=[{"scores": own, "picks": np.arange(3)}])
    refuse(world, edited(data, {"known.tables": []}), "0 are declared")
    refuse(world, edited(data, {"sample.classes": 4}), "3 columns")
    world, text = made("table_with_biases")
    data = write_file(world, text)
    refuse(world, edited(data, {"known.tables.1.columns": 4}))
    told = edited(data, text=of_biases(3, 11, (-1, 0, 0)))
    refuse(world, told, "counts table 3; 2 are declared")


def test_scores_of_counted_rows_are_numbers():
    world, _ = made("first_table")
    known, others = world.sample.split(40)
    for value in (np.nan, np.inf, -np.inf):
        for row, is_fine in ((known[0], True), (others[0], False)):
            scores = scores_of(world.sample.y)
            world = changed(world, tables=[Table(scores, 40)])
            header = read_container(write_file(world, "10")).header
            scores = scores.copy()
            scores[row, int(world.sample.y[row])] = value
            world = changed(world, tables=[Table(scores, 40)])
            told = {"known.tables": [world.tables[0].header]}
            data = container(put(header, told), packed("10")[0])
            if is_fine:
                assert judged(world, data).reasons == ()
            else:
                refuse(world, data, "finite")


def test_picks_of_a_table_are_counted_rows_in_order():
    world, text = made("table_with_picks")
    known, _ = world.sample.split(20)
    own = world.tables[0].picks
    for picks, sentence in (
        (np.sort([*own[:-1], known[3]]), "known"),
        (own[::-1].copy(), "rising"),
        (np.array([*own[:-1], own[-2]]), "rising"),
        (np.array([*own[:-1], 300]), "rising places"),
        (np.array([-1, *own[1:]]), "rising places"),
        (own[:-1], "picks"),
        (own.astype(np.int32), "int64"),
    ):
        table = Table(world.tables[0].scores, 20, picks)
        told = table.header | {"picks": len(own)}
        data = write_file(world, text, known__tables=[told])
        refuse(changed(world, tables=[table]), data, sentence)
    refuse(world, write_file(world, text, known__tables__0__picks=29), "picks")


def test_a_label_that_is_no_class_is_wrong():
    x, y = blobs(300)
    y[::50] = 3
    sample = Sample(x, y)
    world = World(sample, tables=[Table(scores_of(np.minimum(y, 2)))], classes=3)
    honest = write_file(world, "10")
    assert judged(world, honest).reasons == ()
    errors = read_container(honest).header["claim"]["limits"][0]["errors"]
    lie = write_file(world, "10", lie=lambda own: [own[0] | {"errors": errors - 6}])
    refuse(world, lie, f"{errors} errors are counted")
    told = edited(honest, text="1111110" + "000" + gamma(4) + "0" + "10", parts="form 7, loss 9, form 2")
    refuse(world, edited(told, {"claim.loss": "class:3"}), "is no class")


def test_first_and_picked_rows_have_classes_and_others_may_be_wrong():
    x, y = blobs(300, wide=1.2)
    known, _ = Sample(x, y).split(20)
    text, parts = of_picks(3, 1, 3, 3), "form 5, classes 3, first 4, rule 11, longer 1"
    for row in range(300):  # a label changes the key of its row, and nothing else
        other = y.copy()
        other[row] = 3
        world = World(Sample(x, other), classes=3)
        is_first = row in world.sample.split(20)[0]
        if is_first:
            break
        if row == 0:
            data = write_file(world, text)
            assert judged(world, data).reasons == ()
            refuse(world, write_file(world, text, lie=fewer), "errors are counted")
    assert is_first
    told = {"known.rows": 20, "claim.law": "picked", "claim.limits.0.picks": 16}
    told["sample.sha256"] = hash_of(x, other)
    plain = World(Sample(x, y))
    refuse(world, edited(write_file(plain, "0"), told, text, parts), "label")
    assert len(known) == 20


def fewer(own: list[dict]) -> list[dict]:
    return [own[0] | {"errors": own[0]["errors"] - 1, "n": own[0]["n"] - 1}, *own[1:]]


def test_something_is_counted():
    """No row at all is no claim; one limit of several may be 1."""
    world, _ = made("first_table")
    scores = np.zeros_like(world.tables[0].scores)
    scores[:, 0] = 1.0
    world = changed(world, tables=[Table(scores)])
    refuse(world, write_file(world, "1111110" + "101" + "110" + gamma(2) + "10"), "nothing is counted")
    text = "1111110" + "101" + "10" + bits(31, 5) + "10"
    data = write_file(world, text)
    assert judged(world, data).reasons == ()
    small = {"claim.limits.0.bound": 0.5, "claim.bound": 0.5}
    refuse(world, edited(data, small), "the limit on answered is printed as 0.5")


@pytest.mark.parametrize("what", ["x", "y", "rows", "columns", "type"])
def test_the_sample_is_that_of_the_file(what):
    world, text = made("usual_split")
    x, y = world.sample.x.copy(), world.sample.y.copy()
    if what == "x":
        x[7, 1] = np.nextafter(x[7, 1], np.float32(9))
    elif what == "y":
        y[7] = (y[7] + 1) % 3
    elif what == "rows":
        x, y = x[:-1], y[:-1]
    elif what == "columns":
        x = x[:, :-1]
    else:
        x = x.astype(np.float64)
    refuse(world, write_file(world, text), "Data:", x=x, y=y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e301])
def test_inputs_are_finite_and_not_too_large(dtype, value):
    x, y = blobs(300)
    x = x.astype(dtype)
    row = Sample(x, y).split(150)[1][3]
    with np.errstate(over="ignore"):
        x[row, 2] = value
    world = World(Sample(x, y), tables=[Table(scores_of(y))])
    refuse(world, write_file(world, "10"), "Data:")


@pytest.mark.parametrize(
    "pattern", [0x7FF8000000000001, 0x7FF0000000000000, 0xFFF8 << 48, 0x7FFA << 48, 0xFFF9 << 48]
)
def test_cells_of_other_patterns_are_refused(pattern):
    world, text = made("cells")
    x = world.sample.x.copy()
    x.view(np.uint64)[5, 1] = pattern
    told = {"sample.sha256": hash_of(x, world.sample.y, cells=True)}
    refuse(world, edited(write_file(world, text), told), "Data:", x=x)


def test_cells_are_said_to_be_cells_and_are_not_normalised():
    world, text = made("cells")
    data = write_file(world, text)
    refuse(world, data, "Data:", cells=False)
    refuse(world, edited(data, text=of_split(5, "1"), parts="form 4, share 4, rule 11"), "cells")
    plain = made("split_normalised")
    refuse(plain[0], write_file(*plain), "Data:", cells=True)
    assert np.isnan(cell(None))


def test_cells_have_no_network():
    x, y = blobs(60, classes=2, columns=2)
    world = World(Sample(x.astype(np.float64), y))
    data = write_file(world, of_network(2, LINEAR, (np.array([[-1, 0], [1, 0]]), np.array([0, 0]))))
    assert judged(world, data).is_accepted
    told = edited(data, {"sample.sha256": hash_of(world.sample.x, y, cells=True)})
    refuse(world, told, "the sample has cells", cells=True)
    with pytest.raises(Refused, match="a network on cells"):
        check_file(dataclasses.replace(world, cells=True), told)


def test_a_share_that_grows_leaves_rows_to_count():
    y = np.arange(50) % 2
    scores = np.eye(2, dtype=np.float32)[y]
    world = World(Sample(np.zeros((50, 2)), y, copies="independent"), tables=[Table(scores, 5)])
    data = write_file(world, "10")
    assert judged(world, data).is_accepted
    told = edited(data, {"sample.copies": "repeated"})
    refuse(world, told, "nothing is left to count")
    with pytest.raises(Refused, match="no row is counted"):
        check_file(world, told)


def test_labels_are_numbers_below_two_to_the_sixteenth():
    x, y = blobs(300)
    for value in (-1, 2**16):
        y = y.copy()
        y[Sample(x, y).split(150)[1][0]] = value
        world = World(Sample(x, y), tables=[Table(scores_of(y % 3))], classes=3)
        refuse(world, write_file(world, "10"), "Data: the labels")

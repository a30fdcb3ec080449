"""Messages and networks in which one thing is wrong: each is refused, with the sentence that says what."""

import dataclasses
import hashlib
import math

import numpy as np
import pytest
from certificate_counts import Sample, hash_of
from certificate_reader import read_container
from code_writer import packed
from file_judges import given, judged, refuse
from file_worlds import blobs, linear, made
from file_writer import (
    World,
    bits,
    changed,
    container,
    edited,
    gamma,
    of_network,
    of_picks,
    of_split,
    put,
    write_file,
)

LINEAR = [[1, "1"]]


# Messages


LABEL, CONFUSED = "1111110" + "000" + gamma(4) + "0", "1111110" + "001" + gamma(2) + gamma(4) + "0"
PREDICTED = "1111110" + "101" + "110" + gamma(4)
SPLIT, PICKS = "form 4, share 4, rule 11", "form 5, classes 3, first 4, rule 11, longer 1"
FIRST = {"known.rows": 20}
MESSAGES = (  # words, the sentence, the ledger, and what the header has to say otherwise to come so far
    ("1111111", "reserved"),
    ("1111110" + "000" + gamma(1) + "0" + "1111110" + "000" + gamma(2) + "0" + "0", "once"),
    ("1111110" + "000" + gamma(1) + "0" + "1111111", "reserved"),
    ("1111110" + "101" + "0" + "0", "without a word"),
    ("1111110" + "110" + "0" + "0", "kind 6"),
    ("1111110" + "111" + "0" + "0", "kind 7"),
    (LABEL + "0", "is no class", "form 7, loss 9, form 1", {"claim.loss": "class:3"}),
    (CONFUSED + "0", "is no class", "form 7, loss 12, form 1", {"claim.loss": "confused:1:3"}),
    (PREDICTED + "0", "is no class", "form 7, loss 11, form 1", {"claim.on": "predicted:3"}),
    ("1111110" + "001" + gamma(2) + gamma(2) + "0" + "0", "with itself"),
    ("1111110" + "011" + gamma(3) + "0" + "0", "of 3 classes are all"),
    ("1111110" + "100" + gamma(3) + "0" + "0" + "0", "no cost is above"),
    ("1111110" + "100" + gamma(2) + "1" + bits(15, 4) + "0" + "0", "too large"),
    ("1111110" + "101" + "1111" + "11" + "0", "reserved"),
    ("1111110" + "101" + "1111" + "00" + "0", "no groups"),
    ("1111110" + "000" + gamma(1) + "1111" + "01" + "0", "no clusters"),
    ("1111110" + "101" + "1111" + "10" + "0", "no clusters"),
    ("10", "0 are declared"),
    ("110" + gamma(1) + "0", "0 are declared"),
    (of_split(12, "0"), "", SPLIT, {"known.rows": 299}),  # 1,000 of 300 rows
    (of_split(11, "0"), "", SPLIT, {"known.rows": 299}),  # 300 of 300 rows
    (of_split(5, "0")[:-1], "ends after", "form 4, share 4, rule 10"),
    (of_split(5, "0") + "0", "but ends after", "form 4, share 4, rule 12"),
    ("11110" + "0" * 41 + "1" * 42, "a number has more than"),
    ("11110" + "0" * 40 + "1" * 41, "", "form 5, classes 81"),
    (of_picks(3, 15, 3, 3), "known.rows", PICKS, FIRST),
    (of_picks(3, 1, 31, 31), "", PICKS, FIRST),
    (of_picks(3, 1, 3, 0, longer=((1, 1), (1, 1))), "longer", None, FIRST),
    (of_picks(3, 1, 3, 0, longer=((2, 1),)), "round", None, FIRST),
    (of_picks(2, 1, 3, 3), "classes", "form 5, classes 1, first 4, rule 11, longer 1", FIRST),
    (of_picks(4, 1, 3, 3), "classes", PICKS, FIRST),
)


@pytest.mark.parametrize("wrong", MESSAGES, ids=lambda wrong: wrong[0][:40])
def test_messages_are_of_their_words(wrong):
    text, sentence, parts, changes = (*wrong, *(None, {})[len(wrong) - 2 :])
    world, own = made("usual_split")
    refuse(world, edited(write_file(world, own), changes, text, parts), sentence)


PICTURES = {
    "mirror images of filters": ("01" + bits(0, 4), "001", ""),
    "kind 3": ("11", "000", ""),
    "pool above a side": ("01" + "0" + "0" + "11", "000", ""),
    "size above a side": ("10" + bits(7, 3) + bits(0, 12), "000", ""),
    "grid above the patches": ("10" + bits(1, 3) + "00" + "001" + "10" + bits(0, 5), "000", ""),
    "too few patches": ("10" + bits(1, 3) + "11" + "001" + "00" + bits(0, 5), "000", ""),
}


@pytest.mark.parametrize("name", PICTURES)
def test_features_that_do_not_fit_pictures_are_refused(name):
    features, copies, sentence = PICTURES[name]
    random = np.random.default_rng(0)
    x, y = random.integers(0, 255, (40, 1, 4, 5)).astype(np.uint8), np.arange(40) % 2
    world = World(Sample(x, y))
    data = write_file(world, of_split(5, "00" + "0"))
    assert judged(world, data).reasons == ()
    text = of_split(5, features, copies=copies)
    refuse(world, edited(data, text=text, parts=f"form 4, share 4, rule {len(text) - 8}"), sentence)


def test_ledger_loss_and_rows_are_those_of_the_message():
    world, text = made("answered_of_first_table")
    data = write_file(world, text)
    ledger = read_container(data).header["message"]["ledger"]
    moved = [[ledger[0][0], ledger[0][1] - 1], [ledger[1][0], ledger[1][1] + 1], *ledger[2:]]
    for wrong in (
        moved,
        [[f"{ledger[0][0]} ", ledger[0][1]], *ledger[1:]],
        [*ledger, ["end", 0]],
        ledger[::-1],
    ):
        refuse(world, edited(data, {"message.ledger": wrong}), "ledger")
    refuse(world, edited(data, {"message.ledger.0.1": 6}), "adds up to")
    refuse(world, edited(data, {"claim.loss": "class:1"}), "the claim says")
    refuse(world, edited(data, {"claim.on": "answered:0.3"}), "the claim says")
    message, count = packed(text)
    for more in (b"\0", b"\1", b"\xff"):
        longer = 8 * len(message) + 8
        told = {"message.bits": longer, "message.ledger": [*ledger[:-1], ["form", 2 + longer - count]]}
        told["message.sha256"] = hashlib.sha256(message + more).hexdigest()
        refuse(world, container(put(read_container(data).header, told), message + more), "ends after")


# Networks and networks that were given


def test_constants_of_a_scaling_are_no_statistics_of_the_sample():
    x, y = blobs(300)
    world = World(Sample(x, y))
    q = linear(x, y)
    fine = write_file(world, of_network(3, LINEAR, q, scaling=(3, 1.0, 0.5, 2.0)))
    assert judged(world, fine).reasons == ()
    mean, std = float(x.mean()), float(np.sqrt(x.astype(float).var(axis=0).mean() + x.mean(axis=0).var()))
    for scaling in ((3, 1.0, mean, 2.0), (3, 1.0, 0.5, std), (3, 2.0, mean / 2, 2.0)):
        refuse(world, write_file(world, of_network(3, LINEAR, q, scaling=scaling)), "statistic")
    x = ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)
    world = World(Sample(x, y))
    refuse(world, write_file(world, of_network(3, LINEAR, linear(x, y))), "")


def test_scaling_has_positive_constants():
    world, _ = made("network")
    q = linear(world.sample.x, world.sample.y)
    data = write_file(world, of_network(3, LINEAR, q))
    for scaling in ((3, 0.0, 0.5, 2.0), (3, -1.0, 0.5, 2.0), (3, 1.0, 0.5, 0.0)):
        refuse(world, edited(data, text=of_network(3, LINEAR, q, scaling=scaling)), "")


def test_a_margin_stands_only_where_it_is_used():
    world, _ = made("network")
    q = linear(world.sample.x, world.sample.y)
    refuse(world, write_file(world, of_network(3, LINEAR, q, theta=-40)), "theta")
    domain, text = made("network_on_a_domain")
    header = read_container(write_file(domain, text)).header
    text = of_network(3, LINEAR, q)
    data = write_file(dataclasses.replace(domain, domain=None, network=None), text)
    told = {"original": header["original"], "claim.subject": "f"}
    refuse(domain, edited(data, told), "theta")


def test_a_domain_holds_all_inputs_and_theta_covers_the_change():
    world, text = made("network_on_a_domain")
    data, (low, high) = write_file(world, text), world.domain
    x = world.sample.x
    refuse(world, edited(data, {"original.domain": [float(x.min()) + 0.01, high]}), "domain")
    refuse(world, edited(data, {"original.domain": [low, float(x.max()) - 0.01]}), "domain")
    near = [math.nextafter(float(x.min()), math.inf), math.nextafter(float(x.max()), -math.inf)]
    assert near == [x.min(), x.max()]  # NumPy compares in float32, where nothing lies between
    refuse(world, edited(data, {"original.domain": [near[0], high]}), "domain")
    refuse(world, edited(data, {"original.domain": [low, near[1]]}), "domain")
    refuse(world, edited(data, {"original.domain": [low, 30 * high]}), "theta")
    refuse(world, edited(data, {"original.domain": [high, low]}), "[low, high]")
    q = linear(x, world.sample.y)
    theta = network_of(world, text)["theta"]
    refuse(world, write_file(world, of_network(3, LINEAR, q, theta=theta - 1)), "theta")
    refuse(world, edited(data, {"original.chain": [["linear", 3, 0]]}), "")
    refuse(world, edited(data, {"original.chain": None}), "original.chain")
    refuse(world, edited(data, {"original": None}), "original")
    refuse(world, edited(data, {"claim.subject": "g"}), "original")
    other = {name: value + np.float32(1e-3) for name, value in given(world)["subject_weights"].items()}
    refuse(world, data, "SHA-256", subject_weights=other)
    refuse(world, write_file(world, "1111110" + "101" + "10" + bits(0, 5) + text), "with a domain")


def network_of(world: World, text: str) -> dict:
    from file_worlds import network_in

    return network_in(world, text)


def test_unlabelled_inputs_are_those_of_the_file_and_none_of_the_sample():
    world, text = made("network_and_unlabelled_inputs")
    data = write_file(world, text)
    own = world.unlabelled
    refuse(world, data, "SHA-256", unlabelled=own[::-1].copy())
    refuse(world, data, "", unlabelled=own[:-1])
    refuse(world, data, "", unlabelled=own.astype(np.float64))
    seen = own.copy()
    seen[5] = world.sample.x[9]
    seen = dataclasses.replace(world, unlabelled=seen)
    refuse(seen, write_file(seen, text), "of the sample")
    refuse(world, write_file(world, text, original__unlabelled__disagreements=0), "disagreements")
    refuse(world, edited(data, {"original.unlabelled.rows": 399}), "")

    def fewer(own):
        return [own[0], own[1] | {"errors": own[1]["errors"] - 1}]

    refuse(world, write_file(world, text, lie=fewer), "")
    other = {name: value + np.float32(1e-3) for name, value in given(world)["subject_weights"].items()}
    refuse(world, data, "SHA-256", subject_weights=other)


def test_unlabelled_inputs_are_compared_by_value():
    world, text = made("network_and_unlabelled_inputs")
    x, other = world.sample.x.copy(), world.unlabelled.copy()
    x[4], other[8] = 0.0, -0.0
    world = changed(world, x=x, unlabelled=other)
    refuse(world, write_file(world, text), "of the sample")


@pytest.mark.parametrize("what", ["clusters", "groups"])
@pytest.mark.parametrize("number", [-1, 2**32])
def test_clusters_and_groups_are_numbers_below_two_to_the_32nd(what, number):
    world, text = made({"clusters": "clusters_one_row", "groups": "each_group"}[what])
    numbers = getattr(world.sample, what).copy()
    numbers[3] = number
    world = changed(world, **{what: numbers})
    refuse(world, write_file(world, text), f"the {what} must lie")


def test_a_witness_is_empty_where_none_is_needed():
    for form in ("usual_split", "picks", "first_table", "network"):
        world, text = made(form)
        refuse(world, edited(write_file(world, text), witness=b"\0"), "itness")


def test_answers_are_those_of_the_file():
    world, text = made("declared_answers")
    data = write_file(world, text)
    refuse(world, data, "SHA-256", answers={"scores": world.answers + np.float32(1e-3)})
    wrong = world.answers.copy()
    wrong[3, 1] = np.nan
    told = dataclasses.replace(world, answers=wrong)
    header = read_container(data).header
    refuse(told, edited(data, {"original.sha256": hash_of(wrong)}), "finite")
    assert header["original"]["chain"] is None
    ties = np.zeros_like(world.answers)
    ties = dataclasses.replace(world, answers=ties)
    claim = read_container(write_file(ties, text)).header["claim"]
    assert claim["limits"][1]["errors"] == 400
    refuse(ties, write_file(ties, text, lie=lambda own: [own[0], own[1] | {"errors": 399}]), "")


def test_the_base_is_that_of_the_file():
    world, text = made("network_with_base")
    data = write_file(world, text)
    other = {name: value + np.float32(1e-3) for name, value in world.base.items()}
    refuse(world, data, "SHA-256", base=other)
    refuse(world, data, "", base={"0.weight": world.base["0.weight"]})
    plain, own = made("network")
    refuse(world, edited(data, text=own), "base")
    told = {"known.base": read_container(data).header["known"]["base"] | {"rows": 0}}
    refuse(plain, edited(write_file(plain, own), told), "base", base=world.base)


def test_f_is_claimed_by_a_network_alone():
    world, text = made("network_on_a_domain")
    original = read_container(write_file(world, text)).header["original"]
    table, word = made("first_table")
    data = write_file(table, word, original=original, claim__subject="f")
    refuse(table, data, "the message holds none", subject_weights=given(world)["subject_weights"])

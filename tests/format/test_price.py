"""Price of choices: offers of any call are one code, and the best of all offers is rarely a false claim."""

from bisect import bisect_left
from fractions import Fraction
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from certificate_counts import Sample, limit_of
from certificate_reader import Refused, decode
from code_writer import packed
from file_writer import (
    Table,
    World,
    bits,
    gamma,
    known_of,
    of_biases,
    of_network,
    of_picks,
    of_split,
    sample_of,
)
from rule_learner import Learner

ALL = range(16)


def header_of(world: World) -> dict:
    return {"sample": sample_of(world), "known": known_of(world, 0)}


def read(text: str, header: dict, units: int | None = None):
    """Decode an offer; None of one that is refused."""
    try:
        return decode(*packed(text), header, units)
    except Refused:
        return None


def call(seed: int) -> tuple[World, int | None]:
    """Draw a sample of its own classes, shape, order and tables."""
    random = np.random.default_rng(seed)
    classes, rows = int(random.integers(2, 4)), int(random.integers(40, 400))
    shape = [(3,), (1, 8, 8), (3, 16, 16)][seed % 3]
    x, y = random.integers(0, 256, (rows, *shape)).astype(np.uint8), np.arange(rows) % classes
    sample = Sample(x, y)
    if seed % 4 == 3:
        sample = Sample(x, y, order="clusters", copies="independent", clusters=np.arange(rows) // 2)
    tables = [Table(np.zeros((rows, classes)), rows=3 * i) for i in range(seed % 5)]
    return World(sample, tables=tables), len(sample.blocks) if sample.order == "clusters" else None


def features_of(shape: tuple[int, ...]) -> list[tuple[str, str]]:
    """List all bits of features, each with bits of copies behind the weights."""
    eight = [bits(a, 3) for a in range(8)]
    columns = [("0", ""), ("1", "")]
    if len(shape) == 1:
        return columns
    filters = ["01" + bits(each, 4) for each in ALL]
    patches = ["10" + bits(each, 15) for each in range(0, 2**15, 4099)]
    pictures = product([*filters, *patches, "11"], eight)
    return [("00" + each, "") for each, _ in columns] + [(each, a) for each, a in pictures]


def offers(world: World, random) -> list[str]:
    """List what a call may look at: every table with every bias, many splits, picks, networks, losses."""
    classes, columns = len(np.unique(world.sample.y)), world.sample.x[0].size
    found = ["0", "10", "1111111"]
    signs = list(product((0, 1, -1), repeat=classes))
    for i in range(1, len(world.tables) + 2):  # one of them is not there
        found += [of_biases(i), *(of_biases(i, e, each) for e in ALL for each in signs)]
    splits = list(product(ALL, features_of(world.sample.x.shape[1:]), range(4), ALL, ALL))
    for place in random.choice(len(splits), min(len(splits), 1500), replace=False):
        share, (features, copies), weights, kernel, ridge = splits[place]
        found.append(of_split(share, features, weights=weights, copies=copies, kernel=kernel, ridge=ridge))
    for first, batch, rounds in product(range(4), range(0, 32, 5), range(0, 32, 5)):
        longer = [(1, int(more)) for more in random.integers(1, 9, random.integers(0, rounds + 1))]
        found.append(of_picks(classes, first, batch, rounds, longer=longer))
    for _ in range(20):
        found.append(of_network(classes, [[1, "0"]], [random.integers(-2, 3, (classes, columns))]))
    losses = ["000" + gamma(1), "011" + gamma(1), "100" + gamma(1) + "0", "101"]
    ons = ["0", "10" + bits(3, 5), "110" + gamma(1), "1110", *("1111" + bits(j, 2) for j in range(4))]
    plain = found.copy()
    found += ["1111110" + loss + on + "0" for loss in losses for on in ons]
    for place in random.integers(0, len(plain), 300):
        found.append("1111110" + losses[place % 4] + ons[place % 8] + plain[place])
    return list(dict.fromkeys(found))


def value(texts: list[str]) -> Fraction:
    return sum((Fraction(1, 2 ** len(text)) for text in texts), Fraction(0))


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(12))
def test_offers_of_a_call_are_one_code(seed):
    """No word begins another, the ledger has each bit, and all together cost one unit at most."""
    world, units = call(seed)
    header, random = header_of(world), np.random.default_rng(seed)
    read_ = {text: read(text, header, units) for text in offers(world, random)}
    valid = sorted(text for text, message in read_.items() if message)
    assert len(valid) > 300
    assert not [a for a, b in pairwise(valid) if b.startswith(a)]
    assert all(sum(part for _, part in read_[text].ledger) == len(text) for text in valid)
    assert value(valid) <= 1


def test_whole_forms_cost_their_share_and_a_second_table_of_one_word_is_too_much():
    """All splits, and all biases of a table: what they cost is exact, so a broken code shows."""
    world, _ = call(9)  # vectors, and four tables
    header, classes = header_of(world), len(np.unique(world.sample.y))
    everything = product(ALL, "01", range(4), ALL, ALL)
    splits = [of_split(i, each, weights=m, kernel=k, ridge=r) for i, each, m, k, r in everything]
    assert value(splits) == Fraction(1, 16)
    assert all(read(text, header) for text in splits[:16384:997])  # shares of tenths
    signs = list(product((0, 1, -1), repeat=classes))
    tables = [of_biases(i, e, each) for i in range(1, 5) for e in ALL for each in signs]
    tables += [of_biases(i) for i in range(1, 5)]
    assert all(read(text, header) for text in tables)
    assert value(tables) == Fraction(1, 8) * (Fraction(1, 2) + Fraction(2, 8) + Fraction(1, 32))
    code = ["0", "10", *tables, *splits]
    assert Fraction(7, 8) < value(code) <= 1
    assert value([*code, "10"]) > 1  # table 2 under the word of table 1


ROWS, DELTA = 50, 0.5


@cache
def most(n: int, price: int) -> int:
    """Give the most errors of n at which a claim is below a half; limits rise with errors."""
    return bisect_left(range(n), 0.5, key=lambda k: limit_of(k, n, DELTA / 2**price)) - 1


def table_offers(classes=2, count=8) -> list[tuple[int, str, float, tuple[int, ...]]]:
    found = [(0, "10", 0.0, (0, 0))]
    for i in range(count):
        found.append((i, of_biases(i + 1), 0.0, (0, 0)))
        signs = list(product((0, 1, -1), repeat=classes))
        found += [(i, of_biases(i + 1, e, q), 2.0 ** (e - 12), q) for e in range(9, 14) for q in signs]
    return found


OFFERED = table_offers()
SPLITS = [("0", {})]
SPLITS += [
    (of_split(5, "0", kernel=k, ridge=r), {"gamma": 2.0 ** (k - 5), "lambda": 2.0 ** (r - 8)})
    for k in (3, 5, 7)
    for r in (4, 8)
]
PLAIN = {"features": "columns", "normalised": 0, "weights": 0, "copies": 0}


def errors_of_coins(seed: int) -> list[tuple[int, int, str]]:
    """Toss labels; give errors, rows and word of every offer: tables, biases on them, splits."""
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(ROWS, 2)), random.integers(0, 2, ROWS)
    scores, found = random.normal(size=(8, ROWS, 2)), []
    for i, text, unit, signs in OFFERED:
        z = scores[i] + unit * np.array(signs)
        found.append((int((z[np.arange(ROWS), y] <= z[np.arange(ROWS), 1 - y]).sum()), ROWS, text))
    sample = Sample(x, y)
    first, others = sample.split(ROWS // 2)
    if len(np.unique(y[first])) == 2:
        for text, rule in SPLITS:
            told = PLAIN | rule if rule else {}
            z = Learner(sample, first, told, classes=[0, 1]).scores(first)[others]
            labels = y[others]
            wrong = z[np.arange(len(z)), labels] <= z[np.arange(len(z)), 1 - labels]
            found.append((int(wrong.sum()), len(others), text))
    return found


@cache
def tosses(worlds: int) -> list[list[tuple[int, int, str]]]:
    return [errors_of_coins(seed) for seed in range(worlds)]


def share_of_false(worlds: int, price) -> float:
    """Give how often one of the offers claims less than a half, each at its price."""
    return float(np.mean([any(k <= most(n, price(text)) for k, n, text in each) for each in tosses(worlds)]))


def test_the_best_of_all_offers_about_coins_is_false_as_rarely_as_it_says():
    worlds = 200
    words = {text for _, text, *_ in OFFERED} | {text for text, _ in SPLITS}
    paid, noise = DELTA * float(value(sorted(words))), 4 * (0.25 / worlds) ** 0.5
    assert 0.4 < paid <= DELTA
    assert share_of_false(worlds, len) <= paid + noise
    assert share_of_false(worlds, lambda text: 2) > DELTA + noise  # a price for a form, not for a choice
    assert share_of_false(worlds, lambda text: min(len(text), 3)) > DELTA + noise  # biases for nothing

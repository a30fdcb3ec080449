"""A small world, and the bits of a message about it, for every form of a file of format 1.0."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
from certificate_counts import Sample, cell
from certificate_reader import decode
from code_writer import packed
from file_writer import (
    Table,
    World,
    bits,
    drift,
    gamma,
    logits,
    of_biases,
    of_network,
    of_picks,
    of_split,
    sample_of,
    with_base,
)

SALT = "5a" * 32
MAKERS: dict[str, Callable[[], tuple[World, str]]] = {}


def form(make: Callable[[], tuple[World, str]]) -> Callable[[], tuple[World, str]]:
    MAKERS[make.__name__] = make
    return make


@cache
def made(name: str) -> tuple[World, str]:
    return MAKERS[name]()


def blobs(rows=300, classes=3, columns=4, seed=0, wide=0.6) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y = random.integers(0, classes, rows)
    centres = random.normal(0, 1.5, (classes, columns))
    return (centres[y] + random.normal(0, wide, (rows, columns))).astype(np.float32), y


def sample(*, wide=0.6, **options) -> Sample:
    return Sample(*blobs(wide=wide), **options)


def scores_of(labels: np.ndarray, classes=3, seed=3, noise=0.4, shift=0.0) -> np.ndarray:
    """Scores that are right about most labels; the first class has `shift` too much."""
    random = np.random.default_rng(seed)
    scores = np.eye(classes)[labels] + random.normal(0, noise, (len(labels), classes))
    return (scores + shift * np.eye(classes)[0]).astype(np.float32)


def bars(rows=120, side=8, channels=1, seed=0) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of three classes: bars that lie, stand or lean."""
    random = np.random.default_rng(seed)
    y, x = random.integers(0, 3, rows), random.integers(0, 60, (rows, channels, side, side))
    for picture, label in zip(x, y, strict=True):
        place, steps = random.integers(1, side - 1), np.arange(side)
        where = ((place, steps), (steps, place), (steps, (steps + place) % side))[label]
        picture[(slice(None), *where)] = random.integers(150, 256, (channels, side))
    y[::31] = (y[::31] + 1) % 3
    return x.astype(np.uint8), y


@form
def usual_split():
    return World(sample()), "0"


@form
def usual_split_with_missing_labels():
    x, y = blobs()
    y = np.array([2, 5, 9])[y]
    y[:2] = 7  # of two rows, wherever they are
    return World(Sample(x, y), classes=len(np.unique(y[Sample(x, y).split(150)[0]]))), "0"


@form
def usual_split_of_pictures():
    return World(Sample(*bars())), "0"


@form
def split_normalised():
    return World(sample()), of_split(5, "1", weights=2, kernel=6, ridge=5)


@form
def split_with_weights():
    return World(sample(copies="independent")), of_split(10, "0", weights=1)


def of_cells(rows=200) -> Sample:
    random = np.random.default_rng(4)
    x, y = blobs(rows, classes=2, columns=2)
    words = np.array(["red", " gr\u00fcn", "blau ", None], object)
    colours = words[np.where(random.random(rows) < 0.2, random.integers(0, 4, rows), y)]
    table = [[cell(colour), cell(a), cell(b)] for colour, (a, b) in zip(colours, x.tolist(), strict=True)]
    table = np.array(table).view(np.uint64)
    gaps = random.random((rows, 2)) < 0.1
    table[:, 1:][gaps] = cell(None).view(np.uint64)
    table[:3, 2] = cell("unknown").view(np.uint64)
    return Sample(table.view(np.float64), y)


@form
def cells():
    return World(of_cells(), cells=True), "0"


@form
def cells_with_weights():
    return World(of_cells(), cells=True), of_split(4, "0", weights=3)


@form
def filters_of_dictionary_1():
    features = "01" + "0" + "1" + bits(1, 2)  # not straight, dictionary 1, pool 3
    return World(Sample(*bars(100))), of_split(5, features, weights=1, copies=bits(7, 3))


@form
def filters_of_colours():
    features = "01" + "1" + "0" + bits(0, 2)  # straight, dictionary 3, pool 2
    return World(Sample(*bars(90, 7, 3))), of_split(4, features, copies=bits(4, 3))


@form
def patches():
    # size 3, 256 filters, threshold 1, grid 2, whitening 2^-7, seed 0; one support of two copies
    features = "10" + bits(0, 3) + "00" + bits(1, 3) + "00" + bits(0, 3) + "00"
    return World(Sample(*bars(60, 8, 1))), of_split(5, features, weights=0, copies=bits(1, 3))


def tables(labels: np.ndarray, **first) -> list[Table]:
    return [Table(scores_of(labels, **first)), Table(scores_of(labels, seed=5, shift=0.5), rows=40)]


@form
def first_table():
    own = sample()
    return World(own, tables=tables(own.y)), "10"


@form
def table_with_biases():
    own = sample()
    return World(own, tables=tables(own.y)), of_biases(2, 11, (-1, 0, 0))


@form
def table_in_the_order_of_the_file_with_features():
    own = sample(order="file")
    features = {"by": "an encoder", "of": "this sample", "rows": 30, "sha256": "0" * 64}
    return World(own, tables=tables(own.y), features=features), of_biases(2)


@form
def table_with_picks():
    own = sample()
    _, others = own.split(20)
    return World(own, tables=[Table(scores_of(own.y), 20, np.sort(others[:30]))]), "10"


@form
def picks():
    return World(sample(wide=1.2)), of_picks(3, 1, 3, 3)


@form
def picks_all_told():
    rule = "0" + "0" + bits(1, 2) + bits(5, 4) + bits(5, 4) + bits(5, 3)  # columns, weights, kernel, score
    return World(sample(copies="independent", wide=1.2)), of_picks(
        3, 2, 4, 2, rule=rule, longer=((1, 3), (1, 1))
    )


@form
def picks_of_pictures():
    return World(Sample(*bars(100))), of_picks(3, 2, 4, 2)


@form
def picks_by_class():
    return World(sample(wide=1.2)), "1111110" + "101" + "1110" + of_picks(3, 1, 3, 3)


def linear(x, y, classes=3, seed=0, hidden=0) -> list[np.ndarray]:
    """Integers of a network that is right about most rows: a linear layer behind a random one, if any."""
    z, found = x.reshape(len(x), -1).astype(float), []
    if hidden:
        w = np.random.default_rng(seed).integers(-2, 3, (hidden, z.shape[1]))
        z, found = np.maximum(z @ w.T, 0), [w]
    z = np.concatenate([z, np.ones((len(z), 1))], axis=1)
    w = np.linalg.lstsq(z, 2 * np.eye(classes)[y] - 1, rcond=None)[0].T
    w = np.rint(w * 20 / np.abs(w).max()).astype(int)
    return [*found, w[:, :-1], w[:, -1]]


LINEAR = [[1, "1"]]  # with bias
HIDDEN = [[1, 8, "0"], [1, "1"]]


def network_in(world: World, text: str) -> dict:
    """Decode the network of a message."""
    header = {"sample": sample_of(world), "known": {"base": None, "features": None, "tables": []}}
    header["known"]["base"] = None if world.base is None else {"rows": world.base_rows}
    return decode(*packed(text), header).network


@form
def network():
    own = sample()
    return World(own), of_network(3, LINEAR, linear(own.x, own.y))


@form
def network_of_two_layers():
    own = sample()
    return World(own), of_network(3, HIDDEN, linear(own.x, own.y, hidden=8), steps=(8, 0, -8))


@form
def network_of_pictures():
    x, y = bars(150)
    random = np.random.default_rng(0)
    conv = random.integers(-2, 3, (3, 1, 3, 3))
    chain = [[2, 3, 3, 1, 2, "0"], [3, 2], [4, 2], [1, "0"]]  # 8 x 8, then 4 x 4, then 2 x 2
    front = {"scaling": [255, 0.0, 1.0], "chain": [(2, 3, 3, 1, 1, 0), (3, 2), (4, 2), (1, 12, 0)]}
    tensors = {"0.weight": conv, "3.weight": np.eye(12)}
    z = logits(front | {"tensors": tensors}, x)
    w = np.linalg.lstsq(z, 2 * np.eye(3)[y] - 1, rcond=None)[0].T
    w = np.rint(w * 20 / np.abs(w).max()).astype(int)
    return World(Sample(x, y)), of_network(3, chain, [conv, w], scaling=(1,))


@form
def network_with_base():
    own = sample()
    q = linear(own.x, own.y)
    random = np.random.default_rng(1)
    base = {"0.weight": random.normal(0, 0.3, (3, 4)), "0.bias": random.normal(0, 0.3, 3)}
    base = {name: value.astype(np.float32) for name, value in base.items()}
    return World(own, base=base, base_rows=25), of_network(3, LINEAR, q, is_base=True)


def near(tensors: dict, far=2e-4) -> dict:
    """Give a network f that is close to one: float32 tensors."""
    random = np.random.default_rng(2)
    return {
        name: (value + random.normal(0, far, value.shape)).astype(np.float32).astype(float)
        for name, value in tensors.items()
    }


def given_network(world: World, text: str, far=2e-4) -> None:
    g = with_base(network_in(world, text), world.base)
    world.network = g | {"tensors": near(g["tensors"], far)}


@form
def network_on_a_domain():
    own = sample()
    world = World(own, domain=(float(own.x.min()) - 1.0, float(own.x.max()) + 1.0))
    text = of_network(3, LINEAR, linear(own.x, own.y), theta=0)
    given_network(world, text)
    theta = int(np.ceil(8 * np.log2(drift(world, network_in(world, text)))))
    return world, of_network(3, LINEAR, linear(own.x, own.y), theta=theta)


def unlabelled(rows=400) -> np.ndarray:
    x, _ = blobs(rows + 300)
    return x[300:] + np.float32(0.001)


@form
def network_and_unlabelled_inputs():
    own = sample()
    world = World(own, unlabelled=unlabelled())
    text = of_network(3, LINEAR, linear(own.x, own.y))
    given_network(world, text, far=0.5)
    return world, text


@form
def declared_answers():
    own = sample()
    world = World(own, unlabelled=np.repeat(unlabelled(200), 2, axis=0))
    text = of_network(3, LINEAR, linear(own.x, own.y))
    answers = logits(network_in(world, text), world.unlabelled)
    random = np.random.default_rng(6)
    world.answers = (answers + random.normal(0, 1.0, answers.shape)).astype(np.float32)
    return world, text


LOSSES = {
    "class": ("000" + gamma(2), "0"),
    "confused": ("001" + gamma(2) + gamma(3), "0"),
    "false_alarm": ("010" + gamma(1), "0"),
    "top": ("011" + gamma(2), "0"),
    "distance": ("100" + gamma(2) + "0", "0"),
    "costs": ("100" + gamma(2) + "1" + bits(1, 4) + "01 10 00 10 10 00".replace(" ", ""), "0"),
    "answered": ("101", "10" + bits(7, 5)),
    "predicted": ("101", "110" + gamma(3)),
    "each_class": ("101", "1110"),
    "answered_class": ("000" + gamma(2), "10" + bits(7, 5)),
    "top_predicted": ("011" + gamma(2), "110" + gamma(2)),
}
FRONTS = {name: "1111110" + loss + on for name, (loss, on) in LOSSES.items()}


def other_loss(front: str, behind: str) -> Callable[[], tuple[World, str]]:
    def make():
        world, text = made(behind)
        return world, front + text

    return make


for loss, front in FRONTS.items():
    for behind in ("usual_split", "first_table"):
        MAKERS[f"{loss}_of_{behind}"] = other_loss(front, behind)
MAKERS["top_of_network"] = other_loss(FRONTS["top"], "network")
MAKERS["answered_of_network"] = other_loss(FRONTS["answered"], "network")
MAKERS["class_on_a_domain"] = other_loss(FRONTS["class"], "network_on_a_domain")
MAKERS["each_class_of_missing_labels"] = other_loss(FRONTS["each_class"], "usual_split_with_missing_labels")
MAKERS["class_of_picks"] = other_loss(FRONTS["class"], "picks")


@form
def each_group():
    x, y = blobs()
    groups = np.random.default_rng(8).integers(0, 3, 300) * 5 + 1
    own = Sample(x, y, groups=groups)
    return World(own, tables=tables(y)), "1111110" + "101" + "1111" + "00" + "10"


@form
def table_with_picks_by_group():
    world, _ = made("each_group")
    _, others = world.sample.split(20)
    table = Table(scores_of(world.sample.y), 20, np.sort(others[:30]))
    return World(world.sample, tables=[table]), "1111110" + "101" + "1111" + "00" + "10"


def clustered() -> World:
    x, y = blobs(360, wide=1.0)
    clusters = np.random.default_rng(9).integers(0, 130, 360) * 7
    own = Sample(x, y, order="clusters", copies="independent", clusters=clusters)
    return World(own, tables=tables(y))


@form
def clusters_one_row():
    return clustered(), "0"


@form
def clusters_one_row_of_a_table():
    return clustered(), of_biases(2)


@form
def clusters_any_row():
    return clustered(), "1111110" + "101" + "1111" + "10" + of_split(3)


@form
def clusters_one_row_of_a_class():
    return clustered(), "1111110" + "000" + gamma(1) + "1111" + "01" + "10"


def repeated_rows(copies: str, *, scores=False) -> World:
    """Rows of which many are stored twice, and some with another label."""
    x, y = blobs(200)
    x, y = (
        np.concatenate([x, x[:80], x[:10], -x[:3] * 0]),
        np.concatenate([y, y[:80], (y[:10] + 1) % 3, y[:3]]),
    )
    x[-3:] = 0.0
    x[-1, 0] = -0.0
    own = Sample(x, y, copies=copies)
    table = scores_of(y)
    _, first, where = np.unique(x + 0.0, axis=0, return_index=True, return_inverse=True)
    own_tables = [Table(table[first[where.ravel()]], 20)] if scores else []
    return World(own, tables=own_tables)


for reading in ("any", "independent", "repeated"):
    MAKERS[f"split_of_copies_{reading}"] = lambda reading=reading: (repeated_rows(reading), "0")
    MAKERS[f"table_of_copies_{reading}"] = lambda reading=reading: (repeated_rows(reading, scores=True), "10")
    MAKERS[f"picks_of_copies_{reading}"] = lambda reading=reading: (
        repeated_rows(reading),
        of_picks(3, 1, 3, 3),
    )


def any_counts(seed: int) -> tuple[World, str]:
    """Draw a table of few different inputs and scores, with all that changes how rows count."""
    random = np.random.default_rng(seed)
    rows, classes = int(random.integers(30, 90)), int(random.integers(2, 5))
    x = random.integers(-1, 3, (rows, int(random.integers(1, 4)))) * np.float32(random.choice([1.0, -1.0]))
    y = random.integers(0, classes + (random.random() < 0.3), rows)
    told = {"copies": ("any", "independent", "repeated")[random.integers(0, 3)], "order": "rows"}
    if random.random() < 0.3:
        told |= {
            "order": "clusters",
            "copies": "independent",
            "clusters": random.integers(0, rows // 2, rows),
        }
    elif random.random() < 0.3:
        told["order"] = "file"
    if random.random() < 0.5:
        of_inputs = np.abs(x).sum(axis=1).astype(int)
        told["groups"] = of_inputs if told["copies"] != "independent" else random.integers(0, 4, rows)
    if random.random() < 0.3:
        told["salt"] = SALT
    own = Sample(x + 0.0 if random.random() < 0.5 else x, y, **told)
    scores = np.rint(2 * scores_of(y % classes, classes, seed, 0.8)).astype(np.float64) / 2
    if own.copies != "independent" and random.random() < 0.5:  # equal rows have equal scores
        scores = scores[[own.inputs.index(each) for each in own.inputs]]
    units = len(own.blocks) if told["order"] == "clusters" else rows
    t = int(random.integers(0, units // 2))
    table = Table(scores, t)
    _, others = own.split(t)
    if told["order"] != "clusters" and random.random() < 0.4:
        table.picks = np.sort(
            random.choice(others, int(random.integers(0, len(others) // 2 + 1)), replace=False)
        )
    front = "" if random.random() < 0.2 else any_question(random, classes, own, table.picks is not None)
    text = "10" if random.random() < 0.5 else of_biases(1, 11, random.integers(-1, 2, classes).tolist())
    return World(own, seal="sealed" if own.salt else "", tables=[table], classes=classes), front + text


def any_question(random, classes: int, own: Sample, has_picks: bool) -> str:
    """Draw a loss and rows that count, such as fit a sample."""
    a, b = (int(each) + 1 for each in random.permutation(classes)[:2])
    losses = ["000" + gamma(a), "001" + gamma(a) + gamma(b), "010" + gamma(a), "100" + gamma(1) + "0", "101"]
    losses += [] if classes < 3 else ["011" + gamma(2)]
    on = ["1111" + bits(j, 2) for j in (1, 2)] if own.order == "clusters" else ["0", "1110"]
    on += [] if own.groups is None or own.order == "clusters" else ["1111" + bits(0, 2)]
    on += [] if has_picks or own.order == "clusters" else ["10" + bits(int(random.choice([7, 11, 31])), 5)]
    on += [] if has_picks or own.order == "clusters" else ["110" + gamma(a)]
    loss, rows = losses[random.integers(0, len(losses))], on[random.integers(0, len(on))]
    return "" if (loss, rows) in (("101", "0"), ("101", "111101")) else "1111110" + loss + rows


@form
def split_beside_a_base():
    world, _ = made("network_with_base")
    return World(world.sample, base=world.base, base_rows=150), "0"


@form
def clusters_with_groups():
    world = clustered()
    groups = np.random.default_rng(10).integers(0, 5, len(world.sample.y))
    return World(replace(world.sample, groups=groups), tables=world.tables), "0"


@form
def repeated_rows_with_a_salt():
    world = repeated_rows("repeated")
    return World(replace(world.sample, salt=SALT), seal="sealed"), "0"


@form
def nothing_is_answered():
    world, text = made("first_table")
    return world, "1111110" + "101" + "10" + bits(31, 5) + text


@form
def a_class_without_counted_rows():
    x, y = blobs(60)
    y = np.minimum(y, 1)
    return World(Sample(x, y), tables=[Table(scores_of(y))], classes=3), "1111110" + "101" + "1110" + "10"


for reading in ("any", "independent", "repeated"):
    MAKERS[f"declared_answers_of_copies_{reading}"] = lambda reading=reading: declared(reading)


def declared(copies: str) -> tuple[World, str]:
    """Answers of f that differ between copies of an input."""
    world, text = made("declared_answers")
    return replace(world, sample=replace(world.sample, copies=copies)), text


@form
def salt():
    own = sample(salt=SALT)
    return World(own, seal="The sample was sealed on paper, and the salt drawn a day later."), "0"

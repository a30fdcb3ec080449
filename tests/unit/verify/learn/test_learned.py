"""The weights beside a certificate: the tensors of another classifier are refused."""

import numpy as np
import pytest
from file_judges import judged
from file_worlds import cell, made
from file_writer import World, of_picks, write_file

from codebound_verify.learn.picking import CLOSE, carry_out, learn_split
from codebound_verify.learn.rule import Columns, Filters, PickRule, Rule, Split
from codebound_verify.order import arrange
from codebound_verify.refusal import Refused
from codebound_verify.sample import Data


def arranged_of(data, known):
    from types import SimpleNamespace

    sample = SimpleNamespace(order="rows", copies="any", salt="", groups=None, clusters=None)
    return arrange(data, SimpleNamespace(sample=sample, known=SimpleNamespace(rows=known)), None, None)


def weights_of(learned, sizes) -> dict:
    """What is written beside a certificate: coefficients copy by copy, and not batch by batch."""
    count, place, rows = len(learned.coefficients) // len(learned.rows), 0, len(learned.rows)
    coefficients = np.empty_like(learned.coefficients)
    begin = 0
    for size in sizes:
        for copy in range(count):
            for row in range(begin, begin + size):
                coefficients[copy * rows + row] = learned.coefficients[place]
                place += 1
        begin += size
    assert (place, begin) == (len(coefficients), rows)
    found = {"examples": learned.rows.copy(), "inputs": learned.data.x[learned.rows]}
    return found | {
        "classes": learned.classes.copy(),
        "coefficients": coefficients,
        "said": np.zeros(3, "u1"),
    }


def digits():
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return Data(x.reshape(-1, 1, 8, 8).astype(np.uint8)[:400], y[:400])


def split_of_digits():
    data = digits()
    rule = Rule(features=Filters(straight=True, dictionary=3, pool=2), copies=2, gamma=0.5, ridge=2.0**-4)
    arranged = arranged_of(data, 60)
    return learn_split(Split(rule, np.arange(10)), data, arranged), (60,)


def picks_of_digits():
    """Copies and several batches: coefficients stand in another order than in the file."""
    data = digits()
    rule = Rule(features=Filters(straight=True, dictionary=3, pool=2), copies=7, gamma=0.5, ridge=2.0**-4)
    pick = PickRule(rule=rule, classes=np.arange(10), score=0.5, batches=(3, 5, 4))
    return carry_out(pick, data, arranged_of(data, 50)), (50, 3, 5, 4)


def split_of_cells():
    """Words and gaps are no numbers, and equal to themselves all the same."""
    random = np.random.default_rng(0)
    y = np.arange(80) % 2
    x = np.stack([np.where(random.random(80) < 0.2, cell(None), random.normal(size=80) + y), y + 0.0], axis=1)
    x[:, 1] = np.where(random.random(80) < 0.3, cell("a"), np.where(y, cell("b"), cell("c")))
    data, rule = Data(x, y, is_cells=True), Rule(features=Columns(False), copies=0, gamma=0.5, ridge=0.25)
    return learn_split(Split(rule, np.arange(2)), data, arranged_of(data, 40)), (40,)


@pytest.mark.parametrize("make", [split_of_digits, picks_of_digits, split_of_cells])
def test_weights_of_another_classifier_are_refused(make):
    learned, sizes = make()
    own = weights_of(learned, sizes)
    learned.check_weights(own)
    far = 3 * CLOSE * (1 + np.abs(own["coefficients"]).max())

    def refused(*names, **changes):
        with pytest.raises(Refused) as refusal:
            learned.check_weights({name: each for name, each in (own | changes).items() if each is not None})
        assert str(refusal.value) == f"Weights: {', '.join(names)} are not those of the classifier."

    for name in ("examples", "inputs", "classes", "coefficients"):
        refused(name, **{name: None})
        refused(name, **{name: own[name][:-1]})
        refused(name, **{name: own[name][::-1]})
        refused(name, **{name: own[name][None]})
    refused("classes", classes=own["classes"] + 1)
    for change in (far, np.nan, np.inf):
        other = own["coefficients"].copy()
        other[-1, 0] += change
        refused("coefficients", coefficients=other)
    other = own["inputs"].copy()
    other.flat[5] = other.flat[5] + 1 if make is not split_of_cells else cell("another")
    refused("inputs", inputs=other)
    learned.check_weights(own | {"coefficients": own["coefficients"] + far / 10})
    refused("examples", "inputs", examples=learned.rows[::-1], inputs=other)


def test_batches_are_not_taken_for_each_other():
    """Teeth: the order of the supports in the file of weights is another one than here."""
    learned, _ = picks_of_digits()
    own = weights_of(learned, (50, 3, 5, 4)) | {"coefficients": learned.coefficients}
    with pytest.raises(Refused, match="coefficients"):
        learned.check_weights(own)


def test_a_whole_file_is_checked_with_its_weights():
    world, text = World(made("picks")[0].sample), of_picks(3, 1, 3, 3, longer=((1, 2),))
    data = write_file(world, text)
    wrong = judged(world, data, learned_weights={"examples": np.arange(3)})
    assert wrong.reasons[0].startswith("Weights: examples, inputs, classes, coefficients are not")

"""Whole certificates of picked networks: a slow reading of the page picks and counts the same."""

import cbound_writer as writer
import numpy as np
import picked_oracle as oracle
import pytest
import rule_writer as rules

from codebound_verify import verify

SIDE = 6


def shapes(n: int = 160, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Grey pictures of three classes with values 0 to 16: bars that lie, stand or lean."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 3, n)
    x = random.integers(0, 4, (n, 1, SIDE, SIDE))
    for picture, label in zip(x, y, strict=True):
        place, steps = random.integers(1, SIDE - 1), np.arange(SIDE)
        rows, columns = ((place, steps), (steps, place), (steps, (steps + place) % SIDE))[label]
        picture[0, rows, columns] = random.integers(9, 17, SIDE)
    y[::23] = (y[::23] + 1) % 3
    return x.astype(np.uint8), y


def slow_run(
    message: rules.RuleMessage, x, y, vectors, support_vectors, squared_scale
) -> tuple[list[int], int]:
    """10.6 with numpy's solver, anew in every round; ``support_vectors`` are those of every example."""
    gamma, ridge = 2.0**message.gamma, 2.0**message.ridge
    order = rules.order(len(x))
    picked = order[: message.first]
    longer = dict(message.longer)
    batches = [message.batch + longer.get(r, 0) for r in range(message.rounds)]
    for size in [*batches, 0]:
        supports = [(i, each) for i in picked for each in support_vectors[i]]

        def value(q, copies):
            return sum(oracle.kernel(q, c, gamma=gamma, squared_scale=squared_scale) for c in copies)

        matrix = np.array([[value(a[0], b) for _, b in supports] for _, a in supports])
        targets = np.array([[1.0 if c == y[i] else -1.0 for c in range(3)] for i, _ in supports])
        solved = np.linalg.solve(matrix + ridge * np.eye(len(supports)), targets)
        found = np.array([[value(q, b) for _, b in supports] for q in vectors]) @ solved
        margins, scale = writer.margins(found, y)
        rest = [i for i in range(len(x)) if i not in picked]
        if size:
            picked = picked + sorted(rest, key=lambda i: abs(margins[i] + message.score / 8))[:size]
    return picked, sum(bool(margins[i] <= 1e-4 * scale[i]) for i in rest)


def picked_by(message, x, y, slow) -> None:
    """The verifier picks what the slow run picks, and accepts exactly from its count on."""
    _, errors = slow
    data = writer.write(message, rules.header(message, x, y, errors=errors))
    verdict = verify(data, x, y)
    assert verdict.reasons == ()
    assert verdict.bound == rules.picked_limit(
        message.picks + errors, len(x) - message.first, len(message.bits), 0.05
    )
    if errors:
        fewer = writer.write(message, rules.header(message, x, y, errors=errors - 1))
        assert any(f"makes {errors} errors" in reason for reason in verify(fewer, x, y).reasons)


def rows(x) -> list[list[float]]:
    return x.reshape(len(x), -1).astype(float).tolist()


@pytest.mark.parametrize("normalised", [False, True])
def test_columns(normalised):
    x, y = shapes()
    message = rules.RuleMessage(
        features=rules.DIRECTIONS if normalised else rules.COLUMNS, gamma=1, longer=((1, 3), (4, 1))
    )
    first = [rows(x)[i] for i in rules.order(len(x))[: message.first]]
    vectors = oracle.column_vectors(first, rows(x), normalised=normalised)
    d = SIDE * SIDE
    scale = oracle.radius(d) ** 2 if normalised else d * ((4095 - 3) // 24) ** 2
    picked_by(message, x, y, slow_run(message, x, y, vectors, [[[q]] for q in vectors], float(scale)))

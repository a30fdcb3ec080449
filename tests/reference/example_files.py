"""Section 13 of docs/format.md: a small file of each form, and what its bytes are.

``python tests/reference/example_files.py`` writes it, from files of the third writer; a test compares.
"""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from certificate_counts import Sample
from certificate_reader import read_container
from file_writer import Table, World, bits, gamma, of_network, write_file

from codebound.certificate.file import PAGE
from codebound.certificate.words import ONLY_TABLE

DOCUMENT = Path(__file__).parents[2] / "docs/format.md"
TITLE = "## 13. Example files\n"
WIDTH = 120
DECLARATIONS = [
    "The rows are independent draws from where new data come from.",
    "How often a row is repeated does not depend on what it holds.",
    "What the page lists as fixed before was fixed before any result was seen.",
]
Y = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0])
X = np.array([(7 * i % 11 + 9 * label, 5 * i % 13) for i, label in enumerate(Y)], np.uint8)
SCORES = np.array([(1 - label, label) for label in Y], np.float32)
SCORES[[5, 16]] = SCORES[[5, 16], ::-1]
TABLES = [Table(SCORES), Table(SCORES + np.array([0.5, 0], np.float32), rows=4)]
SAMPLE = Sample(X, Y)
PLAIN, DECLARED = World(SAMPLE), World(SAMPLE, tables=TABLES)
WEIGHTS = np.array([[-1, 0], [1, 0]]), np.array([4, -4])
CODED = (
    "a code word of: gamma(1), 2 classes; uniform(0, 4), divisor 1; bits 0, 0, 0, 0: tensors, no theta, "
    "no base, a chain; gamma(1), one operation; gamma(1), linear; bit 1, bias; then for each tensor "
    "gamma(3), dense; gamma(1), step 1; gamma(L), its largest size, and each q: "
) + " and ".join(str(each.ravel().tolist()) for each in WEIGHTS)

EXAMPLES: dict[str, tuple[World, list[tuple[str, str]]]] = {
    "The usual split": (PLAIN, [("0", "the usual split; the other bits of the byte are unused")]),
    "The first declared table": (DECLARED, [("10", "the first declared table")]),
    "Another table, with biases": (
        DECLARED,
        [
            ("110", "another table, or biases"),
            (gamma(2), "i = 2"),
            ("1", "b = 1"),
            (bits(11, 4), "e = 11: steps of 1/2"),
            ("11", "column 0: q = -1"),
            ("0", "column 1: q = 0"),
        ],
    ),
    "Another split": (
        PLAIN,
        [
            ("1110", "another split"),
            (bits(4, 4), "share: i = 4, t = floor(4 n / 10)"),
            ("0", "features: columns, not normalised"),
            (bits(0, 2), "weights: none"),
            (bits(5, 4), "kernel: gamma = 1"),
            (bits(4, 4), "ridge: lambda = 2^-4"),
        ],
    ),
    "Picks": (
        PLAIN,
        [
            ("11110", "picks"),
            (gamma(1), "classes: C - 1 = 1"),
            (bits(0, 4), "first: t = 10"),
            ("1", "the usual rule"),
            (bits(0, 5), "batch: B = 1"),
            (bits(1, 5), "rounds: R = 2"),
            (gamma(1), "longer: e = 0"),
        ],
    ),
    "A network": (
        PLAIN,
        [
            ("111110", "a network"),
            (
                of_network(2, [[1, "1"]], WEIGHTS)[6:],
                CODED,
            ),
        ],
    ),
    "Another loss": (
        DECLARED,
        [
            ("1111110", "another loss, or other rows that count"),
            (bits(0, 3), "kind 0: class:C"),
            (gamma(2), "C + 1 = 2"),
            ("0", "on all"),
            ("10", "the first declared table"),
        ],
    ),
}


def file_of(name: str) -> bytes:
    """The file of an example, by the page that the programs name."""
    world, words = EXAMPLES[name]
    said = [*([ONLY_TABLE] if world.tables else []), *DECLARATIONS]
    named = {"frozen": PAGE.frozen, "sha256": PAGE.sha256}
    return write_file(world, "".join(word for word, _ in words), format=named, declarations=said)


def dump(name: str) -> str:
    """The bytes of an example with their places: the header as its text, all others in hexadecimal."""
    data, (_, words) = file_of(name), EXAMPLES[name]
    size, message = int.from_bytes(data[8:12], "little"), read_container(data).message
    length = sum(len(word) for word, _ in words)
    end = 12 + size + len(message)
    lines = [
        *_row(0, data[:8].hex(" "), "magic, version 4"),
        *_row(8, data[8:12].hex(" "), f"H = {size}"),
        *_row(12, "", "header:"),
        *(" " * 7 + part for part in _cut(data[12 : 12 + size].decode())),
        *_row(
            12 + size,
            message.hex(" "),
            f"message; bits: {length}",
        ),
        *(line for word, said in words for line in _row(None, word, said)),
        *_row(end, data[end : end + 4].hex(" "), "W = 0"),
        *_row(end + 4, data[end + 4 :].hex(), "SHA-256"),
    ]
    return "\n".join(f"    {line}".rstrip() for line in lines)


def _cut(text: str) -> Iterator[str]:
    """The text in lines, none of which begins or ends with a space."""
    while text:
        size = WIDTH - 7
        while " " in text[size - 1 : size + 1]:
            size -= 1
        yield text[:size]
        text = text[size:]


def _row(place: int | None, shown: str, said: str) -> list[str]:
    start = f"{'' if place is None else place:>5}  {shown:<23}  "
    return textwrap.wrap(said, WIDTH, initial_indent=start, subsequent_indent=" " * 32)


def section() -> str:
    """The text of section 13."""
    arrays = [f"x {X.tolist()}", f"y {Y.tolist()}", f"scores, table 1: {SCORES.astype(int).tolist()}"]
    shown = "\n".join(f"    {line}" for each in arrays for line in textwrap.wrap(each, WIDTH - 4))
    said = "One sample: x of uint8, y, and two tables of float32, the second with 1/2 more in its column 0."
    said += "\nA header is one line of text; here it is broken."
    parts = [f"{said}\n\n{shown}"]
    parts += [f"**{name}.**\n\n{dump(name)}" for name in EXAMPLES]
    return TITLE + "\n" + "\n\n".join(parts) + "\n"


def main() -> None:
    """Writes section 13."""
    text = DOCUMENT.read_text("utf-8")
    DOCUMENT.write_text(text.partition(TITLE)[0] + section(), "utf-8")


if __name__ == "__main__":
    main()

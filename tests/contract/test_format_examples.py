"""The files that section 13 of docs/format.md shows: what is printed is whole, and is accepted."""

import re

import example_files
import pytest

from codebound.certificate.file import Certificate
from codebound_verify import verify

TEXT = example_files.DOCUMENT.read_text("utf-8").partition(example_files.TITLE)[2]
SHOWN = dict(re.findall(r"^\*\*(.+)\.\*\*\n\n((?: {4}.*\n)+)", TEXT, flags=re.M))


def bytes_of(shown: str) -> bytes:
    """The file that a dump shows: hexadecimal digits behind each place, and the text of the header."""
    data = b""
    for line in shown.splitlines():
        place, cell, told = line[4:9].strip(), line[11:].split("  ")[0].strip(), line[11:]
        if place:
            assert int(place) == len(data)
            data += bytes.fromhex(cell)
        elif len(data) < 12 + int.from_bytes(data[8:12], "little"):
            data += told.encode()
    return data


def test_the_page_has_what_is_made_today():
    assert example_files.section() == example_files.TITLE + TEXT, "python tests/reference/example_files.py"
    assert [*SHOWN] == [*example_files.EXAMPLES]


@pytest.mark.parametrize("name", example_files.EXAMPLES)
def test_what_is_printed_is_a_file_that_is_true(name):
    data = bytes_of(SHOWN[name])
    assert data == example_files.file_of(name)
    world, words = example_files.EXAMPLES[name]
    tables = [{"scores": table.scores} for table in world.tables]
    verdict = verify(data, x=world.sample.x, y=world.sample.y, tables=tables)
    assert verdict.is_accepted, verdict.reasons
    bits = sum(len(word) for word, _ in words)
    assert Certificate.from_bytes(data).message.bits == verdict.code_bits == bits

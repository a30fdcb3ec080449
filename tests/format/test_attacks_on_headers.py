"""Containers and headers in which one thing is wrong: each is refused, with the sentence that says what."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from certificate_reader import read_container
from file_judges import judged, refuse
from file_worlds import made
from file_writer import (
    container,
    edited,
    put,
    write_file,
)

# Container and header


def test_other_versions_are_named():
    world, text = made("usual_split")
    data = write_file(world, text)
    for version in range(256):
        if version == 4:
            continue
        told = data[:7] + bytes([version]) + data[8:]
        told = told[:-32] + hashlib.sha256(told[:-32]).digest()
        sentence = "the last program that reads it" if version in (1, 2, 3) else "version byte"
        refuse(world, told, sentence, f"{version:02x}")


def test_files_are_whole_and_nothing_more():
    world, text = made("usual_split")
    data = write_file(world, text)
    length = int.from_bytes(data[8:12], "little")
    for wrong in (b"", data[:7], data[:11], data[:-1], data + b"\0", data[:-1] + bytes([data[-1] ^ 1])):
        refuse(world, wrong)
    for told in (0, 1, length - 1, length + 1, 2**20 + 1, 2**32 - 1):
        wrong = data[:8] + told.to_bytes(4, "little") + data[12:-32]
        refuse(world, wrong + hashlib.sha256(wrong).digest())
    header = read_container(data).header
    told = put(header, {"message.sha256": hashlib.sha256(b"\1").hexdigest()})
    refuse(world, container(told, b"\1"), "unused")
    refuse(world, edited(data, {"message.sha256": "0" * 64}), "message.sha256")


def test_a_page_of_another_hash_or_day_is_another_format():
    world, text = made("usual_split")
    for name, value in (("sha256", "1" * 64), ("frozen", "0001-01-02")):
        refuse(world, write_file(world, text, **{f"format__{name}": value}), f"format.{name}")


CHANGES: dict[str, tuple[Any, ...]] = {
    "sample.salt": ("5a" * 32, "5A" * 32, "5a"),
    "sample.seal": ("sealed",),
    "sample.order": ("file ", "", "clusters"),
    "sample.copies": ("all", None),
    "sample.rows": (0, 2**32 + 1, 299, 301, 300.0, True),
    "sample.input_shape": ([], [2, 2], [4, 1], [0], 4, [1, 1, 1, 4], [2**25]),
    "sample.classes": (1, 2, 4, 2**16 + 1),
    "sample.sha256": ("0" * 64, "A" * 64, "0" * 63),
    "known.rows": (-1, 300, 2**53, None),
    "message.bits": (0, 2, 2**32 + 1),
    "claim.delta": (0.0, 1.0, 1, 0, -0.1, 0.049),
    "claim.limits": ([], None),
    "claim.subject": ("f", "h"),
    "claim.law": ("", "sum", "picked"),
    "claim.vacuous": (0, None),
    "claim.bound": (1.5, -0.1, 1),
    "declarations": ([], ["a"] * 65, ["a" * 401], ["\n"], ["\u00e9"], [1]),
    "made_by.commit": ("0", "g" * 40),
    "made_by.date": ("2027-13-01", "2027-1-1", ""),
    "original": ({}, []),
}


@pytest.mark.parametrize("name", CHANGES)
def test_fields_of_the_header_are_of_their_kind(name):
    world, text = made("usual_split")
    data = write_file(world, text)
    for value in CHANGES[name]:
        refuse(world, edited(data, {name: value}))


def test_headers_have_all_keys_and_no_others():
    world, text = made("usual_split")
    file = read_container(write_file(world, text))
    for name in ("sample", "known", "claim", "message", "made_by", "format"):
        for key in file.header[name]:
            without = {other: value for other, value in file.header[name].items() if other != key}
            refuse(world, container(put(file.header, {name: without}), file.message), "keys")
        refuse(world, container(put(file.header, {f"{name}.other": 1}), file.message), "keys")
    refuse(world, container(file.header | {"other": None}, file.message), "keys")


SPELLINGS: dict[str, Callable[[str], str]] = {
    "spaces": lambda text: text.replace(",", ", "),
    "a line": lambda text: text + "\n",
    "another number": lambda text: text.replace("0.05", "5e-2"),
    "a number with a zero": lambda text: text.replace("0.05", "0.050"),
    "a key twice": lambda text: text.replace('"rows":150', '"rows":150,"rows":150'),
    "no number": lambda text: text.replace("0.05", "NaN"),
    "too large": lambda text: text.replace('"rows":150', f'"rows":{"9" * 5_000}'),
    "an escape": lambda text: text.replace("2027", "\\u0032027"),
    "deep": lambda text: text.replace("null", "[" * 5_000 + "]" * 5_000),
    "nine levels": lambda text: text.replace("null", "[" * 8 + "]" * 8),
    "another order": lambda text: json.dumps(dict(reversed(json.loads(text).items())), separators=(",", ":")),
    "no object": lambda text: "[]",
    "bytes": lambda text: text.replace("codebound", "\x7f"),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_headers_are_spelled_in_one_way(name):
    world, text = made("usual_split")
    file = read_container(write_file(world, text))
    plain = json.dumps(file.header, sort_keys=True, separators=(",", ":"))
    assert SPELLINGS[name](plain) != plain
    refuse(world, container(SPELLINGS[name](plain).encode("latin-1"), file.message), "Header")


def test_a_salt_has_a_seal_and_orders_the_sample():
    world, text = made("salt")
    data = write_file(world, text)
    refuse(world, edited(data, {"sample.seal": ""}), "salt and sample.seal")
    refuse(world, edited(data, {"sample.salt": ""}), "salt and sample.seal")
    first = {tuple(world.sample.split(150)[0]), tuple(made("usual_split")[0].sample.split(150)[0])}
    assert len(first) == 2
    assert any("only one" in sentence for sentence in judged(world, data).assumptions)

"""Files that were changed at random, with hashes that are right again: none of them claims what is not so.

A change may leave a file as good as it was: another date, a limit that is larger by a hair, more errors.
Then the third program, which follows the page by itself, has to accept it too: with the same meaning, or a
weaker one. A bound that is smaller than it may be is refused by both.
"""

import copy
import hashlib
import json
from contextlib import suppress
from functools import cache

import numpy as np
import pytest
from certificate_reader import Refused, read_container
from code_writer import packed
from file_judges import judged
from file_worlds import MAKERS, made
from file_writer import check_file, container, ledger, write_file

FORMS = [
    "usual_split",
    "first_table",
    "table_with_biases",
    "split_normalised",
    "picks_all_told",
    "table_with_picks",
    "network",
    "network_with_base",
    "network_on_a_domain",
    "network_and_unlabelled_inputs",
    "declared_answers",
    "cells",
    "each_group",
    "answered_of_first_table",
    "costs_of_usual_split",
    "clusters_one_row",
    "table_of_copies_repeated",
    "salt",
]
FEW, MANY = 40, 10_000
WORDS = ("any", "independent", "repeated", "rows", "clusters", "file", "g", "f", "binomial", "picked", "sum")
WORDS += ("replayed", "replayed on declared inputs", "recounted", "all", "wrong", "class:1", "", None)


@cache
def written(form: str) -> bytes:
    return write_file(*made(form))


def sealed(data: bytes) -> bytes:
    """Make the hashes of a file right again, that of the message too where it is found."""
    body, length = data[:-32], int.from_bytes(data[8:12], "little")
    with suppress(ValueError, LookupError, TypeError, AttributeError):
        header = json.loads(body[12 : 12 + length])
        end = 12 + length - (-header["message"]["bits"] // 8)
        old = header["message"]["sha256"].encode()
        body = body.replace(old, hashlib.sha256(body[12 + length : end]).hexdigest().encode(), 1)
    return body + hashlib.sha256(body).digest()


def with_other_bytes(data: bytes, random) -> bytes:
    """Change, cut out, repeat or insert a few bytes anywhere."""
    body = bytearray(data)
    for _ in range(random.integers(1, 4)):
        place, size = int(random.integers(0, len(body) - 32)), int(random.integers(1, 5))
        kind = random.integers(0, 6)
        if kind < 3:
            body[place] ^= 1 << int(random.integers(0, 8))
        elif kind == 3:
            del body[place : place + size]
        elif kind == 4:
            body[place:place] = body[place : place + size]
        else:
            body[place:place] = random.bytes(size)
    return bytes(body)


def cut(data: bytes, random) -> bytes:
    return data[: int(random.integers(44, len(data)))] + bytes(32)


def places_of(value, path=()) -> list[tuple]:
    """List the paths to all values of a header."""
    if isinstance(value, dict):
        return [path] + [each for key in value for each in places_of(value[key], (*path, key))]
    if isinstance(value, list):
        return [path] + [each for key in range(len(value)) for each in places_of(value[key], (*path, key))]
    return [path]


def at(header, path):
    for key in path:
        header = header[key]
    return header


def other_value(value, random):
    """Give a value like one of a header: a neighbour, a multiple, a word, or nothing."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return int(random.choice([value - 1, value + 1, 0, 1, 2 * value, value // 2]))
    if isinstance(value, float):
        factor = random.choice([1 - 1e-9, 1 + 1e-9, 1 - 1e-12, 0.5, 0.9, 1.1, 2.0, 1 - 1e-3, 1 + 5e-7])
        return float(value * factor)
    if isinstance(value, list):
        return value[:-1] if random.integers(0, 2) else [*value, *value[:1]]
    if isinstance(value, str) and len(value) == 64:
        return value[::-1]
    return WORDS[random.integers(0, len(WORDS))]


def with_other_fields(data: bytes, random) -> bytes:
    """Change a value or two of the header, or give one the value of another."""
    file = read_container(data)
    header, message = copy.deepcopy(file.header), file.message
    for _ in range(random.integers(1, 4)):
        paths = [path for path in places_of(header) if path]
        path, source = (paths[random.integers(0, len(paths))] for _ in range(2))
        value = at(header, path)
        same = type(value) is type(at(header, source)) and random.integers(0, 4) == 0
        at(header, path[:-1])[path[-1]] = (
            copy.deepcopy(at(header, source)) if same else other_value(value, random)
        )
        with suppress(LookupError, TypeError):
            if random.integers(0, 2):  # the bound follows
                header["claim"]["bound"] = header["claim"]["limits"][0]["bound"]
    return container(header, message, witness=file.witness)


def with_another_message(data: bytes, random) -> bytes:
    """Change, add or leave out bits of the message; its ledger is the old one with the difference, or new."""
    file = read_container(data)
    header, count = copy.deepcopy(file.header), file.header["message"]["bits"]
    text = "".join(f"{byte:08b}" for byte in file.message)[:count]
    place = int(random.integers(0, count))
    flipped = text[:place] + "10"[int(text[place])] + text[place + 1 :]
    text = (
        flipped,
        text[:place] + text[place + 1 :],
        text[:place] + "01"[random.integers(0, 2)] + text[place:],
    )[random.integers(0, 3)] or "1"
    message, bits = packed(text)
    header["message"] |= {"bits": bits, "sha256": hashlib.sha256(message).hexdigest()}
    parts = header["message"]["ledger"]
    part = parts[random.integers(0, len(parts))]
    part[1] += bits - count
    if random.integers(0, 8) == 0:
        header["message"]["ledger"] = ledger(f"form {bits}")
    return container(header, message, witness=file.witness)


MUTATIONS = (with_other_bytes, with_other_fields, with_other_fields, with_another_message, cut)


def check_mutations(form: str, count: int, seed: int) -> int:
    """Look at changed files; give how many are accepted."""
    world, data, random = made(form)[0], written(form), np.random.default_rng(seed)
    assert judged(world, data).is_accepted
    accepted = 0
    for _ in range(count):
        mutation = MUTATIONS[random.integers(0, len(MUTATIONS))]
        changed = mutation(data, random)
        changed = sealed(changed) if random.integers(0, 8) else changed
        verdict = judged(world, changed)
        if verdict.is_accepted and changed != data:
            accepted += 1
            try:
                check_file(world, changed)
            except Refused as refused:
                pytest.fail(f"{mutation.__name__}: the third program says {refused}: {changed!r}")
    return accepted


@pytest.mark.parametrize("form", FORMS)
def test_a_changed_file_is_refused_or_says_no_more(form):
    check_mutations(form, FEW, 0)


@pytest.mark.slow
@pytest.mark.parametrize("form", sorted({*MAKERS} - {"patches"}))
def test_ten_thousand_changed_files_are_refused_or_say_no_more(form):
    assert check_mutations(form, MANY, 1) > 0


@pytest.mark.parametrize("form", FORMS)
def test_every_byte_is_hashed_and_every_cut_is_seen(form):
    """Without hashes that are right again no change at all is accepted."""
    world, data, random = made(form)[0], written(form), np.random.default_rng(2)
    for _ in range(FEW):
        place, bit = int(random.integers(0, len(data))), 1 << int(random.integers(0, 8))
        changed = bytearray(data)
        changed[place] ^= bit
        assert not judged(world, bytes(changed)).is_accepted
        assert not judged(world, data[:place]).is_accepted

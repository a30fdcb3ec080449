"""Whatever the bytes are, the verifier answers; it never raises and never accepts what nobody proved."""

import contextlib
import copy
import hashlib
import random
from collections import Counter

import cbound_writer as writer
import numpy as np
import pytest
from attack import fuzz_certificates as fuzzing
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from codebound_verify import Refused, verify
from codebound_verify.arithmetic import Decoder
from codebound_verify.networks.tensors import Blocks, Static, read_tensor, to_float32

TRUE = writer.linear_case(60)
DATA = TRUE.data()
HEAD = writer.canonical(TRUE.fields)


edits = st.lists(
    st.tuples(st.integers(0, len(DATA)), st.integers(0, 8), st.binary(max_size=8)), min_size=1, max_size=4
)


@given(edits)
@examples(300)
def test_a_mutated_file(changes):
    data = DATA
    for start, removed, inserted in changes:
        data = data[:start] + inserted + data[start + removed :]
    if data != DATA:
        assert verify(data, TRUE.x, TRUE.y).verdict == "REFUSE"


@given(st.integers(0, len(HEAD)), st.integers(0, 6), st.text(st.characters(max_codepoint=127), max_size=6))
@examples(300)
def test_a_mutated_header_that_is_sealed_again(start, removed, inserted):
    head = HEAD[:start] + inserted.encode() + HEAD[start + removed :]
    verdict = verify(writer.seal(head, TRUE.message.packed()), TRUE.x, TRUE.y)
    assert verdict.verdict in ("ACCEPT", "REFUSE")  # a declaration may well have another word


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.data(), values)
@examples(300)
def test_any_value_in_any_field(data, value):
    fields = node = copy.deepcopy(TRUE.fields)
    while True:
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if not isinstance(node[key], dict | list) or not node[key] or data.draw(st.booleans()):
            node[key] = value
            break
        node = node[key]
    verdict = verify(writer.write(TRUE.message, fields), TRUE.x, TRUE.y)
    assert verdict.verdict in ("ACCEPT", "REFUSE")


@given(st.text("01", max_size=400))
@examples(300)
def test_any_message(bits):
    """A consistent header around random bits: the decoder itself is reached."""
    message = writer.Message([["linear", 3, False]], {})
    message.bits, message.ledger = bits, [["method", len(bits)]]
    fields = writer.header(message, TRUE.x, TRUE.y, errors=60, classes=3)
    verdict = verify(writer.write(message, fields), TRUE.x, TRUE.y)
    assert verdict.verdict == "REFUSE"
    assert not any("SHA-256" in reason for reason in verdict.reasons)


@given(st.binary(max_size=200), st.integers(1, 15), st.sampled_from([(3,), (2, 3), (5, 2, 2)]))
@examples(300)
def test_any_tensor(data, mode, shape):
    coder = writer.Coder()
    coder.gamma(mode)
    bits = coder.end() + "".join(format(byte, "08b") for byte in data)
    message = writer.pack_bits(bits)
    with contextlib.suppress(Refused):
        decoder = Decoder(message, len(bits))
        recipe = read_tensor(decoder, shape)
        blocks = Blocks(message, decoder.finish(), len(bits))
        parts = [blocks.read(part)[0] if isinstance(part, Static) else part for part in recipe.parts]
        assert np.isfinite(to_float32(recipe.make(*parts), shape, None)).all()


@given(
    st.text("01", max_size=200), st.sampled_from([[], [["views", 2]], [["views", 4]], [["dictionary", 1, 1]]])
)
@examples(200)
def test_any_subspace(tail, operations):
    """A chain in a subspace whose fields are random bits."""
    message = writer.Message([*operations, ["linear", 3, False]], writer.Subspace(writer.zero((4,))))
    before = sum(bits for part, bits in message.ledger[:3])
    message.bits, message.ledger = message.bits[:before] + tail, [["method", before + len(tail)]]
    fields = writer.header(message, TRUE.x, TRUE.y, errors=60, classes=3)
    verdict = verify(writer.write(message, fields), TRUE.x, TRUE.y)
    assert verdict.verdict == "REFUSE"  # at least the ledger is wrong
    assert not any("SHA-256" in reason for reason in verdict.reasons)


@pytest.mark.thorough
def test_random_messages_reach_every_stage():
    """The fuzzing above has teeth: random bits get past the header, and some decode to a network."""
    random, seen = np.random.default_rng(0), set()
    for _ in range(300):
        message = writer.Message([["linear", 3, False]], {})
        message.bits = "01010" + "".join(random.choice(["0", "1"], 55))  # the right classes and scaling
        message.ledger = [["method", 60]]
        fields = writer.header(message, TRUE.x, TRUE.y, errors=60, classes=3)
        fields["facts"]["message_sha256"] = hashlib.sha256(message.packed()).hexdigest()
        for reason in verify(writer.write(message, fields), TRUE.x, TRUE.y).reasons:
            seen.add(reason.split(":")[0])
    assert {"Message", "Chain"} <= seen


@pytest.fixture(scope="module")
def claims():
    """A file of every claim and loss; plain claims come last."""
    return fuzzing.claims()


@pytest.fixture(scope="module")
def seeds(claims):
    """Files of every version and of every claim."""
    found = fuzzing.golden() + fuzzing.shorts() + claims
    for each in found:
        assert fuzzing.judged(each) == "accepted"
    return found


@pytest.mark.thorough
def test_mutants_are_refused_or_true(seeds):
    """A part of what ``make fuzz`` does, and enough of it to reach every answer."""
    choice, seen = random.Random(0), Counter()
    for _ in range(60):
        seen[fuzzing.judged(fuzzing.mutant(seeds, choice))] += 1
    assert set(seen) <= {"accepted", "decoded", "refused", ""}
    assert min(seen["accepted"], seen["decoded"], seen["refused"]) > 0


def lie(fields: dict, path: str, value) -> None:
    *way, last = path.split(".")
    for key in way:
        fields = fields[key]
    fields[last] = value(fields[last]) if callable(value) else value


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("statement", "path", "value", "words"),
    [
        ("C-2", "facts.errors", 0, "errors, not 0"),
        ("C-2", "claim.bound", lambda bound: bound - 1e-6, "the bound is"),
        ("C-2", "facts.n", 800, "n is 400"),
        ("C-2", "facts.sample_sha256", "0" * 64, "the sample is another"),
        ("C-10", "facts.errors", 0, "errors, not 0"),
        ("C-10", "facts.extra.n_prior", 3, "n is 397"),
        ("C-12a", "facts.errors", 0, "errors, not 0"),
        ("C-12b", "facts.extra.disagreements", 0, "disagree more often"),
        ("C-12b", "claim.bound", lambda bound: bound - 1e-6, "the bound is"),
    ],
)
def test_a_lie_would_be_noticed(claims, statement, path, value, words):
    """The check of what is accepted has teeth: it does not ask the verifier."""
    (seed,) = (
        each for each in claims[-4:] if fuzzing.parts(each.data).fields["claim"]["statement"] == statement
    )
    made = fuzzing.parts(seed.data)
    lie(made.fields, path, value)
    false = seed.mutated(fuzzing.sealed(made))
    assert any(words in what for what in fuzzing.falsehoods(false)), fuzzing.falsehoods(false)
    assert fuzzing.judged(false) in ("decoded", "refused")

"""Mutation fuzzing of real certificates against the verifier and against codebound's own reader.

    python tests/attack/fuzz_certificates.py --cases 10000 --seed 0 --out failing

Bytes, header fields, message bits, witness and version are mutated; hashes, lengths and the ledger's sum are
repaired after a mutation, so that it reaches the decoder. A case fails if anything but a refusal is raised,
if it takes longer or more memory than the limits, if the two decoders disagree, or if it is accepted and not
true: :func:`falsehoods` says what that means. Failing inputs are kept in ``--out``.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import os
import random
import resource
import signal
import struct
import sys
import time
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import cbound_writer as writer
import numpy as np
import rule_writer as rules
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from worlds import golden as kept
from worlds import messages
from worlds.samples import written_clusters

from codebound.bits.messages import Options
from codebound.certificate.assessment import assess, assess_picked, issue
from codebound.certificate.claims import AboutG, AfterSplit, ByDisagreement, OnDomain
from codebound.certificate.decoding import decode, rule_message
from codebound.certificate.file import Certificate
from codebound.certificate.task import Task
from codebound.learn.feature_weights import LayerFeatures
from codebound.learn.features import ColumnFeatures, FilterFeatures, PatchFeatures
from codebound.learn.picking import pick
from codebound.learn.rule import Rule
from codebound.run.errors import CodeboundError
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Dataset, Scaling
from codebound.sample.losses import parse_loss
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.message import decode as decode_message
from codebound_networks.chains.operations import Linear
from codebound_networks.chains.original import Original
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.codes.tensors import Dense, Zero
from codebound_verify import Refused, decode_network, verify
from codebound_verify.container import read
from codebound_verify.learn.rule import decode_rule
from codebound_verify.message import Message as TheirMessage

LIMIT_MB = 1024
CASE_SECONDS = 60  # of the processor
N = 12  # examples: evaluating is not what is fuzzed


@dataclass(frozen=True)
class Seed:
    """A true certificate, its sample, and what else its verification needs."""

    data: bytes
    x: np.ndarray
    y: np.ndarray
    given: dict[str, Any] = field(default_factory=dict)

    @property
    def base(self) -> dict[str, np.ndarray] | None:
        return self.given.get("base")

    def mutated(self, data: bytes) -> Seed:
        return replace(self, data=data)


def golden() -> list[Seed]:
    """The files of every version that are kept for ever."""
    quick = (path for path in kept.FILES if not path.stem.startswith("digits"))  # which are slow to evaluate
    return [Seed(path.read_bytes(), *kept.given(path)) for path in quick]


def claims() -> list[Seed]:
    """A certificate of every claim and loss whose bound says something, of versions 2 and 3."""
    chain, code = Chain((1, 2, 2), (Linear(3, False),)), Dense(writer.WEIGHT.astype(np.int32), -3, 2)
    fresh = written_clusters(300, seed=1, role="unlabelled")
    zeros = {"0.weight": np.zeros((3, 4), np.float32)}
    found = []
    plain = (AboutG(), AfterSplit(3), OnDomain(0.0, 16.0), ByDisagreement(fresh))
    old = ("class:1", "confused:0:2", "false-alarm:2", "top:2")
    new = ("cost-above:1:distance", "cost-above:2:012,103,f10")
    others = [
        *(AboutG(loss=parse_loss(text)) for text in (*old, *new)),
        OnDomain(0.0, 16.0, loss=parse_loss("confused:0:2")),
        *(ByDisagreement(fresh, loss=parse_loss(text)) for text in ("class:1", "top:2")),
    ]
    for claim in (*others, *plain):
        base = ("zero", zeros) if claim.trains_base else None
        weight = code.weights().copy()
        weight[0, 0] += np.float32(0.01 if claim.stays_near_f else 2.5)
        original = Original(chain, {"0.weight": torch.from_numpy(weight)})
        task = Task(sample=written_clusters(400), delta=0.05, claim=claim, original=original, base=base)
        certificate = issue(assess(Message(task.options, chain, {"0.weight": code}), task), task)
        given = {
            "base": task.base_tensors,
            "unlabelled": None if claim.unlabelled is None else claim.unlabelled.x,
            "subject_weights": original.arrays if claim.is_about_f else None,
        }
        found.append(Seed(certificate.to_bytes(), task.sample.x, task.sample.y, given))
    return found


def shorts() -> list[Seed]:
    """Short messages: heads on a base, one of them after a split, and rules that pick nothing."""
    sample = written_clusters(200)
    tensors = {"0.weight": torch.from_numpy(np.float32(writer.WEIGHT)), "0.bias": torch.zeros(3)}
    original = Original(Chain((1, 2, 2), (Linear(3, True),)), tensors)
    biases = Dense(np.array([1, 0, -1], dtype=np.int32), -24, 1)
    found = []
    for claim, last in (
        (AboutG(), Zero((3,))),
        (AfterSplit(3), biases),
        (AboutG(parse_loss("top:2")), biases),
    ):
        task = Task(sample=sample, delta=0.05, claim=claim, original=original, base=("b", original.arrays))
        message = Message(task.options, original.chain, {"0.weight": Zero((3, 4)), "0.bias": last})
        content = issue(assess(message, task), task).to_bytes()
        found.append(Seed(content, sample.x, sample.y, {"base": task.base_tensors}))
    for features, loss in ((ColumnFeatures(), "wrong"), (ColumnFeatures(True), "class:1")):
        task = Task(sample=sample, delta=0.05, claim=AboutG(parse_loss(loss)))
        rule = Rule(features, first=100, rounds=0, tenths=5)
        content = issue(assess_picked(pick(rule, sample), task), task).to_bytes()
        found.append(Seed(content, sample.x, sample.y))
    return found


def picks() -> list[Seed]:
    """Certificates of networks that were learned from picked examples, of every kind of features."""
    x, y = rules.shapes(90, seed=1)
    sample = from_arrays(x, y, name="shapes", classes=3, scaling=Scaling(16.0))
    found = []
    for features, copies, loss in (
        (ColumnFeatures(), 0, "wrong"),
        (ColumnFeatures(True), 0, "wrong"),
        (FilterFeatures(True, 3, 3), 2, "wrong"),
        (PatchFeatures(3, 256, 1, 2, 2), 1, "wrong"),
        *((ColumnFeatures(), 0, loss) for loss in ("class:1", "cost-above:2:012,103,f10")),
        (LayerFeatures(ColumnFeatures(), (2, 3, 2, 1, 0, 2) * 6), 0, "wrong"),
        (LayerFeatures(FilterFeatures(True, 3, 3), (2, 3, 2, 1), by_window=True), 2, "wrong"),
        (LayerFeatures(PatchFeatures(3, 256, 1, 2, 2), (2, 3)), 1, "wrong"),
        (LayerFeatures(ColumnFeatures(), (), strength=2), 0, "wrong"),
    ):
        task = Task(sample=sample, delta=0.05, claim=AboutG(loss=parse_loss(loss)))
        picked = pick(Rule(features, first=30, copies=copies, batch=2, rounds=3), sample)
        certificate = issue(assess_picked(picked, task), task)
        found.append(Seed(certificate.to_bytes(), sample.x, sample.y))
    return found


def codes() -> list[Seed]:
    """True certificates of every mode and operation, with their samples; they claim nothing."""
    stream, found = np.random.default_rng(0), []
    small = {"i": st.integers(0, 1), "stages": st.tuples(messages.STAGES), "e": st.integers(0, 3)}
    stacks = st.builds(writer.Stack, v=st.integers(0, 4), t=st.sampled_from([0, 1, 3]), **small)
    plain = {"phases": [Phase.generate], "suppress_health_check": list(HealthCheck), "deadline": None}

    @seeded(0)
    @settings(max_examples=300, database=None, **plain)
    @given(messages.chains() | stacks.map(messages.chain_of_stack), st.data())
    def draw(chain, data) -> None:
        shapes = chain.tensor_shapes()
        each = {name: messages.codes(shape) for name, shape in shapes.items()}
        x = stream.integers(0, 256, (N, *chain.input_shape)).astype(np.uint8)
        sample = from_arrays(x, stream.integers(0, 3, N), name="noise", classes=3, scaling=Scaling(255.0))
        tensors = data.draw(st.fixed_dictionaries(each) | messages.subspaces(-200, -80))
        task = Task(sample=sample, delta=0.05)
        with contextlib.suppress(CodeboundError):  # weights that are too large
            content = issue(assess(Message(Options(), chain, tensors), task), task).to_bytes()
            found.append(Seed(content, sample.x, sample.y))

    draw()
    return found


@dataclass(frozen=True)
class Parts:
    """A file, taken apart."""

    version: int
    fields: dict
    bits: str
    witness: bytes


def parts(data: bytes) -> Parts:
    """Version, header, message bits and witness of a true certificate."""
    end = 12 + int.from_bytes(data[8:12], "little")
    fields = json.loads(data[12:end])
    length = fields["facts"]["code_bits"]
    behind = end + (length + 7) // 8
    bits = "".join(f"{byte:08b}" for byte in data[end:behind])[:length]
    return Parts(data[7], fields, bits, data[behind + 4 : -32])


def sealed(made: Parts) -> bytes:
    """A file with right hashes, a right length and a ledger with a right sum, where the fields allow that."""
    fields, bits = made.fields, made.bits
    message = writer.pack_bits(bits)
    if isinstance(fields.get("facts"), dict):
        fields["facts"]["message_sha256"] = hashlib.sha256(message).hexdigest()
        fields["facts"]["code_bits"] = len(bits)
        ledger = fields.get("ledger")
        if isinstance(ledger, list) and ledger and isinstance(ledger[0], list) and len(ledger[0]) == 2:
            rest = [entry[1] for entry in ledger[1:] if isinstance(entry, list) and len(entry) == 2]
            if all(isinstance(each, int) for each in rest):
                ledger[0][1] = max(0, len(bits) - sum(rest))
    head = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    witness = b"" if made.version == 1 else struct.pack("<I", len(made.witness)) + made.witness
    body = b"CBOUND\0" + bytes([made.version]) + struct.pack("<I", len(head)) + head + message + witness
    return body + hashlib.sha256(body).digest()


INTERESTING = (0, 1, -1, 2, 3, 255, 256, 2**16, 2**16 + 1, 2**24, 2**31, 2**32, 2**53, 10**40, 0.0, -0.0, 1.0,
               0.5, 1e-300, 1e300, 1.5, True, False, None, "", "g", "f", "C-2", "C-10", "C-12a", "C-12b",
               "C-15", "x" * 500, "0" * 64, [], {}, [1], [[]], [1, 2, 3], {"a": 1})  # fmt: skip


def mutated_header(fields: dict, choice: random.Random) -> None:
    """One field, anywhere, becomes something else."""
    node = fields
    while True:
        key = choice.choice(sorted(node)) if isinstance(node, dict) else choice.randrange(len(node))
        child = node[key]
        if isinstance(child, dict | list) and child and choice.random() < 0.8:
            node = child
            continue
        kind = choice.random()
        if kind < 0.15 and isinstance(node, dict):
            del node[key]
        elif kind < 0.25 and isinstance(node, dict):
            node[choice.choice(("n", "errors", "extra", "x", "base"))] = deepcopy(choice.choice(INTERESTING))
        elif kind < 0.5 and isinstance(child, int | float) and not isinstance(child, bool):
            node[key] = child + choice.choice((1, -1, 0.5, 1e-9, -1e-9, child, -child))
        else:
            node[key] = deepcopy(choice.choice(INTERESTING))
        return


def mutated_bits(bits: str, others: list[str], choice: random.Random) -> str:
    """Flips, insertions, deletions, splices with another message, random tails."""
    for _ in range(choice.choice((1, 1, 1, 2, 4))):
        at = choice.randrange(len(bits) + 1)
        kind = choice.random()
        if kind < 0.45 and at < len(bits):
            bits = bits[:at] + str(1 - int(bits[at])) + bits[at + 1 :]
        elif kind < 0.6:
            bits = bits[:at] + "".join(choice.choices("01", k=choice.choice((1, 2, 8, 40)))) + bits[at:]
        elif kind < 0.75:
            bits = bits[:at] + bits[at + choice.choice((1, 2, 8, 40)) :]
        elif kind < 0.9:
            other = choice.choice(others)
            bits = bits[:at] + other[choice.randrange(len(other) + 1) :]
        else:
            bits = bits[:at] + "".join(choice.choices("01", k=choice.randrange(400)))
    return bits


def random_tensor(coder: writer.Coder, choice: random.Random) -> None:
    """The beginning of a tensor; those of modes 8 to 12 are complete, with zeros inside."""
    coder.gamma(mode := choice.choice((2, 2, 2, 2, 2, 2, 1, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14)))
    if mode == 8:
        coder.bit(choice.random() < 0.5)
        coder.bit(choice.random() < 0.2)
        coder.gamma(choice.choice((1, 3, 50, 2**16 + 1)))
    elif mode == 9:
        coder.gamma(choice.choice((1, 3, 50, 2**12 + 1)))
    elif mode == 11:
        coder.uniform(choice.randrange(3), 3)
    elif mode == 12:
        coder.gamma(choice.choice((1, 3, 50, 2**12)))
        coder.gamma(choice.choice((1, 3, 50, 2**12)))
    if mode in (8, 11, 12):
        coder.gamma(choice.choice((1, 2, 2**41 - 1)))
    if 8 <= mode <= 13:
        coder.gamma(choice.choice((2, 2, 2, 2, 3, 7, 8, 14)))
    if mode == 9:
        coder.gamma(2)
    elif mode == 10:
        coder.bit(0)


def random_subspace(coder: writer.Coder, choice: random.Random) -> None:
    """The fields of a subspace, and integers that are mostly zeros."""
    coder.gamma(choice.choice((1, 3, 50, 2**20, 2**20 + 1)))
    coder.uniform(choice.randrange(3), 3)
    coder.signed(choice.choice((0, -9, -1000, 1000, 1001)))
    coder.bit(choice.random() < 0.5)
    coder.gamma(choice.choice((1, 2, 2**41 - 1)))
    coder.gamma(choice.choice((2, 2, 2, 2, 1, 3, 4, 5, 7, 8, 14)))


def random_message(choice: random.Random, fields: dict) -> str:
    """A message that is well-formed as long as chance allows, with sizes up to their limits."""
    coder = writer.Coder()
    scaling = fields["helper"]["scaling"] if choice.random() < 0.9 else random_scaling(choice)
    writer.write_setting(coder, fields["facts"]["classes"] if choice.random() < 0.95 else 2**16, scaling)
    coder.gamma(method := choice.choice((1, 1, 1, 2, 2, 3, 4)))
    for _ in range(3):
        coder.bit(choice.random() < 0.02)
    if method == 3:
        random_rule(coder, choice)
        return coder.end() + "".join(choice.choices("01", k=choice.choice((0, 0, 0, 3))))
    count = random_stack(coder, choice) if choice.random() < 0.2 else random_chain(coder, choice)
    if method == 2:
        random_subspace(coder, choice)
    else:
        for _ in range(count):
            random_tensor(coder, choice)
    return coder.end() + "".join(choice.choices("01", k=choice.randrange(300)))


def random_rule(coder: writer.Coder, choice: random.Random) -> None:
    """Any point of the grid of rules; layers of any length, and rounds out of order, included."""
    coder.uniform(choice.choice((0, 0, 1, 2, 3, 7, 15)), 16)
    coder.bit(is_usual := choice.random() < 0.2)
    if not is_usual:
        coder.uniform(kind := choice.choice((0, 0, 1, 1, 2, 2, 3, 3, 3)), 4)
        if kind == 3:
            coder.uniform(below := choice.randrange(4), 4)
        for total in ((2,), (2, 2, 4), (8, 4, 8, 4, 8, 4), (2,))[below if kind == 3 else kind]:
            coder.uniform(choice.randrange(total), total)
        if kind == 3:
            random_layer(coder, choice)
        if kind != 3 or below != 3:
            coder.uniform(choice.choice((0, 0, choice.randrange(8))), 8)
        for total in (16, 16, 8):
            coder.uniform(choice.randrange(total), total)
    coder.uniform(choice.choice((0, 1, 2, 5, 31)), 32)
    coder.uniform(rounds := choice.choice((0, 1, 2, 3, 31)), 32)
    coder.gamma(1 + (longer := choice.choice((0, 0, 0, 1, 2))))
    for _ in range(longer if rounds else 0):
        coder.uniform(choice.randrange(rounds), rounds)
        coder.uniform(choice.randrange(8), 8)


def random_layer(coder: writer.Coder, choice: random.Random) -> None:
    """Weights of a layer: as many as columns or windows may have, or not."""
    coder.uniform(strength := choice.choice((0, 0, 1, 2, 3)), 4)
    if strength:
        return
    if choice.random() < 0.5:
        coder.bit(choice.random() < 0.5)
    coder.bit(near := choice.random() < 0.5)
    contexts, before = [writer.Context(4) for _ in range(4)], 2
    for _ in range(choice.choice((1, 2, 4, 4, 9, 36, 36))):
        symbol = choice.choice((0, 1, 2, 2, 2, 3))
        contexts[before if near else 0].code(coder, symbol)
        before = symbol


def random_scaling(choice: random.Random) -> dict:
    """Listed constants, or others."""
    if choice.random() < 0.8:
        return {"divisor": choice.choice((1, 16, 255)), "mean": [0.0], "std": [1.0]}
    values = (0.0, -0.0, 1.0, 0.5, -1.0, 1e30, 1e-40, 255.0)
    count = choice.choice((1, 1, 2, 3, 4))
    mean, std = ([choice.choice(values) for _ in range(count)] for _ in "ab")
    return {"divisor": choice.choice(values), "mean": mean, "std": std}


def random_stack(coder: writer.Coder, choice: random.Random) -> int:
    """Any point of the grid; the number of its tensors."""
    stages = [
        writer.Stage(
            choice.randrange(3), choice.choice((1, 1, 2, 3)), choice.randrange(3), choice.randrange(3)
        )
        for _ in range(choice.choice((1, 1, 2, 4)))
    ]
    writer.Stack(
        v=choice.choice((0, 0, 1, 2, 3, 4, 5, 15)),
        t=choice.choice((0, 0, 1, 3, 2, 7)),
        p=choice.randrange(1, 5),
        i=choice.randrange(8),
        stages=tuple(stages),
        e=choice.randrange(4),
    ).write(coder)
    return sum(stage.c for stage in stages) + 1


def random_chain(coder: writer.Coder, choice: random.Random) -> int:
    """Operations of all kinds; their number."""
    coder.gamma(1)
    count = choice.choice((1, 2, 3, 4, 8, 60, 255, 256))
    coder.gamma(count)
    for position in range(count):
        if position == count - 1:
            kind = 1
        elif position < 2 and choice.random() < 0.3:
            kind = choice.choice((9, 10))
        else:
            kind = choice.choice((1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 8, 9, 10))
        coder.gamma(kind)
        size = choice.choice((1, 1, 2, 3, 7, 64, 500, 2**12, 2**15, 2**16))
        if kind == 1 and position < count - 1:
            coder.gamma(size)
        elif kind in (2, 7):
            for each in (
                size,
                choice.choice((1, 2, 3, 9)),
                choice.choice((1, 2)),
                choice.choice((1, 2, 900)),
            ):
                coder.gamma(each)
        elif kind in (3, 4):
            coder.gamma(choice.choice((1, 1, 2, 3)))
        elif kind == 6:
            coder.gamma(size)
        elif kind == 8:
            coder.gamma(size)
            coder.gamma(choice.choice((1, 3, 3, 5, 2, 99, 2**12 - 1)))
        elif kind == 9:
            coder.uniform(choice.choice((1, 3, 3, 2)) - 1, 7)
            coder.gamma(choice.choice((1, 2, 3, 2**16)))
        elif kind == 10:
            coder.uniform(choice.choice((1, 2, 3, 4, 5)) - 1, 15)
        if kind in (1, 2, 6, 7):
            coder.bit(choice.random() < 0.3)
    return count


def mutated_witness(witness: bytes, choice: random.Random) -> bytes:
    """Bytes changed, put in, taken out, or all of them new."""
    changed = bytearray(witness)
    for _ in range(choice.choice((1, 1, 2, 8))):
        at, kind = choice.randrange(len(changed) + 1), choice.random()
        if kind < 0.5 and at < len(changed):
            changed[at] ^= 1 << choice.randrange(8)
        elif kind < 0.7:
            changed[at:at] = choice.randbytes(choice.choice((1, 4, 8, 100)))
        elif kind < 0.9:
            del changed[at : at + choice.choice((1, 4, 8, 100))]
        else:
            changed = bytearray(choice.randbytes(choice.randrange(200)))
    return bytes(changed)


def recoded(seed: Seed, choice: random.Random) -> Seed:
    """Another network, coded as it should be, under a header that is right but for its number of errors."""
    certificate = Certificate.from_bytes(seed.data)
    message = decode_message(
        certificate.message,
        input_shape=seed.x.shape[1:],
        short_classes=certificate.facts.classes if certificate.is_short else None,
    )
    if isinstance(message.codes, Subspace):
        codes = replace(message.codes, inner=_moved(message.codes.inner, choice))
    else:
        codes = {name: _moved(code, choice) for name, code in message.codes.items()}
    bits, ledger = replace(message, codes=codes).encode()
    made = parts(seed.data)
    claim, facts = made.fields["claim"], made.fields["facts"]
    errors = facts["errors"] + choice.choice((-facts["errors"], -2, -1, 0, 0, 0, 1, 2, facts["n"]))
    facts["errors"] = max(0, min(facts["n"], errors))
    facts["code_bits"], made.fields["ledger"] = bits.length, [list(each) for each in ledger]
    claim |= writer.forms(facts["errors"], facts["n"], bits.length, claim["delta"])
    claim["vacuous"] = claim["bound"] >= _guessing(certificate.facts, certificate.loss)
    coded = "".join(f"{byte:08b}" for byte in bits.data)[: bits.length]
    return seed.mutated(sealed(replace(made, bits=coded)))


def _moved(code, choice: random.Random):
    """The code with some integers in other places; codes without integers as they are."""
    if type(code).__name__ not in ("Adaptive", "Dense", "Enumerative", "Bell"):
        return code
    levels = code.levels.copy()
    flat = levels.reshape(-1)
    for _ in range(choice.choice((1, 1, 2, 5))):
        flat[choice.randrange(flat.size)] = flat[choice.randrange(flat.size)]
    return replace(code, levels=levels)


def damaged(data: bytes, choice: random.Random) -> bytes:
    """Bytes changed anywhere, and mostly the hash put right."""
    raw = bytearray(data)
    for _ in range(choice.choice((1, 2, 8))):
        raw[choice.randrange(len(raw))] = choice.randrange(256)
    if choice.random() < 0.7:
        raw[-32:] = hashlib.sha256(bytes(raw[:-32])).digest()
    return bytes(raw)


def mutant(seeds: list[Seed], choice: random.Random) -> Seed:
    """A true certificate with something changed, sealed again."""
    seed = choice.choice(seeds)
    made, kind = parts(seed.data), choice.random()
    if kind < 0.1:
        return seed.mutated(damaged(seed.data, choice))
    if kind < 0.14:
        return seed.mutated(sealed(replace(made, version=choice.choice((0, 1, 2, 3, 255)))))
    if kind < 0.22:
        return seed.mutated(sealed(replace(made, witness=mutated_witness(made.witness, choice))))
    is_plain = made.version == 2 and made.fields["claim"]["statement"] not in ("C-12b", "C-15")
    if kind < 0.35 and is_plain:
        return recoded(seed, choice)
    if kind < 0.5:
        for _ in range(choice.choice((1, 1, 2))):
            mutated_header(made.fields, choice)
        return seed.mutated(sealed(made))
    if kind < 0.88:
        others = [parts(other.data).bits for other in choice.sample(seeds, 3)]
        made = replace(made, bits=mutated_bits(made.bits, others, choice))
        if choice.random() < 0.3:
            made = replace(made, witness=mutated_witness(made.witness, choice))
        return seed.mutated(sealed(made))
    return seed.mutated(sealed(replace(made, bits=random_message(choice, made.fields))))


class Hang(BaseException):
    """A case took too long."""


def on_alarm(signum, frame) -> None:
    raise Hang


def judged(seed: Seed) -> str:
    """What became of a case: a word if all is well, a sentence with a space if not."""
    verdict = verify(seed.data, seed.x, seed.y, **seed.given)
    theirs = ours = None
    try:
        _, theirs = decode_network(seed.data, base=seed.base)
    except Refused as refused:
        reason = str(refused)
    with contextlib.suppress(CodeboundError):
        ours = decode(Certificate.from_bytes(seed.data), base=seed.base).state_dict()
    if theirs is None and ours is None and (differ := rules_differ(seed)):
        return differ
    if theirs is not None and ours is None:
        return "only the verifier decodes it"
    if theirs is None and ours is not None and reason.startswith(("Chain:", "Message:")):
        return "" if "right exactly when" in reason else f"only codebound decodes it: {reason}"
    if theirs is not None and any(theirs[name].tobytes() != ours[name].numpy().tobytes() for name in theirs):
        return "the decoders give different weights"
    if verdict.is_accepted:
        wrong = falsehoods(seed)
        return f"accepted, and false: {'; '.join(wrong)}" if wrong else "accepted"
    return "decoded" if theirs is not None else "refused"


def rules_differ(seed: Seed) -> str:
    """Whether only one program reads a rule in the message, or they read different ones; else nothing."""
    try:
        certificate, file = Certificate.from_bytes(seed.data), read(seed.data)
    except (CodeboundError, Refused):
        return ""
    ours = theirs = None
    with contextlib.suppress(CodeboundError):
        message = rule_message(certificate)
        is_known = message.version <= max(2, certificate.version)
        if message.setting == certificate.setting and is_known and not certificate.witness:
            ours = message.rule
    with contextlib.suppress(Refused):
        theirs = decode_rule(TheirMessage(file))
    if ours is None or theirs is None:
        return (
            "" if ours is theirs else f"only {'codebound' if theirs is None else 'the verifier'} reads a rule"
        )
    batches = tuple(map(ours.batch_of, range(ours.rounds)))
    layer = None
    if ours.features.plain is not ours.features:
        chosen = ours.features
        groups = chosen.below.groups(message.input_shape, by_window=chosen.by_window)
        layer = chosen.strength or tuple((0, 1, 2, 4)[chosen.symbols[group]] for group in groups)
    score = None if ours.tenths else -ours.wanted_margin, None if theirs.tenths else theirs.target
    mine = ours.first, ours.copies, ours.gamma, ours.ridge, score[0], batches, layer
    other = theirs.first, theirs.copies, theirs.gamma, theirs.ridge, score[1], theirs.batches
    mine = *mine, ours.tenths, message.spare_classes
    other = *other, theirs.layer, theirs.tenths, theirs.more_classes
    return "" if mine == other else f"the programs read different rules: {mine} and {other}"


def false_picks(seed: Seed, certificate) -> list[str]:
    """The same for C-15: the rule is run by codebound, and the bound is computed by integers alone."""
    claim, facts = certificate.claim, certificate.facts
    message = rule_message(certificate)
    rule, first = message.rule, seed.y[rules.order(len(seed.y))[: message.rule.first]]
    divisor = message.setting.scaling.divisor
    sample = Dataset("seed", "train", seed.x, seed.y, facts.classes, Scaling(divisor))
    picked = pick(replace(message.rule, longer=()), sample)
    loss, labels = certificate.loss, torch.from_numpy(seed.y)
    part = loss.is_counted(labels)
    part[torch.from_numpy(picked.order[: message.rule.first])] = False
    left = part.clone()
    left[torch.from_numpy(picked.order)] = False
    errors = int((loss.leads(picked.learned.outputs[left], labels[left]) <= 0.0).sum())
    n, picks = int(part.sum()), int(part.sum() - left.sum())
    tally = facts.tally or {}
    limit = rules.picked_limit
    if certificate.version == 3 and not message.rule.rounds:  # a hold-out set
        limit = writer.binomial_limit
    least = limit(picks + facts.errors, n, facts.code_bits, claim.delta)
    checks = {
        f"the rule leaves {errors} errors": errors <= facts.errors,
        f"the rule picks {picks} there": tally.get("picks", picks) == picks,
        "the rule picks others": picked.rule == message.rule,
        "another share comes first": rule.tenths is None or rule.first == rule.tenths * len(seed.y) // 10,
        "there are other classes": rule.tenths is None
        or facts.classes == max(first) + 1 + message.spare_classes,
        f"n is {n}": n == facts.n,
        f"the bound is {least}": min(1.0, least) <= claim.bound * (1 + 1e-12),
    }
    return [what for what, is_so in checks.items() if not is_so]


def falsehoods(seed: Seed) -> list[str]:
    """What a certificate states that is not so.

    The network is the one that codebound decodes; it is evaluated and counted by plain arithmetic, and the
    bound is computed with exact fractions. Neither is code of the verifier.
    """
    certificate = Certificate.from_bytes(seed.data)
    claim, facts = certificate.claim, certificate.facts
    if claim.statement == "C-15":
        return false_picks(seed, certificate)
    network = decode(certificate, base=seed.base)
    logits, labels = torch.from_numpy(_logits(network, seed.x, certificate)), torch.from_numpy(seed.y)
    leads, tally = certificate.loss.leads(logits, labels).numpy(), facts.tally or {}
    counted = np.arange(len(seed.y))
    if claim.statement == "C-10":
        counted = np.argsort(writer.outputs(0, "split", len(seed.y)), kind="stable")[facts.extra["n_prior"] :]
    counted = counted[certificate.loss.is_counted(labels).numpy()[counted]]
    limit, added = 0.0, 0.0
    if claim.statement == "C-12a":
        others = certificate.loss.leads(
            torch.from_numpy(_f_logits(seed, seed.x, certificate)), labels
        ).numpy()
        with np.errstate(invalid="ignore"):
            limit = float(np.nanmax(np.abs(leads - others)))  # theta is larger: this is seen on the sample
    if claim.statement == "C-12b":
        added, differ = _disagreements(seed, network, certificate)
        added /= tally.get("share", 1.0)
    errors = int((~(leads[counted] > limit)).sum())
    delta = facts.extra.get("delta_risk", claim.delta)
    least = writer.binomial_limit(facts.errors, facts.n, facts.code_bits, delta) + added
    digest = hashlib.sha256(certificate.message.data).hexdigest()
    checks = {
        f"it makes {errors} errors, not {facts.errors}": errors <= facts.errors,
        f"n is {len(counted)}, not {facts.n}": facts.n == len(counted),
        f"the bound is {least}, not {claim.bound}": min(1.0, least) <= claim.bound * (1 + 1e-12),
        "the sample is another": writer.sample_hash(seed.x, seed.y) == facts.sample_sha256,
        "the message is another": digest == facts.message_sha256,
        "the message has another length": certificate.message.length == facts.code_bits,
        "there are more classes": int(seed.y.max()) < facts.classes,
        "guessing does as well": claim.vacuous or claim.bound < _guessing(facts, certificate.loss),
        "delta is no probability": 0.0 < claim.delta < 1.0 and delta <= claim.delta,
    }
    if certificate.version > 1:
        repeats = writer.repeats(seed.x, seed.y)
        checks["rows occur again"] = repeats == (facts.copies, facts.contradictions)
        common = int(np.bincount(seed.y[counted]).max())
        checks["the commonest label is another"] = common == facts.commonest
    if claim.statement == "C-12b":
        checks["f and g disagree more often"] = differ <= facts.extra["disagreements"]
    return [what for what, is_so in checks.items() if not is_so]


def _guessing(facts, loss) -> float:
    """The error of guessing, and of the commonest label where plain errors count and the file states it."""
    blind = loss.guess_rate(facts.classes)
    return min(blind, 1.0 - (facts.commonest or 0) / facts.n) if str(loss) == "wrong" else blind


def _scaled(x: np.ndarray, certificate) -> np.ndarray:
    scaling, ones = certificate.helper.scaling, (1,) * (x.ndim - 2)
    mean, std = (np.array(each, float).reshape(-1, *ones) for each in (scaling.mean, scaling.std))
    return (x.astype(float) / scaling.divisor - mean) / std


def _logits(network, x: np.ndarray, certificate) -> np.ndarray:

    with torch.no_grad(), np.errstate(all="ignore"):
        return network.double()(torch.from_numpy(_scaled(x, certificate))).numpy()


def _f_logits(seed: Seed, x: np.ndarray, certificate) -> np.ndarray:
    """Logits of f, which is one linear layer in every seed that has one."""
    (weight,) = (each for each in seed.given["subject_weights"].values() if each.ndim == 2)
    bias = sum(each for each in seed.given["subject_weights"].values() if each.ndim == 1)
    return _scaled(x, certificate).reshape(len(x), -1) @ weight.astype(float).T + bias


def _disagreements(seed: Seed, network, certificate) -> tuple[float, int]:
    """The limit on the share of disagreements, and how many there are at least."""
    facts, fresh = certificate.facts, seed.given["unlabelled"]
    first, second = _logits(network, fresh, certificate), _f_logits(seed, fresh, certificate)
    stated = facts.extra["disagreements"]
    limit = writer.binomial_limit(stated, facts.extra["n_unlabelled"], 0, facts.extra["delta_disagreement"])
    best = certificate.loss.guesses
    guesses = [np.sort(np.argsort(-each, axis=1)[:, :best], axis=1) for each in (first, second)]
    return limit, int((guesses[0] != guesses[1]).any(axis=1).sum())


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def corpus() -> list[Seed]:
    """All seeds; those of every claim as often as a tenth of the others, because they are few."""
    found, few = codes(), golden() + claims() + shorts() + picks()
    return found + few * max(1, len(found) // (10 * len(few)))


def outcome_of(case: Seed) -> str:
    """What :func:`judged` says, or how it failed to say it."""
    signal.setitimer(signal.ITIMER_PROF, CASE_SECONDS)
    try:
        return judged(case)
    except Hang:
        return f"took more than {CASE_SECONDS} seconds"
    except BaseException as error:
        return f"raised {type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def fuzz(seconds: float, cases: int, seed: int, out: Path) -> dict:
    """Runs cases for some time, or so many; returns counts and what failed."""
    torch.set_num_threads(1)
    seeds = corpus()
    for each in {each.data: each for each in seeds}.values():
        assert judged(each) == "accepted"
    virtual = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (virtual + (LIMIT_MB << 20),) * 2)
    signal.signal(signal.SIGPROF, on_alarm)
    choice, start = random.Random(seed), time.monotonic()
    found = {"cases": 0, "accepted": 0, "decoded": 0, "refused": 0, "failures": [], "slowest_s": 0.0}
    found["baseline_mb"] = round(peak_mb())
    while time.monotonic() - start < seconds and found["cases"] < cases:
        case = mutant(seeds, choice)
        found["cases"] += 1
        begin = time.process_time()
        outcome = outcome_of(case)
        found["slowest_s"] = max(found["slowest_s"], round(time.process_time() - begin, 2))
        if peak_mb() > LIMIT_MB and not found.get("above_limit"):
            outcome, found["above_limit"] = f"took {peak_mb():.0f} MB", True
        if outcome in found:
            found[outcome] += 1
        elif outcome:
            out.mkdir(parents=True, exist_ok=True)
            name = hashlib.sha256(case.data).hexdigest()[:16]
            (out / f"{name}.cbound").write_bytes(case.data)
            np.savez(out / f"{name}.npz", x=case.x, y=case.y)
            found["failures"].append([name, outcome])
        if found["cases"] % 5000 == 0:
            print(json.dumps({**found, "failures": len(found["failures"])}), file=sys.stderr, flush=True)
    found["peak_mb"] = round(peak_mb())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("failing"))
    options = parser.parse_args()
    found = fuzz(options.seconds, options.cases, options.seed, options.out)
    print(json.dumps(found, indent=2))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())

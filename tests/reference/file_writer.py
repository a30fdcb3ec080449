"""Writer of files of format 1.0 from docs/format-1.0.md alone: whatever the bits of a message say is done.

`write_file` takes a world, which is all that was fixed before, and the bits of a message. `edited` changes
what stands in a file, with its hashes; a lie about the counts is told before limits are taken.
"""

import copy
import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import certificate_reader as reader
import mpmath
import numpy as np
from certificate_counts import Sample, check_limits, hash_of, is_vacuous, limit_of, recount
from certificate_reader import File, Message, decode, must, read_container
from code_writer import encoded, packed
from numpy.lib.stride_tricks import sliding_window_view
from rule_learner import Learner

FORMAT = {
    "frozen": "2026-11-19",
    "sha256": "b45e2a14cf3b571aeaa1299bb8f4e7927dc3a3ee2c68ffecc02185c686b504f3",
}
"""Day and hash of the page."""
ASSUMED = ["The rows are independent draws from where new data come from.", "What was fixed before is so."]
KINDS = {1: "linear", 2: "conv", 3: "max pool", 4: "average pool", 5: "global average pool"}
FAR = -1e300


@dataclass
class Table:
    """Declared scores of all rows, made from the first `rows` and from the picks."""

    scores: np.ndarray
    rows: int = 0
    picks: np.ndarray | None = None

    @property
    def header(self) -> dict:
        arrays = [self.scores, *([] if self.picks is None else [self.picks])]
        made = {"by": "a learner, seed 0", "of": "a sample", "rows": self.rows, "sha256": hash_of(*arrays)}
        picks = None if self.picks is None else len(self.picks)
        return made | {"columns": self.scores.shape[1], "picks": picks}


@dataclass
class World:
    """What was fixed before (5.1).

    A `network` f that was given is a message's network; `answers` are declared in place of it.
    """

    sample: Sample
    cells: bool = False
    seal: str = ""
    tables: list[Table] = field(default_factory=list)
    features: dict | None = None
    base: dict[str, np.ndarray] | None = None
    base_rows: int = 0
    network: dict | None = None
    domain: tuple[float, float] | None = None
    unlabelled: np.ndarray | None = None
    answers: np.ndarray | None = None
    delta: float = 0.05
    classes: int | None = None

    @property
    def given(self) -> bool:
        return self.network is not None or self.answers is not None


# Words of messages


def bits(value: int, width: int) -> str:
    return f"{value:0{width}b}" if width else ""


def gamma(k: int) -> str:
    return "0" * (k.bit_length() - 1) + f"{k:b}"


def signed(j: int) -> int:
    return 2 * j + 1 if j >= 0 else -2 * j


def of_split(share=0, features="0", *, weights=0, copies="", kernel=4, ridge=4) -> str:
    """Word `1110` (5.4): indices, and the bits of the features."""
    return f"1110{bits(share, 4)}{features}{bits(weights, 2)}{copies}{bits(kernel, 4)}{bits(ridge, 4)}"


def of_picks(classes: int, first: int, batch: int, rounds: int, *, rule="1", longer=()) -> str:
    """Word `11110` (5.5): indices of the lists, `rule` in bits, and pairs of a step and of more picks."""
    text = "11110" + gamma(classes - 1) + bits(first, 4) + rule + bits(batch, 5) + bits(rounds, 5)
    return text + gamma(len(longer) + 1) + "".join(gamma(step) + bits(more - 1, 3) for step, more in longer)


def of_biases(table: int, exponent: int | None = None, signs=()) -> str:
    """Word `110` (5.3)."""
    told = "0" if exponent is None else "1" + bits(exponent, 4) + "".join(("0", "10", "11")[q] for q in signs)
    return "110" + gamma(table) + told


def of_network(classes, chain, tensors, *, scaling=(0,), theta=None, is_base=False, steps=()) -> str:
    """Word `111110` with dense integers (mode 3); a step has index 0, which is 1, or that of `steps`.

    A chain is of [id, sizes ...]: numbers as gamma, bits as text; the last out is not coded.
    """
    told = [classes - 1, (scaling[0], 4)]
    if scaling[0] == 3:
        told += [((len(scaling) - 2) // 2 - 1, 4), *map(float, scaling[1:])]
    told += ["0", *(["0"] if theta is None else ["1", signed(theta)]), "01"[is_base], "0", len(chain)]
    told += [number for operation in chain for number in operation]
    for place, tensor in enumerate(tensors):
        most = max(1, int(np.abs(tensor).max()))
        told += [3, signed(steps[place] if steps else 0), most]
        told += [(int(q) + most, 2 * most + 1) for q in np.ravel(tensor)]
    return "111110" + encoded(*told)


# What a message says, carried out


def with_base(network: dict, base: dict | None) -> dict:
    """Add a base, rounded once to float32 (8.3)."""
    if base is None:
        return network
    must(all(name in base and base[name].shape == q.shape for name, q in network["tensors"].items()), "base")
    tensors = {name: np.float32(base[name] + value) for name, value in network["tensors"].items()}
    return network | {"tensors": {name: value.astype(float) for name, value in tensors.items()}}


def windows(z: np.ndarray, kernel: int, stride: int, padding: int = 0) -> np.ndarray:
    wide = np.pad(z, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    return sliding_window_view(wide, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]


def logits(network: dict, x: np.ndarray) -> np.ndarray:
    """Compute a chain of linear, conv and pools (8.6)."""
    divisor, *told = network["scaling"]
    mean, std = np.reshape(told, (2, -1, *[1] * (x.ndim - 2)))
    z = (x.astype(float) / divisor - mean) / std
    for place, (kind, *sizes) in enumerate(network["chain"]):
        w, b = (network["tensors"].get(f"{place}.{name}") for name in ("weight", "bias"))
        if kind == 1:
            z = z.reshape(len(z), -1) @ w.T + (0 if b is None else b)
        elif kind == 2:
            seen = windows(z, *sizes[1:4])
            z = np.einsum("ncijab,ocab->noij", seen, w) + (0 if b is None else b[:, None, None])
        elif kind == 5:
            z = z.mean(axis=(2, 3), keepdims=True)
        else:
            seen = windows(z, sizes[0], sizes[0])
            z = seen.max(axis=(4, 5)) if kind == 3 else seen.mean(axis=(4, 5))
        if kind in (1, 2) and place < len(network["chain"]) - 1:
            z = np.maximum(z, 0)
    return z


def drift(world: World, g: dict, more=1 + 1e-6) -> float:
    """Bound sqrt(2) times how far f and g are apart on a domain, for linear layers (9.2)."""
    divisor, mean, std = g["scaling"]
    ends = [abs((end / divisor - mean) / std) for end in world.domain]
    m, e, f = max(ends) * np.sqrt(world.sample.x[0].size), 0.0, world.network["tensors"]
    for name, own in g["tensors"].items():
        change = own - f[name]
        if name.endswith("weight"):
            a, u = (np.linalg.norm(each, 2) for each in (f[name], change))
            e, m = (a + u) * e + u * m, a * m
        else:
            e, m = e + np.linalg.norm(change), m + np.linalg.norm(f[name])
    return float(np.sqrt(2) * e * more)


@dataclass
class Outcome:
    """Scores of all rows, the room of each, labels that are classes, and picked rows behind the first."""

    scores: np.ndarray
    room: np.ndarray
    classes: list[int]
    picks: list[int] | tuple = ()


def changed(world: World, **fields: Any) -> World:
    """Copy a world with other fields; those of its sample too."""
    own = {field.name for field in dataclasses.fields(Sample)}
    sample = dataclasses.replace(world.sample, **{key: value for key, value in fields.items() if key in own})
    others = {key: value for key, value in fields.items() if key not in own}
    return dataclasses.replace(world, sample=sample, **others)


LEARNED: dict[tuple, tuple] = {}
"""What was learned lately: files that differ in what they claim have the same scores."""


def learn(world: World, message: Message) -> tuple:
    """Give the picks, scores and classes of a rule."""
    sample, split = world.sample, message.form != "picks"
    first, _ = sample.split(message.rows)
    classes = np.unique(sample.y[first]).tolist() if split else [*range(message.classes)]
    learner = Learner(sample, first, message.rule, classes=classes, cells=world.cells)
    return *(((), learner.scores(first)) if split else learner.picks()), classes


def carry_out(world: World, message: Message, room: float = 1e-4) -> Outcome:
    """Get the scores that a message names; `room` is that of a writer (7.8, 8.10)."""
    sample, table = world.sample, message.table
    if table is not None:
        scores, picks = world.tables[table].scores.astype(float), world.tables[table].picks
        return Outcome(
            scores, np.zeros(len(scores)), [*range(scores.shape[1])], () if picks is None else picks
        )
    if message.network is not None:
        must(not world.cells, "a network on cells")
        z = logits(with_base(message.network, world.base), sample.x)
        theta = message.network["theta"]
        margin = 0.0 if theta is None or world.domain is None else 2.0 ** (theta / 8)
        return Outcome(z, room * np.abs(z).max(axis=1) + margin, [*range(z.shape[1])])
    key = (sample, world.cells, message.form, message.rows, message.classes, repr(message.rule))
    if key not in LEARNED:
        if len(LEARNED) > 100:
            LEARNED.clear()
        LEARNED[key] = learn(world, message)
    picks, found, classes = LEARNED[key]
    room = np.maximum(room * np.abs(found).max(axis=1), (1e-2 if message.form == "picks" else 1e-1) * room)
    scores = np.full((len(found), max(classes) + 1), FAR)
    scores[:, classes] = found
    return Outcome(scores, np.where(np.isin(sample.y, classes), room, np.inf), classes, picks)


def count_disagreements(world: World, g: dict, room: float = 1e-4) -> dict:
    """Count unlabelled inputs on which f and g predict differently or are in doubt (9.1)."""
    x, is_wrong = world.unlabelled, np.zeros(len(world.unlabelled), bool)
    found = [(logits(with_base(g, world.base), x), room)]
    found += [(logits(world.network, x), room) if world.network else (world.answers.astype(float), 0.0)]
    for z, width in found:
        top = np.sort(z, axis=1)
        is_wrong |= ~(top[:, -1] - top[:, -2] > width * np.abs(z).max(axis=1))
        is_wrong |= z.argmax(axis=1) != found[0][0].argmax(axis=1)
    inputs = Sample(x, np.zeros(len(x), int)).inputs
    wrong, right = ([inputs[i] for i in np.flatnonzero(each)] for each in (is_wrong, ~is_wrong))
    if world.sample.copies != "independent":
        right = {*right}
    if world.sample.copies == "repeated":
        wrong = {*wrong}
        right -= wrong
    return {"errors": len(wrong), "n": len(wrong) + len(right), "picks": 0, "of": "disagreement"}


def count_all(world: World, message: Message, room: float = 1e-4) -> list[dict]:
    """Count whatever the claim of a message is about."""
    outcome, sample = carry_out(world, message, room), world.sample
    own = recount(sample, message, outcome.scores, outcome.picks, outcome.room)
    if message.on == "each class":
        own = [each for each in own if int(each["of"].split()[1]) in outcome.classes]
    if world.unlabelled is not None:
        own = [own[0] | {"of": "risk"}, count_disagreements(world, message.network, room)]
    return own


# The file


def hash_of_tensors(tensors: dict[str, np.ndarray]) -> str:
    """Give the name of a base, or of f (4.4)."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = np.asarray(tensors[name], "<f4")
        digest.update(f"{name}|{','.join(map(str, value.shape))}|".encode() + value.tobytes())
    return digest.hexdigest()


def original_of(world: World, disagreements: int | None) -> dict | None:
    if not world.given:
        return None
    chain, sha = None, world.answers is not None and hash_of(world.answers)
    if world.network:
        chain = [[KINDS[kind], *map(int, sizes)] for kind, *sizes in world.network["chain"]]
        sha = hash_of_tensors(world.network["tensors"])
    told, x = None, world.unlabelled
    if x is not None:
        told = {"disagreements": disagreements, "rows": len(x), "sha256": hash_of(x)}
    domain = None if world.domain is None else [float(end) for end in world.domain]
    return {"chain": chain, "domain": domain, "sha256": sha, "unlabelled": told}


def known_of(world: World, rows: int) -> dict:
    base = None
    if world.base is not None:
        sha = hash_of_tensors(world.base)
        base = {"by": "a learner", "of": "other data", "rows": world.base_rows, "sha256": sha}
    tables = [table.header for table in world.tables]
    return {"base": base, "features": world.features, "rows": rows, "tables": tables}


def sample_of(world: World) -> dict:
    sample, hashes = world.sample, {}
    for name in ("clusters", "groups"):
        numbers = getattr(sample, name)
        hashes[name] = None if numbers is None else hash_of(numbers.astype(np.int64))
    told = {"copies": sample.copies, "order": sample.order, "salt": sample.salt, "seal": world.seal}
    told |= {"classes": world.classes or len(np.unique(sample.y)), "rows": len(sample.y)}
    sha = hash_of(sample.x, sample.y.astype(np.int64), cells=world.cells)
    return told | hashes | {"sha256": sha, "input_shape": list(sample.x.shape[1:])}


def assurance_of(world: World, message: Message) -> str:
    on_declared = world.features or (message.network and world.base) or world.answers is not None
    return reader.ASSURANCE[2 if message.table is not None else 1 if on_declared else 0]


def limits_of(world: World, own: list[dict], law: str, price: int) -> list[dict]:
    """Take the limits (6.4, 6.5), a little above what they are."""
    small, found = mpmath.mpf(world.delta) / len(own) / mpmath.mpf(2) ** price, []
    for each in own:
        picks = each["picks"] if law == "picked" else None
        value = limit_of(each["errors"], each["n"], small, picks) if each["n"] else 1
        bound = min(1.0, float(value) * (1 + 1e-9))
        found.append(
            {"bound": bound, "errors": each["errors"], "n": each["n"], "of": each["of"], "picks": picks}
        )
    return found


def bound_of(limits: list[dict], law: str, on: str) -> float:
    values = [Fraction(each["bound"]) for each in limits]
    exact = max(values) if on.startswith("each") else values[0]
    exact = min(Fraction(1), sum(values)) if law == "sum" else exact
    nearest = float(exact)
    return nearest if nearest >= exact else float(np.nextafter(nearest, 2))


def put(header: dict, changes: dict) -> dict:
    """Change what keys like `claim.limits.0.bound` name."""
    header = copy.deepcopy(header)
    for name, value in changes.items():
        *path, last = name.split(".")
        place = header
        for key in path:
            place = place[int(key) if isinstance(place, list) else key]
        place[int(last) if isinstance(place, list) else last] = value
    return header


def container(header: dict | bytes, message: bytes, *, witness: bytes = b"", version: int = 4) -> bytes:
    if isinstance(header, dict):
        header = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    data = b"CBOUND\0" + bytes([version]) + len(header).to_bytes(4, "little") + header
    data += message + len(witness).to_bytes(4, "little") + witness
    return data + hashlib.sha256(data).digest()


def write_file(
    world: World,
    text: str,
    *,
    lie: Callable[[list[dict]], list[dict]] | None = None,
    price: int | None = None,
    law: str | None = None,
    **changes,
) -> bytes:
    """Write the file of a message of bits `text`.

    Args:
        world: What was fixed before.
        text: The bits.
        lie: Changes the counts before limits are taken of them.
        price: Bits that limits are taken at, in place of those of the message.
        law: Another law.
        changes: Parts of the header, as for `put`, with `__` for a point.
    """
    data, count = packed(text)
    header = {"sample": sample_of(world), "known": known_of(world, 0), "original": original_of(world, 0)}
    header |= {"declarations": ASSUMED, "format": FORMAT}
    header["made_by"] = {"codebound": "1.0", "commit": "", "date": "2027-01-01"}
    units = len(world.sample.blocks) if world.sample.order == "clusters" else None
    message = decode(data, count, header, units)
    own = count_all(world, message)
    own = lie(own) if lie else own
    if law is None:
        picked = message.form == "picks" or (
            message.table is not None and world.tables[message.table].picks is not None
        )
        law = "sum" if world.unlabelled is not None else "picked" if picked else "binomial"
    limits = limits_of(world, own, law, count if price is None else price)
    claim = {"loss": message.loss, "on": message.on, "law": law, "subject": "f" if world.given else "g"}
    claim |= {"assurance": assurance_of(world, message), "delta": world.delta, "limits": limits}
    claim |= {"bound": bound_of(limits, law, message.on)}
    sha = hashlib.sha256(data).hexdigest()
    header |= {"claim": claim, "message": {"bits": count, "ledger": message.ledger, "sha256": sha}}
    header |= {"known": known_of(world, message.rows), "original": original_of(world, own[-1]["errors"])}
    _, counted = world.sample.split(message.rows)
    claim["vacuous"] = is_vacuous(File(header, data, b""), message, world.sample.y[counted])
    return container(put(header, {key.replace("__", "."): value for key, value in changes.items()}), data)


def ledger(text: str) -> list[list]:
    """Write a ledger like `form 7, loss 9, form 1`."""
    parts = (part.rpartition(" ") for part in text.split(", "))
    return [[name, int(size)] for name, _, size in parts]


def edited(
    data: bytes, changes: dict | None = None, text: str | None = None, parts: str | None = None, **others
) -> bytes:
    """Change a file that was written, its message of other `parts` too; all hashes are right again."""
    file = read_container(data)
    message, told = file.message, {}
    if text is not None:
        message, count = packed(text)
        told = {"message.bits": count, "message.sha256": hashlib.sha256(message).hexdigest()}
        told["message.ledger"] = ledger(parts or f"form {count}")
    return container(put(file.header, told | (changes or {})), message, **{"witness": file.witness} | others)


def check_file(world: World, data: bytes) -> None:
    """Check a file as a verifier does, by the third reader; what is in doubt has half the room.

    What a file says about order, salt and copies of its sample is believed, as long as it fits.
    """
    file = read_container(data)
    header, told = file.header, file.header["sample"]
    words = {name: told[name] for name in ("order", "salt", "copies")}
    if any(getattr(world.sample, name) != word for name, word in words.items()):
        world = replace(world, sample=replace(world.sample, **words))
    world, clusters = replace(world, seal=told["seal"]), told["order"] == "clusters"
    message = reader.read_message(file, len(world.sample.blocks) if clusters else None)
    must(header["sample"] == sample_of(world) | {"classes": header["sample"]["classes"]}, "sample")
    must(header["format"] == FORMAT and file.witness == b"", "page or witness")
    if message.table is not None:  # nobody compares the others
        own, known = world.tables[message.table].header, header["known"]["tables"][message.table]
        must(all(own[key] == known[key] for key in ("sha256", "columns", "picks")), "table")
    own = count_all(world, message, 0.5e-4)
    check_limits(file, message, own)
    _, counted = world.sample.split(message.rows)
    must(header["claim"]["vacuous"] is is_vacuous(file, message, world.sample.y[counted]), "vacuous")
    original, told = original_of(world, None), header["original"]
    must((original is None) == (told is None), "subject")
    if original and told["domain"] and original["domain"]:
        (low, high), x, theta = told["domain"], world.sample.x, message.network["theta"]
        wide = replace(world, domain=(low, high))
        must(low <= float(x.min()) and float(x.max()) <= high and theta is not None, "domain or theta")
        must(2.0 ** (theta / 8) >= drift(wide, message.network, 1.0), "theta")
        original["domain"] = told["domain"]
    if original and original["unlabelled"]:
        must(told["unlabelled"]["disagreements"] == header["claim"]["limits"][1]["errors"], "disagreements")
        original["unlabelled"]["disagreements"] = told["unlabelled"]["disagreements"]
    must(told == original, "original")

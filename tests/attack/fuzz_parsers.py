"""Mutated files against every parser: python tests/attack/fuzz_parsers.py [--seconds 60] [NAME ...]

Each target is a parser with a sound file to start from. A mutant is read or refused with a message of ours;
any other exception, more memory than MEMORY or more seconds than SECONDS for one file is a failure, and the
file is kept in --out. Mutants that were read join the corpus, and those that were refused for a new reason,
so that later ones go deeper; --keep writes the shortest of each kind to tests/attack/corpora, where the next
run and the tests start from them.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import random
import re
import sys
import tempfile
import time
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))

import numpy as np
import torch
from attack.product_files import SAMPLE, made
from PIL import Image
from safetensors.torch import save
from worlds.files import archive, npy

from codebound.certificate.file import Certificate
from codebound.holdout.ledger import read_ledger
from codebound.holdout.seals import Plan, seal
from codebound.run.errors import CodeboundError
from codebound.run.files import read_json, read_toml
from codebound.run.tensor_files import load_tensors, load_weights, peek_record, save_tensors
from codebound.sample.formats.idx import parse_idx
from codebound.sample.formats.pictures import read_image_folder
from codebound.sample.load import load_sample
from codebound_papers.journal import Journal
from codebound_papers.sweep.grid import PlannedVerb, read_plan
from codebound_papers.sweep.jobs import JobFolder
from codebound_verify import verify
from codebound_verify.holdout.ledger import verify_ledger
from codebound_verify.refusal import Refused
from codebound_verify.sources.arrays import load_data
from codebound_verify.weights import read_weights

if TYPE_CHECKING:
    from collections.abc import Callable

MEMORY, SECONDS = 256 << 20, 10.0
CORPORA = Path(__file__).parent / "corpora"
LARGEST_KEPT, MOST_KEPT = 1 << 12, 24  # bytes of a file, files of a target
INTERESTING = (
    b"\0",
    b"\xff",
    b"\x7f",
    b"-1",
    b"1e999",
    b"NaN",
    b"2147483648",
    b"../../etc/passwd",
    b"[",
    b'"',
    b"\n",
)
VERBS = {"train": PlannedVerb(name="train", function="m:f", options=frozenset({"seed", "epochs", "data"}))}
PLAN = b'[defaults]\ndata = "digits"\n[grid]\nseed = [0, 1]\n[[jobs]]\nverb = "train"\nepochs = 5\n'
TABLE = b'age{?},"colour{red|green|?}",town,y\n30,red,Rome,0\n?,green,1,1\n-1e3,,Oslo,0\n'


@dataclass
class Target:
    """A parser of files, and sound files."""

    read: Callable[[Path], object]
    corpus: list[bytes]
    suffix: str = ""
    accepted: int = field(default=0, init=False)
    cases: int = field(default=0, init=False)
    kinds: dict[str, bytes] = field(default_factory=dict, init=False)

    def note(self, kind: str, content: bytes) -> None:
        """Remembers the shortest file of a kind; one of a new kind is worth changing further."""
        if kind not in self.kinds and len(self.corpus) < 200 and len(content) < 1 << 16:
            self.corpus.append(content)
        if len(content) < len(self.kinds.get(kind, content + b"-")):
            self.kinds[kind] = content


X = np.arange(6, dtype=np.float32).reshape(3, 2)
NPY, NPZ = npy(X), archive(x=npy(X.astype(np.uint8)), y=npy(np.array([0, 1, 1])))


def image(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(buffer, kind)
    return buffer.getvalue()


def tensors() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        save_tensors(path := Path(folder) / "t", {"a": torch.arange(6.0)}, [{"epoch": 1}])
        return path.read_bytes()


def sealed() -> bytes:
    """The ledger of a test set that was frozen."""
    data = {"x": np.arange(40.0).reshape(20, 2), "y": np.arange(20) % 2}
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, CODEBOUND_CACHE=folder):
        return seal(data, Plan(looks=3), out=Path(folder) / "t.ledger.jsonl").content


def in_folder(read: Callable[[Path], object], name: str) -> Callable[[Path], object]:
    """Reads the folder that has the file under another name."""

    def run(path: Path) -> object:
        target = path.parent / "folder" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        return read(path.parent / "folder")

    return run


def targets() -> dict[str, Target]:
    """Every parser that reads what a stranger may have written, and the files that were kept for it."""
    found = _parsers()
    for name, target in found.items():
        target.corpus += [path.read_bytes() for path in sorted(folder_of(name).glob("*"))]
    return found


def _parsers() -> dict[str, Target]:
    files = [made(name).data for name in ("usual split", "biases", "picks", "network", "each class")]
    x, y = SAMPLE.x, SAMPLE.y
    ledger = sealed()
    weights = save({"a.weight": torch.ones(2, 3), "b": torch.zeros(1)})
    batch = bytes(3073)
    return {
        "certificate": Target(lambda path: Certificate.from_bytes(path.read_bytes()), files),
        "certificate, verifier": Target(lambda path: verify(path.read_bytes(), x, y), files),
        "safetensors": Target(load_weights, [weights], ".safetensors"),
        "safetensors, verifier": Target(read_weights, [weights], ".safetensors"),
        "checkpoint": Target(load_tensors, [tensors()], ".safetensors"),
        "checkpoint record": Target(peek_record, [tensors()], ".safetensors"),
        "npz": Target(load_sample, [NPZ], ".npz"),
        "npz, verifier": Target(lambda path: load_data(str(path)), [NPZ], ".npz"),
        "npy": Target(in_folder(lambda path: load_sample(path, role="unlabelled"), "x.npy"), [NPY]),
        "npy, verifier": Target(in_folder(lambda path: load_data(str(path)), "x.npy"), [NPY]),
        "idx": Target(
            lambda path: parse_idx(path.read_bytes(), name="f"),
            [bytes([0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2, *range(6)])],
        ),
        "cifar, verifier": Target(
            in_folder(lambda path: load_data("cifar10:test", path), "test_batch.bin"), [batch]
        ),
        "image": Target(
            in_folder(lambda path: read_image_folder(path, role="train"), "a/1.png"),
            [image(kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")],
        ),
        "table": Target(lambda path: load_sample(str(path)), [TABLE], ".csv"),
        "toml": Target(lambda path: read_toml(path, "the file"), [PLAN], ".toml"),
        "plan": Target(lambda path: read_plan(path, VERBS), [PLAN], ".toml"),
        "ledger": Target(read_ledger, [ledger]),
        "ledger, verifier": Target(lambda path: verify_ledger(path.read_bytes()), [ledger]),
        "row": Target(
            in_folder(lambda path: JobFolder(path).result(), "result.json"),
            [b'{"job": "folder", "row": {"a": 1}, "timings": {"seconds": 1.5}}'],
        ),
        "journal": Target(
            lambda path: Journal(path),
            [b'{"run": {}, "cells": {"a": {"seconds": 1, "cpu_seconds": 1, "machine": {}, "value": {}}}}'],
        ),
        "json": Target(lambda path: read_json(path, advice="Remove it."), [b'{"a": [1, 2.5, null, "x"]}']),
    }


def kind_of(said: object) -> str:
    """What was said, without what differs from file to file."""
    return re.sub(r"[^A-Za-z]+", " ", re.sub(r"/\S*|'[^']*'|\"[^\"]*\"", " ", str(said)))[:60]


def folder_of(name: str) -> Path:
    return CORPORA / re.sub(r"[^a-z]+", "-", name)


def keep(name: str, target: Target) -> None:
    """Writes the shortest files of the kinds that were seen."""
    folder = folder_of(name)
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    short = sorted((each for each in target.kinds.values() if len(each) <= LARGEST_KEPT), key=len)
    for content in short[:MOST_KEPT]:
        (folder / hashlib.sha256(content).hexdigest()[:12]).write_bytes(content)


def mutant(content: bytes, chance: random.Random, other: bytes) -> bytes:
    """A file that differs in a few places."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(6)
        if kind == 0 and changed:
            changed[at % len(changed)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            changed[at : at + chance.randrange(4)] = chance.choice(INTERESTING)
        elif kind == 2:
            del changed[at : at + chance.randrange(1, 16)]
        elif kind == 3:
            start = chance.randrange(len(other) + 1)
            changed[at:at] = other[start : start + chance.randrange(1, 64)]
        elif kind == 4:
            changed[at : at + 4] = chance.randrange(1 << 32).to_bytes(4, chance.choice(("little", "big")))
        else:
            del changed[at:]
    return bytes(changed)


def attempt(target: Target, path: Path, content: bytes) -> str:
    """What is wrong with the way in which a file is read; empty if nothing is."""
    path.write_bytes(content)
    tracemalloc.start()
    start = time.perf_counter()
    try:
        found = target.read(path)
        target.accepted += 1
        target.note(kind_of(" ".join(getattr(found, "reasons", ()))), content)  # a verdict may have some
        if len(target.corpus) < 200 and len(content) < 1 << 16:
            target.corpus.append(content)
    except (CodeboundError, Refused) as error:
        target.note(kind_of(error), content)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    if peak > MEMORY:
        return f"{peak} bytes of memory"
    seconds = time.perf_counter() - start
    return f"{seconds:.1f} seconds" if seconds > SECONDS else ""


def fuzz(target: Target, *, seconds: float, cases: int, seed: int) -> dict[str, bytes]:
    """Failures, each with the shortest file that shows it."""
    chance, failures, end = random.Random(seed), {}, time.process_time() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{target.suffix}"
        for content in list(target.corpus):
            if wrong := attempt(target, path, content):
                failures[wrong] = content
        while target.cases < cases and time.process_time() < end:
            target.cases += 1
            content = mutant(chance.choice(target.corpus), chance, chance.choice(target.corpus))
            if (wrong := attempt(target, path, content)) and len(content) < len(
                failures.get(wrong, content + b"-")
            ):
                failures[wrong] = content
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=60.0, help="processor time for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("failing"))
    parser.add_argument("--keep", action="store_true", help="write short files of every kind to corpora")
    options = parser.parse_args()
    known, failed = targets(), 0
    for name in options.names or known:
        failures = fuzz(known[name], seconds=options.seconds, cases=sys.maxsize, seed=options.seed)
        print(
            json.dumps(
                {
                    "target": name,
                    "cases": known[name].cases,
                    "accepted": known[name].accepted,
                    "kinds": len(known[name].kinds),
                    "failures": list(failures),
                }
            ),
            flush=True,
        )
        if options.keep:
            keep(name, known[name])
        for number, content in enumerate(failures.values()):
            options.out.mkdir(exist_ok=True)
            (options.out / f"{name.replace(', ', '-')}-{number}").write_bytes(content)
        failed += len(failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

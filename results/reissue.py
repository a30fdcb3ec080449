"""Issues the certificates of this folder anew, from files that the last program of versions 1 to 3 reads.

    git worktree add /tmp/old 26d2adb3                  # the last program that reads versions 1 to 3
    export OMP_NUM_THREADS=1                            # threads that wait take the processor too
    python results/reissue.py --old /tmp/old            # all of them, one after the other
    python results/reissue.py --old /tmp/old digits-linear mnist-picked

A file that stands in ``certificates`` in the present format is left alone, so the script can be stopped and
started; one of an earlier draft of the page is stamped with the present one, and verified again. Networks are
written number by number as the old file has them, and counted again. Rules and scores are found anew by
``certify``, because rows have another order. Whatever is written was accepted by the second program, in a
process of its own whose time and memory are noted; a rule that takes too much of them is not kept.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from records import FILES, HERE, made_with, verify, write_record
from safetensors.numpy import load_file, save_file

from codebound.bits.plain_code import RULES
from codebound.certificate.file import MAGIC, PAGE, VERSION, Certificate
from codebound.certificate.offers import Offer, assess, draft, network_outcome
from codebound.known.messages import KnownTensors, Options
from codebound.methods.search import Search, run
from codebound.request import Task
from codebound.run.errors import FormatError
from codebound.run.tensor_files import float32_sha256
from codebound.sample.dataset import Made
from codebound.sample.load import load_sample
from codebound.sample.losses import WRONG
from codebound_networks.chains import operations
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.codes import modes, random_subspace

if TYPE_CHECKING:
    from collections.abc import Mapping

DELTA = 0.05
MOST_SECONDS, MOST_GIGABYTES = 300.0, 6.0  # of a processor, to verify what a rule learned
NETWORK, PICKS, SCORES = "the network of the old file", "picks", "scores"
JOBS = {
    "digits-linear": ("digits", NETWORK),
    "digits-features": ("digits", NETWORK),
    "digits-from-mnist": ("digits", NETWORK),
    "digits-picked": ("digits", PICKS),
    "mnist-guha-mlp": ("mnist", NETWORK),
    "mnist-features": ("mnist", NETWORK),
    "fashion-features": ("fashion-mnist", NETWORK),
    "mnist-subspace": ("mnist", NETWORK),
    "fashion-subspace": ("fashion-mnist", NETWORK),
    "cifar10-subspace": ("cifar10", NETWORK),
    "mnist-default": ("mnist", SCORES),
    "fashion-mnist-default": ("fashion-mnist", SCORES),
    "cifar10-default": ("cifar10", SCORES),
    "mnist-picked": ("mnist", PICKS),
    "fashion-mnist-picked": ("fashion-mnist", PICKS),
}
OF = "the 60,000 training images of MNIST, shrunk to 8 x 8 pixels"  # the base of digits-from-mnist
KINDS: dict[str, Any] = vars(operations) | vars(modes) | vars(random_subspace)
READ = """
import json, sys
from dataclasses import fields, is_dataclass
from codebound.certificate.file import Certificate
from codebound_networks.chains.message import decode

def told(each):
    if is_dataclass(each):
        return {"is": type(each).__name__, **{f.name: told(getattr(each, f.name)) for f in fields(each)}}
    if hasattr(each, "tolist"):
        return {"is": "array", "dtype": str(each.dtype), "values": each.tolist()}
    if hasattr(each, "items"):
        return {name: told(one) for name, one in each.items()}
    return [told(one) for one in each] if isinstance(each, (tuple, list)) else each

old = Certificate.load(sys.argv[1])
claim, facts, shape = old.claim, old.facts, old.helper.input_shape
found = {"version": old.version, "bound": claim.bound, "errors": facts.errors, "n": facts.n}
found["bits"] = facts.code_bits
is_first = old.version == 1
given = dict(known=old.setting if is_first else None, witness=None if is_first else old.witness)
if claim.statement == "C-15" or old.is_short:  # no network
    given = {}
else:
    message = decode(old.message, input_shape=shape, **given)
    given = {"operations": told(message.chain.operations), "codes": told(message.codes)}
    assert message.options.theta_index is None and message.options.tenths is None
print(json.dumps({"numbers": found, **given}))
"""


def read_old(name: str, old: Path) -> dict[str, Any]:
    """What the old file says, and its numbers, by the program that wrote it."""
    path = old / f"results/certificates/{name}.cbound"
    environment = {**os.environ, "PYTHONPATH": str(old / "src")}
    said = subprocess.run(
        [sys.executable, "-c", READ, path], env=environment, check=True, capture_output=True
    )
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def made_of(told: Any) -> Any:
    """Codes and operations from what the old program told of them."""
    if isinstance(told, list):
        return tuple(map(made_of, told))
    if not isinstance(told, dict):
        return told
    given = {name: made_of(each) for name, each in told.items() if name != "is"}
    kind = told.get("is")
    if kind == "array":
        return np.array(told["values"], told["dtype"])
    return given if kind is None else KINDS[kind](**given)


def count_anew(name: str, said: Mapping[str, Any], device: str) -> tuple[Offer, Task]:
    """The outcome of a job, counted."""
    data, way = JOBS[name]
    sample, base = load_sample(data), FILES / f"{name}.base.safetensors"
    task = Task(sample=sample, delta=DELTA)
    if way == NETWORK:
        if base.exists():
            tensors = load_file(base)
            made = Made("results/fine_tune.py", OF, 0, float32_sha256(tensors))
            task = Task(sample=sample, delta=DELTA, base=KnownTensors(made, tensors))
        chain = Chain(sample.input_shape, made_of(said["operations"]))
        options = Options(task.options.setting, has_base=base.exists())
        message = Message(options, chain, made_of(said["codes"]))
        return assess(network_outcome(message, task, progress=tell), task), task
    found = run(Search(task, "standard", device=device, progress=tell), way)
    if found.outcome.is_recounted:
        save_file(found.outcome.made.arrays, FILES / f"{name}.scores.safetensors")
    return found, task


def tell(done: int, total: int | None, note: str = "") -> None:
    """Progress on one line."""
    sys.stderr.write(f"\r{note} {done} of {total}        ")


def stamp(content: bytes) -> bytes:
    """The file of an earlier draft with the present page in its header."""
    start = len(MAGIC) + 5
    size = int.from_bytes(content[start - 4 : start], "little")
    header = json.loads(content[start : start + size]) | {"format": asdict(PAGE)}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    whole = content[: start - 4] + len(text).to_bytes(4, "little") + text + content[start + size : -32]
    return whole + hashlib.sha256(whole).digest()


def is_present(content: bytes) -> bool:
    """Return True if a file is of the present page."""
    try:
        return bool(Certificate.from_bytes(content))
    except FormatError:
        return False


def reissue(name: str, old: Path, device: str) -> None:
    """Issue one certificate, and write its record."""
    data, way = JOBS[name]
    path, record = FILES / f"{name}.cbound", json.loads((HERE / f"{name}.json").read_text())
    content, waiting = path.read_bytes() if path.exists() else b"", path.with_suffix(".new.cbound")
    if content and is_present(content):
        return
    test_errors = record.get("test_errors")
    try:
        if content[len(MAGIC) : len(MAGIC) + 1] == bytes([VERSION]):
            waiting.write_bytes(stamp(content))
            more = {key: record[key] for key in (*MADE, *made_with(device)) if key in record}
        else:
            said = read_old(name, old)
            found, task = count_anew(name, said, device)
            draft(found, task).save(waiting)
            more = {
                "is": way if way == NETWORK else f"what certify --method {way} finds",
                "command": f"python results/reissue.py {name}",
                "before": said["numbers"],
                "made": record.get("made") or {key: record[key] for key in KEPT if key in record},
                "says": found.outcome.says,
                **made_with(device),
            }
            if found.outcome.form in RULES:
                more["rule"] = repr(found.outcome.made.rule)
            if data != "digits":
                test_errors = found.outcome.count_losses(load_sample(data, role="test"), WRONG)
        used = verify(waiting, data)
        is_long = used["processor_seconds"] > MOST_SECONDS or used["gigabytes"] > MOST_GIGABYTES
        if is_long and way == PICKS:
            raise SystemExit(f"{name} takes too long to verify: {used}")
        waiting.replace(path)
    finally:
        waiting.unlink(missing_ok=True)
    write_record(name, data, more | {"verified": used}, test_errors=test_errors)


MADE = ("is", "command", "before", "made", "says", "rule")
KEPT = ("commands", "plan", "training", "runs_compared", "rule_is", "device", "date")
"""Of an old record: how the numbers of its network were found."""


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(JOBS), metavar="NAME")
    parser.add_argument(
        "--old", type=Path, required=True, help="worktree of the last program that reads old files"
    )
    parser.add_argument("--device", default="cpu", help="where rules and scores are found")
    options = parser.parse_args()
    for name in options.names:
        reissue(name, options.old, options.device)


if __name__ == "__main__":
    main()

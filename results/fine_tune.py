"""Fine-tunes a network from a base in few bits, and without the base for comparison; certifies and verifies.

    python results/fine_tune.py base       pre-trains on Fashion-MNIST (a minute on one core)
    python results/fine_tune.py certify    from that base, on MNIST (some minutes)
    python results/fine_tune.py alone      the same training from a random start

The base was never shown a digit. A base of another architecture (``image_network``) was tried on MNIST first
and dropped; the architecture is in the message, so that choice is paid for; of this one there is one base.
Dimension and step of the subspace are in the message too.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from codebound import __version__
from codebound.bounds.certified import holdout
from codebound.certificate import load_base
from codebound.certificate.build import Setting, assess, issue
from codebound.certificate.evaluate import count_errors
from codebound.certificate.message import Message
from codebound.coding import Subspace, best_tensor_code
from codebound.data import load_dataset
from codebound.facts import HoldoutFacts
from codebound.nets import load_model
from codebound.nets.chain import chain_of
from codebound.train import Cosine, TrainConfig, fit
from codebound.train.subspace import Features, Learner, SubspacePlan, train_in_subspace

HERE = Path(__file__).parent
NAME = "mnist-from-fashion"
BASE = HERE / "certificates" / f"{NAME}.base.safetensors"
MODEL = "codebound.nets.few_bits:plain_network"
WORDS = "trained on Fashion-MNIST, 5 epochs of Adam, by results/fine_tune.py; its last layer is zero"
DELTA = 0.05
PLANS = {
    "certify": SubspacePlan(dimension=600, step=-12, rate=4.0, gain=4.0, epochs=20),
    "alone": SubspacePlan(dimension=600, step=-8, rate=4.0, gain=3.0, epochs=20),
}


def pretrain() -> None:
    """Trains the base; its last layer knows other classes and is set to zero."""
    sample = load_dataset("fashion-mnist")
    model = load_model(MODEL, input_shape=sample.input_shape, classes=sample.classes)
    config = TrainConfig(epochs=5, learning_rate=0.005, schedule=Cosine())
    result = fit(model, sample, config, test_set=load_dataset("fashion-mnist", role="test"))
    tensors = result.model.state_dict()
    *_, last = tensors
    save_file({**tensors, last: torch.zeros_like(tensors[last])}, BASE)
    sys.stdout.write(f"{BASE}: test error {result.test_error} on Fashion-MNIST, {result.seconds:.0f} s\n")


def tune(plan: SubspacePlan, *, has_base: bool) -> dict[str, Any]:
    """Trains the integers of a subspace, issues the certificate, and has it verified."""
    sample, test = load_dataset("mnist"), load_dataset("mnist", role="test")
    model = load_model(MODEL, input_shape=sample.input_shape, classes=sample.classes)
    base, helper = None, None
    if has_base:
        given = load_base(BASE, model, sample=sample, says=WORDS)
        base = chain_of(given.network, sample.input_shape)[1]
        helper = given.name, {name: tensor.numpy() for name, tensor in base.items()}
    chain, _ = chain_of(model, sample.input_shape)
    setting = Setting(sample=sample, delta=DELTA, base=helper)
    learner = Learner.of_chain(chain)
    start = time.perf_counter()
    integers = train_in_subspace(learner, Features.of(learner, sample.on("cpu")), plan, base=base)
    trained = time.perf_counter() - start
    code = Subspace(
        best_tensor_code(integers, step=0), plan.entries_log2, plan.step, plan.zero_head, plan.helper_seed
    )
    found = assess(Message(setting.options, chain, code), setting)
    certificate = issue(found, setting)
    test_errors = count_errors(found.network, test.on("cpu")).errors
    record = {
        "bound": found.bound.value,
        "train_errors": found.facts.errors,
        "n": sample.n,
        "code_bits": certificate.facts.code_bits,
        "delta": DELTA,
        "test_errors": test_errors,
        "holdout": holdout(HoldoutFacts(errors=test_errors, n=test.n, delta=DELTA)).value,
        "plan": asdict(plan),
        "training_seconds": round(trained, 1),
        "seconds": round(time.perf_counter() - start, 1),
    }
    if has_base:
        path = certificate.save(HERE / "certificates" / f"{NAME}.cbound")
        command = [
            sys.executable,
            "-m",
            "codebound_verify",
            str(path),
            "--data",
            "mnist",
            "--base",
            str(BASE),
        ]
        answer = subprocess.run([*command, "--format", "json"], check=True, capture_output=True, text=True)
        verdict = json.loads(answer.stdout)
        record |= {"verdict": verdict["verdict"], "declared": verdict["assumptions"][0]}
    return record


def main() -> None:
    """Runs one step and keeps its numbers in this folder."""
    step = sys.argv[1]
    if step == "base":
        pretrain()
        return
    found = tune(PLANS[step], has_base=step == "certify")
    place = HERE / f"{NAME}.json"
    known = json.loads(place.read_text()) if place.exists() else {}
    record = {
        **known,
        "commands": [f"python results/fine_tune.py {each}" for each in ("base", *PLANS)],
        "verify": f"codebound-verify results/certificates/{NAME}.cbound --data mnist --base "
        f"results/certificates/{BASE.name}",
        "from_base" if step == "certify" else "alone": found,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "codebound": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }
    place.write_text(json.dumps(record, indent=2) + "\n")
    sys.stdout.write(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()

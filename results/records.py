"""Records of this folder: what a certificate says, what it takes to verify it, and what made it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from codebound import __version__
from codebound.bounds.held_out import holdout
from codebound.bounds.risk import HoldoutFacts
from codebound.certificate.file import Certificate

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).parent
FILES = HERE / "certificates"
TEST_N = 10_000


def made_with(device: str) -> dict[str, object]:
    """The device by its name, the versions, and the day."""
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.processor(),
        "versions": {
            "codebound": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "date": time.strftime("%Y-%m-%d"),
    }


def command_of(path: Path, data: str) -> list[str]:
    """Arguments of the second program for a file, with what lies beside it."""
    words = [str(path), "--data", data]
    for kind in ("base", "scores"):
        beside = FILES / f"{path.name.split('.')[0]}.{kind}.safetensors"
        words += [f"--{kind}", str(beside)] * beside.exists()
    return words


def verify(path: Path, data: str) -> dict[str, Any]:
    """Seconds and memory that the second program takes to accept a file, in a process of its own.

    Raises:
        SystemExit: It refuses the file.
    """
    began = time.perf_counter()
    words = [sys.executable, "-m", "codebound_verify", *command_of(path, data), "--format", "json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    said = process.stdout.read()
    _, process.returncode, usage = os.wait4(process.pid, 0)
    verdict = json.loads(said) if said else {"verdict": "no verdict", "reasons": ()}
    if verdict["verdict"] != "ACCEPT":
        raise SystemExit(f"{path.stem}: {verdict['verdict']}: {verdict['reasons']}")
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "gigabytes": round(usage.ru_maxrss / 1e6, 2),
        "threads": os.environ.get("OMP_NUM_THREADS", "as many as cores"),
    }


def write_record(name: str, data: str, more: Mapping[str, Any], *, test_errors: int | None = None) -> None:
    """Write the record of a certificate of this folder.

    Args:
        name: Of the certificate.
        data: Its sample.
        more: What made it, and what it took to verify.
        test_errors: Of g on the test images, where it was run on them.
    """
    certificate = Certificate.load(FILES / f"{name}.cbound")
    claim, limit = certificate.claim, certificate.limit
    command = " ".join(["codebound-verify", *command_of(FILES / f"{name}.cbound", data)])
    record = {
        "data": data,
        "verify": command.replace(str(HERE), "results"),
        "verdict": "ACCEPT",
        "statement": certificate.statement,
        "assurance": claim.assurance,
        "bound": claim.bound,
        "n": limit.n,
        "first": certificate.known.rows,
        "picks": limit.picks,
        "train_errors": limit.errors,
        "code_bits": certificate.message.bits,
        "delta": claim.delta,
    }
    if test_errors is not None:
        value = holdout(HoldoutFacts(errors=test_errors, n=TEST_N, delta=claim.delta)).value
        record |= {"test_errors": test_errors, "holdout": value}
    text = json.dumps(record | dict(more), indent=1)
    (HERE / f"{name}.json").write_text(text + "\n")
    sys.stdout.write(f"{name}: {claim.bound:.4%}, {claim.assurance}\n")

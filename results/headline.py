"""Makes the headline certificates of this folder again, in two steps that may run on two machines.

    python results/headline.py train NAME RUN.json      trains the integers, best on a GPU
    python results/headline.py certify NAME RUN.json    writes certificate, JSON and verdict, on a CPU

Training ends with a local search on the errors and the bits themselves; it needs torch, numpy and mpmath.
``--plan dimension=700 helper_seed=3`` changes choices of the plan: what a decoder needs of them is coded in
the message, so looking for better ones costs nothing but time. `certify` takes several runs and certifies the
one with the smallest estimated bound.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from records import FILES, made_with, verify, write_record

from codebound.bounds.occam import occam_kl
from codebound.bounds.risk import OccamFacts
from codebound.known.messages import Options, Setting
from codebound.sample.load import load_sample
from codebound_networks.chains.chain import Chain
from codebound_networks.chains.message import Message
from codebound_networks.chains.operations import (
    AveragePool,
    Dictionary,
    Linear,
    MaxPool,
    NormalisedConv,
    Shifts,
)
from codebound_networks.codes.choose import best_tensor_code
from codebound_networks.codes.random_subspace import Subspace
from codebound_networks.methods.subspace_networks import errors_per_bit
from codebound_networks.train.polishing import polish
from codebound_networks.train.subspace import (
    Expansion,
    Features,
    Learner,
    SubspaceSettings,
    train_in_subspace,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from codebound_networks.chains.operations import AbstractOperation

DELTA = 0.05
CANDIDATES = 2500  # of a local search
GREY = (NormalisedConv(32, 3), MaxPool(2), NormalisedConv(64, 3), MaxPool(2))
COLOUR = (
    *(NormalisedConv(32, 3),) * 2,
    MaxPool(2),
    *(NormalisedConv(64, 3),) * 2,
    MaxPool(2),
    AveragePool(2),
)


@dataclass(frozen=True)
class Recipe:
    """A network, the subspace it is trained in, and the number of local searches in a row."""

    data: str
    operations: tuple[AbstractOperation, ...]
    plan: SubspaceSettings
    searches: int = 4

    def chain(self, input_shape: tuple[int, ...], classes: int) -> Chain:
        """The network on inputs of that shape."""
        return Chain(input_shape, (*self.operations, Linear(classes, False)))


RECIPES = {
    "mnist-subspace": Recipe(
        "mnist",
        (Shifts(4), Dictionary(3, 2), *GREY),
        SubspaceSettings(
            dimension=500, step=0, helper_seed=2, rate=5.0, gain=3.0, hardness=0.5, price=0.8, epochs=160
        ),
    ),
    "fashion-subspace": Recipe(
        "fashion-mnist",
        (Shifts(1), Dictionary(1, 2), *GREY),
        SubspaceSettings(
            dimension=600, rate=12.0, gain=3.0, hardness=0.8, sharpening=4.0, price=2.0, epochs=320
        ),
    ),
    "cifar10-subspace": Recipe(
        "cifar10",
        (Shifts(1), Dictionary(3, 2), *COLOUR),
        SubspaceSettings(dimension=1500, rate=3.0, gain=1.0, hardness=0.7, sharpening=6.0, epochs=300),
    ),
}


def train(name: str, out: Path, changes: dict[str, float]) -> None:
    """Trains the integers and writes them with everything that made them."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    recipe, device = RECIPES[name], torch.device("cuda" if torch.cuda.is_available() else "cpu")
    plan = replace(recipe.plan, **changes)  # type: ignore[arg-type]
    sample = load_sample(recipe.data)
    chain = recipe.chain(sample.input_shape, sample.classes)
    learner = Learner(chain)
    start = time.perf_counter()
    features = Features.of(learner, sample.on(device))

    def judged(integers: NDArray[np.int32]) -> OccamFacts:
        """Errors and bits, as the features show them."""
        expansion = Expansion(learner, plan, device=device)
        errors = features.errors(expansion.tensors(torch.from_numpy(integers).float().to(device)))
        bits = _message(chain, plan, integers).encode()[0].length
        return OccamFacts(errors=errors, n=sample.n, code_bits=bits, delta=DELTA)

    def kept(integers: NDArray[np.int32], what: str) -> OccamFacts:
        """Says what the integers are worth, and writes them."""
        facts, passed = judged(integers), time.perf_counter() - start
        bound = occam_kl(facts).value
        sys.stdout.write(
            f"{name}, {what}: about {100 * bound:.2f} %, {facts.errors} errors, {facts.code_bits} bits, "
            f"{passed:.0f} s\n"
        )
        sys.stdout.flush()
        record = {
            "recipe": name,
            "command": " ".join(["python results/headline.py", *sys.argv[1:]]),
            "plan": asdict(plan),
            "estimated_bound": bound,
            "estimated_errors": facts.errors,
            "code_bits": facts.code_bits,
            "seconds": round(passed, 1),
            "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor(),
            "torch": str(torch.__version__),
            "integers": integers.tolist(),
        }
        out.write_text(json.dumps(record) + "\n")
        return facts

    integers = train_in_subspace(features, plan)
    price = errors_per_bit(kept(integers, "trained"))
    for _ in range(recipe.searches):
        before = integers
        integers = polish(features, replace(plan, price=price), before, evaluations=CANDIDATES)
        if np.array_equal(before, integers):
            break
        kept(integers, "polished")


def certify(name: str, runs: list[dict[str, Any]]) -> None:
    """Certifies the best of the runs, and keeps certificate and record in this folder."""
    from codebound.certificate.offers import assess, draft, network_outcome
    from codebound.request import Task
    from codebound.sample.losses import WRONG

    recipe, best = RECIPES[name], min(runs, key=lambda each: float(each["estimated_bound"]))
    sample = load_sample(recipe.data)
    chain = recipe.chain(sample.input_shape, sample.classes)
    plan = SubspaceSettings(**best["plan"])
    task = Task(sample=sample, delta=DELTA)
    message = _message(chain, plan, np.array(best["integers"], np.int32))
    outcome = network_outcome(message.with_options(task.options), task)
    waiting = draft(assess(outcome, task), task).save(FILES / f"{name}.new.cbound")
    used = verify(waiting, recipe.data)
    waiting.replace(FILES / f"{name}.cbound")
    made = {
        "commands": [best["command"], f"python results/headline.py certify {name} RUN.json"],
        "runs_compared": len(runs),
        "plan": best["plan"],
        "training": {key: best[key] for key in ("seconds", "device", "torch")},
    }
    test_errors = outcome.count_losses(load_sample(recipe.data, role="test"), WRONG)
    more = {"made": made, **made_with("cpu"), "verified": used}
    write_record(name, recipe.data, more, test_errors=test_errors)


def _message(chain: Chain, plan: SubspaceSettings, integers: NDArray[np.int32]) -> Message:
    code = Subspace(
        best_tensor_code(integers, step=0),
        plan.entries_log2,
        plan.step,
        plan.zero_head,
        plan.helper_seed,
    )
    return Message(Options(Setting(chain.classes)), chain, code)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("step", choices=("train", "certify"))
    parser.add_argument("name", choices=RECIPES)
    parser.add_argument("runs", type=Path, nargs="+", help="file of the run; several for certify")
    parser.add_argument("--plan", nargs="*", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    if options.step == "certify":
        certify(options.name, [json.loads(path.read_text()) for path in options.runs])
        return
    changes = dict(each.split("=", 1) for each in options.plan)
    types = SubspaceSettings.__annotations__
    train(
        options.name,
        options.runs[0],
        {k: int(v) if types[k] == "int" else float(v) for k, v in changes.items()},
    )


if __name__ == "__main__":
    main()

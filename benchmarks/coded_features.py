"""Bits and picks in one bound: a coded network as feature map, picks on top, beside picks without it.

    python benchmarks/coded_features.py results/certificates/mnist-subspace.cbound --examples 4000
    python benchmarks/coded_features.py results/certificates/cifar10-subspace.cbound --examples 2000

The network of a certificate was trained on the sample, so all its bits are paid: delta becomes delta 2^-bits.
Its last hidden layer is the table that a rule learns from; the rule beside it learns from the inputs. Both
are reckoned for the examples that were run, and, with as many picks and errors for each example, for the
whole sample: there bits weigh less.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from codebound.bounds.picked import picked_risk
from codebound.bounds.risk import percent
from codebound.certificate.decoding import decode
from codebound.certificate.file import Certificate
from codebound.certificate.task import Task
from codebound.learn.features import ColumnFeatures
from codebound.learn.picking import permutation, pick
from codebound.learn.rule import BATCHES, FIRST, ROUNDS, PickedMessage, Rule, usual_rule
from codebound.sample.arrays import from_arrays
from codebound.sample.dataset import Dataset
from codebound.sample.load import load_dataset

DELTA = 0.05
CHUNK = 250
SIZES = ((FIRST, 12), (BATCHES, 100))  # one example in twelve comes first, one in a hundred is in a batch
MOST = 54  # rounds


def last_hidden(network: nn.Module, sample: Dataset) -> np.ndarray:
    """Inputs of the last linear layer of a network, one row an example; the mean over shifted inputs."""
    *_, last = (each for each in network.modules() if isinstance(each, nn.Linear))
    seen: list[torch.Tensor] = []
    hook = last.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    rows = []
    with torch.no_grad():
        for start in range(0, sample.n, CHUNK):
            x = sample.scaling.apply(torch.from_numpy(sample.x[start : start + CHUNK]), torch.float32)
            network(x)
            found = seen.pop()
            rows.append(torch.stack(found.chunk(len(found) // len(x))).mean(0))
    hook.remove()
    return torch.cat(rows).numpy()


def reckoned(rule: Rule, sample: Dataset, *, more_bits: int, whole: int) -> dict[str, Any]:
    """Bounds of picks with so many bits more than the rule's own, here and for a whole sample."""
    start = time.process_time()
    picked = pick(rule, sample, is_checked=False, patience=True).best()
    seconds = time.process_time() - start
    options = Task(sample=sample, delta=DELTA).options
    bits, _ = PickedMessage(options, picked.rule, sample.input_shape).encode()
    facts = picked.facts(code_bits=bits.length + more_bits, delta=DELTA, classes=sample.classes)
    factor = whole / sample.n
    picks, errors, n = (round(factor * each) for each in (facts.picks, facts.errors, facts.n))
    larger = replace(facts, picks=picks, errors=errors, n=n)
    values = {name: picked_risk(each).value for name, each in (("bound", facts), ("whole", larger))}
    counted = {"picks": facts.picks, "errors": facts.errors, "bits": facts.code_bits}
    return {**counted, "seconds": seconds, **values}


def main() -> None:
    """Prints the two, side by side."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("certificate")
    parser.add_argument("--examples", type=int, default=10_000)
    given = parser.parse_args()
    certificate = Certificate.load(given.certificate)
    data = load_dataset(given.certificate.rpartition("/")[2].partition("-")[0])
    sample = data.select(permutation(data.n)[: given.examples], role="certify")
    hidden = last_hidden(decode(certificate).float(), sample)
    table = from_arrays(hidden, sample.y, name="hidden", classes=sample.classes)
    first, batch = (min(values, key=lambda each: abs(each - sample.n / part)) for values, part in SIZES)
    rounds = max(each for each in ROUNDS if each <= MOST and first + each * (batch + 8) < sample.n)
    usual = replace(usual_rule(sample.input_shape), first=first, batch=batch, rounds=rounds)
    columns = [
        Rule(ColumnFeatures(is_normalised), first, 0, gamma, ridge, 3, batch, rounds)
        for is_normalised, gamma in ((False, 5), (False, 3), (True, 5), (True, 7))
        for ridge in (6, 9)
    ]
    rows = {"picks without it": reckoned(usual, sample, more_bits=0, whole=data.n)}
    found = [reckoned(rule, table, more_bits=certificate.facts.code_bits, whole=data.n) for rule in columns]
    rows["picks on its hidden layer"] = min(found, key=lambda each: each["bound"])
    bits, width = certificate.facts.code_bits, hidden.shape[1]
    print(f"{sample.name}: {sample.n} examples; message of {bits} bits, {width} features")
    for name, row in rows.items():
        print(
            f"{name}: {row['picks']} picks, {row['errors']} errors, {row['bits']} bits: "
            f"{percent(row['bound'])}; as many for each of {data.n}: {percent(row['whole'])}; "
            f"{row['seconds']:.0f} s"
        )


if __name__ == "__main__":
    main()

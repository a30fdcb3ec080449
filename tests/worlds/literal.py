"""Linear networks of the literal writer: their verdicts, their tensors, and what they answer by numpy."""

import cbound_writer as writer
import numpy as np
import torch

import codebound_verify
from codebound_verify.networks.chain import Chain
from codebound_verify.networks.evaluation import evaluate, prepare
from codebound_verify.networks.rounding import exact


def refused(verdict: codebound_verify.Verdict, *fragments: str) -> None:
    assert verdict.verdict == "REFUSE"
    assert verdict.bound is None
    for fragment in fragments:
        assert any(fragment in reason for reason in verdict.reasons), verdict.reasons


def float32(tensors: dict[str, writer.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.values.astype(np.float32) for name, tensor in tensors.items()}


def linear_logits(x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    flat = x.reshape(len(x), -1) / 16
    return flat @ weights["0.weight"].T.astype(float) + weights["0.bias"].astype(float)


def wrong(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Errors of the scores; ties are errors."""
    found = logits.copy()
    own = found[np.arange(len(y)), y]
    found[np.arange(len(y)), y] = -np.inf
    return own <= found.max(1)


def forward(chain: Chain, weights: list[dict[str, torch.Tensor]], x: torch.Tensor) -> torch.Tensor:
    """The logits of a chain of the second program, from the tensors of each operation."""
    return evaluate(chain, prepare(chain, weights), exact(x)).values

"""WordLlama: the mean of fixed vectors of a text's tokens, with the weights of the package wordllama.

Sums of half-precision numbers are exact in float64, so that every machine finds the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor

TENSOR = "embedding.weight"
WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


class WordLlama:
    """Maps texts to 256 numbers each; a text without tokens to zeros.

    Args:
        folder: Of the package.
    """

    def __init__(self, folder: Path) -> None:
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        self.vectors = load_file(folder / WEIGHTS)[TENSOR].double()
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.no_padding()

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """A row for each text."""
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        rows = [self.vectors[each.ids].sum(0) / max(1, len(each.ids)) for each in found]
        return torch.stack(rows)

"""An encoder of texts: WordLlama, the mean of a fixed vector for each token (weights MIT).

    pip install wordllama tokenizers
    codebound certify table.csv:LABELS --known encoder=word_vectors:means  --method picks

in the folder of this file. Nothing of these packages is part of this project. Sums of half-precision numbers
are exact in float64, so that every machine finds the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from codebound.run.errors import UsageError
from codebound.run.files import file_sha256

PACKAGE = "wordllama"
WEIGHTS = "weights/l2_supercat_256.safetensors"
SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
TENSOR = "embedding.weight"


class WordLlama(nn.Module):
    """Maps texts to 256 numbers each; a text without tokens to zeros.

    Args:
        folder: Of the package.
    """

    licence, origin = "MIT", "mean of 256 numbers for each token, distilled from Llama 2"
    takes_texts = True
    vectors: Tensor

    def __init__(self, folder: Path) -> None:
        super().__init__()
        from tokenizers import Tokenizer

        self.register_buffer("vectors", load_file(folder / WEIGHTS)[TENSOR].double())
        words = bytearray((folder / TOKENIZER).read_bytes())  # a tensor, so that the hash covers them
        self.register_buffer("words", torch.frombuffer(words, dtype=torch.uint8))
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.no_padding()

    def forward(self, texts: Sequence[str]) -> Tensor:
        """A row for each text."""
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        rows = [self.vectors[each.ids].sum(0) / max(1, len(each.ids)) for each in found]
        return torch.stack(rows)


def means() -> WordLlama:
    """The factory of the encoder, with the published weights."""
    package = find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations or find_spec("tokenizers") is None:
        raise UsageError("its weights or its tokenizer are missing: pip install wordllama tokenizers.")
    folder = Path(package.submodule_search_locations[0])
    if file_sha256(folder / WEIGHTS) != SHA256:
        raise UsageError(f"{folder / WEIGHTS} has not the SHA-256 {SHA256}: install the package again.")
    return WordLlama(folder)

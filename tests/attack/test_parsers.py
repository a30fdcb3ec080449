"""Every parser answers damaged files with a message of ours; `make fuzz` does the same for longer."""

from pathlib import Path

import pytest
from attack.fuzz_parsers import Target, attempt, fuzz, targets

from codebound.run.errors import DataError

KNOWN = targets()
UNSOUND = ("certificate, verifier",)  # which may need tables


@pytest.mark.few(5)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(KNOWN))
def test_mutants_are_read_or_refused(name):
    target = KNOWN[name]
    assert not fuzz(target, seconds=0.3, cases=60, seed=1)
    assert target.accepted or name in UNSOUND


def test_the_fuzzer_has_teeth(tmp_path):
    def fragile(path: Path) -> int:
        content = path.read_bytes()
        if not content:
            raise DataError("empty")
        return content[5]

    assert "IndexError: index out of range" in fuzz(
        Target(fragile, [b"123456"]), seconds=5, cases=300, seed=0
    )
    greedy = Target(lambda path: bytearray(300 << 20), [b"x"])
    assert "bytes of memory" in attempt(greedy, tmp_path / "f", b"x")

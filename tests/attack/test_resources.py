"""Tiny files that ask for huge work: refused at once, by both programs, before anything is allocated.

Each file is read in a process of its own, so that its peak memory is its own.
"""

import json
import struct
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from certificate_counts import hash_of
from code_writer import encoded
from file_judges import judged
from file_worlds import made
from file_writer import edited, write_file

from codebound_verify.files import GivenFiles, verify_file
from codebound_verify.header import read_canonical
from codebound_verify.refusal import Refused
from codebound_verify.sources import arrays
from codebound_verify.sources.arrays import load_data
from codebound_verify.sources.csv_files import read_table

LIMIT_MB = 1024
LAST = [1, "0"]
LINEAR, CONV, MAX, LOCAL = 1, 2, 3, 7


def zeros(chain: list[list], shape: tuple[int, ...] = (4,)) -> bytes:
    """The file of a chain whose tensors are all zero: a few bits each."""
    told = [2, (0, 4), "0", "0", "0", "0", len(chain), *(number for each in chain for number in each)]
    tensors = {LINEAR: 1, CONV: 1, LOCAL: 1, 6: 2}
    told += [2 for kind, *_ in chain for _ in range(tensors.get(kind, 0))]
    text = "111110" + encoded(*told)
    world, first = made("network")
    x, y = world.sample.x, world.sample.y.astype(np.int64)
    told = {"sample.input_shape": list(shape), "sample.sha256": hash_of(x.reshape(len(x), *shape), y)}
    return edited(write_file(world, first), told, text)


def conv(out: int, kernel: int, stride: int, padding: int) -> list:
    return [CONV, out, kernel, stride, padding + 1, "0"]


REFUSED = {
    "2^28 elements": ((4,), [[LINEAR, 2**14, "0"], [LINEAR, 2**14, "0"], LAST]),
    "more than 2^25 elements in a tensor": ((4,), [[LINEAR, 2**13, "0"], [LINEAR, 2**12 + 1, "0"], LAST]),
    "250 layers of 2^20 elements": ((4,), [[LINEAR, 2**10, "0"]] * 250 + [LAST]),
    "an image of 2^23 numbers": ((1, 2, 2), [conv(1, 1, 1, 1500), LAST]),
    "padding that is strided away": ((1, 2, 2), [conv(1, 1, 2**13, 2**13), LAST]),
    "channels": ((1, 2, 2), [conv(2**16, 1, 1, 8), LAST]),
    "patches": ((1, 2, 2), [conv(1, 1, 1, 500), conv(1, 11, 1, 5), LAST]),
    "multiplications": ((1, 2, 2), [conv(64, 1, 1, 100), conv(512, 1, 1, 0), [MAX, 9], LAST]),
    "residuals": ((1, 2, 2), [conv(64, 1, 1, 50), *[[6, 64, "0"]] * 3, LAST]),
    "local filters": ((1, 2, 2), [[LOCAL, 16, 5, 1, 181, "0"], [MAX, 9], LAST]),
    "254 pools of a large image": ((1, 2, 2), [conv(1, 1, 1, 700), *[[MAX, 1]] * 254, LAST]),
    "257 layers": ((4,), [[LINEAR, 4, "0"]] * 256 + [LAST]),
}
PROBE = """
import json, resource, sys
from pathlib import Path
import numpy as np
from codebound.certificate.decoding import read_message
from codebound.certificate.file import Certificate
from codebound.run.errors import FormatError
from codebound_verify import verify

with np.load(sys.argv[2]) as sample:
    x, y = sample["x"], sample["y"]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = []
for path in sorted(Path(sys.argv[1]).glob("*.cbound")):
    shape = json.loads(path.with_suffix(".json").read_text())
    reasons = verify(path, x.reshape(len(x), *shape), y).reasons
    try:
        read_message(Certificate.load(path))
        said = ""
    except FormatError as error:
        said = str(error)
    found.append([path.stem, reasons, said])
print(json.dumps([found, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is counted in other units")
def test_huge_work_in_a_tiny_file_is_refused_before_anything_is_allocated(tmp_path):
    for name, (shape, chain) in REFUSED.items():
        data = zeros(chain, shape)
        assert len(data) < 10_000
        (tmp_path / f"{name}.cbound").write_bytes(data)
        (tmp_path / f"{name}.json").write_text(json.dumps(shape))
    sample = made("network")[0].sample
    np.savez(tmp_path / "sample.npz", x=sample.x, y=sample.y)
    command = [sys.executable, "-c", PROBE, tmp_path, tmp_path / "sample.npz"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found, peak = json.loads(done.stdout)
    assert peak < LIMIT_MB
    assert {name for name, *_ in found} == REFUSED.keys()
    for name, reasons, said in found:
        assert any("at most" in reason or "more than" in reason for reason in reasons), (name, reasons)
        assert "at most" in said or "more than" in said or "2^25" in said, (name, said)


def test_a_message_that_says_it_is_long_is_not_waited_for():
    """Lengths are compared with the file before anything is read."""
    world, text = made("network")
    data = write_file(world, text)
    for bits in (2**32, 2**32 + 1, 2**40):
        lie = edited(data, {"message.bits": bits})
        assert not judged(world, lie).is_accepted


@pytest.mark.parametrize("start", ['{"', '{"a":1,"', "[" * 9])
def test_a_text_without_an_end_is_read_once(start):
    """A megabyte of escaped quotes once took an hour: after each of them the text was read again."""
    began = time.process_time()
    with pytest.raises(Refused):
        read_canonical((start + '\\"' * 100_000).encode(), "Header")
    assert time.process_time() - began < 10.0


def npy(header: str) -> bytes:
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header) + 1) + header.encode() + b"\n"


ARRAYS = {
    "its entries have no size": npy("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000, 1)}"),
    "nested too deeply": npy("-" * 9000 + "1"),
    "not version 1": b"\x93NUMPY\x02\0" + struct.pack("<I", 1 << 26) + bytes(1 << 26),
}


@pytest.mark.parametrize("reason", ARRAYS)
def test_an_array_of_a_few_bytes_promises_no_gigabytes(tmp_path, reason):
    """A table of texts without letters once took all memory, and a header as long as it liked was read."""
    with zipfile.ZipFile(tmp_path / "s.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", ARRAYS[reason])
    (tmp_path / "x.npy").write_bytes(ARRAYS[reason])
    for read in (lambda: read_table(str(tmp_path / "s.npz")), lambda: load_data(str(tmp_path / "s.npz"))):
        with pytest.raises(Refused, match=reason):
            read()
    with pytest.raises(Refused, match=reason):
        load_data(str(tmp_path))


def test_many_arrays_of_one_file_are_no_more_than_one(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "s.npz", **{f"a{i}": np.zeros(1000) for i in range(20)})
    assert len(read_table(str(tmp_path / "s.npz"))) == 20
    monkeypatch.setattr(arrays, "BYTES_LIMIT", 20_000)
    with pytest.raises(Refused, match="does not fit 20000 bytes"):
        read_table(str(tmp_path / "s.npz"))


def test_too_little_memory_for_a_ledger_is_no_traceback(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    (tmp_path / "ledger.jsonl").write_bytes(b"{}\n")
    monkeypatch.setattr("codebound_verify.holdout.ledger.verify_ledger", fail)
    with pytest.raises(Refused, match="not enough memory"):
        verify_file(tmp_path / "ledger.jsonl", GivenFiles())

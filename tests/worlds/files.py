"""Files as bytes: arrays, archives, IDX, ledgers; and what damages them."""

import hashlib
import io
import struct
import tracemalloc
import zipfile

import numpy as np
from hypothesis import strategies as st

LIMIT_BYTES = 32 << 20


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@st.composite
def promising_headers(draw) -> bytes:
    """The header of an array of any shape and type, with nothing behind it."""
    shape = draw(st.lists(st.integers(-(2**70), 2**70), max_size=5))
    types = ["|u1", "<f8", "|b1", "<i8", "|O", "<U9", "|V0", "<m8[s]", "[('a', '<i4')]", "zz"]
    kind = draw(st.sampled_from(types))
    descr = kind if kind.startswith("[") else repr(kind)
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {tuple(shape)!r}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def archive(**members: bytes) -> bytes:
    """An .npz with these members, whatever they are."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def idx_files(stream: np.random.Generator) -> dict[str, bytes]:
    """The four files of a data set like MNIST, with five examples and three."""
    return {
        f"{stem}-{kind}-ubyte": idx(stream.integers(0, top, shape, dtype=np.uint8))
        for stem, n in (("train", 5), ("t10k", 3))
        for kind, top, shape in (("images-idx3", 256, (n, 28, 28)), ("labels-idx1", 10, (n,)))
    }


def md5_of(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.md5(content).hexdigest() for name, content in files.items()}


@st.composite
def damaged(draw, content: bytes) -> bytes:
    """A few bytes replaced, and perhaps an end cut off or added."""
    changed = bytearray(content)
    places = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255))
    for at, value in draw(st.lists(places, max_size=6)):
        changed[at] = value
    kept = draw(st.integers(0, len(changed))) if draw(st.booleans()) else len(changed)
    return bytes(changed[:kept]) + draw(st.binary(max_size=4))


def survives(read, *, refusal: type[Exception]) -> bool:
    """Whether it was read; a refusal is an answer, anything else and much memory fail the test."""
    tracemalloc.start()
    try:
        read()
        return True
    except refusal:
        return False
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < LIMIT_BYTES

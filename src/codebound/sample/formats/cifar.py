"""CIFAR batches, binary or pickled, as rows of bytes; pickles are read without running anything in them."""

from __future__ import annotations

import io
import math
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from codebound.run.errors import DataError
from codebound.sample.formats.idx import read_whole

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

PIXELS = 32 * 32
_VALUES = 3 * PIXELS
_MAX_BATCH_BYTES = 512 << 20

# What Python 2's pickle wrote into these files, and what a later Python writes for the same objects:
# plain containers, numbers, strings, and the reconstruction of one array. Every other opcode is refused,
# among them those that call by other routes (INST, OBJ, NEWOBJ), that reach outside (PERSID, EXT1), and
# that reserve memory which is not there (BYTEARRAY8).
_OPCODES = (
    pickle.PROTO + pickle.FRAME + pickle.STOP + pickle.MARK
    + pickle.PUT + pickle.BINPUT + pickle.LONG_BINPUT + pickle.MEMOIZE
    + pickle.GET + pickle.BINGET + pickle.LONG_BINGET
    + pickle.NONE + pickle.NEWTRUE + pickle.NEWFALSE
    + pickle.INT + pickle.BININT + pickle.BININT1 + pickle.BININT2
    + pickle.STRING + pickle.BINSTRING + pickle.SHORT_BINSTRING
    + pickle.BINUNICODE + pickle.SHORT_BINUNICODE + pickle.BINBYTES + pickle.SHORT_BINBYTES
    + pickle.EMPTY_LIST + pickle.APPEND + pickle.APPENDS + pickle.LIST
    + pickle.EMPTY_DICT + pickle.SETITEM + pickle.SETITEMS + pickle.DICT
    + pickle.EMPTY_TUPLE + pickle.TUPLE + pickle.TUPLE1 + pickle.TUPLE2 + pickle.TUPLE3
    + pickle.GLOBAL + pickle.STACK_GLOBAL + pickle.REDUCE + pickle.BUILD
)  # fmt: skip


class _Dtype:
    """Stands in for ``numpy.dtype`` inside a pickle; unsigned bytes only."""

    def __init__(self, code: object, *flags: object) -> None:
        if code not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"an array of {code!r}, where only unsigned bytes belong")

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment say nothing about single bytes."""


class _Array:
    """Stands in for ``numpy.ndarray`` inside a pickle; keeps shape and bytes after checking them."""

    def __init__(self, *blank: object) -> None:
        self.values = np.empty((0, 0), dtype=np.uint8)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, content = state
        sound = isinstance(dtype, _Dtype) and isinstance(content, bytes) and len(shape) == 2
        if not sound or math.prod(shape) != len(content):
            raise pickle.UnpicklingError("an array whose bytes do not fit its shape")
        flat = np.frombuffer(content, dtype=np.uint8)
        self.values = flat.reshape(shape, order="F" if is_fortran else "C")


# Classes with a __setstate__ of their own, so that BUILD has nothing to write attributes into.
_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
}


# The Python implementation, because its table of opcodes can be cut down and because its memo is a
# dictionary: in the C implementation one crafted opcode makes the memo reserve gigabytes.
class _BatchUnpickler(pickle._Unpickler):
    dispatch = {code: load for code, load in pickle._Unpickler.dispatch.items() if code in _OPCODES}  # noqa: RUF012

    def find_class(self, module: str, name: str) -> Any:
        """Our stand-ins for the three numpy names that the format uses, and nothing else."""
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which has no place in it")
        return _STAND_INS[module, name]


def _unpickle(path: Path) -> dict[str, Any]:
    content = bytes(read_whole(path, limit=_MAX_BATCH_BYTES))
    try:
        record = _BatchUnpickler(io.BytesIO(content), encoding="bytes").load()
        return {key.decode() if isinstance(key, bytes) else str(key): record[key] for key in record}
    except Exception as error:  # a damaged pickle can make the stack machine raise nearly anything
        raise DataError(
            f"{path} was refused: {type(error).__name__}: {error}. A CIFAR batch is a pickled dictionary of "
            "one array of bytes and lists of labels; nothing else is loaded from it. Fetch it again, or use "
            "the binary form (.bin)."
        ) from error


def read_pickled(path: Path, *, labels: tuple[str, ...]) -> NDArray[np.uint8]:
    """Rows of a pickled batch: its label bytes in the order of ``labels``, then the three colour planes."""
    record = _unpickle(path)
    data = record.get("data")
    if not isinstance(data, _Array) or data.values.shape[1] != _VALUES:
        raise DataError(f"{path}: a CIFAR batch holds an array 'data' of n x {_VALUES} bytes.")
    rows = np.empty((len(data.values), len(labels) + _VALUES), dtype=np.uint8)
    rows[:, len(labels) :] = data.values
    for column, key in enumerate(labels):
        values = record.get(key)
        if (
            not isinstance(values, list)
            or len(values) != len(rows)
            or not all(isinstance(value, int) and 0 <= value < 256 for value in values)
        ):
            raise DataError(f"{path}: a CIFAR batch holds a list '{key}' of {len(rows)} labels, each a byte.")
        rows[:, column] = values
    return rows


def read_binary(path: Path, *, labels: int) -> NDArray[np.uint8]:
    """Rows of a binary batch: ``labels`` label bytes, then the three colour planes."""
    content = read_whole(path, limit=_MAX_BATCH_BYTES)
    if not content or len(content) % (labels + _VALUES):
        raise DataError(
            f"{path} is damaged: a binary CIFAR batch has {labels + _VALUES} bytes an example, "
            f"{len(content)} bytes are there. Fetch or copy it again."
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, labels + _VALUES)

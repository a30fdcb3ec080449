"""Loading of samples: by name, from files, folders and factories, or in memory."""

from __future__ import annotations

import gzip
import math
import re
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import is_zipfile

import numpy as np

from codebound.bounds.risk import count_of
from codebound.run.errors import CodeboundError, DataError, UsageError, did_you_mean
from codebound.run.extensions import LazyModule, import_named
from codebound.sample.arrays import from_arrays, read_arrays
from codebound.sample.columns import Title, text_cells
from codebound.sample.dataset import ROLES, Sample, Scaling, align_labels, permutation
from codebound.sample.formats.catalogue import KNOWN, KnownDataset, locate, read
from codebound.sample.formats.pictures import read_image_folder
from codebound.sample.frames import Reading, read_labels, sample_of
from codebound.sample.tables import SUFFIXES, is_frame, read_file, read_frame, table_of, values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch
    from numpy.typing import NDArray
else:
    torch = LazyModule("torch")

_LOOKED_AT_TWICE = 3
_LABELS = "labels of the pair"
_OF_NUMPY = ("torch.float16", "torch.float32", "torch.float64")
_SIZED = re.compile(r"(?P<folder>.+)@(?P<height>[1-9]\d{0,3})x(?P<width>[1-9]\d{0,3})")
_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def load_sample(
    spec: object,
    *,
    role: str = "train",
    folder: Path | None = None,
    like: Sample | None = None,
    texts: bool = False,
) -> Sample:
    """Load a sample; never downloads.

    Args:
        spec: A name (``codebound data list`` shows them), an ``.npz`` file with arrays ``x`` and ``y``, a
            table (``table.csv:labels``), a folder (images by class, which ``folder@HEIGHTxWIDTH`` brings to
            one size; ``x.npy`` and ``y.npy``, which stay on the disk), or ``package.module:factory``, called
            without arguments, which returns a Sample or a pair ``(x, y)``. Or a sample in memory: a pair of
            arrays or tensors, a data frame, alone or in a pair with its labels, a Dataset or a DataLoader of
            PyTorch, whose transforms are applied.
        role: For named datasets the split, ``train`` or ``test``; for the others the use of the sample.
        folder: First place to look for a named dataset; then the cache is searched.
        like: Another sample, whose classes, columns and size of images hold for this one too.
        texts: True where an encoder reads the texts: of a table, all columns but the labels are one text.

    Raises:
        DataError: The sample is missing, damaged or unreadable; the message says what to do.
        UsageError: An argument is outside its range.

    Example:
        >>> digits = load_sample("digits")
        >>> digits.n, digits.input_shape, digits.classes
        (1797, (1, 8, 8), 10)
    """
    if role not in ROLES:
        raise UsageError(f"a sample has the role {', '.join(ROLES)}. Got {role!r}.")
    how = Reading(role, texts=texts) if like is None else Reading.like(role, like, texts=texts)
    return align_labels(_load(spec, folder, how), how.class_names)


def _load(spec: object, folder: Path | None, how: Reading) -> Sample:
    if isinstance(spec, Sample):
        return _with_role(spec, how.role)
    if not isinstance(spec, str | Path):
        return _collect(spec, how)
    spec = str(spec)
    if (known := KNOWN.get(spec.lower())) is not None:
        return _load_known(known, how, folder)
    path = Path(spec).expanduser()
    if path.is_dir():
        return (_load_arrays if (path / "x.npy").is_file() else _load_images)(path, how)
    if (sized := _SIZED.fullmatch(spec)) is not None and Path(sized["folder"]).expanduser().is_dir():
        shape = *how.input_shape[:-2], int(sized["height"]), int(sized["width"])
        return _load_images(Path(sized["folder"]).expanduser(), replace(how, input_shape=shape))
    if (table := table_of(spec)) is not None:
        file, target = table
        return sample_of(read_file(file), target, how, name=str(file), source=f"table {file}")
    if path.is_file() and path.suffix.lower() != ".npz" and not is_zipfile(path):
        raise DataError(
            f"{spec} is no file that is read: a table ends in {', '.join(SUFFIXES)}, arrays are saved by "
            "numpy.savez(path, x=inputs, y=labels)."
        )
    if path.is_file():
        return _load_arrays(path, how)
    if Path(spec.partition(":")[0]).suffix.lower() in (".npz", *SUFFIXES):
        raise DataError(f"{spec} does not exist.")
    if _FACTORY.fullmatch(spec):
        made = _call_factory(spec)
        source = f"factory {spec}"
        return _with_role(made, how.role) if isinstance(made, Sample) else _collect(made, how, spec, source)
    raise DataError(
        f"no dataset {spec!r}: neither a known name ({', '.join(KNOWN)}), nor an existing .npz file, "
        f"table or folder, nor package.module:factory.{did_you_mean(spec.lower(), KNOWN)}"
    )


def _load_known(known: KnownDataset, how: Reading, folder: Path | None) -> Sample:
    if how.role not in ("train", "test"):
        raise UsageError(
            f"{known.name} comes as 'train' and 'test'; the role {how.role!r} is a part of one of them. "
            "Load one and use codebound.split."
        )
    if how.role not in known.sizes:
        raise DataError(
            f"{known.name} has no test split. Hold out a part of it (holdout), such as with "
            "codebound.split(dataset, {'train': 0.8, 'test': 0.2})."
        )
    if how.classes not in (None, known.classes):
        raise UsageError(f"{known.name} has {known.classes} classes. Got classes={how.classes}.")
    if known.layout == "embedded":
        (x, y), source = _load_digits(), "embedded in scikit-learn"
    else:
        files = locate(known, how.role, folder)
        x, y = read(known, how.role, files)
        source = f"{known.title} from {files[0].parent}, checksums verified"
    return Sample(known.name, how.role, x, y, known.classes, Scaling(divisor=known.divisor), source)


def _load_digits() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The file inside scikit-learn, whose import takes longer than reading it."""
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise DataError("digits are part of scikit-learn, which is not installed: pip install scikit-learn.")
    path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            table = np.loadtxt(file, delimiter=",", dtype=np.uint8)
    except OSError as error:
        raise DataError(f"this scikit-learn has no {path}: install another version.") from error
    return table[:, :-1].reshape(-1, 1, 8, 8), table[:, -1].astype(np.int64)


def _load_arrays(path: Path, how: Reading) -> Sample:
    arrays, source = read_arrays(path, role=how.role), f"{'folder' if path.is_dir() else 'file'} {path}"
    if "cells" in arrays and how.cells is None:
        how = replace(how, cells=bool(arrays["cells"].all()))
    given = tuple(array for name, array in arrays.items() if name != "cells")
    return _collect(given, how, name=str(path), source=source)


def _load_images(path: Path, how: Reading) -> Sample:
    classes = None if how.class_names else how.classes
    return read_image_folder(path, role=how.role, classes=classes, shape=how.input_shape)


def _call_factory(spec: str) -> Any:
    """Return what the user's function ``package.module:factory`` returns."""
    try:
        return import_named(spec)()
    except CodeboundError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's code raises, the message names it
        raise DataError(
            f"{spec} failed with {type(error).__name__}: {error}. A factory is called without arguments; its "
            "module must be importable (installed, or in the current directory)."
        ) from error


def _with_role(dataset: Sample, role: str) -> Sample:
    return replace(dataset, role=role, y=np.zeros_like(dataset.y) if role == "unlabelled" else dataset.y)


def _collect(given: object, how: Reading, name: str = "", source: str = "") -> Sample:
    """A sample from what is in memory; the items of a dataset are collected once, in their order."""
    kind = type(given).__name__
    name = name or ("arrays" if kind in ("tuple", "list", "ndarray", "Tensor") else kind)
    source = source or f"{kind} in memory"
    x: Any
    x, y = (given, None) if is_frame(given) else _parts(given, name=name)
    if is_frame(x):
        table = read_frame(x, name="the frame")
        if y is None:
            return sample_of(table, None, how, name=f"a {kind}", source=source)
        labels, rows = values_of(y, name="the labels of the pair"), len(table[0][1]) if table else 0
        if len(labels) != rows:
            raise DataError(
                f"the {type(x).__name__} has {count_of(rows, 'row')}, and there are {len(labels)} labels: "
                "give one for each."
            )
        table.append((Title(_LABELS), labels))
        return sample_of(table, _LABELS, how, name="a data frame", source=source)
    x = x[None] if isinstance(x, np.ndarray) and not x.ndim else x
    is_text = isinstance(x, list | tuple | np.ndarray) and len(x) > 0 and isinstance(x[0], str)
    texts = _texts(x, name=name) if how.texts else ()
    inputs = text_cells(texts or x)[:, None] if texts or is_text else _array(x)
    names: tuple[str, ...] = ()
    numbers, classes = None, how.classes
    if y is not None and how.role != "unlabelled":
        numbers, names, classes = _labels_in(y, how, name=name)
    found = from_arrays(
        inputs,
        numbers,
        name=name,
        role=how.role,
        classes=classes,
        source=source,
        cells=is_text or how.texts or how.cells,
    )
    return replace(found, class_names=names, texts=texts)


def _texts(x: Any, *, name: str) -> tuple[str, ...]:
    """Texts for an encoder."""
    texts = () if isinstance(x, str) else tuple(x)
    if not texts or not all(isinstance(each, str) for each in texts):
        raise DataError(
            f"{name} must hold at least one text, and nothing but texts: give a pair (texts, labels), two "
            "lists, or a table with a column called label."
        )
    return texts


def _parts(given: Any, *, name: str) -> tuple[Any, Any]:
    """Inputs and labels, or None where there are none."""
    if isinstance(given, tuple | list) and len(given) in (1, 2):
        return given[0], (*given, None)[1]
    if isinstance(given, np.ndarray):
        return given, None
    if isinstance(given, torch.utils.data.DataLoader):
        if isinstance(given.dataset, torch.utils.data.IterableDataset):
            return _stack(chain.from_iterable(zip(*batch, strict=True) for batch in given), name=name)
        given = given.dataset
    if isinstance(given, torch.utils.data.TensorDataset):
        return _parts(given.tensors, name=name)
    if isinstance(given, torch.Tensor):
        return given, None
    if isinstance(given, torch.utils.data.IterableDataset):
        return _stack(given, name=name)
    if isinstance(given, str | bytes | dict) or not (
        hasattr(given, "__len__") and hasattr(given, "__getitem__")
    ):
        raise DataError(
            f"{name} is no sample. Give a pair (inputs, labels) of arrays, tensors or data frames, a data "
            "frame with a column of labels, a Dataset or DataLoader of PyTorch, or a name or a file. Got "
            f"{type(given).__name__}."
        )
    _require_fixed(given, name=name)
    return _stack((given[i] for i in range(len(given))), name=name)


def _require_fixed(items: Any, *, name: str) -> None:
    """Refuse items that change from one look to the next: nobody could check what was counted."""
    for at in range(min(_LOOKED_AT_TWICE, len(items))):
        (first, _), (second, _) = (_row(items[at], name=name) for _ in range(2))
        if not np.array_equal(first, second):
            raise DataError(
                f"{name}: item {at} is another one when it is asked for again. Leave out random transforms: "
                "a certificate is about fixed examples."
            )


def _stack(rows: Iterable[Any], *, name: str) -> tuple[Any, Any]:
    pairs = [_row(row, name=name) for row in rows]
    try:
        return np.stack([x for x, _ in pairs]), np.array([y for _, y in pairs])
    except ValueError as error:
        raise DataError(f"{name}: its inputs have no shape in common: {error}.") from error


def _row(row: Any, *, name: str) -> tuple[NDArray[Any], Any]:
    """One item: its input, channels first, and its label."""
    if not isinstance(row, tuple | list) or len(row) != 2:
        raise DataError(
            f"{name}: its items must be pairs (input, label). Got a {type(row).__name__}; wrap it in a "
            "dataset whose items are such pairs."
        )
    inputs, label = _array(row[0]), _array(row[1])
    if label.size != 1:
        raise DataError(f"{name}: a label is one number. Got shape {label.shape}.")
    if hasattr(row[0], "getbands") and inputs.ndim == 3:  # a picture of Pillow
        inputs = inputs.transpose(2, 0, 1)
    return inputs, label.reshape(())[()]


def _array(values: Any) -> NDArray[Any]:
    """An array of whatever holds numbers; nothing of it is left out or made up."""
    try:
        if not isinstance(values, np.ndarray) and isinstance(values, torch.Tensor):
            plain = values.detach().to("cpu").to_dense().resolve_conj().resolve_neg()
            exact = str(plain.dtype) in _OF_NUMPY or not plain.is_floating_point()
            return np.asarray(plain if exact else plain.float())
        array = np.asarray(values.toarray() if hasattr(values, "toarray") else values)  # sparse of scipy
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"{type(values).__name__} is no array of numbers: {error}") from error
    if np.ma.is_masked(values):
        raise DataError(
            "the array is masked, and what a mask hides is no value. Fill it by a rule that was fixed in "
            "advance, or give a data frame, in which values may be missing."
        )
    return _of_objects(array) if array.dtype == object else array


def _of_objects(array: NDArray[Any]) -> NDArray[Any]:
    """Numbers that were stored as objects, where float64 has them exactly; others stay what they are."""
    try:
        numbers = array.astype(np.float64)
        is_exact = bool((numbers == array).all())
    except (ValueError, TypeError, OverflowError):
        return array
    return numbers if is_exact else array


def _labels_in(y: Any, how: Reading, *, name: str) -> tuple[NDArray[Any], tuple[str, ...], int | None]:
    """Labels as numbers, names of classes where they have some, and their number."""
    labels = y if hasattr(y, "cat") else _array(y)  # of a categorical type
    if isinstance(labels, np.ndarray):
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels.reshape(-1)
        elif labels.ndim == 2 and labels.dtype.kind in "biuf" and _is_one_hot(labels):
            return labels.argmax(axis=1), (), how.classes or labels.shape[1]
        if labels.ndim != 1:
            raise DataError(
                f"{name}: labels have shape (n,), or in each row a 1 for its class and 0 for the others. Got "
                f"{labels.shape} with other rows. Several labels for an example are not covered: take one "
                "column, such as labels[:, 0], for each certificate."
            )
        if labels.dtype.kind in "iub" and not how.class_names and labels.min(initial=0) >= 0:
            return labels, (), how.classes
    values = values_of(labels, name=f"{name}: labels")
    numbers, names = read_labels(Title("labels"), values, how, name=name)
    return numbers, names, len(names) or how.classes


def _is_one_hot(rows: NDArray[Any]) -> bool:
    return bool(((rows == 0) | (rows == 1)).all() and (rows.sum(axis=1) == 1).all())


def as_dataset(given: object, *, role: str = "train", like: Sample | None = None) -> Sample:
    """Return a sample in any form that ``load_sample`` takes; a Sample stays what it is.

    Classes, and the columns of a table, are those of the sample that it is ``like``, where there is one.
    """
    if isinstance(given, Sample):
        has_words = given.role == "test" and given.columns and given.class_names
        if has_words and like is not None and not like.class_names:
            raise DataError(
                f"the classes of {given.name} are words, {', '.join(given.class_names[:8])}, and those of "
                "the sample are numbers. Give the file or the frame itself, with the order of the classes in "
                "the header: label{no|yes}."
            )
        return given if like is None else align_labels(given, like.class_names)
    return load_sample(given, role=role, like=like)


def split(
    dataset: Any, parts: Mapping[str, float] | Mapping[str, int], *, seed: int = 0
) -> dict[str, Sample]:
    """Cut a sample into parts by role, along ``permutation(n, seed)``.

    Part k of fractions f_1, f_2, ... runs from floor(n F_{k-1}) to floor(n F_k), where F_k = f_1 + ... + f_k,
    and 1e-9 is added before rounding down so that binary fractions do not lose an example.

    Args:
        dataset: The sample to cut, given in any way that ``certify`` takes.
        parts: By role, either fractions that add up to 1 or whole numbers of examples that add up to n.
        seed: Chooses the permutation. A seed chosen after seeing results is a choice that has to be paid for.

    Raises:
        UsageError: A role is unknown, a part is empty, or the parts do not add up.

    Example:
        >>> digits = split(load_sample("digits"), {"train": 0.8, "test": 0.2})
        >>> digits["train"].n, digits["test"].n
        (1437, 360)
    """
    dataset = as_dataset(dataset)
    unknown = [role for role in parts if role not in ROLES]
    if unknown or not parts:
        raise UsageError(f"a part has the role {', '.join(ROLES)}. Got {', '.join(unknown) or 'no part'}.")
    ends, order = _ends(dataset.n, list(parts.values())), permutation(dataset.n, seed=seed)
    found: dict[str, Sample] = {}
    for role, start, end in zip(parts, [0, *ends[:-1]], ends, strict=True):
        if end <= start:
            raise UsageError(
                f"the part {role!r} of {dataset.name} (n = {dataset.n}) would be empty: {dict(parts)}."
            )
        found[role] = dataset.select(order[start:end], role=role)
    return found


def _ends(n: int, amounts: list[float] | list[int]) -> list[int]:
    """Return the end of each part in the permutation."""
    if any(isinstance(amount, bool) or not math.isfinite(amount) or amount < 0 for amount in amounts):
        raise UsageError(f"parts are fractions or counts, none negative. Got {amounts}.")
    cumulative = np.cumsum(amounts).tolist()
    if all(isinstance(amount, int) for amount in amounts):
        if cumulative[-1] != n:
            raise UsageError(f"the counts {amounts} add up to {cumulative[-1]}; the sample has {n} examples.")
        return [int(end) for end in cumulative]
    if any(isinstance(amount, int) for amount in amounts) or abs(cumulative[-1] - 1.0) > 1e-9:
        raise UsageError(
            f"fractions must be written as decimals and add up to 1. Got {amounts}, which add up to "
            f"{cumulative[-1]:.6g}. For numbers of examples write whole numbers that add up to {n}."
        )
    return [math.floor(n * end + 1e-9) for end in cumulative[:-1]] + [n]

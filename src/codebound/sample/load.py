"""One door to every sample: a known name, an ``.npz`` file, a table, a folder, or a factory of the user's."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import is_zipfile

import numpy as np

from codebound.run.errors import CodeboundError, DataError, UsageError
from codebound.run.extensions import import_named
from codebound.sample.arrays import from_arrays, read_npy_folder, read_npz
from codebound.sample.convert import collected
from codebound.sample.dataset import Dataset, Scaling, named_alike
from codebound.sample.formats.catalogue import (
    KNOWN,
    NOT_READ,
    Found,
    KnownDataset,
    find,
    has_digest,
    located,
    read,
)
from codebound.sample.formats.pictures import read_image_folder
from codebound.sample.formats.table_files import SUFFIXES, read_table, table_of
from codebound.sample.splits import ROLES
from codebound.sample.standardised import STANDARDISED, looks_standardised

if TYPE_CHECKING:
    from codebound.sample.columns import Title

_PARTS = {"train": ("train", "training"), "test": ("test", "testing"), "": ("val", "valid", "validation")}
_SIZED = re.compile(r"(?P<folder>.+)@(?P<height>[1-9]\d{0,3})x(?P<width>[1-9]\d{0,3})")
_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def load_dataset(
    spec: object,
    *,
    role: str = "train",
    folder: Path | None = None,
    classes: int | None = None,
    class_names: tuple[str, ...] = (),
    columns: tuple[Title, ...] = (),
    input_shape: tuple[int, ...] = (),
) -> Dataset:
    """Loads a sample; never downloads.

    Args:
        spec: A name (``codebound data list`` shows them), an ``.npz`` file with arrays ``x`` and ``y``, a
            table (``table.csv:labels``, see ``tables``), a folder (images by class, which
            ``folder@HEIGHTxWIDTH`` brings to one size; ``x.npy`` and ``y.npy``, which stay on the disk;
            torchvision's layout), or ``package.module:factory``, called without arguments, which returns a
            Dataset or a pair ``(x, y)``. Or a sample in memory: a pair of arrays or tensors, a data frame, a
            Dataset or a DataLoader of PyTorch (``codebound.sample.convert``).
        role: For named datasets the split, ``train`` or ``test``; for the others the sample is what ``spec``
            holds and the role says what it may be used for.
        folder: Where to look for a named dataset first; then the cache is searched.
        classes: Number of classes, where the source leaves it open; by default the largest label plus one.
        class_names: What the classes of another sample are called, in the order of its labels: folders and
            words get the labels that they have there.
        columns: What became the inputs of another sample, where it is a table: this one is read by the same.
        input_shape: Of another sample: images in a folder are brought to its size and channels.

    Raises:
        DataError: The sample is missing, damaged or unreadable; the message says what to do.
        UsageError: An argument is outside its range.

    Example:
        >>> digits = load_dataset("digits")
        >>> digits.n, digits.input_shape, digits.classes
        (1797, (1, 8, 8), 10)
    """
    if role not in ROLES:
        raise UsageError(f"a sample has the role {', '.join(ROLES)}. Got {role!r}.")
    names = tuple(class_names)
    return named_alike(_loaded(spec, role, folder, classes, names, tuple(columns), tuple(input_shape)), names)


def _loaded(
    spec: object,
    role: str,
    folder: Path | None,
    classes: int | None,
    names: tuple[str, ...],
    columns: tuple[Title, ...],
    shape: tuple[int, ...],
) -> Dataset:
    if isinstance(spec, Dataset):
        return _with_role(spec, role)
    if not isinstance(spec, str | Path):
        return collected(spec, role=role, classes=classes, class_names=names, columns=columns)
    spec = str(spec)
    known = KNOWN.get(spec.lower())
    if known is not None:
        return _load_known(known, role, folder, classes)
    if spec.lower() in NOT_READ:
        raise DataError(
            f"{spec} is not supported: {NOT_READ[spec.lower()]}. Convert it once and load the file: "
            f"numpy.savez('{spec.lower()}.npz', x=images, y=labels)."
        )
    path = Path(spec).expanduser()
    if path.is_dir():
        return _load_folder(path, role, classes, names, shape)
    if (sized := _SIZED.fullmatch(spec)) is not None and Path(sized["folder"]).expanduser().is_dir():
        shape = *shape[:-2], int(sized["height"]), int(sized["width"])
        return _load_images(Path(sized["folder"]).expanduser(), role, classes, names, shape)
    if (table := table_of(spec)) is not None:
        return read_table(table, role=role, classes=classes, class_names=names, columns=columns)
    if path.is_file() and path.suffix.lower() != ".npz" and not is_zipfile(path):
        raise DataError(
            f"{spec} is no file that is read: a table ends in {', '.join(SUFFIXES)}, arrays are saved by "
            "numpy.savez(path, x=inputs, y=labels)."
        )
    if path.is_file():
        return read_npz(path, role=role, classes=classes)
    if Path(spec.partition(":")[0]).suffix.lower() in (".npz", *SUFFIXES):
        raise DataError(f"{spec} does not exist.")
    if _FACTORY.fullmatch(spec):
        return _call_factory(spec, role, classes)
    close = get_close_matches(spec.lower(), KNOWN, n=1)
    raise DataError(
        f"no dataset {spec!r}: neither a known name ({', '.join(KNOWN)}), nor an existing .npz file, "
        f"table or folder, nor package.module:factory.{f' Did you mean {close[0]!r}?' if close else ''}"
    )


def _load_known(known: KnownDataset, role: str, folder: Path | None, classes: int | None) -> Dataset:
    if role not in ("train", "test"):
        raise UsageError(
            f"{known.name} comes as 'train' and 'test'; the role {role!r} is a part of one of them. "
            "Load one and use codebound.sample.splits.split."
        )
    if role not in known.sizes:
        raise DataError(
            f"{known.name} has no test split. Hold out a part of it (holdout), such as with "
            "codebound.sample.splits.split(dataset, {'train': 0.8, 'test': 0.2})."
        )
    if classes not in (None, known.classes):
        raise UsageError(f"{known.name} has {known.classes} classes. Got classes={classes}.")
    if known.layout == "embedded":
        return _load_digits(known)
    return _read_found(located(known, role, folder), name=known.name)


def _read_found(found: Found, *, name: str) -> Dataset:
    known = found.known
    x, y = read(found)
    warnings = (
        () if known.digests else (f"no checksum of {known.title} is known: its content was not verified",)
    )
    return Dataset(
        name=name,
        role=found.role,
        x=x,
        y=y,
        classes=known.classes,
        scaling=Scaling(divisor=known.divisor),
        source=f"{known.title} from {found.folder}{', checksums verified' if known.digests else ''}",
        warnings=warnings,
    )


def _load_digits(known: KnownDataset) -> Dataset:
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
    return Dataset(
        name=known.name,
        role="train",
        x=table[:, :-1].reshape(-1, 1, 8, 8),
        y=table[:, -1].astype(np.int64),
        classes=known.classes,
        scaling=Scaling(divisor=known.divisor),
        source="embedded in scikit-learn",
    )


def _load_folder(
    path: Path, role: str, classes: int | None, names: tuple[str, ...], shape: tuple[int, ...]
) -> Dataset:
    if (path / "x.npy").is_file():
        return read_npy_folder(path, role=role, classes=classes)
    split = "test" if role == "test" else "train"
    candidates = [found for known in KNOWN.values() if (found := find(known, split, path)) is not None]
    if not candidates:
        return _load_images(path, role, classes, names, shape)
    likely = candidates if len(candidates) == 1 else [found for found in candidates if _is_told_apart(found)]
    if len(likely) != 1:
        known = ", ".join(found.known.name for found in likely or candidates)
        raise DataError(
            f"{path} may hold more than one known dataset ({known}). Load it by name and give the folder: "
            f"load_dataset({candidates[0].known.name!r}, folder={str(path)!r})."
        )
    (found,) = likely
    if classes not in (None, found.known.classes):
        raise UsageError(f"{found.known.name} has {found.known.classes} classes. Got classes={classes}.")
    return _with_role(_read_found(found, name=str(path)), role)


def _load_images(
    path: Path,
    role: str,
    classes: int | None,
    names: tuple[str, ...],
    shape: tuple[int, ...],
) -> Dataset:
    """A folder of images, or its part for the role, with the classes of its part to learn from.

    The shape is what is asked for: channels, height and width, or the last two, or nothing.
    """
    part, learned = _part_of(path, role)
    names = names or learned
    found = read_image_folder(
        part,
        role=role,
        classes=None if names else classes,
        size=(shape[-2], shape[-1]) if len(shape) in (2, 3) else None,
        channels=shape[0] if len(shape) == 3 else None,
    )
    return _with_role(named_alike(found, names), role)


def _part_of(path: Path, role: str) -> tuple[Path, tuple[str, ...]]:
    """The part of a folder that a role asks for, where its sub-folders are parts of a sample, not classes.

    With it come the classes of the part that is learned from, where there is one.
    """
    inside = {name.lower(): path / name for name in _sub_folders(path)}
    if not inside or not inside.keys() <= set().union(*_PARTS.values()):
        return path, ()
    wanted = [inside[name] for name in _PARTS["test" if role == "test" else "train"] if name in inside]
    if not wanted:
        raise DataError(
            f"{path} holds {', '.join(sorted(inside))}: parts of a sample, and none for the role {role!r}. "
            "Give the folder of the part, which has a sub-folder for each class."
        )
    learned = next((inside[name] for name in _PARTS["train"] if name in inside), wanted[0])
    return wanted[0], tuple(sorted(_sub_folders(learned)))


def _sub_folders(path: Path) -> set[str]:
    return {each.name for each in path.iterdir() if each.is_dir() and each.name[0] != "."}


def _is_told_apart(found: Found) -> bool:
    """Datasets in IDX form share their file names: the folder's name or the labels' checksum decides."""
    usual = Path(found.known.folder).parts
    if found.folder.resolve().parts[-len(usual) :] == usual:
        return True
    file = found.known.files(found.role)[-1]
    return file in found.known.digests and has_digest(found.files[-1], found.known.digests[file])


def _call_factory(spec: str, role: str, classes: int | None) -> Dataset:
    try:
        made = import_named(spec)()
    except CodeboundError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's code raises, the message names it
        raise DataError(
            f"{spec} failed with {type(error).__name__}: {error}. A factory is called without arguments; its "
            "module must be importable (installed, or in the current directory)."
        ) from error
    if isinstance(made, Dataset):
        warnings = (STANDARDISED,) if looks_standardised(made.x) and STANDARDISED not in made.warnings else ()
        return _with_role(replace(made, warnings=made.warnings + warnings), role)
    if isinstance(made, tuple) and len(made) == 2:
        return from_arrays(*made, name=spec, role=role, classes=classes, source=f"factory {spec}")
    raise DataError(f"{spec} must return a Dataset or a pair (x, y). Got {type(made).__name__}.")


def _with_role(dataset: Dataset, role: str) -> Dataset:
    return replace(dataset, role=role, y=np.zeros_like(dataset.y) if role == "unlabelled" else dataset.y)

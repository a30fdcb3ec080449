"""What several verbs make of their options: samples, a base, a folder for the results."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from codebound.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from torch import nn

    from codebound.certificate.base import Pretrained
    from codebound.data.dataset import Dataset
    from codebound.nets.walk import Network

_CLASSES = 10


def load_samples(
    data: str, folder: Path | None, *, test: str | None, holdout: float | None
) -> tuple[Dataset, Dataset | None]:
    """The sample, and the test sample if one was asked for."""
    from codebound.data.load import load_dataset
    from codebound.data.splits import split

    if test is not None and holdout is not None:
        raise UsageError(
            "--test gives a test sample and --holdout cuts one from --data: choose one of them, not both."
        )
    if holdout is not None and not 0.0 < holdout < 1.0:
        raise UsageError(f"--holdout must be a fraction in (0, 1). Got {holdout}.")
    sample = load_dataset(data, folder=folder)
    if holdout is not None:
        parts = split(sample, {"train": 1.0 - holdout, "test": holdout})
        return parts["train"], parts["test"]
    if test is not None:
        return sample, load_dataset(test, role="test", folder=folder, classes=sample.classes)
    return sample, None


def load_network(
    model: str, sample: Dataset, weights: Path | str | None = None, *, seed: int = 0
) -> nn.Module:
    """The network that was asked for, with the inputs and the classes of the sample."""
    from codebound.nets.loading import load_model

    path = None if weights is None else Path(weights)
    shape, classes = sample.input_shape, sample.classes
    return load_model(model, input_shape=shape, classes=classes, weights=path, seed=seed)


def load_layers(
    model: str, shape: tuple[int, ...], classes: int, weights: Path | None, *, strict: bool = True
) -> Network:
    """The network with its layers in view; a strict view refuses parts that cannot be seen."""
    import torch

    from codebound.nets.loading import load_model
    from codebound.nets.walk import wrap

    module = load_model(model, input_shape=shape, classes=classes, weights=weights)
    return wrap(module, example=torch.zeros(2, *shape), strict=strict)


def model_sizes(
    model: str, input_shape: str | None, classes: int | None, sample: Dataset | None = None
) -> tuple[tuple[int, ...], int]:
    """Input shape and classes: those of the data, or as given, or those of the zoo."""
    from codebound.nets.zoo import ZOO

    if sample is not None:
        if input_shape is not None or classes is not None:
            raise UsageError("the data have their own --input-shape and --classes; leave these out.")
        return sample.input_shape, sample.classes
    classes = _CLASSES if classes is None else classes
    if input_shape is not None:
        sizes = input_shape.lower().split("x")
        if not all(size.isdecimal() and int(size) > 0 for size in sizes):
            raise UsageError(
                f"--input-shape is positive sizes joined by x, such as 1x28x28. Got {input_shape!r}."
            )
        return tuple(map(int, sizes)), classes
    name = model.partition(":")[0]
    if name in ZOO:
        return ZOO[name].input_shape, classes
    if ":" in model:
        raise UsageError(f"the input shape of {model} is unknown. Give --input-shape, or --data.")
    raise UsageError(f"unknown model {model!r}. Give {', '.join(ZOO)}, or package.module:factory.")


def given_base(base: Path | None, says: str | None, network: nn.Module, sample: Dataset) -> Pretrained | None:
    """The base that was asked for."""
    from codebound.certificate.base import load_base

    if base is None:
        if says is not None:
            raise UsageError("--base-says describes a --base, and none was given.")
        return None
    return load_base(base, network, sample=sample, says=says or "")


def optional_folder(out: Path | None) -> AbstractContextManager[Path | None]:
    """A new folder, if one was asked for."""
    return nullcontext() if out is None else new_folder(out)


@contextmanager
def new_folder(out: Path | None, verb: str = "certify") -> Iterator[Path]:
    """A folder that did not exist before, and does not if what follows fails."""
    folder = _make_folder(out, verb)
    try:
        yield folder
    except BaseException:
        folder.rmdir()
        raise


def _make_folder(out: Path | None, verb: str) -> Path:
    numbered = (Path("runs") / f"{verb}-{number}" for number in range(1, 10_000))
    for folder in [out] if out is not None else numbered:
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"the folder {folder} cannot be made: {error.strerror}.") from error
        return folder
    raise UsageError(f"{out} exists already; results are never overwritten. Choose another --out.")

"""Files of others that Shin 2021 starts from: checkpoints of pytorchcv, and SVHN as MATLAB files."""

from pathlib import Path

import numpy as np
import torch

from codebound.run.errors import DataError, ModelError
from codebound.sample.dataset import Dataset, Scaling
from codebound.sample.formats.catalogue import cache_folder

_SIDE, _CHANNELS, _DIGITS = 32, 3, 10


def find_checkpoint(folder: Path, name: str) -> Path | None:
    """The checkpoint of a network, named as pytorchcv stores it: ``resnet20_cifar10-0597-9b0024ac.pth``.

    Several of one network are of different training runs: the last name counts, which is the newest there.
    """
    exact = folder / f"{name}.pth"
    found = sorted(folder.glob(f"{name}-*.pth"))
    return exact if exact.is_file() else found[-1] if found else None


def read_checkpoint(path: Path) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint; nothing in the file is run."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as cause:  # whatever the reader of another format raises
        reason = type(cause).__name__
        raise ModelError(f"{path} is no checkpoint of weights alone; PyTorch says {reason}.") from cause
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ModelError(f"{path} holds something else than named tensors.")
    return {str(name): value for name, value in state.items()}


def last_dense(path: Path) -> torch.Tensor:
    """The matrix of the last dense layer in a checkpoint, which pytorchcv calls ``output``."""
    matrices = {
        name: value for name, value in read_checkpoint(path).items() if value.dim() == 2 and "weight" in name
    }
    if not matrices:
        raise ModelError(f"{path} has no dense layer: no weight in it is a matrix.")
    name = "output.weight" if "output.weight" in matrices else list(matrices)[-1]
    return matrices[name].float()


def svhn_path() -> Path:
    """Return the path of the test images of SVHN."""
    return cache_folder() / "svhn" / "test_32x32.mat"


def read_svhn(path: Path) -> Dataset:
    """The images of a MATLAB file of SVHN, channels first, with digits as labels; the file calls 0 a 10."""
    try:
        from scipy.io import loadmat  # scikit-learn brings it

        arrays = loadmat(path, variable_names=("X", "y"))
    except Exception as cause:  # whatever the reader of another format raises
        raise DataError(f"{path} is damaged, or no MATLAB file: {cause}") from cause
    if not {"X", "y"} <= arrays.keys():
        raise DataError(f"{path} is no file of SVHN: it lacks the arrays X and y.")
    x, y = arrays["X"], arrays["y"].ravel().astype(np.int64)
    if x.shape != (_SIDE, _SIDE, _CHANNELS, len(y)) or not np.isin(y, range(1, _DIGITS + 1)).all():
        raise DataError(f"{path} is no file of SVHN: X has shape {x.shape}, y {len(y)} labels.")
    images = np.ascontiguousarray(x.astype(np.uint8).transpose(3, 2, 0, 1))
    return Dataset("svhn", "test", images, y % _DIGITS, classes=_DIGITS, scaling=Scaling(divisor=255.0))

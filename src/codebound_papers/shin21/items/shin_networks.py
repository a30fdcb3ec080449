"""The networks whose last layers Shin 2021 looks at, as far as they can be had, and small ones of our own."""

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from codebound.run.errors import DataError, ModelError
from codebound.sample.dataset import Sample, Scaling
from codebound.sample.formats.catalogue import cache_folder
from codebound.sample.load import load_sample
from codebound_networks.reading.loading import load_model
from codebound_networks.reading.walk import Network, wrap
from codebound_networks.train.config import TrainConfig
from codebound_networks.views.layers import LinearView
from codebound_papers.measure.norms import released_stable_rank, stable_rank
from codebound_papers.measure.tails import fit_power_law
from codebound_papers.reproduce.items import Row, Settings, Size
from codebound_papers.reproduce.training import Trained, load_samples, make_samples, train

_HERE = Scaling(255.0, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))  # of the networks in files
_THEIRS = Scaling(
    255.0, mean=(125.3 / 255, 123.0 / 255, 113.9 / 255), std=(63.0 / 255, 62.1 / 255, 66.7 / 255)
)
_MODEL_ZOO = "pytorchcv"
_SIDE, _CHANNELS, _DIGITS = 32, 3, 10  # of SVHN, whose test images are a MATLAB file
_RESAMPLES: dict[Size, int] = {"tiny": 20, "quick": 100, "full": 1000}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedNetwork:
    """A network whose last layer is looked at."""

    name: str  # in tables
    like: str = ""  # the published network of that architecture; its own name for those of the other project
    data: str  # the dataset it classifies
    file: str = ""  # name of its file in the folder of pretrained networks; empty: it is in none
    spec: str = ""  # its architecture, for those in files and those trained here; empty: the other project's
    config: TrainConfig | None = None  # how it is trained here; None: it was trained by others

    @property
    def source(self) -> str:
        """Source of the weights."""
        return "this run" if self.config is not None else "a file" if self.file else _MODEL_ZOO


def published(names: Iterable[str]) -> tuple[NamedNetwork, ...]:
    """Networks of the other project, named as there: ``architecture_data``."""
    return tuple(NamedNetwork(name=name, like=name, data=name.rsplit("_", 1)[1]) for name in names)


FILES = tuple(
    NamedNetwork(
        name=f"{spec}, other weights", like=like, data="cifar10", file=f"{like}.safetensors", spec=spec
    )
    for spec, like in (("resnet20", "resnet20_cifar10"), ("resnet56", "resnet56_cifar10"))
)
"""Networks of the same architecture as two of the table, trained by somebody else."""


def own(size: Size) -> tuple[NamedNetwork, ...]:
    """Small networks that are trained for the purpose."""
    if size == "tiny":
        config = TrainConfig(epochs=1, batch_size=50)
        return tuple(
            NamedNetwork(
                name=f"mlp {width}", data="made-up", spec=f"mlp:depth=2,width={width}", config=config
            )
            for width in (32, 48, 64, 80)
        )
    epochs, widths = (2, (64, 128, 256)) if size == "quick" else (20, (64, 128, 256, 512, 1024))
    specs = [*(f"mlp:depth=3,width={width}" for width in widths), "lenet5"]
    return tuple(
        NamedNetwork(name=f"{spec} on {data}", data=data, spec=spec, config=TrainConfig(epochs=epochs))
        for data in ("mnist", "fashion-mnist")
        for spec in specs
    )


def obstacle(subject: NamedNetwork, settings: Settings) -> str:
    """Return the reason why a network cannot be had here. Empty where it can."""
    if subject.config is not None:
        return ""
    if not subject.file:
        return "" if importlib.util.find_spec(_MODEL_ZOO) else f"{_MODEL_ZOO} is not installed"
    if settings.models is None:
        return "no folder of pretrained networks was given (models, or CODEBOUND_MODELS)"
    path = settings.models / subject.file
    return "" if path.is_file() else f"{subject.file} is not in {settings.models}"


def checkpoint(subject: NamedNetwork, settings: Settings) -> Path | None:
    """The checkpoint of a network of the other project, such as ``resnet20_cifar10-0597-9b0024ac.pth``."""
    folder, name = settings.models, subject.name
    if folder is None or subject.config is not None or subject.file:
        return None
    exact, runs = folder / f"{name}.pth", sorted(folder.glob(f"{name}-*.pth"))  # the last run is the newest
    return exact if exact.is_file() else runs[-1] if runs else None


def last_layer_obstacle(subject: NamedNetwork, settings: Settings) -> str:
    """Return the reason why a last layer cannot be had. Its checkpoint alone would do."""
    return "" if checkpoint(subject, settings) is not None else obstacle(subject, settings)


def measure_all(
    what: str,
    subjects: Iterable[NamedNetwork],
    settings: Settings,
    measure: Callable[[NamedNetwork, Settings], Row],
    why_not: Callable[[NamedNetwork, Settings], str] = obstacle,
) -> tuple[list[tuple[NamedNetwork, Row]], list[tuple[NamedNetwork, str]]]:
    """Measures every network that can be had, as a part of its own; the others come with the reason."""
    parts, missing = {}, []
    for subject in subjects:
        name = f"{what} {subject.name}"
        if name not in settings.cells and (why := why_not(subject, settings)):
            missing.append((subject, why))
        else:
            parts[name] = subject
    rows = settings.cells.get_all({name: partial(measure, each, settings) for name, each in parts.items()})
    return list(zip(parts.values(), rows, strict=True)), missing


def count_reasons(reasons: Iterable[str]) -> tuple[str, ...]:
    """Each reason once, with the number of networks that it keeps away; no reason is left out."""
    counts = Counter(reason for reason in reasons if reason)
    return tuple(f"{count} network{'s' * (count > 1)}: {why}" for why, count in counts.items())


def load(subject: NamedNetwork, settings: Settings) -> Network:
    """The network, on the device of the settings."""
    if subject.config is not None:
        return _train(subject, subject.config, settings).network
    if subject.file and settings.models is not None:
        weights = settings.models / subject.file
        model = load_model(subject.spec, input_shape=(3, 32, 32), classes=10, weights=weights)
    else:
        model = _from_model_zoo(subject.name, checkpoint(subject, settings))
    return wrap(model.to(settings.device))


def _train(subject: NamedNetwork, config: TrainConfig, settings: Settings) -> Trained:
    data = make_samples() if subject.data == "made-up" else load_samples(subject.data)
    return train(subject.spec, data, replace(config, seed=settings.seed), settings)


def _from_model_zoo(name: str, weights: Path | None) -> Any:
    """A network with its published weights, of a checkpoint that is there or is fetched."""
    from pytorchcv.model_provider import get_model  # type: ignore[import-not-found, unused-ignore]

    try:
        model = get_model(name, pretrained=weights is None)
        if weights is not None:
            model.load_state_dict(read_checkpoint(weights))
        return model
    except Exception as cause:  # whatever its download or its reader raises
        raise ModelError(f"{_MODEL_ZOO} does not give {name}: {type(cause).__name__}: {cause}") from cause


def images_for(subject: NamedNetwork) -> Sample:
    """Return the images that accuracies are counted on."""
    if subject.data == "made-up":
        return make_samples().train.select(range(100), role="test")
    is_svhn = subject.data == "svhn"
    images = read_svhn(svhn_path()) if is_svhn else load_sample(subject.data, role="test")
    if subject.data in ("cifar10", "svhn"):
        return replace(images, scaling=_HERE if subject.file else _THEIRS)
    return images


def last_layer(subject: NamedNetwork, settings: Settings) -> Row:
    """Both exponents of the last dense layer, their verdicts, and both stable ranks."""
    if (path := checkpoint(subject, settings)) is not None:
        return _describe(last_dense(path), subject.name, settings)
    if subject.config is None:
        return _last_layer(load(subject, settings), subject.name, settings)
    found = _train(subject, subject.config, settings)
    what = f"last layer, {_RESAMPLES[settings.size]} resamples"
    return found.measure(what, partial(_last_layer, found.network, subject.name, settings))


def _last_layer(network: Network, name: str, settings: Settings) -> Row:
    view = network.layers[-1]
    if not isinstance(view, LinearView):
        raise ModelError(f"{name}: the last layer, {view.name}, is not dense.")
    return _describe(view.matrix.detach(), name, settings)


def _describe(matrix: Tensor, name: str, settings: Settings) -> Row:
    found: dict[str, object] = {"shape": f"{matrix.shape[0]} x {matrix.shape[1]}"}
    entries = matrix.double().flatten().cpu().numpy()
    for of, values in (("positive", entries[entries > 0.0]), ("absolute", np.abs(entries[entries != 0.0]))):
        fit = fit_power_law(values, resamples=_RESAMPLES[settings.size], seed=settings.seed)
        if fit.estimate is None:
            raise ModelError(f"{name}: {fit.reason}.")
        found |= {f"alpha_{of}": fit.estimate.density_exponent, f"p_value_{of}": fit.p_value}
        found[f"verdict_{of}"] = fit.status
    return found | {each.__name__: each(matrix) for each in (stable_rank, released_stable_rank)}


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint; nothing in the file is run."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as cause:  # whatever the reader of another format raises
        reason = type(cause).__name__
        raise ModelError(f"{path} is no checkpoint of weights alone; PyTorch says {reason}.") from cause
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ModelError(f"{path} holds something else than named tensors.")
    return {str(name): value for name, value in state.items()}


def last_dense(path: Path) -> Tensor:
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


def read_svhn(path: Path) -> Sample:
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
    return Sample("svhn", "test", images, y % _DIGITS, classes=_DIGITS, scaling=Scaling(divisor=255.0))

"""The network g as something to use: a module that takes inputs as they are stored, and the same as ONNX."""

from __future__ import annotations

import json
import logging
import math
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from codebound.bounds.risk import count_of
from codebound.certificate.decoding import decode, read_message, require_declared
from codebound.certificate.file import Certificate
from codebound.certificate.verification import CERTIFICATE
from codebound.certificate.words import require_names
from codebound.known.encoder import Encoded
from codebound.known.provenance import BASE_FILE
from codebound.known.score_tables import Biased
from codebound.learn.column_features import ColumnFeatures
from codebound.learn.learner import KernelNetwork
from codebound.methods.scores import fit_again
from codebound.report.folder import RESULT, WEIGHTS, load_sample_of, scores_name
from codebound.run.errors import FormatError, ModelError, UsageError
from codebound.run.files import read_json, write_atomically
from codebound.run.tensor_files import load_arrays
from codebound.sample.columns import Title, text_cells
from codebound.sample.dataset import LARGEST, Scaling
from codebound.sample.frames import rows_like
from codebound.sample.tables import is_frame, read_frame, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike
    from torch import Tensor

    from codebound.known.encoder import Encoder
    from codebound.sample.columns import Values

_OPSET = 20
_EXAMPLES = 3  # in the batch that is exported; their number stays open


class Classifier(nn.Module):
    """The network of a certificate behind the scaling of its inputs: what one deploys.

    Args:
        network: The decoded network g.
        scaling: What the network expects to be done to stored values; None where it does that by itself.
        input_shape: Of one input.
        classes: How many outputs it has.
        class_names: What they are called, where that is known.
        sentence: The guarantee, in words.
        encoder: What inputs have to go through before, by its name; empty where there is nothing.
        columns: What became the inputs, where they come from a table: then frames are taken too.
        labels: Label of each output; None: its number.
        typical: The input that stands for values which no row of the sample lacked, or NaN where the network
            says itself what a gap is; None: zeros.
        has_gaps: Whether the rows that it learned from have gaps, or words.
    """

    typical: Tensor
    labels: Tensor

    def __init__(
        self,
        network: nn.Module,
        scaling: Scaling | None,
        *,
        input_shape: tuple[int, ...],
        classes: int,
        labels: Tensor | None = None,
        class_names: tuple[str, ...] = (),
        sentence: str = "",
        encoder: str = "",
        columns: tuple[Title, ...] = (),
        typical: Tensor | None = None,
        has_gaps: bool = False,
    ) -> None:
        super().__init__()
        self.network, self.scaling = network, scaling
        self.input_shape, self.classes = input_shape, classes
        self.class_names, self.sentence, self.encoder = class_names, sentence, encoder
        self.columns = columns
        self.register_buffer("typical", torch.zeros(()) if typical is None else typical, persistent=False)
        self._takes_gaps, self._has_gaps = bool(self.typical.isnan().any()), has_gaps
        own = torch.arange(classes) if labels is None else labels
        self.register_buffer("labels", own, persistent=False)
        self.eval().requires_grad_(False)

    def forward(self, x: ArrayLike | Tensor | Sequence[str] | Mapping[str, Any]) -> Tensor:
        """One number for each class, for inputs as they are stored; the largest is the prediction.

        Where the sample was a table, a data frame, or a dictionary of columns or of one row, is read as that
        was: columns are found by their names. A value that is missing where the sample lacked none, or that
        its columns rule out, is taken for the ``typical`` one; a warning counts such rows.

        Raises:
            UsageError: The inputs have another shape, or are no rows of the encoder that it stands behind.
        """
        if is_frame(x):
            x = self._rows(read_frame(x, name="the frame"))
        elif isinstance(x, Mapping):
            cells = {name: each if _is_column(each) else [each] for name, each in x.items()}
            x = self._rows(
                [(Title(str(name)), values_of(each, name=f"column {name!r}")) for name, each in cells.items()]
            )
        if not isinstance(self.network, Encoded):
            x = self._convert(x)
        elif not self.network.encoder.takes_texts:
            x = self._numbers(x)
        if isinstance(x, torch.Tensor):
            x = self._fill(x)
        outputs: Tensor = self.network(x if self.scaling is None else self.scaling.apply(torch.as_tensor(x)))
        return outputs

    def _rows(self, table: list[tuple[Title, Values]]) -> Tensor:
        """The inputs in a table."""
        if not self.columns:
            raise UsageError(
                "the columns of the sample are not known: they are in the result.json of its certificate, "
                "where that is of a table. Give an array with inputs as they are stored."
            )
        return torch.from_numpy(rows_like(table, self.columns, name="the table"))

    def _convert(self, x: ArrayLike | Tensor | Sequence[str]) -> Tensor:
        """The inputs as a tensor; refuses those of another shape, and what has not been encoded."""
        shape = tuple(getattr(x, "shape", ()))[1:]
        if self.encoder and shape != self.input_shape:
            raise UsageError(
                f"this network takes rows of the encoder {self.encoder}, of shape {self.input_shape}. Got "
                f"inputs of shape {shape}: to give them as they are, load it with encoder="
                f'load_encoder("{self.encoder}").'
            )
        if self.input_shape == (1,) and isinstance(x, list | tuple | np.ndarray) and isinstance(x[0], str):
            x = text_cells(x)[:, None]
        stored = self._numbers(x)
        if tuple(stored.shape[1:]) != self.input_shape:
            wanted = ", ".join(map(str, ("n", *self.input_shape)))
            raise UsageError(
                f"this network takes inputs of shape ({wanted}), as they are stored. Got shape "
                f"{tuple(stored.shape)}."
            )
        return stored

    def _numbers(self, x: ArrayLike | Tensor | Sequence[str]) -> Tensor:
        """The inputs as a tensor, cells of a table that are no numbers too."""
        with suppress(TypeError, ValueError, RuntimeError):
            return torch.as_tensor(x)
        try:
            cells = np.asarray(x, dtype=object)
        except ValueError as error:
            raise UsageError(f"the inputs have no shape in common: {error}.") from error
        if cells.ndim != 2 or cells.shape[1] != len(self.columns):
            raise UsageError(
                f"this network takes numbers, of shape {('n', *self.input_shape)}. Got {type(x).__name__} of "
                f"shape {cells.shape} with other values. Rows of a table are given as a data frame."
            )
        names = [title.name for title in self.columns]
        columns = zip(names, cells.T, strict=True)
        return self._rows([(Title(name), values_of(each, name=f"column {name!r}")) for name, each in columns])

    def _fill(self, x: Tensor) -> Tensor:
        """The inputs with the typical value in place of what no sample holds."""
        if not x.is_floating_point():
            return x
        is_known = x.abs() <= min(LARGEST, torch.finfo(x.dtype).max)
        if self._has_gaps:
            is_known = is_known | x.isnan()
        if not torch.compiler.is_compiling() and not is_known.all():
            rows = int((~is_known).flatten(1).any(dim=1).sum())
            warnings.warn(
                f"{rows} of {count_of(len(x), 'row')} lack a value that the sample never lacked, or hold one "
                "that it rules out: the typical value of the network is taken in its place.",
                stacklevel=2,
            )
        if self._takes_gaps:  # words are NaN too, and stay
            is_known = is_known | x.isnan()
        return torch.where(is_known, x, self.typical.to(x))

    @torch.no_grad()
    def predict(self, x: ArrayLike | Tensor | Sequence[str] | Mapping[str, Any]) -> list[str] | list[int]:
        """The class of each input: its name where classes have names, or its label.

        Inputs are those of ``forward``.
        """
        labels: list[int] = self.labels[self(x).argmax(dim=1)].tolist()
        return [self.class_names[each] for each in labels] if self.class_names else labels

    def save_onnx(self, path: Path | str) -> Path:
        """Writes the network as ONNX: ``stored`` to ``scores`` and ``label``, for any number of inputs.

        Inputs have the type of the sample where g was learned from picks, and are float32 otherwise, with
        values as they are stored. Names of classes, guarantee and shape are in its metadata. Where g stands
        behind an encoder, its inputs are rows of that encoder, which the metadata name: an encoder is a
        program of its own, and not part of the file.

        Raises:
            UsageError: The packages that write ONNX are not installed.
            ModelError: There is no ONNX for this network.
        """
        target = Path(path)
        if isinstance(self.network, Encoded):
            raise UsageError(
                f"ONNX has the part behind the encoder {self.network.encoder.name}, and takes its rows: load "
                "the network without the encoder, and give rows as codebound data encode writes them."
            )
        try:
            import onnx
            import onnxscript  # noqa: F401  # torch.onnx needs it
        except ImportError as error:
            raise UsageError("ONNX needs two more packages: pip install onnx onnxscript.") from error
        kernel = _kernel_of(self.network)
        dtype = torch.float32 if kernel is None else kernel.inputs.dtype
        batch = torch.zeros(_EXAMPLES, *self.input_shape, dtype=dtype)
        subject = _WithLabel(self)
        with tempfile.TemporaryDirectory() as folder, _silence_exporter():
            file = Path(folder) / "g.onnx"
            try:
                subject(batch)  # values that are computed once must be there before
                torch.onnx.export(
                    subject,
                    (batch,),
                    file,
                    input_names=["stored"],
                    output_names=["scores", "label"],
                    dynamic_shapes=({0: torch.export.Dim("inputs")},),
                    opset_version=_OPSET,
                    dynamo=True,
                    verbose=False,
                    external_data=False,
                )
            except Exception as error:  # the exporter raises nearly anything
                reason = str(error).strip().split("\n")[0]
                raise ModelError(f"there is no ONNX for this network: {reason}") from error
            model = onnx.load(file)
        known = {"classes": json.dumps(self.class_names or self.labels.tolist())}
        if self.encoder:
            known["encoder"] = self.encoder
        onnx.helper.set_model_props(model, {**known, "guarantee": self.sentence})
        write_atomically(target, model.SerializeToString())
        return target


def _is_column(cells: object) -> bool:
    return hasattr(cells, "__len__") and not isinstance(cells, str | bytes)


def _typical(kernel: KernelNetwork | None, scaling: Scaling | None, shape: tuple[int, ...]) -> Tensor:
    """Substitute for a missing value. It depends on the network alone, so that bounds cover it.

    Columns of a table have a middle of their own; others have the lower median of the examples that the
    network keeps; a network without has what its scaling maps to zero.
    """
    if kernel is not None:
        features = kernel.rule.features
        has_middles = isinstance(features, ColumnFeatures) and not features.is_normalised
        return torch.tensor(math.nan) if has_middles else kernel.inputs.double().median(dim=0).values
    mean = torch.tensor((Scaling() if scaling is None else scaling).mean, dtype=torch.float64)
    divisor = 1.0 if scaling is None else scaling.divisor
    return (mean * divisor).view(-1, *([1] * (len(shape) - 1))).expand(shape)


class _WithLabel(nn.Module):
    """Scores together with the label of the largest."""

    def __init__(self, network: Classifier) -> None:
        super().__init__()
        self.network = network

    def forward(self, stored: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.network(stored)
        return scores, self.network.labels[scores.argmax(dim=1)]


@contextmanager
def _silence_exporter() -> Iterator[None]:
    """Silence the exporter, whose warnings are for its authors."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def load_classifier(
    path: Path | str, *, encoder: Encoder | None = None, base: Path | None = None, weights: Path | None = None
) -> Classifier:
    """The network g of a certificate, from the folder that ``certify`` wrote, or from the file in it.

    Needs nothing but that folder, and the encoder where the certificate declares one. What lies beside a
    certificate and is not what it names is refused.

    Args:
        path: The folder, or the certificate.
        encoder: What the inputs of the sample went through, where the certificate declares one: then the
            network takes texts, or inputs scaled as those of the sample. The helper that ``certify`` makes is
            read from the folder.
        base: The file of the base, where it is not beside the certificate.
        weights: The file ``g.safetensors``, where it is needed and not beside the certificate.

    Raises:
        FormatError: There is no certificate, or what it needs is not beside it.

    Example:
        >>> import tempfile
        >>> import torch
        >>> import codebound as cb
        >>> digits = cb.load_sample("digits")
        >>> few = digits.select(range(300), role="train")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = cb.certify(few, method="split", run=cb.Run(effort="quick")).save_to(f"{folder}/g")
        ...     g = cb.load_classifier(saved.folder)
        >>> g.predict(torch.from_numpy(digits.x[:5])) == digits.y[:5].tolist()
        True
    """
    file = Path(path)
    if file.is_dir():
        file = file / CERTIFICATE
    certificate = Certificate.load(file)
    takes_stored = certificate.is_learned or certificate.has_table
    if certificate.known.base is not None:
        base = base or _sibling(file, BASE_FILE)
    if takes_stored and (file.with_name(WEIGHTS).is_file() or certificate.is_learned):
        weights = weights or _sibling(file, WEIGHTS)
    doubt, scored_by = "", None
    if certificate.has_table and weights is None:
        scored_by, doubt = _fit_again(certificate, file)
    network = decode(
        certificate,
        base=None if base is None else load_arrays(base),
        weights=weights if takes_stored else None,
        scored_by=scored_by,
    )
    kernel, shape, classes = _kernel_of(network), certificate.sample.input_shape, certificate.sample.classes
    scaling = None if takes_stored else read_message(certificate).options.setting.scaling
    made = certificate.known.features
    if encoder is not None:
        require_declared(encoder, certificate)
        network, scaling = Encoded(encoder, network, takes_stored=takes_stored), None
    result: dict[str, Any] = {}
    with suppress(FormatError):  # a certificate alone has no names
        result = read_json(file.with_name(RESULT), advice="")
    require_names(certificate, result)
    told: Any = result.get("class_names")
    are_names = isinstance(told, list) and all(isinstance(each, str) for each in told)
    names = tuple(told) if are_names else ()
    return Classifier(
        network,
        scaling,
        input_shape=shape,
        classes=classes,
        labels=None if kernel is None else kernel.classes,
        class_names=names,
        sentence=doubt or certificate.sentence,
        encoder="" if encoder is not None or made is None else made.name,
        columns=_columns(result),
        typical=None if encoder is not None else _typical(kernel, scaling, shape),
        has_gaps=scored_by is not None or (kernel is not None and bool(kernel.inputs.isnan().any())),
    )


def _fit_again(certificate: Certificate, file: Path) -> tuple[nn.Module | None, str]:
    """The usual learner of a declared table, fitted again, and a doubt where it answers otherwise."""
    table = fit_again(certificate, load_sample_of(certificate, file.parent))
    declared = load_arrays(_sibling(file, scores_name(1)))["scores"]
    differ = int((declared.argmax(axis=1) != table.scores.argmax(axis=1)).sum())
    doubt = (
        f"NO GUARANTEE: fitted again here, the learner answers {differ} of {len(declared)} rows otherwise."
    )
    return table.classifier, doubt if differ else ""


def _columns(result: Mapping[str, Any]) -> tuple[Title, ...]:
    """The columns of a sample that was a table; none where the file is not what certify writes."""
    try:
        return tuple(
            Title(**{**each, "levels": tuple(each["levels"])})
            for each in result.get("inputs", {}).get("columns", ())
        )
    except (AttributeError, LookupError, TypeError):
        return ()


def _kernel_of(network: nn.Module) -> KernelNetwork | None:
    """The kernel network inside a classifier, if there is one."""
    inner = network.classifier if isinstance(network, Biased) else network
    return inner if isinstance(inner, KernelNetwork) else None


def _sibling(file: Path, name: str) -> Path:
    found = file.with_name(name)
    if not found.is_file():
        raise FormatError(
            f"{file} needs {name}, which is not beside it. Keep the folder of certify together."
        )
    return found

"""A request to ``certify``: what is known before, what is claimed, and how the search runs.

``Known``, ``Claim`` and ``Run`` are what somebody asks for; a ``Task`` is all of it, prepared for methods.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from codebound.known.messages import CATALOGUE, MAX_CONSTANTS, Options, Setting, count_channels
from codebound.run.errors import CertificateError, DataError, ModelError, UsageError
from codebound.sample.caveats import require_fixed_scaling
from codebound.sample.dataset import Scaling, require_disjoint
from codebound.sample.order import Arranged, Design, arrange
from codebound.sample.questions import ONE_ROW, Question

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from codebound.known.messages import AbstractOriginal, KnownTensors, Tensors
    from codebound.known.provenance import Pretrained
    from codebound.known.score_tables import ScoreTable
    from codebound.run.job import Engine
    from codebound.run.progress import Progress
    from codebound.sample.dataset import DeviceData, Sample

Effort = Literal["quick", "standard", "max"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """Things that were fixed without the counted examples.

    Attributes:
        scores: A table of scores of every example, or several in an order that was fixed before any was
            counted: of a model, a prompt, a checkpoint. The first costs two bits, the others a few more.
        base: A network of the same architecture that was neither trained nor selected on the sample: its
            scores are declared, or a message codes only the difference to it. Nobody can check that.
        helper: What makes a helper, called with the known share alone (and ``device`` and ``progress``, where
            it takes them by name); or a network that was made of that share alone. With the methods ``auto``
            and ``scores`` its scores are declared and counted; with others, and in claims about a network, a
            message codes the difference to it.
        share: Part of the sample that a learner, a helper or a base is made of; errors count on the rest. By
            default that of the learner, and none for networks. A network is trained anew on it where there
            is no helper.

    Example:
        >>> Known(share=0.5).share
        0.5
    """

    scores: Sequence[ScoreTable] = ()
    base: Pretrained | None = None
    helper: Callable[[Sample], Any] | Pretrained | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        is_one = not isinstance(self.scores, list | tuple)
        object.__setattr__(self, "scores", (self.scores,) if is_one else tuple(self.scores))
        if self.share is not None and not 0.0 < self.share < 1.0:
            raise UsageError(f"the known share is a part of the sample, between 0 and 1. Got {self.share!r}.")
        if self.helper is not None and self.share is None:
            raise UsageError("a helper is made of a part of the sample: give the share, such as share=0.5.")
        if self.base is not None and self.share is not None:
            raise UsageError("a base knows nothing of the sample: give it or a share, not both.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Claim:
    """The error that is bounded, and how the sample was drawn.

    Attributes:
        loss: What counts as an error (docs/why.md). The classifier is chosen by its plain errors.
        on: Examples that count: ``all``, ``answered:T``, ``predicted:C``, ``each class``, ``each group``,
            or with clusters ``one row a cluster`` or ``any row of a cluster``.
        by_class: Also bound the error on every class; all limits hold at once, beside the claim (C-17).
        copies: Reading of equal rows: ``independent`` draws, ``repeated`` records, or ``any`` mixture, for
            which they are counted so that every reading is right.
        order: Choice of the known share: by a hash of the ``rows``, or as in the ``file`` (time).
        clusters: Number of the cluster of each row, where clusters are the draws: patients, users.
        groups: Number of the group of each row.
        salt: Empty, or 64 hexadecimal digits that were drawn after the sample was sealed.
        seal: What fixed the sample before.
        unlabelled: Fresh inputs: the claim is then about the network itself (C-12b).
        input_range: Smallest and largest stored value that any input can have: the claim is then about the
            network itself on that domain (C-12a).
        assurance: ``replayed`` for certificates of classifiers that the second program makes by itself;
            ``any`` for those of declared scores too.

    Example:
        >>> Claim(loss="class:3").is_about_network
        False
    """

    loss: str = "wrong"
    on: str = "all"
    by_class: bool = False
    copies: str = "any"
    order: str = "rows"
    clusters: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None
    salt: str = ""
    seal: str = ""
    unlabelled: Any = None
    input_range: tuple[float, float] | None = None
    assurance: str = "any"

    def __post_init__(self) -> None:
        if self.assurance not in ("any", "replayed"):
            raise UsageError(f"the assurance is any or replayed. Got {self.assurance!r}.")
        if self.by_class and (self.is_about_network or self.clusters is not None):
            raise UsageError(
                "claims about a network or clusters say nothing about single classes. Leave out by_class."
            )

    @classmethod
    def of_network(cls, *, unlabelled: Any = None, input_range: tuple[float, float] | None = None) -> Claim:
        """The claim about a network itself, by fresh inputs or on a domain."""
        return cls(unlabelled=unlabelled, input_range=input_range)

    @property
    def is_about_network(self) -> bool:
        """Return True if the claim is about the network that was given."""
        return self.unlabelled is not None or self.input_range is not None

    @property
    def design(self) -> Design:
        """Order of the rows, copies, clusters and groups."""
        order, copies = self.order, self.copies
        if self.clusters is not None:
            order, copies = "clusters", "independent" if copies == "any" else copies
        return Design(order, copies, self.salt, self.seal, self.clusters, self.groups)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """Settings of a search that no claim depends on.

    Attributes:
        effort: Reach of each method, the same on every machine: ``quick`` trains no network, ``standard``
            does, ``max`` for much longer.
        minutes: Time for the search, in place of an effort; the best until then is verified.
        seed: Seed of the search; free, because no decoder needs it.
        device: Where networks are trained; errors are always counted on the CPU, in float64.
        engine: Where errors are counted, with the same count; None: here.
        progress: Told how far the search is; None: a bar, in a terminal or a notebook.

    Example:
        >>> Run(minutes=5).effort
        'standard'
    """

    effort: Effort = "standard"
    minutes: float | None = None
    seed: int = 0
    device: str = "cpu"
    engine: Engine | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        efforts = Effort.__args__  # type: ignore[attr-defined]
        if self.effort not in efforts:
            raise UsageError(f"unknown effort {self.effort!r}. Known: {', '.join(efforts)}.")
        if self.minutes is not None and (not self.minutes > 0.0 or self.effort != "standard"):
            raise UsageError(
                f"minutes are a positive number, in place of an effort. Got {self.minutes}, effort "
                f"{self.effort}."
            )


NOTHING, ERROR, USUAL_RUN = Known(), Claim(), Run()
"""Nothing known, every error counts, and the search as it usually runs."""

NO_NETWORK = "there is no network to start from. Give a model."


@dataclass(eq=False, kw_only=True)
class Task:
    """A sample, the question, what is known and the network f: prepared once, for every method.

    Attributes:
        sample: With the constants of its scaling as a message can say them.
        tables: Declared tables of scores, the one for two bits first.
        original: The network f to start from, or that the claim is about.
        base: Tensors that a message of a network codes the difference to.
        unlabelled: Fresh inputs on which f and g are compared (C-12b).
        input_range: Least and largest stored value of any input (C-12a).
    """

    sample: Sample
    delta: float
    design: Design = field(default_factory=Design)
    question: Question = field(default_factory=Question)
    tables: tuple[ScoreTable, ...] = ()
    original: AbstractOriginal | None = None
    base: KnownTensors | None = None
    unlabelled: Sample | None = None
    input_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.sample.classes < 2:
            raise DataError(
                f"{self.sample.name}: every label is 0, so there is nothing to tell apart. Give examples of "
                "two classes, or the number of classes where one of them does not occur."
            )
        if self.sample.scaling not in CATALOGUE:
            scaling = round_scaling(self.sample.scaling, self.sample.input_shape)
            self.sample = replace(self.sample, scaling=scaling)
        require_fixed_scaling(self.sample)
        if self.design.clusters is not None and self.question.on == "all":
            self.question = replace(self.question, on=ONE_ROW)
        if self.tables:
            from codebound.known.score_tables import require_tables

            require_tables(self.tables, self.sample)
        if self.is_about_f:
            self._check_claim()

    def _check_claim(self) -> None:
        """Refuse a claim about f that does not fit the sample or the network."""
        if self.unlabelled is not None and self.input_range is not None:
            raise UsageError(
                "a claim about f needs unlabelled inputs, or a range of the inputs: one of both."
            )
        if self.original is None or self.original.chain is None:
            raise CertificateError("a claim about f needs a network that a message can describe: a chain.")
        if self.unlabelled is not None:
            if not self.question.is_plain:
                raise UsageError(
                    "unlabelled inputs tell how often two networks differ: only every error counts."
                )
            require_like("unlabelled", self.unlabelled, self.sample)
            require_disjoint(self.unlabelled, self.sample)
        if self.input_range is not None:
            low, high = self.input_range
            least, most = float(self.sample.x.min()), float(self.sample.x.max())
            if not low <= least <= most <= high:
                raise DataError(
                    f"the range of the inputs must hold every stored value; the sample has values from "
                    f"{least:g} to {most:g}. Got {low:g} and {high:g}."
                )

    @cached_property
    def arranged(self) -> Arranged:
        """The sample in its order."""
        return arrange(self.sample, self.design)

    @property
    def is_about_f(self) -> bool:
        """Return True if the claim is about the network f itself."""
        return self.unlabelled is not None or self.input_range is not None

    @property
    def stays_near_f(self) -> bool:
        """Return True if a claim on a domain needs a g that is near f."""
        return self.input_range is not None

    @property
    def made_of(self) -> int:
        """Rows of the sample that its features were made of: no rule knows fewer."""
        return 0 if self.sample.features is None else self.sample.features.rows

    @property
    def known_rows(self) -> int:
        """Units of the sample that base and features were made of, which no network is counted on."""
        return max(self.made_of, 0 if self.base is None else self.base.made.rows)

    @cached_property
    def rest(self) -> Sample:
        """The examples that a network is counted on."""
        if not self.known_rows:
            return self.sample
        return self.sample.select(self.arranged.split(self.known_rows)[1], role="certify")

    @cached_property
    def rest_data(self) -> DeviceData:
        """The same, where errors are counted."""
        return self.rest.on("cpu")

    @cached_property
    def options(self) -> Options:
        """The options that every message of a network has."""
        setting = Setting(self.sample.classes, self.sample.scaling)
        return Options(setting, has_base=self.base is not None)

    @property
    def base_tensors(self) -> Tensors | None:
        """The tensors of the base, if there is one."""
        return None if self.base is None else self.base.tensors

    @cached_property
    def coded(self) -> Tensors:
        """Tensors that a message codes: those of f, or their differences to the base."""
        base, own = self.base_tensors, {} if self.original is None else self.original.arrays
        if base is None:
            return own
        return {name: (value - base[name]).astype(np.float32) for name, value in own.items()}

    @property
    def f(self) -> AbstractOriginal:
        """The network f, where there is one."""
        if self.original is None:
            raise ModelError(NO_NETWORK)
        return self.original

    @property
    def chain(self) -> Any:
        """The operations of f, which a message describes."""
        assert self.f.chain is not None  # of others no message is made
        return self.f.chain

    @cached_property
    def network(self) -> Any:
        """f with its layers in view; its weights have the names of the message."""
        return self.f.view(self.sample.input_shape)

    @cached_property
    def base_network(self) -> Any:
        """The same of the base, if there is one."""
        return None if self.base is None else self.network.with_model(self.f.build_with(self.base.tensors))


def round_scaling(scaling: Scaling, input_shape: tuple[int, ...]) -> Scaling:
    """The scaling as a message can say it: its constants are rounded to float32."""
    if not any(scaling.mean) and all(value == 1.0 for value in scaling.std):
        scaling = Scaling(scaling.divisor)
    count = max(len(scaling.mean), len(scaling.std))
    if scaling in CATALOGUE:
        return scaling
    if count > MAX_CONSTANTS or count not in (1, count_channels(input_shape)):
        raise DataError(
            f"a certificate pays for the constants of a scaling: at most {MAX_CONSTANTS} means and stds, one "
            f"for all or one for each channel of an image. Got {count} for inputs of shape {input_shape}. "
            "Let the first layer of the network scale its inputs, or store them scaled by constants that "
            "were fixed before the sample was seen."
        )
    means, deviations = (values * (count // len(values)) for values in (scaling.mean, scaling.std))
    with np.errstate(over="ignore"):  # an infinite constant is refused
        divisor, *others = np.array([scaling.divisor, *means, *deviations], np.float32).tolist()
    return Scaling(divisor, tuple(others[:count]), tuple(others[count:]))


def require_like(name: str, other: Sample, sample: Sample) -> None:
    """Refuse inputs of another shape, or labels of a class that the sample has not."""
    if other.input_shape != sample.input_shape:
        raise DataError(
            f"the {name} inputs have the shape {other.input_shape}; those of the sample have "
            f"{sample.input_shape}."
        )
    if other.y.max() >= sample.classes:
        raise DataError(
            f"the {name} sample has a label {other.y.max()}; the sample has {sample.classes} classes."
        )

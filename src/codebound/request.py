"""Records of a request to ``certify``: what is known before, what is claimed, and how the search runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from codebound.run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from codebound.known.provenance import Pretrained
    from codebound.known.score_tables import ScoreTable
    from codebound.run.job import Engine
    from codebound.run.progress import Progress
    from codebound.sample.dataset import Sample
    from codebound.sample.order import Design

Effort = Literal["quick", "standard", "max"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """Things that were fixed without the counted examples.

    Attributes:
        scores: Tables of scores of every example, in an order that was fixed before any was counted: of a
            model, a prompt, a checkpoint. The first costs two bits, the others a few more.
        base: A network of the same architecture that was neither trained nor selected on the sample: its
            scores are declared, or a message codes only the difference to it. Nobody can check that.
        helper: What makes a helper, called with the known share alone (and ``device`` and ``progress``, where
            it takes them by name); or a network that was made of that share alone. With the methods ``auto``
            and ``scores`` its scores are declared and counted; with others a message codes the
            difference to it.
        share: Part of the sample that a learner, a helper or a base is made of; errors count on the rest. By
            default that of the learner, and none for networks. A network is trained anew on it where there
            is no helper.
        trained_on: The ``sha256`` of the sample that the network was trained on, and no other: then its
            hold-out bound is shown without an "if", or left out. Of what ``fit`` trained it is known.

    Example:
        >>> Known(share=0.5).share
        0.5
    """

    scores: ScoreTable | Sequence[ScoreTable] = ()
    base: Pretrained | None = None
    helper: Callable[[Sample], Any] | Pretrained | None = None
    share: float | None = None
    trained_on: str | None = None

    def __post_init__(self) -> None:
        if self.share is not None and not 0.0 < self.share < 1.0:
            raise UsageError(f"the known share is a part of the sample, between 0 and 1. Got {self.share!r}.")
        if self.helper is not None and self.share is None:
            raise UsageError("a helper is made of a part of the sample: give the share, such as share=0.5.")
        if self.base is not None and self.share is not None:
            raise UsageError("a base knows nothing of the sample: give it or a share, not both.")

    @property
    def tables(self) -> tuple[ScoreTable, ...]:
        """The tables of scores, in their order."""
        return tuple(self.scores) if isinstance(self.scores, list | tuple) else (self.scores,)  # type: ignore


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
        from codebound.sample.order import Design

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

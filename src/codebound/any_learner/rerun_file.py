"""Certificates of the second kind: a file that says how to run a learner again, and what comes out.

They stand apart from ``.cbound`` files. Those are checked by a second program that shares nothing with the
first; here whoever doubts runs the same learner on the same sample, with this program.
"""

from __future__ import annotations

import importlib.metadata
import math
import platform
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from codebound import __version__
from codebound.any_learner.candidates import RuleMessage
from codebound.any_learner.pick_to_learn import PickToLearn
from codebound.bounds.risk import count_of
from codebound.run.errors import CertificateError, DataError, FormatError, UsageError
from codebound.run.extensions import import_named
from codebound.run.files import read_json, write_json
from codebound.run.store import differences, source_sha256

KIND = "codebound rerun 1"
SAYS = (
    "Of the second kind: reproduced by running the learner again, and not by the independent program "
    "codebound-verify."
)
LEARNER_FIRST = (
    "The learner, its settings and the list of candidates were fixed before the sample was seen; the learner "
    "learns from nothing but the examples it is given, and holds nothing of the sample."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunCertificate:
    """Bound that a learner proved, and the data to rerun it.

    Attributes:
        kind: The kind of file.
        says: That no independent program checks it.
        learner: ``package.module:factory`` that makes the ``PickToLearn``.
        learner_sha256: Hash of the source of that module.
        sample_sha256: Hash of the sample, in its order.
        picks_sha256: Hash of the picks, in their order.
        statement: ID of the bound.
        bound: The bound.
        delta: Failure probability.
        n: Examples that could be picked.
        n_first: Examples that were set apart.
        picks: Examples that were picked.
        errors: Others that are wrong.
        code_bits: Length of the message.
        candidate: Candidate that the message names.
        rounds: Rounds that the message names; None: to the end.
        claim: The guarantee in words.
        settings: The settings of ``PickToLearn``, for people.
        versions: What it was made with.
        assumptions: What has to be true, and nobody can check.
    """

    kind: str = KIND
    says: str = SAYS
    learner: str
    learner_sha256: str
    sample_sha256: str
    picks_sha256: str
    statement: str
    bound: float
    delta: float
    n: int
    n_first: int
    picks: int
    errors: int
    code_bits: float
    candidate: int
    rounds: int | None
    claim: str
    settings: dict[str, str]
    versions: dict[str, str]
    assumptions: list[str]

    def save(self, path: str | Path) -> Path:
        """Writes the file, JSON for people and programs.

        Raises:
            UsageError: The name is that of a certificate of the first kind.
        """
        path = Path(path)
        if path.suffix == ".cbound":
            raise UsageError(
                f"{path.name}: .cbound is for certificates that codebound-verify checks. {SAYS} "
                "Name it .json."
            )
        write_json(path, asdict(self))
        return path

    @classmethod
    def load(cls, path: str | Path) -> RerunCertificate:
        """Reads the file; nothing is checked but its form.

        Raises:
            FormatError: It is no file of this kind.
        """
        record = read_json(Path(path), advice="Files of this kind are made by rerun_certificate.")
        if record.get("kind") != KIND:
            raise FormatError(f"{path} is no file of the kind {KIND!r}. Got {record.get('kind')!r}.")
        wanted = {field.name for field in fields(cls)}
        if set(record) != wanted:
            raise FormatError(f"{path} lacks or adds fields: {', '.join(sorted(set(record) ^ wanted))}.")
        wrong = [each.name for each in fields(cls) if type(record[each.name]) not in _TYPES[str(each.type)]]
        if wrong:
            raise FormatError(f"{path} has values of a wrong type: {', '.join(wrong)}.")
        return cls(**record)

    def __str__(self) -> str:
        return (
            f"{self.claim}\n{count_of(self.picks, 'pick')} and {count_of(self.errors, 'error')} of "
            f"{self.n} examples, {self.code_bits:.1f} bits. {SAYS}"
        )


_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "int | None": (int, type(None)),
    "dict[str, str]": (dict,),
    "list[str]": (list,),
}
"""Types of values by the annotations of the fields."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Outcome of running a learner again.

    Attributes:
        reasons: Why the certificate is not reproduced; empty if it is.
        notes: Versions that differ: no reason, but they may explain one.
        again: The certificate of this run; None where there was none.
    """

    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    again: RerunCertificate | None = None

    @property
    def is_reproduced(self) -> bool:
        """Return True if the learner did the same again."""
        return not self.reasons

    @property
    def verdict(self) -> str:
        """In words that no certificate of the first kind uses."""
        return "REPRODUCED by running the learner again" if self.is_reproduced else "NOT REPRODUCED"

    def __str__(self) -> str:
        lines = [self.verdict]
        sections = [("Reasons:", self.reasons), ("Other versions than it was made with:", self.notes)]
        if self.is_reproduced and self.again is not None:
            lines.append(str(self.again))
            sections.append(("Cannot be checked, and has to be true:", tuple(self.again.assumptions)))
        for title, entries in sections:
            lines += [title, *(f"  - {entry}" for entry in entries)] if entries else []
        return "\n".join(lines)


def rerun_certificate(model: PickToLearn, learner: str) -> RerunCertificate:
    """The certificate of a fitted model.

    Args:
        model: The model, fitted.
        learner: ``package.module:factory`` of a function without arguments that makes the same model, not
            fitted.

    Raises:
        CertificateError: What it makes has other settings.
    """
    made = _make_learner(learner)
    if _settings(made) != _settings(model):
        other = [name for name, value in _settings(model).items() if _settings(made).get(name) != value]
        raise CertificateError(
            f"{learner} makes a model with other settings: {', '.join(other)}. Fit what the factory makes."
        )
    bound = model.risk_bound_
    return RerunCertificate(
        learner=learner,
        learner_sha256=source_sha256(learner),
        sample_sha256=model.sample_sha256_,
        picks_sha256=model.picks_sha256_,
        statement=bound.ref,
        bound=bound.value,
        delta=bound.delta,
        n=model.n_,
        n_first=len(model.apart_),
        picks=len(model.picks_),
        errors=len(model.errors_),
        code_bits=model.code_bits_,
        candidate=model.message_.candidate,
        rounds=model.message_.rounds,
        claim=model.claim_,
        settings=_settings(model),
        versions=_versions(model),
        assumptions=[LEARNER_FIRST, *bound.assumptions],
    )


def rerun(certificate: RerunCertificate, inputs: Any, labels: Any, *, learner: str) -> Reproduction:
    """Runs the learner of a certificate again, on the same sample, and compares.

    Args:
        certificate: The certificate.
        inputs: Inputs of the sample, as they were given to ``fit``.
        labels: Labels of the sample.
        learner: The ``package.module:factory`` to run. It has to be the one that the certificate names; no
            code is run because a file says so.
    """
    if learner != certificate.learner:
        return Reproduction((f"it is about the learner {certificate.learner}, not about {learner}.",))
    if source_sha256(learner) != certificate.learner_sha256:
        return Reproduction((f"the source of {learner} is another one, or is not there.",))
    model = _make_learner(learner)
    notes = tuple(differences(certificate.versions, _versions(model)))
    try:
        model.fit_message(inputs, labels, RuleMessage(certificate.candidate, certificate.rounds))
    except UsageError as error:
        return Reproduction((f"the learner cannot be run: {error}",), notes)
    again = rerun_certificate(model, learner)
    stated, found = asdict(certificate), asdict(again)
    compared = [name for name in stated if name not in ("bound", "code_bits", "settings", "versions")]
    reasons = differences({each: stated[each] for each in compared}, {each: found[each] for each in compared})
    if not math.isclose(certificate.bound, again.bound, rel_tol=1e-9):
        reasons.append(f"the bound is {certificate.bound!r} there, {again.bound!r} here")
    return Reproduction(tuple(reasons), notes, again)


def load_examples(spec: str, folder: Path | None = None) -> tuple[Any, Any]:
    """A sample for learners: inputs with one row for each example, and labels.

    Args:
        spec: An ``.npz`` file with arrays ``x`` and ``y``; ``package.module:factory`` that returns the pair;
            or a name that ``load_dataset`` knows, whose stored values are put in rows.
        folder: Where to look for a named dataset first.

    Example:
        >>> inputs, labels = load_examples("digits")
        >>> inputs.shape, inputs.dtype, labels.shape
        ((1797, 64), dtype('uint8'), (1797,))
    """
    path = Path(spec).expanduser()
    if path.suffix == ".npz":
        from codebound.sample.arrays import read_members

        arrays = read_members(path, ("x", "y"))
        return arrays["x"], arrays["y"]
    if ":" in spec:
        made = import_named(spec)()
        if not isinstance(made, tuple) or len(made) != 2:
            raise DataError(f"{spec} must return a pair (inputs, labels). Got {type(made).__name__}.")
        return made
    from codebound.sample.load import load_dataset

    dataset = load_dataset(spec, folder=folder)
    return dataset.x.reshape(dataset.n, -1), dataset.y


def _make_learner(learner: str) -> PickToLearn:
    try:
        made = import_named(learner)()
    except Exception as error:  # of somebody else's module
        raise UsageError(
            f"{learner} failed with {type(error).__name__}: {error}. A factory is called without arguments; "
            "its module must be importable (installed, or in the current directory)."
        ) from error
    if not isinstance(made, PickToLearn):
        raise UsageError(f"{learner} must make a codebound.PickToLearn. Got {type(made).__name__}.")
    return made


def _settings(model: PickToLearn) -> dict[str, str]:
    return {name: repr(value) for name, value in model.get_params(deep=False).items() if name != "progress"}


def _versions(model: PickToLearn) -> dict[str, str]:
    """This program, what it computes with, and where the learner comes from if that is a package."""
    names = {"numpy", "scipy", "scikit-learn", type(model.estimator).__module__.split(".")[0]}
    found = {"codebound": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for name in sorted(names | {"torch"} & set(sys.modules)):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found

"""``compare``: every bound on one network in one table, those that are true first."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from codebound.bounds.held_out import holdout
from codebound.bounds.occam import occam_binomial, raw_weight_bits
from codebound.bounds.risk import HoldoutFacts, OccamFacts, Subject, rate
from codebound.certificate.file import Certificate
from codebound.certification import certify
from codebound.known.provenance import origin_of
from codebound.request import Effort, Run, require_like
from codebound.run.errors import CertificateError, CodeboundError, DataError, ModelError, UsageError
from codebound.run.files import finite
from codebound.run.job import Engine
from codebound.run.progress import Progress, silent
from codebound.sample.dataset import Sample, count_copies
from codebound_networks.about_f.batch_independence import require_one_example
from codebound_networks.reading.walk import Network, wrap
from codebound_papers.arora18.noise_stability import LayerComplexity, table_rows
from codebound_papers.compare import rows as lines
from codebound_papers.compare.compressed import Compressed, accept_certificate, labels
from codebound_papers.facts import NetworkFacts
from codebound_papers.guha23.kappa import PruningChoice
from codebound_papers.measure.outputs import evaluate_sample
from codebound_papers.measure.proximity import closeness_of_each
from codebound_papers.measure.record import Measured, MeasureSettings, measure_facts
from codebound_papers.measure.steps import first_example
from codebound_papers.published import Evidence, evaluate
from codebound_papers.value import PublishedValue, Refused

SENTENCE = (
    "Only certified and hold-out rows are guarantees, each by itself with probability 1 - delta; a published "
    "row is a paper's expression with its open constants set to 1, and bounds nothing."
)
BARS = (
    "Rows that end in Arora's figure or Guha's code are capacities, as plotted there; whether one is vacuous "
    "is decided by sqrt(capacity / n), which like_for_like shows."
)
_IF = "The hold-out bound of f holds if f was neither trained nor selected on the test examples."
_BOUNDS = ("risk", "capacity")  # units of a bound; the others are those of lemmas


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Comparison:
    """All bounds on one network."""

    # certified rows first, then hold-out bounds and test errors, then published expressions
    rows: tuple[lines.Row, ...]
    # of every published row: hypotheses, constants, failure probabilities, errata
    details: tuple[dict[str, object], ...] = field(repr=False)
    # what published bounds rest on, as details: counts, deviations, probabilities
    lemmas: tuple[dict[str, object], ...] = field(repr=False)
    # Table 1 of Arora et al.: what each layer adds; empty where it is not defined
    complexities: tuple[LayerComplexity, ...] = field(repr=False)
    measured: Measured = field(repr=False)  # what was measured of f
    like_for_like: bool  # whether bars of figures are shown as excess risks
    notes: tuple[str, ...]  # what a reader should know, in sentences
    pruning: dict[str, float]  # d, chi(d), eps, lambda, rho and C of the rows of Guha; empty if none has them

    def record(self) -> dict[str, object]:
        """Everything, ready for JSON; null is infinite, or does not apply: the note says which."""
        return {
            "rows": [row.record() for row in self.rows],
            "details": list(self.details),
            "lemmas": list(self.lemmas),
            "complexities": [
                finite({"layer": x.name, "value": x.value, "weights": x.weights, "percent": x.percent})
                for x in self.complexities
            ],
            "facts": finite(asdict(self.measured.facts)),
            "like_for_like": self.like_for_like,
            "pruning": self.pruning,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        shown = []
        for row in self.rows:
            value = "-" if row.value is None else lines.value_text(row.record())
            mark = "guarantee" if row.guarantee else "no guarantee"
            shown.append(f"{row.name:<52} {value:>11}  {row.subject}  {mark}")
        return "\n".join((*shown, *self.notes))


def compare(
    model: nn.Module | Network,
    sample: Sample,
    test_set: Sample | None = None,
    *,
    certificates: Sequence[Certificate | Path | str] = (),
    bases: Sequence[Mapping[str, NDArray[np.float32]]] = (),
    unlabelled: Sample | None = None,
    effort: Effort | None = "quick",
    settings: MeasureSettings | None = None,
    initial: nn.Module | None = None,
    like_for_like: bool = False,
    trained_on: str | None = None,
    d: float | None = None,
    eps: float | None = None,
    lambda_: float | None = None,
    rho: float | None = None,
    engine: Engine | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Evaluates every bound on a network: certified ones, hold-out bounds, and all published expressions.

    A bound that does not apply to the network has a row with the reason in place of a number. The sample is
    the one that f was trained on; a test set of examples used for no choice adds hold-out bounds and test
    errors. Certificates of compressed networks are verified first, and ``CertificateError`` says that one is
    refused; each gets its own of the bases, tensors by name, and ``unlabelled`` are the inputs of a C-12b
    certificate. Where none is given, ``effort`` says how hard f is pruned for one, if it is a chain; None
    makes none. ``initial`` is the network before training (A-Imp-i). Like for like, bars of figures are
    divided by n and square-rooted. ``trained_on`` is the ``sha256`` of the sample that f was trained on,
    where it is known: the test examples may be among other data. The others are those of ``PruningChoice``.

    >>> from codebound.sample.load import load_sample
    >>> from codebound_networks.reading.loading import load_model
    >>> net = load_model("linear", input_shape=(1, 8, 8), classes=10)
    >>> table = compare(net, load_sample("digits"), effort=None, settings=MeasureSettings(examples=10))
    >>> [row.kind for row in table.rows][:2], table.rows[0].guarantee
    (['certified', 'published'], True)
    """
    settings = settings or MeasureSettings()
    choice = PruningChoice(d=d, eps=eps, lambda_=lambda_, rho=rho)
    network = model if isinstance(model, Network) else _read(model, sample)
    module = network.model if isinstance(network, Network) else network
    _check_test_set(sample, test_set)
    if (bases or unlabelled is not None) and not certificates:
        raise UsageError("bases and unlabelled inputs belong to a certificate: give the certificate too.")
    compressed = [
        accept_certificate(source, module, sample, label=label, bases=bases, unlabelled=unlabelled)
        for source, label in zip(certificates, labels(certificates), strict=True)
    ]
    here = sample.on(settings.device)
    measured = measure_facts(network, sample, settings, initial=initial, engine=engine, progress=progress)
    facts, errors, notes = measured.facts, measured.errors, [*measured.notes, SENTENCE]
    rows: list[lines.Row] = [_raw_row(module, facts, errors)]
    is_read = isinstance(network, Network) and network.is_readable
    dependence = "" if is_read else _dependence(module, sample)
    notes += [dependence] if dependence else []
    if not certificates and effort is not None:
        try:
            made = certify(
                sample,
                network=measured.network.traced,
                method="prune",
                delta=settings.delta,
                run=Run(
                    effort=effort,
                    seed=settings.seed,
                    device=settings.device,
                    engine=engine,
                    progress=progress,
                ),
            )
            label = f"{made.method}, {effort}"
            compressed = [Compressed(label=label, certificate=made.certificate, network=made.network)]
        except (CertificateError, ModelError) as refusal:
            refused = Refused("C-2", "Certificate", "risk", "g", str(refusal))
            rows.append(lines.refused_row(refused, "certified"))
    rows += [each.row() for each in compressed]

    def tell_closeness(done: int, total: int | None, note: str = "") -> None:
        progress(done, total, "closeness")

    evidence = Evidence(measured, seed=settings.seed, choice=choice)
    plain = [each for each in compressed if each.is_plain]
    networks = [each.network.to(settings.device) for each in plain if each.network is not None]
    closes = (
        closeness_of_each(module, networks, here, engine=engine, progress=tell_closeness) if plain else ()
    )
    for each, close in zip(plain, closes, strict=True):
        rows.append(each.margin_row(close))
        if each is not min(plain, key=lambda one: one.certificate.claim.bound):
            continue
        if lost := _collapse(each.certificate, errors):
            evidence = replace(evidence, lost=lost)
        else:
            evidence = replace(evidence, message=(each.certificate.message.bits, close))
    notes += [f"{each.name}. {each.declared}" for each in compressed if each.declared]
    if not like_for_like and not measured.obstacle:
        notes.append(BARS)
    if test_set is not None:
        fresh = _fresh_rows(module, compressed, sample, test_set, settings, engine)
        trained_on = trained_on or origin_of(module).data_sha256 or None
        doubts = _doubts(sample, test_set, trained_on)
        for row in fresh:
            doubt = doubts.get(row.subject) if row.kind == "holdout" else ""
            rows.append(replace(row, guarantee=False, note=f"{row.note} {doubt}") if doubt else row)
        notes += [] if trained_on or doubts["f"] else [_IF]
        notes += dict.fromkeys(doubt for doubt in doubts.values() if doubt)
    found, pruning = evaluate(evidence), _pruning(evidence)
    numbers = ", ".join(f"{name} = {value:.4g}" for name, value in pruning.items())
    notes += [f"Guha's theorems have {numbers}."] if pruning else []
    bounds = [each for each in found if each.unit in _BOUNDS]
    details = tuple(each.record() for each in bounds if isinstance(each, PublishedValue))
    lemmas = tuple(each.record() for each in found if each.unit not in _BOUNDS)
    n, classes = facts.examples, facts.classes
    shown = partial(lines.published_row, examples=n, classes=classes, like_for_like=like_for_like)
    rows += [lines.refused_row(each) if isinstance(each, Refused) else shown(each) for each in bounds]
    if dependence:
        rows = [replace(row, guarantee=False) if row.subject == "f" else row for row in rows]
    return Comparison(
        rows=tuple(sorted(rows, key=_rank)),
        details=details,
        lemmas=lemmas,
        complexities=_complexities(evidence),
        measured=measured,
        like_for_like=like_for_like,
        notes=tuple(notes),
        pruning=pruning,
    )


def _collapse(certificate: Certificate, errors: int) -> str:
    """Return the reason why a g that has lost most of what f knows is no compression of f."""
    counted = certificate.limit
    lost, wrong = counted.errors / counted.n, errors / counted.n
    if lost <= (wrong + 1.0 - 1.0 / certificate.sample.classes) / 2.0:
        return ""
    return (
        f"the g of the certificate errs on {rate(lost)} of the sample, f on {rate(wrong)}: give a better one."
    )


def _pruning(evidence: Evidence) -> dict[str, float]:
    """The numbers in the rows of Guha, the largest of all layers; empty where the network is no chain."""
    try:
        found = evidence.pruning
    except CodeboundError:
        return {}
    first, rho = found.layers[0], max(layer.step for layer in found.layers)
    constants = {"eps": found.slack, "lambda": found.sparsity_slack, "rho": rho, "C": found.constant}
    return {"d": first.strength, "chi(d)": first.kept_share, **constants}


def _read(model: nn.Module, sample: Sample) -> nn.Module | Network:
    """The network as it can be evaluated and measured: one tensor in, its logits out."""
    if next(model.parameters(), None) is None:
        return model
    return wrap(model, example=first_example(model, sample), classes=sample.classes)


def _complexities(evidence: Evidence) -> tuple[LayerComplexity, ...]:
    try:
        return table_rows(evidence.facts("stability"))
    except CodeboundError:  # the row of the bound that adds them up says why
        return ()


def _rank(row: lines.Row) -> tuple[int, bool, bool, float]:
    """Place in the table: by kind, bars of figures behind risks, what does not apply last."""
    log10 = math.inf if row.log10 is None else row.log10
    return lines.ORDER.index(row.kind), row.value is None, lines.BAR in row.note, log10


def _raw_row(module: nn.Module, facts: NetworkFacts, errors: int) -> lines.Row:
    """f as a code word of its own (C-12c): nothing is compressed, so it is nearly always vacuous."""
    tensors = [tensor for tensor in module.state_dict().values() if tensor.is_floating_point()]
    bits = raw_weight_bits(sum(tensor.numel() * -(-tensor.element_size() // 4) for tensor in tensors))
    n, classes = facts.examples, facts.classes
    occam = OccamFacts(errors=errors, n=n, code_bits=bits, delta=facts.delta, classes=classes)
    bound = replace(occam_binomial(occam), ref="C-12c", subject="f")
    note = f"{bound.sentence} f is its own message; its architecture must have been fixed without the sample."
    return lines.risk_row(bound, name="f as it is, 32 bits a number", kind="certified", note=note)


def _fresh_rows(
    module: nn.Module,
    compressed: Sequence[Compressed],
    sample: Sample,
    test_set: Sample,
    settings: MeasureSettings,
    engine: Engine | None,
) -> list[lines.Row]:
    """Hold-out bounds and test errors of f and of every g, each by itself (C-11)."""
    data = test_set.on(settings.device)
    classes, chunk = sample.classes, settings.chunk_size
    original = evaluate_sample(module, data, classes=classes, chunk_size=chunk, engine=engine).margins
    counts: list[tuple[str, Subject, int]] = [("f", "f", original.errors)]
    for each in compressed:
        errors = each.errors_on(test_set, device=settings.device, engine=engine)
        if errors is not None:
            counts.append((f"g ({each.label})", "g", errors))
    rows = []
    for name, subject, errors in counts:
        n, delta = test_set.n, settings.delta
        facts = HoldoutFacts(errors=errors, n=n, delta=delta, classes=classes, subject=subject)
        count = f"{errors:,} errors on {n:,} test examples"
        bound = holdout(facts)
        note = f"{bound.sentence} {count}."
        rows.append(lines.risk_row(bound, name=f"Hold-out bound of {name}", kind="holdout", note=note))
        rows.append(lines.error_row(facts, name=f"Test error of {name}", note=f"{count}."))
    return rows


def _dependence(module: nn.Module, sample: Sample) -> str:
    """Return the reason why nothing is guaranteed of f; empty where f is a function of one example."""
    try:
        require_one_example(module, sample)
    except ModelError as reason:
        return f"Nothing is guaranteed of f: {reason}"
    return ""


def _doubts(sample: Sample, test_set: Sample, trained_on: str | None) -> dict[Subject, str]:
    """Return doubts about the test examples, for f and for every g. Empty where there are none."""
    copies = count_copies(sample, test_set)
    if copies:
        shared = f"{copies:,} of {test_set.n:,} test inputs also occur in the sample"
        doubt = f"{shared}: hold-out bounds hold only if these were drawn anew."
        return {"f": doubt, "g": doubt}
    if trained_on in (None, sample.sha256):
        return {"f": "", "g": ""}
    elsewhere = "f was trained on other data than the sample, and the test examples may be among these."
    return {"f": elsewhere, "g": ""}


def _check_test_set(sample: Sample, test_set: Sample | None) -> None:
    if test_set is None:
        return
    require_like("test", test_set, sample)
    if test_set.sha256 == sample.sha256:
        raise DataError(
            f"the test sample {test_set.name} is the sample itself, so it says nothing about new data. Give "
            "examples that were used for nothing, or hold a part of the sample out before training."
        )

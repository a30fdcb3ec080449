"""A certificate in a few rows: the same on the screen, in a notebook, on the page and in the README.

Test examples beside it: what they say of g and of f, and on which condition. Code and notes for its users.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict
from decimal import Decimal
from html import escape
from typing import TYPE_CHECKING, Any

from codebound.bounds.original import through_disagreement
from codebound.bounds.risk import HoldoutFacts, count_of, percent
from codebound.report.plain import answer, describe_confidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codebound.bounds.held_out import Confrontation
    from codebound.certificate.file import Certificate
    from codebound.report.folder import Result, Saved
    from codebound.sample.dataset import Sample

README = "README.md"
_NAMED = 20
_MOST_COPIES = 100  # one test input in so many may be in the sample by chance
_FILES = {
    "certificate.cbound": "the certificate: the claim, and all that the second program computes it from",
    "g.safetensors": "the tensors of the network g",
    "model.safetensors": "the tensors of the network g",
    "f.safetensors": "the tensors of the network that was given, which the certificate is about",
    "base.safetensors": "the base, which the message codes the difference to",
    "scores.safetensors": "the declared scores of every example of the sample",
    "sample.npz": "the sample, as the second program reads it",
    "texts.txt": "its texts, of which the sample has hashes",
    "sample": "the same, in parts from the disk",
    "unlabelled.npz": "the unlabelled inputs",
    "picks.csv": "every picked example, in the order of picking",
    "report.html": "the page about the certificate, for people",
    "result.json": "the same for programs",
    "config.json": "what was asked for",
}
Rows = list[tuple[str, str, str]]
"""Name, value, and what the value means."""


def result_rows(result: Mapping[str, Any]) -> Rows:
    """Rows of the summary: the bound, what was counted and paid, who checked, what test sets promise."""
    vacuous = "VACUOUS: guessing does as well; " if result["vacuous"] else ""
    loss = "" if result["loss"] in (None, "wrong") else f"loss {result['loss']}, "
    data = "new data" if result.get("on", "all") == "all" else f"new data ({result['on']})"
    sure = f"with probability {confidence(result['delta'])} over the draw of the sample"
    rows = [("YOUR NETWORK", *yours)] if (yours := describe_yours(result)) else []
    rows.append(("certified error", percent(result["bound"]), f"{vacuous}{loss}at most, on {data}, {sure}"))
    rows.append(("classifier", "a new one" if result["g_is_new"] else "yours", result["network"]))
    if result.get("refuted_by_test"):
        rows.append(("ALARM", "refuted", result["alarm"]))
    rows += [
        (each["name"], f"{each['count']:,} of {each['of']:,}", each["meaning"]) for each in result["counts"]
    ]
    _, _, choice = result["message"].partition(" for ")
    paid = f"for every choice that was made after looking at them: {choice}"
    rows.append(("paid", count_of(result["code_bits"], "bit", form=","), paid))
    rows.append(("verifier", result["verdict"], assurance_words(result["assurance"])))
    rows += [
        ("hold-out set", percent(each["bound"]), f"at most, for comparison: {each['price']}")
        for each in result.get("offers", ())
        if not each["assurance"]
    ]
    rows += holdout_rows(result)
    if result["original_errors"] is not None:
        before = f"{result['original_errors']:,} of {result['rows']:,}"
        rows.append(("your network", before, original_words(result)))
    rows += [
        ("DECLARED", name, f"{made}. No program can check that; without it the bound is void.")
        for name, made in result["declared"].items()
    ]
    return rows


def describe_yours(result: Mapping[str, Any]) -> tuple[str, str] | None:
    """Limit on the error of the given network, beside a new classifier."""
    if not result["g_is_new"] or result["original_errors"] is None:
        return None
    found = {name: (value, words) for name, value, words in holdout_rows(result) if value != "none"}
    for name in ("test set, your network", "your network, compared"):
        if name in found:
            value, words = found[name]
            return value, f"{words}. What follows is an offer: a new classifier"
    return "not proven", (
        f"its {result['original_errors']:,} errors of {result['rows']:,} are on rows that it may have "
        "learned from. Count it on labelled rows that it has never seen (the test sample), or give fresh "
        "inputs without labels (unlabelled). What follows is an offer: a new classifier"
    )


def holdout_rows(result: Mapping[str, Any]) -> Rows:
    """Rows with the limits that a test set gives."""
    rows = []
    if "test_n" in result:
        copies = result["test_copies_in_sample"]
        words = (
            f"{count_of(result['test_errors'], 'error', form=',')} on {result['test_n']:,} test examples"
            f"{f', {copies} of which are in the sample too' if copies else ''}{result['holdout_words']}"
        )
        if (whole := result.get("test_errors_of_whole")) is not None:
            words += f"; the same learner, fitted on the whole sample, makes {whole:,}"
        rows.append(("test set", *_promise(result.get("holdout"), words)))
    if "test_errors_f" in result:
        errors = count_of(result["test_errors_f"], "error", form=",")
        words = f"{errors} of your network{result['holdout_f_words']}"
        rows.append(("test set, your network", *_promise(result.get("holdout_f"), words)))
    if "through_f" in result:
        words = (
            f"at most, with probability {confidence(2 * result['delta'])}: your network and this one "
            f"differ on {result['disagreements_f']:,} test examples, whose labels are not needed"
            f"{result['holdout_f_words']}"
        )
        rows.append(("your network, compared", percent(result["through_f"]), words))
    return rows


def _promise(limit: float | None, words: str) -> tuple[str, str]:
    return ("none", words) if limit is None else (percent(limit), f"at most, by {words}")


def confidence(delta: float) -> str:
    """The probability with which a bound holds; exact, so that no bound sounds surer than it is.

    Example:
        >>> confidence(0.05), confidence(1e-9)
        ('95 %', '1 - 1e-09')
    """
    if delta < 1e-4:
        return f"1 - {delta:g}"
    return f"{(100 - 100 * Decimal(repr(delta))).normalize():f} %"


def skipped_lines(skipped: Mapping[str, str]) -> list[str]:
    """Methods that were skipped, those with the same reason in one line.

    Example:
        >>> skipped_lines({"prune": "no network.", "picks": "too few.", "mbp": "no network."})
        ['Skipped prune, mbp: no network.', 'Skipped picks: too few.']
    """
    names: dict[str, list[str]] = {}
    for method, reason in skipped.items():
        names.setdefault(reason, []).append(method)
    return [f"Skipped {', '.join(each)}: {reason}" for reason, each in names.items()]


def refused_lines(refusals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines about refused certificates, with reasons. Each is a defect to report."""
    return [
        f"Refused, so that the next best certificate was issued: {each['method']}, {percent(each['bound'])}: "
        f"{'; '.join(each['reasons'])} That is a defect of codebound: please report it, with refusals in "
        "result.json."
        for each in refusals
    ]


def closing_lines(saved: Saved) -> list[str]:
    """Lines below the table: the sentence, what was unusual, the page, and the command that checks it."""
    result, ends = (
        saved.result,
        {"interrupted": "The search was interrupted", "out_of_time": "The time was up"},
    )
    return [
        saved.sentence,
        *(f"{why}; this is the best found until then." for name, why in ends.items() if result[name]),
        *refused_lines(result["refusals"]),
        result["advice"],
        result.get("offers_say", ""),
        f"Report: {saved.folder / 'report.html'}",
        f"Check it: {shlex.join(['codebound', 'verify', str(saved.folder)])}",
    ]


def assurance_words(assurance: str) -> str:
    """Work of the second program, in words.

    Example:
        >>> assurance_words("replayed")
        'replayed: a second program made the classifier by itself, counted, and agrees'
    """
    if assurance == "recounted":
        return (
            "recounted: a second program counted the scores; that they were made without the counted "
            "examples is declared"
        )
    return f"{assurance}: a second program made the classifier by itself, counted, and agrees"


def original_words(result: Mapping[str, Any]) -> str:
    """Describe the errors of the given network."""
    is_apart = result["g_is_new"] and "features of" not in result["network"]
    apart = "; the certified classifier shares nothing with it" if is_apart else ""
    return f"errors of the network that was given, on the whole sample{apart}"


def loss_words(loss: str | None) -> str:
    """Verb of a loss: the network errs, or incurs the loss."""
    return "errs" if loss in (None, "wrong") else f"incurs the loss {loss}"


def summary_html(sentence: str, result: Mapping[str, Any]) -> str:
    """The rows as a table for a notebook."""
    rows = ("".join(f"<td align='left'>{escape(cell)}</td>" for cell in row) for row in result_rows(result))
    cells = "".join(f"<tr>{row}</tr>" for row in rows)
    warned = "".join(f"<p>Warning: {escape(each)}.</p>" for each in result["warnings"])
    return (
        f"<p><b>At most {percent(result['bound'])}.</b> {escape(sentence)}</p><table>{cells}</table>{warned}"
    )


def describe_test(found: Result) -> dict[str, Any]:
    """Hold-out bounds and caveats, for the certified network and for f."""
    test = found.confrontation
    if test is None or found.holdout is None:
        return {}
    is_fresh, words = True, ""
    if _has_copies(found, test):
        is_fresh, words = False, ": NO GUARANTEE, these are no fresh examples"
    elif _is_made_of_f(found):
        who = "it" if found.certificate.claim.subject == "f" else "your network"
        is_fresh, words = _doubt(found, test, who)
    told: dict[str, Any] = {"holdout": found.holdout.value} if is_fresh else {}
    told |= {
        "holdout_words": words,
        "test_errors": test.test.errors,
        "test_n": test.test.n,
        "test_copies_in_sample": found.copies,
        "test_tail": test.tail,
        "refuted_by_test": test.is_refuted,
        "alarm": test.alarm,
    }
    if found.errors_of_whole is not None:
        told["test_errors_of_whole"] = found.errors_of_whole
    if found.holdout_f is None:
        return told
    assert isinstance(found.holdout_f.facts, HoldoutFacts)
    is_fresh, words = _doubt(found, test, "it")
    told |= {"test_errors_f": found.holdout_f.facts.errors, "holdout_f_words": words}
    if is_fresh:
        told["holdout_f"] = found.holdout_f.value
    if is_fresh and found.disagreement is not None:
        told["through_f"] = through_disagreement(found.bound, found.disagreement)
        told["disagreements_f"] = found.disagreement.errors
    return told


def _has_copies(found: Result, test: Confrontation) -> bool:
    """Return True if too many test inputs occur in the sample. They are not fresh then."""
    return _MOST_COPIES * (found.copies or 0) > test.test.n


def _is_made_of_f(found: Result) -> bool:
    """Return True if the certified network depends on f's numbers."""
    claim = found.certificate.claim
    base = found.certificate.known.base
    is_given = found.original_errors is not None and not (base is not None and base.rows)
    return is_given and (claim.subject == "f" or not found.is_new)


def _doubt(found: Result, test: Confrontation, who: str) -> tuple[bool, str]:
    """Return whether test errors are evidence about f, and the caveat."""
    origin = found.origin
    if _has_copies(found, test):
        return False, ": NO GUARANTEE, they occur in the sample"
    if origin.data_sha256 not in ("", found.sample.sha256):
        why = "your network was trained on other data than the sample, and they may be among these"
        return False, f": NO GUARANTEE, {why}"
    if origin.is_whole:
        return True, ""
    if origin.data_sha256:
        return True, f", IF {who} had seen none of them before it was trained on the sample"
    return True, f", IF {who} was neither trained nor selected on them"


def inputs_record(sample: Sample) -> dict[str, Any]:
    """Description of the classifier's inputs, as plain JSON."""
    return {
        "shape": list(sample.input_shape),
        "dtype": "cells" if sample.is_cells else sample.x.dtype.name,
        "encoder": "" if sample.features is None else sample.features.name,
        "columns": [asdict(each) for each in sample.columns],
    }


def snippet(result: Mapping[str, Any]) -> str:
    """Python that loads the network in this folder and asks it; empty where it is not what was certified."""
    inputs = result["inputs"]
    if result["subject"] == "f" or not result["loads"]:
        return ""
    if inputs["encoder"]:
        loaded = "from codebound.known.encoder import load_encoder\n\n"
        loaded += f"encoder = load_encoder({json.dumps(inputs['encoder'])})"
        lines = (
            loaded,
            'g = cb.load_classifier(".", encoder=encoder)',
            "print(g.predict(inputs))  # texts, or pictures and rows scaled as those of the sample",
        )
    elif inputs["columns"]:
        names = json.dumps([each["name"] for each in inputs["columns"]], ensure_ascii=False)
        lines = (
            'g = cb.load_classifier(".")\n# numbers or words of each column, or a data frame',
            f"rows = {{name: [0, 1] for name in {names}}}",
            "print(g.predict(rows))",
        )
    elif inputs["dtype"] == "cells":
        lines = ('g = cb.load_classifier(".")', 'texts = ["one of yours"]', "print(g.predict(texts))")
    else:
        shape = ", ".join(map(str, inputs["shape"]))
        lines = (
            'g = cb.load_classifier(".")\n# yours, as they are stored:',
            f"inputs = torch.zeros(5, {shape}, dtype=torch.{inputs['dtype']})",
            "print(g.predict(inputs))",
        )
    imports = "" if inputs["columns"] or inputs["dtype"] == "cells" else "import torch\n\n"
    return "\n".join((f"{imports}import codebound as cb\n", *lines))


_ABOUT_F = (
    "The certificate is about the network that was given: use that one, as it was. The network that the "
    "message decodes to only served to prove it."
)


_OF_SCORES = (
    "The certificate counts declared scores. Use the network that gave them, as it was; what the message "
    "adds to them, if anything, is in codebound show."
)


_FITTED = (
    "g is named by the certificate, and no file holds it: load_classifier fits it again on the known share, "
    "and compares its answers with the declared scores. A network of pictures is read from g.safetensors."
)


def usage_notes(certificate: Certificate, result: Mapping[str, Any]) -> list[str]:
    """Notes for users of the network: inputs, outputs, and other programs."""
    if result["subject"] == "f" or not result["loads"]:
        return [_ABOUT_F if result["subject"] == "f" else _OF_SCORES]
    inputs, names = result["inputs"], result["class_names"]
    shape = " x ".join(map(str, inputs["shape"]))
    taken = (
        f"Inputs are {shape} numbers ({inputs['dtype']}), as they are stored in the sample. Do not scale "
        "them: load_classifier and ONNX do that by themselves."
    )
    if inputs["encoder"]:
        taken = (
            f"Inputs go through the encoder {inputs['encoder']}, which load_classifier puts in front. ONNX "
            f"has the part behind it, for rows of {shape} bytes, as codebound data encode writes them."
        )
    if inputs["columns"]:
        taken = "Inputs are the columns of the sample, found by their names: of a dict or of a data frame."
    called = "; ".join(f"{label} is {name}" for label, name in enumerate(names[:_NAMED]))
    outputs = f"The largest of the {result['classes']} scores is the answer" + (
        f": {called}{'; and so on' if len(names) > _NAMED else ''}." if names else ", counted from 0."
    )
    if result.get("is_fitted_again"):
        return [taken, outputs, _FITTED]
    dtype = "float32" if not certificate.is_learned else inputs["dtype"].replace("cells", "float64")
    elsewhere = (
        "For other programs: codebound export . --to onnx (after pip install onnx onnxscript) writes "
        f"ONNX, with the input stored ({dtype}) and the outputs scores and label."
    )
    return [taken, outputs, elsewhere]


def folder_guide(
    certificate: Certificate, result: Mapping[str, Any], *, title: str, files: Iterable[str]
) -> str:
    """The README of a folder: the answer, the numbers of the screen, how to use and how to check it."""
    rows = "\n".join(f"| {' | '.join(map(as_markdown, row))} |" for row in result_rows(result))
    code, yours = snippet(result), describe_yours(result)
    listed = "\n".join(
        f"| [{name}]({name}) | {_FILES.get(name, 'the architecture of g')} |" for name in sorted(files)
    )
    confidence = describe_confidence(certificate.claim.delta)
    return (
        "\n\n".join(
            [
                f"# {as_markdown(title)}",
                *([f"**Your network: {as_markdown(', '.join(yours))}.**"] if yours else []),
                f"**{as_markdown(answer(certificate, result))}** {confidence}",
                as_markdown(certificate.sentence),
                *([f"**{as_markdown(result['alarm'])}**"] if result.get("alarm") else []),
                f"| what | value | note |\n|---|---|---|\n{rows}",
                "## Use it",
                *([_block("python", code)] if code else []),
                "\n".join(f"* {as_markdown(note)}" for note in usage_notes(certificate, result)),
                "## Check it",
                _block("console", f"$ {result['verify_here']}"),
                "## What is here",
                f"| file | what it is |\n|---|---|\n{listed}",
            ]
        )
        + "\n"
    )


def as_markdown(text: str) -> str:
    """A text as Markdown that shows it: names of files and of classes are neither pages nor links.

    Example:
        >>> print(as_markdown("<b>[a](b)|`c`"))
        &lt;b&gt;\\[a\\](b)\\|\\`c\\`
    """
    return re.sub(r"([\[\]`|])", r"\\\1", escape(text, quote=False)).replace("\n", " ")


def _block(language: str, code: str) -> str:
    """Code that no line of its own can end."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{fence}{language}\n{code}\n{fence}"

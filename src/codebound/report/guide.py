"""Usage guide for a certified network, for its page and README."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any

from codebound.known.first_share import KERNELS
from codebound.known.provenance import declared_name
from codebound.report.plain import answer, how_sure
from codebound.report.summary import result_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codebound.certificate.file import Certificate
    from codebound.sample.dataset import Dataset, Scaling

README = "README.md"
_NAMED = 20
_FILES = {
    "certificate.cbound": "the certificate: the claim, and all that the second program computes it from",
    "g.safetensors": "the tensors of the network g",
    "model.safetensors": "the tensors of the network g",
    "f.safetensors": "the tensors of the network that was given, which the certificate is about",
    "base.safetensors": "the base, which the message codes the difference to",
    "helper.safetensors": "the tensors of the helper, which encodes inputs",
    "sample.npz": "the sample, as the second program reads it",
    "sample": "the same, in parts from the disk",
    "unlabelled.npz": "the unlabelled inputs",
    "picks.csv": "every picked example, in the order of picking",
    "report.html": "the page about the certificate, for people",
    "result.json": "the same for programs",
    "config.json": "what was asked for",
}


def inputs_record(sample: Dataset, *, is_helped: bool) -> dict[str, Any]:
    """Description of the network's inputs, as plain JSON.

    It says in ``helper`` whether a helper of this sample encodes them.
    """
    return {
        "shape": list(sample.input_shape),
        "dtype": sample.x.dtype.name,
        "scaling": scaling_words(sample.scaling),
        "helper": is_helped,
        "encoder": declared_name([sample.encoder]),
        "columns": [asdict(each) for each in sample.columns],
    }


def scaling_words(scaling: Scaling) -> str:
    """Scaling of stored values in front of the network, in words.

    Example:
        >>> from codebound.sample.dataset import Scaling
        >>> scaling_words(Scaling(255.0)), scaling_words(Scaling(1.0, (0.5,), (2.0,)))
        ('divided by 255', 'minus 0.5, divided by 2')
    """
    words = [f"divided by {scaling.divisor:g}"] if scaling.divisor != 1.0 else []
    if any(scaling.mean):
        words.append(f"minus {', '.join(f'{each:g}' for each in scaling.mean)}")
    if any(each != 1.0 for each in scaling.std):
        words.append(f"divided by {', '.join(f'{each:g}' for each in scaling.std)}")
    return ", ".join(words) or "not scaled"


def snippet(result: Mapping[str, Any]) -> str:
    """Python that loads the network in this folder and asks it; empty where it is not what was certified."""
    if result["subject"] == "f":
        return ""
    inputs = result["inputs"]
    lines = ["import torch", "", "import codebound as cb", ""]
    if inputs["encoder"] in KERNELS:
        says = "# with the helper beside it, for inputs as they were stored"
        return "\n".join([*lines[2:], f'g = cb.load_classifier(".")  {says}', "print(g.predict(inputs))"])
    if inputs["encoder"]:
        return "\n".join(
            [
                *lines,
                "encoder = found.encoder  # what certify returned"
                if inputs["helper"]
                else f"encoder = cb.load_encoder({json.dumps(inputs['encoder'])})",
                'g = cb.load_classifier(".", encoder=encoder)',
                "print(g.predict(inputs))  # texts, or pictures and rows scaled as those of the sample",
            ]
        )
    shape = ", ".join(map(str, inputs["shape"]))
    return "\n".join(
        [
            *lines,
            'g = cb.load_classifier(".")',
            "# yours, as they are stored:",
            f"inputs = torch.zeros(5, {shape}, dtype=torch.{inputs['dtype']})",
            "print(g.predict(inputs))",
        ]
    )


_ABOUT_F = (
    "The certificate is about the network that was given: use that one, as it was. The network that the "
    "message decodes to only served to prove it."
)
_ELSEWHERE = (
    "For other programs: {command} (after pip install onnx onnxscript) writes ONNX, with the input stored "
    "({dtype}) and the outputs scores and label."
)


def usage_notes(certificate: Certificate, result: Mapping[str, Any]) -> list[str]:
    """Notes for users of the network: inputs, outputs, and other programs."""
    if result["subject"] == "f":
        return [_ABOUT_F]
    inputs, names = result["inputs"], result["class_names"]
    shape = " x ".join(map(str, inputs["shape"]))
    taken = (
        f"Inputs are {shape} numbers ({inputs['dtype']}), as they are stored in the sample. Do not scale "
        "them: load_classifier and ONNX do that by themselves."
    )
    if inputs["encoder"]:
        taken = (
            f"Inputs go through the encoder {inputs['encoder']}, which load_classifier puts in front. ONNX "
            f"has the part behind it, for rows of {shape} bytes, as codebound encode writes them."
        )
    if inputs["encoder"] in KERNELS:
        taken = (
            "Inputs are as they are stored in the sample that was split: load_classifier puts the helper in "
            "front, from helper.safetensors. sample.npz has its scores of the examples that it never saw."
        )
    if inputs.get("columns"):
        taken += (
            " Or give g.predict a data frame with the columns of the sample, which are found by their names."
        )
    scaled = (
        "g.safetensors alone is no network: it holds the examples that g was learned from, and their weights."
        if certificate.kind.is_learned
        else f"The tensors in g.safetensors see inputs that are {inputs['scaling']}."
    )
    called = "; ".join(f"{label} is {name}" for label, name in enumerate(names[:_NAMED]))
    outputs = f"The largest of the {result['classes']} scores is the answer" + (
        f": {called}{'; and so on' if len(names) > _NAMED else ''}." if names else ", counted from 0."
    )
    dtype = inputs["dtype"] if certificate.kind.is_learned else "float32"
    command = "codebound decode . --out g.onnx"
    return [taken, outputs, scaled, _ELSEWHERE.format(dtype=dtype, command=command)]


def folder_guide(
    certificate: Certificate, result: Mapping[str, Any], *, title: str, files: Iterable[str]
) -> str:
    """The README of a folder: the answer, the numbers of the screen, how to use and how to check it."""
    rows = "\n".join(f"| {' | '.join(map(_text, row))} |" for row in result_rows(result))
    code = snippet(result)
    listed = "\n".join(
        f"| [{name}]({name}) | {_FILES.get(name, 'the architecture of g')} |" for name in sorted(files)
    )
    outside = "".join(f"\n\nIt needs {_text(path)} besides." for path in result["verify_needs"])
    return (
        "\n\n".join(
            [
                f"# {_text(title)}",
                f"**{_text(answer(certificate, result))}** {how_sure(certificate.claim.delta)}",
                _text(certificate.sentence),
                *([f"**{_text(result['alarm'])}**"] if result.get("alarm") else []),
                f"| what | value | note |\n|---|---|---|\n{rows}",
                "## Use it",
                *([_block("python", code)] if code else []),
                "\n".join(f"* {_text(note)}" for note in usage_notes(certificate, result)),
                "## Check it",
                _block("console", f"$ {result['verify_here']}") + outside,
                "## What is here",
                f"| file | what it is |\n|---|---|\n{listed}",
            ]
        )
        + "\n"
    )


def _text(text: str) -> str:
    """A text as Markdown that shows it: names of files and of classes are neither pages nor links.

    Example:
        >>> print(_text("<b>[a](b)|`c`"))
        &lt;b&gt;\\[a\\](b)\\|\\`c\\`
    """
    return re.sub(r"([\[\]`|])", r"\\\1", escape(text, quote=False)).replace("\n", " ")


def _block(language: str, code: str) -> str:
    """Code that no line of its own can end."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{fence}{language}\n{code}\n{fence}"

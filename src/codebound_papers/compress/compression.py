"""``codebound compress`` as a function: options in, files and a record out."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from codebound.cli.actions import load_samples, record_options
from codebound.run.errors import UsageError
from codebound.run.files import new_folder, write_atomically, write_json, write_whole
from codebound.run.progress import NOBODY, Listener
from codebound.run.tensor_files import dtype_name, save_weights
from codebound.sample.load import load_sample
from codebound_networks.about_f.models import load_layers, model_sizes
from codebound_networks.reading.walk import Network, wrap
from codebound_networks.views.rebuild import with_weights
from codebound_papers.compress.catalogue import COMPRESSORS
from codebound_papers.compress.compression_summary import CompressionSummary, faithfulness, summarise
from codebound_papers.compress.compressors import Compressed, Job
from codebound_papers.compress.methods import has_grid, mild_options, option_text, parse_options, run_method

_READ = (
    "one message per tensor, each filled up with zeros to whole bytes: "
    "codebound_networks.codes.modes.decode_tensors(Bits(its bytes, bits), [shape])"
)
_LOOKED_AT = 2000  # examples that options are chosen on


def compress_from_options(
    options: Mapping[str, Any], *, out: Path | None = None, listener: Listener = NOBODY
) -> dict[str, Any]:
    """Compresses a network, and writes it with its message to a new folder: the next free one in ``runs``."""
    method, model, data, layers = (options[name] for name in ("method", "model", "data", "layers"))
    chosen = parse_options(method, options["options"] or ())
    if data is None and COMPRESSORS[method].algorithm.trains:
        raise UsageError(f"{method} trains on a sample: give one, as data.")
    sample = measured = None
    if data is not None:
        sample, fresh = load_samples(options)
        measured = fresh or sample
    elif options["test"] is not None:
        measured = load_sample(options["test"], role="test", folder=options["data_folder"])
    is_fresh = measured is not sample  # a sample may have made f and g
    shape, outputs = model_sizes(model, options["input_shape"], options["classes"], measured)
    network = load_layers(model, shape, outputs, options["weights"])
    network = _in_single_precision(network, shape, outputs)
    if measured is not None and options["examples"] is not None:
        measured = measured.select(range(min(options["examples"], measured.n)), role=measured.role)
    with new_folder(out, "compress") as folder, listener.bar(method) as progress:
        job = Job(
            network=network,
            input_shape=shape,
            sample=None if sample is None else sample.on("cpu"),
            layers=None if layers is None else tuple(layers.split(",")),
            seed=options["seed"],
            progress=progress,
        )
        if job.sample is not None and not options["options"] and has_grid(method):
            chosen = mild_options(method, job, job.sample.part(0, _LOOKED_AT))
        compressed = run_method(method, chosen, job)
        summary = summarise(compressed, None if measured is None else measured.on("cpu"), progress=progress)
        texts = {name: option_text(value) for name, value in chosen.items()}
        pair, fresh = (network.model, compressed.module()), measured if is_fresh else None
        told = {"notes": list(network.notes), "faithful": faithfulness(*pair, fresh, sample=sample)}
        record = {"method": method, "options": texts, **summary.record(), **told, "out": str(folder)}
        sizes = {"options": texts, "input_shape": list(shape), "classes": outputs}
        with write_whole(folder) as place:
            _save(place, compressed, summary)
            for name, content in (("config", record_options(options) | sizes), ("result", record)):
                write_json(place / f"{name}.json", content)
    return record


def _save(folder: Path, compressed: Compressed, summary: CompressionSummary) -> None:
    """Writes the decoded weights, and the message with what its reader has to know."""
    state = compressed.module().state_dict()
    weights = {name: state[name].contiguous() for name in summary.codes}
    save_weights(folder / "compressed.safetensors", weights)
    write_atomically(folder / "message.bin", b"".join(each.data for each in summary.messages.values()))
    about: dict[str, Any] = {
        "read_with": _READ,
        "tensors": [
            {"name": name, "shape": list(code.shape), "bits": summary.messages[name].length}
            for name, code in summary.codes.items()
        ],
    }
    if compressed.chain is not None:
        about["architecture"] = compressed.chain.describe()
    write_json(folder / "message.json", about)


def _in_single_precision(network: Network, shape: tuple[int, ...], classes: int) -> Network:
    """The same network in float32, which is what codes decode to, with a word about it."""
    state = network.model.state_dict()
    others = sorted({dtype_name(each) for each in state.values() if each.is_floating_point()} - {"float32"})
    if not others:
        return network
    single = with_weights(network.model, state).float()
    again = wrap(single, example=torch.zeros(2, *shape), classes=classes, strict=True)
    words = f"Its weights are {' and '.join(others)}, and codes decode to float32: it is compressed in that."
    return replace(again, notes=(*network.notes, words))

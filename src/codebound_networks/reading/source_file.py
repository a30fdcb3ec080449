"""A plain network as a small Python file: all that a verifier needs to know of somebody's code.

The file says which layers and tensors there are and which operations of torch compute the logits; it holds no
number that was learned, and imports nothing but torch.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import operator
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn
from torch._ops import OpOverload

from codebound.run.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FACTORY = "make"
"""Name of the function that makes the network."""
_OWN = ("weight", "bias", "running_mean", "running_var")  # what layers make for themselves
_SIGNS = {operator.mul: "*", operator.floordiv: "//", operator.add: "+", operator.sub: "-"}

_FRAME = '''"""A network as operations of torch; its tensors are in the message of a certificate."""

import torch
from torch import nn

aten = torch.ops.aten


def put(root, name, part):
    """Gives a module a part of that name, which may have dots."""
    *path, last = name.split(".")
    for step in path:
        if step not in root._modules:
            root.add_module(step, nn.Module())
        root = root._modules[step]
    if isinstance(part, tuple):
        part = nn.Parameter(torch.zeros(part))
    setattr(root, last, part)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
{parts}

    def forward(self, x):
{steps}


def make():
    return Network()
'''


def source_of(module: fx.GraphModule) -> str:
    """The file of a plain network.

    Example:
        >>> from codebound_networks.reading.export import plain_network
        >>> from codebound_networks.reading.layered import with_layers
        >>> net = with_layers(plain_network(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), torch.zeros(1, 3)))
        >>> print(*source_of(net).splitlines()[-10:-4], sep=chr(10))
                put(self, "0", nn.Linear(in_features=3, out_features=2, bias=True))
        <BLANKLINE>
            def forward(self, x):
                v1 = self.get_submodule("0")(x)
                v2 = aten.relu.default(v1)
                return v2
    """
    parts = "\n".join(
        f"        put(self, {name!r}, {part})".replace("'", '"') for name, part in _parts(module)
    )
    steps = "\n".join(f"        {line}" for line in _steps(module))
    return _FRAME.format(parts=parts, steps=steps)


def network_of(source: str) -> nn.Module:
    """The network that the text of :func:`source_of` makes; its tensors are zero."""
    return getattr(_run(source, ModuleType(name_of(source))), FACTORY)()  # type: ignore[no-any-return]


def name_of(source: str) -> str:
    """The name of the Python module with that text."""
    return f"network_{hashlib.sha256(source.encode()).hexdigest()[:8]}"


def load_file(path: Path) -> Any:
    """The Python module in a file, imported under the name of the file; this runs its code.

    What runs is the text whose hash a certificate names, never a compiled copy that lies beside it.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or not path.is_file():
        raise ModelError(f"{path}: not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    return _run(path.read_bytes(), module)


def _run(text: str | bytes, module: ModuleType) -> ModuleType:
    """Runs the text of a module: of a file that the user names, or of a network that was written here."""
    exec(compile(text, module.__dict__.get("__file__", module.__name__), "exec"), module.__dict__)
    return module


def _parts(module: fx.GraphModule) -> Iterator[tuple[str, str]]:
    """Layers and single tensors, in the order of the state."""
    done = set()
    for name, tensor in module.state_dict().items():
        owner, _, own = name.rpartition(".")
        layer = module.get_submodule(owner)
        is_layer = type(layer) is not nn.Module and layer is not module
        if is_layer and owner not in done:
            done.add(owner)
            made = f"nn.{type(layer).__name__}({layer.extra_repr()})"
            yield owner, re.sub(r"padding=(same|valid)", r"padding='\1'", made)
        if not is_layer or own not in _OWN:
            yield name, repr(tuple(tensor.shape))


def _steps(module: fx.GraphModule) -> Iterator[str]:
    names: dict[fx.Node, str] = {}
    for node in module.graph.nodes:
        if node.op == "output":
            yield f"return {names[node.args[0]]}"
        elif node.op == "placeholder":
            names[node] = "x"
        elif node.op == "get_attr":
            names[node] = f"self.get_parameter({str(node.target)!r})".replace("'", '"')
        elif node.target is getattr:
            names[node] = f"{names[node.args[0]]}.{node.args[1]}"
        elif node.op == "call_module" and isinstance(module.get_submodule(str(node.target)), nn.Identity):
            names[node] = names[node.args[0]]
        else:
            names[node] = f"v{sum(name.startswith('v') for name in set(names.values())) + 1}"
            yield f"{names[node]} = {_call(node, names)}"


def _call(node: fx.Node, names: dict[fx.Node, str]) -> str:
    values = [_value(value, names) for value in node.args]
    if node.op == "call_module":
        return f'self.get_submodule("{node.target}")({values[0]})'
    if node.target in _SIGNS:
        return f"{values[0]} {_SIGNS[node.target]} {values[1]}"
    if node.target is operator.getitem:
        return f"{values[0]}[{values[1]}]"
    if not isinstance(node.target, OpOverload) or node.target.namespace != "aten":
        raise ModelError(f"{node.target} is no operation of torch, so no file can say what it does.")
    values += [f"{key}={_value(value, names)}" for key, value in node.kwargs.items()]
    return f"{node.target}({', '.join(values)})"


def _value(value: Any, names: dict[fx.Node, str]) -> str:
    match value:
        case fx.Node():
            return names[value]
        case float() if not math.isfinite(value):
            return f'float("{value}")'
        case list() | tuple():
            return f"[{', '.join(_value(each, names) for each in value)}]"
        case torch.device():
            return f'torch.device("{value}")'
        case None | bool() | int() | float() | str() | torch.dtype() | torch.memory_format() | torch.layout():
            return repr(value)
    raise ModelError(f"a {type(value).__name__} in an operation has no place in a file.")

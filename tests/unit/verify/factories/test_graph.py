"""The graph of a factory's module: its form is that of the page, and it computes what the module does."""

import hashlib

import pytest
import torch
from torch import Tensor, nn
from worlds.commands import python

from codebound_verify.factories.factory import message_state
from codebound_verify.factories.graph import Graph, trace
from codebound_verify.refusal import Refused


class Block(nn.Module):
    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(1, eps=eps)
        self.last = nn.Linear(4, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.last((self.norm(x) + x * 0.5).flatten(1))


TEXT = (
    '[["norm.weight","norm.bias","norm.running_mean","norm.running_var","last.weight"],'
    "[[1],[1],[1],[1],[2,4]],"
    '[["aten.batch_norm.default",["input",["in"]],["weight",["tensor",1]],["bias",["tensor",1]],'
    '["running_mean",["tensor",1]],["running_var",["tensor",1]],["training",false],'
    '["momentum",["real","0x1.999999999999ap-4"]],["eps",["real","0x1.4f8b588e368f1p-17"]]],'
    '["aten.mul.Tensor",["self",["in"]],["other",["real","0x1.0000000000000p-1"]]],'
    '["aten.add.Tensor",["self",["op",2]],["other",["op",1]]],'
    '["aten.flatten.using_ints",["self",["op",1]],["start_dim",1]],'
    '["aten.linear.default",["input",["op",1]],["weight",["tensor",1]]]],'
    '["op",1]]'
)  # written by hand from section 5.2


def graph_of(module: nn.Module, shape=(1, 2, 2)) -> Graph:
    module.eval()
    return trace(module, input_shape=shape, carried=tuple(message_state(module)))


def test_the_form_is_that_of_the_page():
    assert graph_of(Block()).sha256 == hashlib.sha256(TEXT.encode()).hexdigest()


def test_the_name_does_not_depend_on_values_but_on_numbers_operations_and_order():
    names = [
        graph_of(module).sha256
        for module in (
            Block(),
            Block(eps=1e-4),
            nn.Sequential(nn.Flatten(), nn.Linear(4, 2)),
            nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.Tanh()),
            nn.Sequential(nn.Flatten(), nn.Tanh(), nn.Linear(4, 2)),
            nn.Sequential(nn.Flatten(), nn.Linear(4, 3)),
        )
    ]
    assert len(set(names)) == len(names)
    torch.manual_seed(1)
    assert graph_of(Block()).sha256 == names[0]


@pytest.mark.thorough
def test_the_name_is_the_same_in_another_process():
    code = (
        "import torch\nfrom torch import nn\nfrom codebound_verify.factories.graph import trace\n"
        "net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.GELU(), nn.LayerNorm(2)).eval()\n"
        "print(trace(net, input_shape=(1, 2, 2), carried=tuple(net.state_dict())).sha256)"
    )
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.GELU(), nn.LayerNorm(2))
    assert python(code).strip() == graph_of(network).sha256


class Recurrent(nn.Module):
    """Nothing that torch can batch by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(4, 5, batch_first=True)
        self.last = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.cell(x[:, 0])[0][:, -1])


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x.mul_(2)
        with torch.no_grad():
            return self.last(nn.functional.relu(x.view(x.size(0), -1), inplace=True))


HONEST = {
    "norms and pools": lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.Hardswish(inplace=True),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(4, 3),
    ),
    "a recurrent network": Recurrent,
    "in place": InPlace,
    "weight norm": lambda: nn.Sequential(
        nn.Flatten(), nn.utils.parametrizations.weight_norm(nn.Linear(16, 3))
    ),
    "attention inside an example": lambda: nn.Sequential(
        nn.Flatten(1, 2),
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
        nn.Flatten(),
        nn.Linear(16, 3),
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_it_computes_what_the_module_does(name):
    torch.manual_seed(0)
    module = HONEST[name]()
    graph = graph_of(module, (1, 4, 4))
    function = graph.function({name: each.detach() for name, each in message_state(module).items()})
    x = torch.randn(9, 1, 4, 4, dtype=torch.float64)
    with torch.inference_mode():
        found = function(x.clone())
        assert torch.allclose(found, module(x.clone()), rtol=0, atol=1e-12)
        assert torch.allclose(found[3:4], function(x[3:4].clone()), rtol=0, atol=1e-12)


def test_what_one_example_changes_is_there_again_for_the_next():
    class Memory(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            self.seen.add_(1)
            return x.flatten(1)[:, :3] + self.seen

    graph = graph_of(Memory())
    function = graph.function({"seen": torch.zeros(3, dtype=torch.float64)})
    x = torch.zeros(4, 1, 2, 2, dtype=torch.float64)
    assert (function(x) == 1).all()
    assert (function(x) == 1).all()


def test_the_price_grows_with_the_graph_and_with_names_that_choose():
    short, long = (graph_of(nn.Sequential(nn.Flatten(), *[nn.Linear(4, 4)] * k)) for k in (1, 9))
    assert 0 < short.bits(has_base=False) < long.bits(has_base=False)
    assert short.bits(has_base=False) < short.bits(has_base=True)


def test_failures_leave_no_trace_of_torch(capfd):
    class Looks(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.flatten(1)) if x.sum() > 0 else x.flatten(1)

    with pytest.raises(Refused, match="cannot trace"):
        graph_of(Looks(4, 2))
    assert capfd.readouterr() == ("", "")

"""The file of a network makes the same network again, whatever its layers hold."""

import torch
from torch import nn

from codebound_networks.reading.export import plain_network
from codebound_networks.reading.layered import with_layers
from codebound_networks.reading.source_file import network_of, source_of


class Gained(nn.Linear):
    """A layer with a tensor, and with layers, of its own."""

    def __init__(self):
        super().__init__(4, 3)
        self.gain = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.low = nn.Linear(4, 2, bias=False)
        self.high = nn.Linear(2, 3, bias=False)

    def forward(self, x):
        return super().forward(x) * self.gain + self.high(self.low(x))


def test_a_layer_is_written_with_all_that_it_holds():
    module = nn.Sequential(Gained(), nn.ReLU(), nn.Linear(3, 2)).eval()
    x = torch.linspace(-1.0, 1.0, 20).reshape(5, 4)
    plain = with_layers(plain_network(module, x))
    made = network_of(source_of(plain))
    assert list(made.state_dict()) == list(plain.state_dict())
    made.load_state_dict(plain.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(made.eval()(x), module(x), rtol=1e-6, atol=1e-7)

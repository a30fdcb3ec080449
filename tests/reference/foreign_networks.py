"""Small networks as other people write them: one factory for every habit that a reader may trip over.

``NETWORKS`` maps a name to the kind of its inputs; ``foreign_networks:NAME`` is its factory. Images are
(1, 8, 8), tokens are 16 integers from 0 to 16. All have four classes.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import prune

CLASSES, WIDTH, TOKENS, LENGTH = 4, 8, 17, 16

NETWORKS: dict[str, str] = {}
REFUSED: dict[str, str] = {}
"""Networks that no certificate can be about, with what the refusal has to name."""


def of(kind: str):
    """Notes a factory under the kind of its inputs."""

    def note(factory):
        NETWORKS[factory.__name__] = kind
        return factory

    return note


def refused(reason: str):
    """Notes a factory whose network has to be refused."""

    def note(factory):
        REFUSED[factory.__name__] = reason
        return factory

    return note


class Rows(nn.Module):
    """An image as a sequence of its rows, and the class from the mean over what a part makes of them."""

    def __init__(self, part: nn.Module, head: int = WIDTH) -> None:
        super().__init__()
        self.part = part
        self.head = nn.Linear(head, CLASSES)

    def mixed(self, rows: Tensor) -> Tensor:
        return self.part(rows)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.mixed(x.flatten(1, 2)).mean(1))


@of("image")
def scalar_parameter():
    """A learned temperature, and weights in containers of torch."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.ParameterList([torch.randn(64, WIDTH) / 8, torch.randn(WIDTH, CLASSES)])
            self.biases = nn.ParameterDict({"0": torch.randn(WIDTH), "1": torch.randn(CLASSES)})
            self.scale = nn.Parameter(torch.tensor(1.5))

        def forward(self, x: Tensor) -> Tensor:
            x = x.flatten(1)
            for i, weight in enumerate(self.weights):
                x = functional.elu(x @ weight + self.biases[str(i)]) * self.scale
            return x

    return Scaled()


@of("image")
def lazy_layers():
    """Layers whose sizes are those of the first input."""
    return nn.Sequential(
        nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(CLASSES)
    )


@of("image")
def cells_from_zeros():
    """A state of zeros, as many as there are examples, in the precision that torch has by default."""

    class Cells(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows, self.cell = (
                nn.RNN(8, WIDTH, batch_first=True, nonlinearity="relu"),
                nn.LSTMCell(WIDTH, 6),
            )
            self.head = nn.Linear(6, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            rows, _ = self.rows(x[:, 0])
            state = torch.zeros(len(x), 6), torch.zeros(len(x), 6)
            for i in range(rows.size(1)):
                state = self.cell(rows[:, i], state)
            return self.head(state[0])

    return Cells()


@of("tokens")
def causal_mask():
    """``nn.TransformerEncoder`` with a mask that forward makes, as the tutorials of torch have it."""

    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(TOKENS, WIDTH)
            layer = nn.TransformerEncoderLayer(WIDTH, 2, 16)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, tokens: Tensor) -> Tensor:
            mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
            return self.head(self.encoder(self.embedding(tokens).transpose(0, 1), mask=mask)[-1])

    return Causal()


@of("tokens")
def complex_rotation():
    """Positions as rotations, by a buffer of complex numbers."""

    class Rotated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, CLASSES)
            angles = torch.outer(torch.arange(LENGTH).float(), 10.0 ** -torch.arange(WIDTH // 2))
            self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.embedding(tokens)
            pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            return self.head(torch.tanh(torch.view_as_real(pairs * self.turns).flatten(2)).mean(1))

    return Rotated()


@of("image")
def complex_layer():
    class Complex(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(64, WIDTH, dtype=torch.complex64), nn.Linear(WIDTH, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.body(x.flatten(1).to(torch.complex64)).abs())

    return Complex()


@of("tokens")
def short_embeddings():
    """Rows of an embedding that are shortened as they are looked up."""

    class Short(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(TOKENS, WIDTH, max_norm=1.0), nn.Linear(WIDTH, CLASSES)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.embedding(tokens).amax(1))

    return Short()


@of("image")
def multihead_attention():
    class Attention(Rows):
        def mixed(self, rows: Tensor) -> Tensor:
            return self.part(rows, rows, rows, need_weights=False)[0]

    return Attention(nn.MultiheadAttention(WIDTH, 2, batch_first=True))


@of("image")
def encoder_layer():
    return Rows(nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True))


class FusedAttention(nn.Module):
    """Queries, keys and values by one matrix."""

    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.qkv, self.out, self.causal = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), causal

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


@of("image")
def attention_by_hand():
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
            self.register_buffer("mask", torch.tril(torch.ones(8, 8)).bool(), persistent=False)

        def forward(self, x: Tensor) -> Tensor:
            scores = self.q(x) @ self.k(x).transpose(-2, -1) * WIDTH**-0.5
            scores = scores.masked_fill(~self.mask[: x.size(1), : x.size(1)], float("-inf"))
            return torch.softmax(scores, dim=-1) @ self.v(x)

    return Rows(Attention())


@of("image")
def norms():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.SiLU(),
        nn.InstanceNorm2d(4),
        nn.Flatten(),
        nn.LayerNorm(256),
        nn.Linear(256, WIDTH),
        nn.RMSNorm(WIDTH),
        nn.GELU(),
        nn.Linear(WIDTH, CLASSES),
    )


@of("tokens")
def masked_transformer():
    class Text(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(TOKENS, WIDTH)
            self.position = nn.Parameter(torch.randn(1, LENGTH, WIDTH) / 10)
            self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, tokens: Tensor) -> Tensor:
            mask = tokens == 0
            x = self.layer(self.embedding(tokens) + self.position, src_key_padding_mask=mask)
            kept = (~mask).unsqueeze(-1).to(x.dtype)
            return self.head((x * kept).sum(1) / kept.sum(1).clamp(min=1))

    return Text()


@of("tokens")
def decoder():
    """Positions by an integer buffer, a causal mask, and an embedding that is used again."""

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(LENGTH, WIDTH)
            self.register_buffer("positions", torch.arange(LENGTH)[None])
            self.attention, self.norm = FusedAttention(causal=True), nn.LayerNorm(WIDTH)
            self.again = nn.Linear(WIDTH, TOKENS, bias=False)
            self.again.weight = self.embedding.weight
            self.score = nn.Linear(TOKENS, CLASSES)

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.embedding(tokens) + self.places(self.positions[:, : tokens.shape[1]])
            x = x + self.attention(self.norm(x))
            return self.score(self.again(x)[:, -1])

    return Decoder()


@of("tokens")
def empty_cache():
    """Joins what it computes to a tensor without entries, as a decoder does whose cache is empty."""

    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.embedding(tokens)
            return self.head(torch.cat([torch.tensor([], dtype=x.dtype), x], dim=-2).mean(1))

    return Cached()


@of("image")
def vision_transformer():
    class Vit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(1, WIDTH, 4, stride=4)
            self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
            self.position = nn.Parameter(torch.randn(1, 5, WIDTH) / 10)
            self.norm, self.attention = nn.LayerNorm(WIDTH), FusedAttention()
            self.mlp = nn.Sequential(
                nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH)
            )
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
            x = x + self.attention(self.norm(x))
            return self.head((x + self.mlp(x))[:, 0])

    return Vit()


class Recurrent(Rows):
    def mixed(self, rows: Tensor) -> Tensor:
        return self.part(rows)[0]


@of("image")
def lstm():
    return Recurrent(nn.LSTM(8, WIDTH, batch_first=True))


@of("image")
def gru():
    return Recurrent(nn.GRU(8, WIDTH // 2, batch_first=True, bidirectional=True))


@of("image")
def transposed_convolution():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(4, 2, 2, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, CLASSES),
    )


@of("image")
def odd_convolutions():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding="same"),
        nn.PReLU(4),
        nn.Conv2d(4, 4, 3, padding=1, groups=4, padding_mode="circular"),
        nn.Conv2d(4, 8, (1, 3), padding=(0, 1), groups=2),
        nn.LeakyReLU(0.1),
        nn.Conv2d(8, 4, 3, dilation=2),
        nn.ReLU6(),
        nn.AdaptiveMaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, CLASSES),
    )


@of("image")
def tied_weights():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
            self.second.weight = self.first.weight
            self.head = nn.Linear(64, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(functional.relu(self.second(functional.relu(self.first(x.flatten(1))))))

    return Tied()


@of("image")
def buffers():
    class Buffers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.full((64,), 0.25))
            self.register_buffer("order", torch.arange(63, -1, -1))
            self.register_buffer("scale", torch.full((1,), 2.0), persistent=False)
            self.register_buffer("steps", torch.tensor(17))
            self.head = nn.Linear(64, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.head((x.flatten(1)[:, self.order] - self.mean) * self.scale)

    return Buffers()


@of("image")
def weight_norm():
    return nn.Sequential(
        nn.Flatten(),
        nn.utils.parametrizations.weight_norm(nn.Linear(64, WIDTH)),
        nn.ReLU(),
        nn.Linear(WIDTH, CLASSES),
    )


@of("image")
def spectral_norm():
    return nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Conv2d(1, 4, 3)),
        nn.ReLU(),
        nn.Flatten(),
        nn.utils.spectral_norm(nn.Linear(144, CLASSES)),
    )


@of("image")
def pruned():
    layer = nn.Linear(64, CLASSES)
    prune.l1_unstructured(layer, "weight", 0.5)
    return nn.Sequential(nn.Flatten(), layer)


@of("image")
def half():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES)).half()


@of("image")
def cast_in_forward():
    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(64, WIDTH).bfloat16(), nn.Linear(WIDTH, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.relu(self.body(x.flatten(1).to(torch.bfloat16))).float())

    return Cast()


@of("image")
def compiled():
    return torch.compile(
        nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    )


@of("image")
def data_parallel():
    return nn.DataParallel(nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES)))


class Returns(nn.Module):
    """A small network that hands out its logits in some container."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(64, WIDTH), nn.Linear(WIDTH, CLASSES)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.relu(self.body(x.flatten(1)))
        return self.head(hidden), hidden


@of("image")
def tuple_output():
    class Tuple(Returns):
        def forward(self, x: Tensor):
            return self.parts(x)

    return Tuple()


@of("image")
def dict_output():
    class Dict(Returns):
        def forward(self, x: Tensor):
            logits, hidden = self.parts(x)
            return {"hidden": hidden, "logits": logits, "loss": None}

    return Dict()


@of("image")
def asserts():
    class Asserts(Returns):
        def forward(self, x: Tensor) -> Tensor:
            assert x.shape[1:] == (1, 8, 8), "wrong size"
            assert len(x) > 0
            b = x.size(0)
            if x.dim() != 4:
                raise ValueError(x.shape)
            return self.parts(x.reshape(b, -1).float().to(self.head.weight.dtype))[0]

    return Asserts()


@of("image")
def works_in_place():
    class InPlace(Returns):
        def forward(self, x: Tensor) -> Tensor:
            x -= 0.5
            return self.parts(x.mul_(2.0))[0]

    return InPlace()


@of("image")
def hooked():
    """Hooks on layers, which no trace of the modules contains."""
    layers = nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    layers[1].register_forward_pre_hook(lambda _, given: (1.0 - given[0],))
    layers[3].register_forward_hook(lambda _, given, found: -found)
    return layers


class OwnBlock(nn.Module):
    """A residual block as most people write it."""

    def __init__(self, channels: int, out: int, shortcut: str) -> None:
        super().__init__()
        stride = 1 if channels == out else 2
        self.conv1 = nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.shortcut: nn.Module = nn.Sequential()
        self.pads = shortcut == "pad" and stride == 2
        if shortcut == "conv" and stride == 2:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride=2, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = functional.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.pads:
            more = out.shape[1] - x.shape[1]
            out += functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, more // 2, more - more // 2))
        else:
            out += self.shortcut(x)
        return functional.relu(out)


class OwnResNet(nn.Module):
    def __init__(self, shortcut: str) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.layer1 = nn.Sequential(OwnBlock(4, 4, shortcut), OwnBlock(4, 8, shortcut))
        self.linear = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out = self.layer1(functional.relu(self.bn1(self.conv1(x))))
        out = functional.avg_pool2d(out, out.size()[3])
        return self.linear(out.view(out.size(0), -1))


@of("image")
def own_resnet():
    return _with_statistics(OwnResNet("pad"))


@of("image")
def projecting_resnet():
    return _with_statistics(OwnResNet("conv"))


def _with_statistics(module: nn.Module) -> nn.Module:
    """Batch norms that have seen something."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, std=0.1)
            nn.init.normal_(part.running_mean, std=0.1)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
    return module


@of("image")
def squeeze_and_excite():
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bn = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.squeeze, self.excite = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)
            self.head = nn.Linear(8, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            x = functional.hardswish(self.bn(self.conv(x)))
            gate = functional.adaptive_avg_pool2d(x, 1)
            x = x * functional.hardsigmoid(self.excite(functional.relu(self.squeeze(gate))))
            return self.head(x.mean((2, 3)))

    return Block()


@of("image")
def own_linear():
    """A layer that inherits from ``nn.Linear`` and overrides its forward pass."""

    class Own(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return functional.linear(x, self.weight, self.bias)

    return nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), nn.ReLU(), Own(WIDTH, CLASSES))


@of("image")
def factors_from_the_right():
    """Weights as (in, out) matrices, as the ``Conv1D`` of transformers has them; one is read twice."""

    class Right(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(8, 16) / 4), nn.Parameter(torch.randn(16))
            self.again, self.shared = nn.Parameter(torch.randn(16, 8) / 4), nn.Parameter(torch.randn(8, 8))
            self.head = nn.Parameter(torch.randn(8, CLASSES))

        def forward(self, x: Tensor) -> Tensor:
            x = x.flatten(1, 2)
            y = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], 16)
            y = torch.relu(y) @ self.again + x
            return (y @ self.shared * self.shared.sum(0)).mean(1) @ self.head

    return Right()


@of("image")
def rms_by_hand():
    """Root mean square norms as decoders spell them, with casts, and rotated features."""

    class Rms(nn.Module):
        def __init__(self, axis: int) -> None:
            super().__init__()
            self.weight, self.axis = nn.Parameter(1 + torch.randn(WIDTH) / 4), axis

        def forward(self, x: Tensor) -> Tensor:
            found = x.to(torch.float32)
            scale = torch.rsqrt(found.pow(2).mean(self.axis, keepdim=True) + 1e-6)
            return self.weight * (found * scale).to(x.dtype)

    class Turned(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat((-x[..., 4:], x[..., :4]), dim=-1) + 0 * x + 1.0 * x

    return Rows(nn.Sequential(nn.Linear(8, WIDTH), Rms(-1), Turned(), Rms(1)))


@of("image")
def plain_attribute():
    class Attribute(Returns):
        def __init__(self) -> None:
            super().__init__()
            self.mean = torch.linspace(0, 1, 64)

        def forward(self, x: Tensor) -> Tensor:
            return self.parts(x.flatten(1) - self.mean)[0]

    return Attribute()


@of("image")
def unused_layer():
    class Unused(Returns):
        def __init__(self) -> None:
            super().__init__()
            self.auxiliary = nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.parts(x)[0]

    return Unused()


@of("image")
def batch_norm_first():
    return nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, CLASSES))


@of("image")
def config_object():
    """Attributes that are no tensors, and a forward with arguments that have defaults."""

    class Configured(Returns):
        def __init__(self) -> None:
            super().__init__()
            self.config = SimpleNamespace(scale=2.0, use_cache=False)

        def forward(self, x: Tensor, mask: Tensor | None = None, *, return_dict: bool = True):
            logits = self.parts(x * self.config.scale)[0]
            return SimpleNamespace(logits=logits) if return_dict else logits

    return Configured()


@of("image")
def logarithms():
    """Scores that are NaN for every example."""

    class Logarithms(Returns):
        def forward(self, x: Tensor) -> Tensor:
            return torch.log(self.parts(x)[0] - 9)

    return Logarithms()


@refused("which of them are the logits")
def early_exits():
    class Exits(Returns):
        def forward(self, x: Tensor) -> list[Tensor]:
            logits, hidden = self.parts(x)
            return [logits, self.head(-hidden)]

    return Exits()


@refused("them is needed. For two classes")
def one_output():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 1), nn.Sigmoid())


@refused("one row of 4 scores is needed")
def maps_of_scores():
    return nn.Sequential(nn.Conv2d(1, CLASSES, 3), nn.AdaptiveAvgPool2d(1))


@refused("quantised layers pack their numbers")
def quantised():
    layers = nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    return torch.ao.quantization.quantize_dynamic(layers, {nn.Linear}, dtype=torch.qint8)


@refused("under `if self.training` alone")
def counts_calls():
    class Counts(Returns):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return self.parts(x / self.calls)[0]

    return Counts()


@refused("random")
def active_dropout():
    class Noisy(Returns):
        def forward(self, x: Tensor) -> Tensor:
            return self.parts(functional.dropout(x, 0.5, training=True))[0]

    return Noisy()


@refused("batch")
def batch_statistics():
    class Centred(Returns):
        def forward(self, x: Tensor) -> Tensor:
            return self.parts(x - x.mean(0, keepdim=True))[0]

    return Centred()


@refused("batch")
def norm_without_statistics():
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64, track_running_stats=False), nn.Linear(64, CLASSES))


@refused("one tensor")
def two_inputs():
    class Two(Returns):
        def forward(self, x: Tensor, other: Tensor) -> Tensor:
            return self.parts(x + other)[0]

    return Two()


@refused("one row of")
def one_logit_for_each_row():
    return nn.Linear(8, CLASSES)


@refused("outputs")
def wrong_number_of_classes():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))


@refused("value")
def decides_by_values():
    class Decides(Returns):
        def forward(self, x: Tensor) -> Tensor:
            if x.sum() > 0:
                x = -x
            return self.parts(x)[0]

    return Decides()


@refused("raises")
def fails():
    class Fails(Returns):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError("this network raises")

    return Fails()

"""Small networks from elsewhere with every layer and spelling that is understood, against torch itself."""

import msgspec
import pytest
import torch
from torch import nn
from torch.nn import functional

from genepool.errors import DataError
from genepool.export import read_foreign
from genepool.nn import Model
from tests.support.foreign_networks import save_onnx, save_pt2, seeded

FORMS = ("onnx", "pt2", pytest.param("core.pt2", marks=pytest.mark.thorough))


def saved(network, path, image=(3, 16, 16), form="pt2"):
    images = torch.zeros(2, *image)
    if form == "onnx":
        save_onnx(network, images, path / "model.onnx")
        return path / "model.onnx"
    save_pt2(network, images, path / "model.pt2", core=form == "core.pt2")
    return path / "model.pt2"


def imported(network, path, image=(3, 16, 16), form="pt2"):
    """The imported network after a comparison on other noise than that of the import."""
    found = read_foreign(saved(network, path, image, form))
    model = Model(found.dna, found.image, found.classes, torch.Generator().manual_seed(3))
    model.load_state_dict(found.tensors)
    images = torch.rand(2, *image, generator=torch.Generator().manual_seed(7)) * 2
    mean, std = ((0.0,) * 3, (1.0,) * 3) if found.mean is None else (found.mean, found.std)
    normalised = (images - torch.tensor(mean).view(-1, 1, 1)) / torch.tensor(std).view(-1, 1, 1)
    with torch.no_grad():
        ours, theirs = model.eval()(normalised), network(images)
    assert theirs.std() > 1e-3
    if torch.allclose(theirs.sum(1), torch.ones(2), atol=1e-5):
        ours = torch.softmax(ours, 1)
    assert torch.allclose(ours, theirs, atol=1e-4, rtol=1e-4)
    return found


class Net(nn.Module):
    """Layers, a function of their value, global pooling and a classifier."""

    def __init__(self, *layers, between=None, channels=8):
        super().__init__()
        self.layers, self.between, self.last = nn.Sequential(*layers), between, nn.Linear(channels, 5)

    def forward(self, x):
        y = self.layers(x)
        y = y if self.between is None else self.between(y)
        return self.last(functional.adaptive_avg_pool2d(y, 1).flatten(1))


class Pad(nn.Module):
    def __init__(self, *pads, value=0.0):
        super().__init__()
        self.pads, self.value = pads, value

    def forward(self, x):
        return functional.pad(x, self.pads, value=self.value)


def stem(channels=8, **options):
    return nn.Conv2d(3, channels, 3, padding=1, **options)


def net(*layers, between=None, channels=8):
    return seeded(Net(*layers, between=between, channels=channels))


def option_a(x):
    """The shortcut of the first residual networks: every second pixel, and channels of zeros."""
    return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, 8))


class Shortcut(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.body = stem(), nn.Conv2d(8, 16, 3, 2, 1, bias=False)

    def forward(self, x):
        x = functional.relu(self.stem(x))
        return functional.relu(self.body(x) + option_a(x))


class Twice(nn.Module):
    """A value is added to itself, and two convolutions of one value are."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.Conv2d(8, 8, 1, bias=False)

    def forward(self, x):
        x = x + x
        return self.a(x) + self.b(x) + x


class Gates(nn.Module):
    """Squeeze-and-excitation."""

    def __init__(self, layer, act, gate):
        super().__init__()
        self.layer, self.act, self.gate = layer, act, gate
        size = (1, 1) if layer is nn.Conv2d else ()
        self.reduce, self.expand = layer(8, 3, *size[:1]), layer(3, 8, *size[:1])

    def forward(self, x):
        if self.layer is nn.Conv2d:
            return x * self.gate(self.expand(self.act(self.reduce(x.mean((2, 3), keepdim=True)))))
        y = self.gate(self.expand(self.act(self.reduce(functional.adaptive_avg_pool2d(x, 1).flatten(1)))))
        return x * y.view(-1, 8, 1, 1)


class Viewed(nn.Module):
    """Flattens by the size of the batch, which becomes an operator of its own."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(8, 4)

    def forward(self, x):
        return self.last(functional.avg_pool2d(x, 16).view(x.size(0), -1))


class Head(nn.Module):
    def __init__(self, head):
        super().__init__()
        self.stem, self.head = stem(), head

    def forward(self, x):
        return self.head(functional.relu(self.stem(x)))


def exact_gelu(x):
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


NETWORKS = {
    "bias and rectifier": net(stem(), nn.ReLU()),
    "batch normalisation of another epsilon": net(stem(bias=False), nn.BatchNorm2d(8, eps=0.1), nn.ReLU()),
    "batch normalisation without weights": net(stem(), nn.BatchNorm2d(8, affine=False), nn.ReLU6()),
    "normalisation before convolution": net(stem(), nn.ReLU(), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 1)),
    "leaky rectifiers": net(stem(), nn.BatchNorm2d(8), nn.LeakyReLU(0.2), nn.Conv2d(8, 8, 1), nn.LeakyReLU(0.1)),
    "relu6": net(stem(), nn.ReLU6()),
    "other bounds": net(stem(), nn.Hardtanh(-0.5, 0.7)),
    "silu": net(stem(), nn.BatchNorm2d(8), nn.SiLU()),
    "x times sigmoid(x)": net(stem(), between=lambda x: x * torch.sigmoid(x)),
    "gelu": net(stem(), nn.BatchNorm2d(8), nn.GELU()),
    "gelu in parts": net(stem(), between=exact_gelu),
    "hard swish": net(stem(), nn.BatchNorm2d(8), nn.Hardswish()),
    "hard swish in parts": net(stem(), between=lambda x: x * functional.relu6(x + 3) / 6),
    "hard swish in other parts": net(stem(), between=lambda x: x * (functional.relu6(x + 3) / 6)),
    "hard swish from a gate": net(stem(), between=lambda x: x * functional.hardsigmoid(x)),
    "groups": net(stem(), nn.Conv2d(8, 8, 3, 1, 1, groups=2), nn.Conv2d(8, 16, 3, 1, 1, groups=8), channels=16),
    "depthwise": net(stem(), nn.Conv2d(8, 8, 5, stride=2, padding=2, groups=8, bias=False), nn.ReLU()),
    "padding at the end": net(stem(), Pad(0, 1, 0, 1), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU()),
    "more padding at the end": net(stem(), Pad(1, 2, 1, 2), nn.Conv2d(8, 8, 5, stride=2, groups=8), nn.ReLU()),
    "dilation": net(stem(), nn.Conv2d(8, 8, 3, padding=2, dilation=2), nn.ReLU()),
    "oblong filters": net(stem(), nn.Conv2d(8, 8, (1, 5), padding=(0, 2)), nn.Conv2d(8, 8, (3, 1), padding=(1, 0))),
    "even filters": net(stem(), nn.Conv2d(8, 8, 2, stride=2), nn.ReLU(), nn.Conv2d(8, 8, 4, stride=4)),
    "padding to one side": net(stem(), Pad(2, 0, 2, 0), nn.Conv2d(8, 8, 3), nn.ReLU()),
    "max pooling": net(stem(), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 1), nn.MaxPool2d(3, 2, 1)),
    "padded max pooling": net(stem(), nn.ReLU(), Pad(1, 1, 1, 1), nn.MaxPool2d(3, 2), nn.Conv2d(8, 8, 1)),
    "average pooling": net(stem(), nn.AvgPool2d(2), nn.AvgPool2d(3, 1, 1, count_include_pad=False), nn.ReLU()),
    "average with zeros": net(stem(), nn.AvgPool2d(3, 2, 1), nn.ReLU()),
    "adaptive average": net(stem(), nn.AdaptiveAvgPool2d(4), nn.ReLU()),
    "a shortcut of pixels and zeros": net(Shortcut(), channels=16),
    "values added twice": net(stem(), nn.ReLU(), Twice(), nn.ReLU()),
    "constants": net(stem(), between=lambda x: 1 - x * 0.5 + torch.arange(8.0).view(1, 8, 1, 1)),
    "gates by convolutions": net(stem(), nn.SiLU(), Gates(nn.Conv2d, functional.silu, torch.sigmoid)),
    "gates by linear layers": net(stem(), Gates(nn.Linear, functional.relu, torch.sigmoid), nn.Conv2d(8, 8, 1)),
    "hard gates": net(stem(), nn.Hardswish(), Gates(nn.Conv2d, functional.relu, functional.hardsigmoid)),
    "dropout and softmax": seeded(nn.Sequential(net(stem(), nn.Dropout(0.5), nn.ReLU()), nn.Softmax(1))),
    "the mean of two axes": seeded(Head(lambda x: x.mean((2, 3)))),
    "a view of known size": seeded(Head(Viewed())),
    "two hidden layers": seeded(Head(nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 12), nn.ReLU(), nn.Dropout(), nn.Linear(12, 6),
        nn.Hardswish(), nn.Linear(6, 4),
    ))),
    "layers on all pixels": seeded(Head(nn.Sequential(
        nn.MaxPool2d(2), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 12), nn.ReLU(), nn.Linear(12, 4),
    ))),
    "a convolution as classifier": seeded(Head(nn.Sequential(
        nn.Conv2d(8, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    ))),
    "a rectified convolution as classifier": seeded(Head(nn.Sequential(
        nn.Conv2d(8, 4, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LogSoftmax(1),
    ))),
    "a pool as large as the image": seeded(Head(nn.Sequential(nn.AvgPool2d(16), nn.Flatten(), nn.Linear(8, 4)))),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NETWORKS)
def test_an_imported_network_answers_like_the_original(name, form, tmp_path):
    if name == "a rectified convolution as classifier":
        found = read_foreign(saved(NETWORKS[name], tmp_path, form=form))
        assert found.largest_difference < 1e-4
        return
    imported(NETWORKS[name], tmp_path, form=form)


def test_layers_are_fused(tmp_path):
    layers = (stem(bias=False), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.BatchNorm2d(8))
    found = imported(net(*layers), tmp_path)
    assert found.dna.in_a_line() == "C3x3+BN+R6 DC3x3+BN"


@pytest.mark.parametrize("size", [9, pytest.param(12, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_is_exact_or_refused(size, kernel, stride, tmp_path):
    """Every padding of a small convolution on an image of any size."""
    for before in range(kernel + 1):
        for after in range(kernel + 1):
            out = (size + before + after - kernel) // stride + 1
            network = net(stem(4), Pad(before, after, before, after), nn.Conv2d(4, 4, kernel, stride), channels=4)
            if out == -(-size // stride):
                imported(network, tmp_path, (3, size, size))
            else:
                with pytest.raises(DataError, match="rounding up"):
                    read_foreign(saved(network, tmp_path, (3, size, size)))


REFUSED = {
    "a stride of 3": (net(stem(), nn.Conv2d(8, 8, 3, 3)), "one power of 2"),
    "no padding": (net(nn.Conv2d(3, 8, 3)), "16x16 pixels into 14x14"),
    "concatenation": (net(stem(4), between=lambda x: torch.cat([x, x], 1)), "concatenates"),
    "a product of values": (net(stem(), between=lambda x: x * x.relu()), "multiplies two values"),
    "another function": (net(stem(), nn.ELU()), "no layer for"),
    "an approximate gelu": (net(stem(), nn.GELU(approximate="tanh")), "exact|multiplies"),
    "a max pool elsewhere": (net(stem(), nn.MaxPool2d(3, 2, 0, ceil_mode=True)), "no pool of Genepool"),
    "transposed convolution": (net(stem(), nn.ConvTranspose2d(8, 8, 2, 2)), "no layer"),
    "reflection": (net(stem(), nn.ReflectionPad2d(1), nn.Conv2d(8, 8, 3)), "no layer|something else than a constant"),
    "sigmoid at the end": (nn.Sequential(net(stem()), nn.Sigmoid()), "probability of its own"),
    "a map as output": (nn.Sequential(stem()), "not one number per class"),
    "four channels": (seeded(nn.Sequential(nn.Conv2d(4, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())), "4 channels"),
    "weights that are not finite": (net(stem(), nn.Conv2d(8, 8, 1)), "not finite"),
}  # fmt: skip
REFUSED["weights that are not finite"][0].layers[1].weight.data[0, 0] = float("nan")


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_expressed_is_refused_in_one_sentence(name, tmp_path):
    network, said = REFUSED[name]
    image = (4, 16, 16) if name == "four channels" else (3, 16, 16)
    for form in ("onnx", "pt2"):
        with pytest.raises(DataError, match=said) as refusal:
            read_foreign(saved(network, tmp_path, image, form))
        text = str(refusal.value)
        assert "\n" not in text and text.endswith(".") and text.startswith("The model '")


class Preprocessed(nn.Module):
    """A network that normalises images itself."""

    def __init__(self, prepare):
        super().__init__()
        self.prepare, self.network = prepare, net(stem(bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def forward(self, x):
        return torch.softmax(self.network(self.prepare(self, x)), 1)


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PREPARATIONS = {
    "bytes, channels last": (
        lambda m, x: (x.permute(0, 3, 1, 2).float() / 255 - m.mean) / m.std, torch.uint8, MEAN, STD,
    ),
    "bytes, channels first": (lambda m, x: (x.float() / 255 - m.mean) / m.std, torch.uint8, MEAN, STD),
    "floats up to 1": (lambda m, x: (x - m.mean) / m.std, torch.float32, MEAN, STD),
    "floats up to 255": (lambda m, x: x / 127.5 - 1, torch.float32, (0.5,) * 3, (0.5,) * 3),
    "floats up to 255, otherwise": (
        lambda m, x: (x - 127) * (1 / 128), torch.float32, (127 / 255,) * 3, (128 / 255,) * 3,
    ),
    "bytes as they are": (lambda m, x: x.float(), torch.uint8, (0.0,) * 3, (1 / 255,) * 3),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PREPARATIONS)
def test_normalisation_in_the_network_becomes_mean_and_std(name, form, tmp_path):
    prepare, dtype, mean, std = PREPARATIONS[name]
    shape = (2, 16, 16, 3) if name == "bytes, channels last" else (2, 3, 16, 16)
    images, path = torch.zeros(shape, dtype=dtype), tmp_path / f"model.{form}"
    network = Preprocessed(prepare).eval()
    if form == "onnx":
        save_onnx(network, images, path)
    else:  # the decomposition of permute makes assumptions about memory
        save_pt2(network, images, path, core=form == "core.pt2" and shape[1] == 3)
    found = read_foreign(path)
    assert found.mean == pytest.approx(mean, abs=1e-6) and found.std == pytest.approx(std, abs=1e-6)
    assert found.dna.in_a_line() == "C3x3+BN+R" or form == "onnx"


def test_an_imported_dna_can_be_written_and_read(tmp_path):
    from genepool.dna import codec

    found = imported(NETWORKS["gates by convolutions"], tmp_path)
    assert codec.decode(codec.encode(found.dna)) == found.dna
    assert msgspec.json.decode(codec.encode(found.dna))["version"] == 1

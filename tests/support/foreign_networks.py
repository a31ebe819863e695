"""Networks as others write them, plainly in torch, with random weights and random statistics."""

import copy
import io
import warnings

import onnx
import torch
from torch import nn
from torch.nn import functional


def seeded(network, seed=0):
    """The network in evaluation mode with random weights and statistics, so that no layer is nearly the identity."""
    rng = torch.Generator().manual_seed(seed)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
            for tensor, low, high in (
                (module.weight, 0.3, 0.9), (module.bias, -0.5, 0.5), (module.running_mean, -0.5, 0.5),
                (module.running_var, 0.5, 2.0),
            ):  # fmt: skip
                if tensor is not None:
                    tensor.data = torch.rand(tensor.shape, generator=rng) * (high - low) + low
        elif isinstance(module, nn.Conv2d | nn.Linear):
            fan_in = module.weight[0].numel()
            module.weight.data = torch.randn(module.weight.shape, generator=rng) * (2 / fan_in) ** 0.5
            if module.bias is not None:
                module.bias.data = torch.randn(module.bias.shape, generator=rng) * 0.2
    return network.eval()


class Block(nn.Module):
    """A residual block with torchvision's names; `wide` makes it a bottleneck."""

    def __init__(self, before, planes, stride, wide):
        super().__init__()
        after = planes * 4 if wide else planes
        sizes = (
            [(before, planes, 1), (planes, planes, 3), (planes, after, 1)]
            if wide
            else [(before, planes, 3), (planes, planes, 3)]
        )
        self.count = len(sizes)
        for number, (into, out, size) in enumerate(sizes, 1):
            strides = stride if size == 3 and (wide or number == 1) else 1
            setattr(self, f"conv{number}", nn.Conv2d(into, out, size, strides, size // 2, bias=False))
            setattr(self, f"bn{number}", nn.BatchNorm2d(out))
        self.downsample = None
        if stride > 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = x
        for number in range(1, self.count + 1):
            y = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(y))
            y = functional.relu(y) if number < self.count else y
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """A residual network (He et al., 2015) with torchvision's names."""

    def __init__(self, counts, wide, classes=1000, width=64):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        before = width
        for stage, count in enumerate(counts):
            planes = width * 2**stage
            blocks = []
            for block in range(count):
                blocks.append(Block(before, planes, 2 if stage and not block else 1, wide))
                before = planes * 4 if wide else planes
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(before, classes)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1))


def resnet(depth, **options):
    counts = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}[depth]
    return seeded(ResNet(counts, depth >= 50, **options))


def save_pt2(network, images, path, *, core=False):
    """Write a `torch.export` program for batches of any size; `core` leaves only core operators."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(network, (images,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        torch.export.save(program.run_decompositions() if core else program, path)


def save_onnx(network, images, path, *, folded=True, opset=17):
    """Write ONNX; `folded` merges batch normalisation into convolutions."""
    file, network = io.BytesIO(), copy.deepcopy(network)
    for module in network.modules():  # writing it for training must not change its statistics
        if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
            module.momentum = 0.0
    mode = torch.onnx.TrainingMode.EVAL if folded else torch.onnx.TrainingMode.TRAINING
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}, "opset_version": opset}
        torch.onnx.export(network, (images,), file, dynamo=False, training=mode, do_constant_folding=folded, **names)
    model = onnx.load_model_from_string(file.getvalue())
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":  # written for training, which other outputs and attributes are for
            del node.output[1:]
            for place in reversed(range(len(node.attribute))):
                if node.attribute[place].name == "training_mode":
                    del node.attribute[place]
    path.write_bytes(model.SerializeToString())

"""resnet-20 as DNA against the same network written plainly in torch."""

import torch
from torch import nn
from torch.nn import functional

from genepool.dna import Shape, zoo
from genepool.nn import Model


class Block(nn.Module):
    """Pre-activation; where the width doubles, the shortcut takes every other pixel and is padded with zeros."""

    def __init__(self, width_in, width, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(width_in, eps=0.001)
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width, eps=0.001)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv1(functional.relu(self.bn1(x)))
        y = self.conv2(functional.relu(self.bn2(y)))
        shortcut = x[:, :, :: self.conv1.stride[0], :: self.conv1.stride[0]]
        return y + functional.pad(shortcut, (0, 0, 0, 0, 0, y.shape[1] - x.shape[1]))


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        widths = [16, 16, 16, 32, 32, 32, 64, 64, 64]
        pairs = zip([16, *widths[:-1]], widths, strict=True)
        self.blocks = nn.ModuleList(Block(a, b, 1 if a == b else 2) for a, b in pairs)
        self.last = nn.BatchNorm2d(64, eps=0.001)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(functional.relu(self.last(x)).mean((2, 3)))


def pairs(ours, theirs):
    """The parameters of both, layer by layer in the order of the computation."""
    by_kind = {
        "conv": ([m for n, m in ours.named_modules() if n.startswith("edge_")], nn.Conv2d),
        "norm": ([m for n, m in ours.named_modules() if n.startswith("vertex_")], nn.BatchNorm2d),
        "head": ([m for n, m in ours.named_modules() if n.startswith("classifier_")], nn.Linear),
    }
    for mine, kind in by_kind.values():
        for a, b in zip(mine, [m for m in theirs.modules() if isinstance(m, kind)], strict=True):
            yield from ((getattr(a, name), p) for name, p in b.named_parameters())


def test_outputs_and_gradients_agree():
    torch.manual_seed(0)
    theirs = ResNet20().double()  # in single precision, sums in another order differ by more than 1e-5
    ours = Model(zoo("resnet-20"), Shape(32, 32, 3), 10, torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        for a, b in pairs(ours, theirs):
            b.add_(torch.randn_like(b) * 0.1)  # so that no scale is 1 and no shift 0
            a.copy_(b)
    images, labels = torch.randn(8, 3, 32, 32, dtype=torch.float64), torch.randint(10, (8,))
    scores = [net(images) for net in (ours, theirs)]
    assert torch.allclose(*scores, atol=1e-5, rtol=1e-5)
    for net, score in zip((ours, theirs), scores, strict=True):
        net.zero_grad()
        functional.cross_entropy(score, labels).backward()
    gradients = [(a.grad, b.grad) for a, b in pairs(ours, theirs)]
    assert len(gradients) == 19 + 2 * 19 + 2
    assert all(torch.allclose(a, b, atol=1e-5, rtol=1e-5) for a, b in gradients)
    assert max(b.abs().max() for _, b in gradients) > 0.01
    for net in (ours, theirs):
        net.eval()
    assert torch.allclose(ours(images), theirs(images), atol=1e-5, rtol=1e-5)

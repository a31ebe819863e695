"""A child computes what its parent computed, for every mutation that can leave the function as it is."""

from random import Random

import pytest
import torch
from msgspec.structs import replace

from genepool.dna import Shape, shapes
from genepool.errors import GenepoolError, MutationError
from genepool.layers import LAYERS, Identity
from genepool.mutations import MUTATIONS, apply
from genepool.nn import Model, inherit_weights
from genepool.nn.inheritance import inherit_function
from tests.support.networks import chain, conv, random_dna

IMAGE = Shape(10, 12, 3)
CLASSES = 5
ENOUGH = 20


def trained(dna, seed):
    """A model with weights and statistics as a training leaves them: none of them as they were drawn."""
    generator = torch.Generator().manual_seed(seed)
    model = Model(dna, IMAGE, CLASSES, generator)
    for module in model.normalisations().values():
        with torch.no_grad():
            for tensor in (module.weight, module.running_var):
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
            for tensor in (module.bias, module.running_mean):
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
    return model.eval()


def difference(parent, child_dna, seed=0):
    """The largest, relative to the outputs, after inheriting and before any training."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(20, IMAGE.channels, IMAGE.height, IMAGE.width, generator=generator)
    child = Model(child_dna, IMAGE, CLASSES, generator)
    inherit_function(child, parent.state_dict(), images)
    with torch.no_grad():
        wanted, found = parent(images), child.eval()(images)
    return float((wanted - found).abs().max() / wanted.abs().max())


def grows(parent, child):
    """Whether nothing shrinks, and no skip brings new channels to old ones: identities have no weights to hide them."""
    old, new = shapes(parent, IMAGE).vertices, shapes(child, IMAGE).vertices
    if any(new[v].channels < old[v].channels or new[v][:2] != old[v][:2] for v in old):
        return False
    for edge in parent.edges:
        into, out = edge.arc
        if isinstance(edge, Identity) and old[into].channels < old[out].channels and new[into] != old[into]:
            return False
    return True


def filters_grow(parent, child):
    return all(
        child.edge[e.id].filter_width >= e.filter_width and child.edge[e.id].filter_height >= e.filter_height
        for e in parent.convs
    )


def passes_through(parent, child):
    """Whether the new vertex takes nothing away: no stride, and no rectifier where something may be negative."""
    [vertex] = {v.id for v in child.vertices} - {v.id for v in parent.vertices}
    [edge] = child.edges_in[vertex]
    before = parent.vertex[edge.from_vertex]
    unstrided = edge.stride == 1
    return unstrided and (child.vertex[vertex].type == "linear" or (before.type == "bn_relu" and before.leakiness == 0))


CAN_PRESERVE = {
    "identity": lambda parent, child: True,
    "alter-learning-rate": lambda parent, child: True,
    "alter-body-rate": lambda parent, child: True,
    "insert-convolution": passes_through,
    "insert-one-to-one": passes_through,
    "grow-convolution": passes_through,
    "alter-number-of-channels": grows,
    "widen": grows,
    "filter-size": filters_grow,
    "insert-depthwise": passes_through,
    "insert-squeeze-excitation": lambda parent, child: True,
    "insert-residual-block": lambda parent, child: True,
    "add-projection": lambda parent, child: True,
}
CANNOT = {
    "alter-stride",  # the same filters see other pixels
    "remove-convolution",
    "remove-skip",
    "add-skip",  # an identity has no weight that could be zero
    "reset-weights",
    "insert-pooling",  # it has no weights
    "alter-operation",  # but two of its changes can: see below
    "make-separable",
    "alter-groups",
    "alter-activation",
    "alter-layer",
    "remove-layer",
    "prune-channels",  # as far as channels follow from others: see test_pruning.py
    "prune-layer",
}


def test_every_mutation_is_spoken_of():
    assert set(MUTATIONS.names()) == CAN_PRESERVE.keys() | CANNOT


@pytest.mark.parametrize("name", CAN_PRESERVE)
def test_the_child_begins_where_its_parent_stopped(name):
    checked = 0
    for seed in range(1000):
        if checked == ENOUGH:
            return
        dna = random_dna(seed, longest=25)
        try:
            child = apply(name, dna, Random(seed))
            parent = trained(dna, seed)
        except (MutationError, GenepoolError):
            continue
        if CAN_PRESERVE[name](dna, child):
            assert difference(parent, child, seed) < 1e-4, seed
            checked += 1
    assert checked == ENOUGH


def test_with_the_papers_rule_a_widened_child_does_not():
    dna = chain(conv("a", depth_factor=4.0), conv("b"))
    wider = dna.edited(put=[conv_of(dna, "a", depth_factor=6.0)])
    parent = trained(dna, 0)
    child = Model(wider, IMAGE, CLASSES, torch.Generator().manual_seed(1))
    inherit_weights(child, parent.state_dict())
    images = torch.randn(20, 3, 10, 12, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        assert not torch.allclose(parent(images), child.eval()(images), atol=0.05)
    assert difference(parent, wider) < 1e-4


def test_what_is_new_can_learn():
    """New channels are silent, not dead: after a step of gradient descent they speak."""
    dna = chain(conv("a", depth_factor=4.0), conv("b"))
    wider = dna.edited(put=[conv_of(dna, "a", depth_factor=6.0)])
    parent, generator = trained(dna, 0), torch.Generator().manual_seed(1)
    child, images = Model(wider, IMAGE, CLASSES, generator), torch.randn(20, 3, 10, 12, generator=generator)
    inherit_function(child, parent.state_dict(), images)
    loss = torch.nn.functional.cross_entropy(child.train()(images), torch.arange(20) % CLASSES)
    names = [name for name, _ in child.named_parameters()]
    gradients = dict(zip(names, torch.autograd.grad(loss, list(child.parameters())), strict=True))
    assert gradients["edge_b.weight"][:12, 12:].abs().min() > 0
    assert gradients[f"classifier_{wider.output}.weight"][:, 12:].abs().min() > 0


def test_a_child_with_smaller_filters_keeps_their_middle():
    dna = chain(conv("a", depth_factor=4.0, filter_half_width=2.0))
    smaller = dna.edited(put=[conv_of(dna, "a", filter_half_width=1.0)])
    parent = trained(dna, 0)
    child = Model(smaller, IMAGE, CLASSES, torch.Generator().manual_seed(1))
    inherit_function(child, parent.state_dict(), torch.randn(4, 3, 10, 12))
    old, new = parent.state_dict(), child.state_dict()
    assert torch.equal(new["edge_a.weight"], old["edge_a.weight"][:, :, :, 1:4])


@pytest.mark.parametrize(
    ("before", "after"),
    [("separable_conv", "conv"), ("depthwise_conv", "conv"), ("depthwise_conv", "separable_conv")],
)
def test_a_convolution_that_becomes_a_more_general_one_computes_the_same(before, after):
    ends = {"id": "b", "from_vertex": "x", "to_vertex": "x"}
    old, new = (chain(conv("a", depth_factor=4.0), LAYERS.get(kind)(**ends)) for kind in (before, after))
    assert difference(trained(old, 0), new) < 1e-4


def test_a_new_branch_adds_nothing_and_learns():
    dna = chain(conv("a", depth_factor=4.0), conv("b"))
    parent, generator = trained(dna, 0), torch.Generator().manual_seed(1)
    images = torch.randn(20, 3, 10, 12, generator=generator)
    for name in ("add-projection", "insert-residual-block"):
        child = Model(apply(name, dna, Random(1)), IMAGE, CLASSES, generator)
        inherit_function(child, parent.state_dict(), images)
        loss = torch.nn.functional.cross_entropy(child.train()(images), torch.arange(20) % CLASSES)
        silent = [p for p in child.parameters() if p.ndim == 4 and not p.any()]
        assert silent and all(gradient.any() for gradient in torch.autograd.grad(loss, silent))


def conv_of(dna, name, **changes):
    return replace(dna.edge[name], **changes)

"""Random networks of every kind through every format: written, loaded by the format's own means, read by ours."""

from random import Random

import msgspec
import numpy as np
import pytest
import torch

from genepool.data import Dataset
from genepool.dna import Shape, codec, requirements
from genepool.export import (
    FORMATS,
    Facts,
    Member,
    Search,
    build,
    compare,
    digest_of,
    original_answers,
    read_model,
    restore,
)
from genepool.layers import BatchNormRelu
from genepool.nn import Model
from tests.support.networks import IMAGES, affordable, random_dna

SIZES = (*IMAGES, Shape(6, 9, 1), Shape(31, 14, 3))
NAMES = {"torch": "model.pt2", "onnx": "model.onnx", "source": "model"}
CLASSES = {2: ("no", "yes"), 10: tuple("abcdefghij"), 3: ('"""', "a\\'\n", "日本 🎈")}


def dataset(image: Shape, classes: tuple[str, ...], images: int = 23, seed: int = 0) -> Dataset:
    """Noise of that shape; what its classes are does not matter here."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (images, *image), dtype=np.uint8)
    labels = rng.integers(0, len(classes), images)
    return Dataset(
        name="noise", classes=classes, height=image.height, width=image.width, channels=image.channels, pad=0,
        flip=False, mean=(0.5, 0.4, 0.3)[: image.channels], std=(0.3, 0.25, 0.2)[: image.channels],
        train_pixels=pixels, train_labels=labels, validation_pixels=pixels, validation_labels=labels,
    )  # fmt: skip


def state_of(dna, image, classes, seed=0):
    """Weights as after some training: nothing is left at 0 or 1."""
    rng = torch.Generator().manual_seed(seed)
    state = Model(dna, image, classes, rng).state_dict()
    for name, tensor in state.items():
        if name.startswith("vertex_") or name.endswith("bias"):
            tensor.uniform_(0.5, 1.5, generator=rng)
    return state


def taken(dnas, data):
    """What `genepool.experiment.best.model_to_export` makes of individuals, without an experiment."""
    states = [state_of(dna, data.image, len(data.classes), seed) for seed, dna in enumerate(dnas)]
    members = [
        Member(
            id=f"i{number}", network=dna.in_a_line(), fitness=0.5, flops=1, lineage=(),
            parameters=requirements(dna, data.image, len(data.classes), 1).parameters, dna=codec.encode(dna),
        )
        for number, dna in enumerate(dnas)
    ]  # fmt: skip
    facts = Facts(
        name="test", data=data.name, classes=data.classes, height=data.height, width=data.width,
        channels=data.channels, mean=data.mean, std=data.std, members=tuple(members),
        search=Search(individuals=3, flops=10**9, seconds=61.0),
    )  # fmt: skip
    network = build(facts, states)
    originals = [restore(member, facts, state) for member, state in zip(members, states, strict=True)]
    return msgspec.structs.replace(facts, digest=digest_of(network.state_dict())), originals, network


def round_trip(dnas, data, name, folder):
    """Writes, compares as a stranger, reads; returns the path."""
    facts, originals, network = taken(dnas, data)
    path = folder / NAMES[name]
    FORMATS[name].write(network, facts, path)
    answers = original_answers(originals, data)
    agreement = compare(answers, FORMATS[name].load(path), data)
    assert agreement.images == len(data.validation_labels)
    read, ours = read_model(path)
    assert read == facts
    again = ours.predict(data.validation_pixels)
    assert (again.argmax(1) == answers.argmax(1)).all()
    assert np.abs(again - answers).max() < 1e-4
    return path


def cases(count):
    """Random networks, each with another image; together they have every kind of layer."""
    found, seed = [], 0
    while len(found) < count:
        rng, dna = Random(seed), random_dna(seed)
        image = SIZES[seed % len(SIZES)]
        if affordable(dna, image, flops=2e8):
            leaky = BatchNormRelu(id=dna.input, leakiness=0.2)
            found.append((dna.edited(put=[leaky]) if seed % 5 == 0 else dna, image, rng.choice(list(CLASSES))))
        seed += 1
    return found


@pytest.mark.parametrize(("name", "count"), [("torch", 8), ("onnx", 80), ("source", 80)])
def test_random_networks_answer_the_same_after_a_round_trip(name, count, tmp_path):
    kinds = set()
    for number, (dna, image, classes) in enumerate(cases(count)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = round_trip([dna], dataset(image, CLASSES[classes]), name, folder)
        kinds |= nodes_of(path) if name == "onnx" else set()
        kinds |= {type(edge).__name__ for edge in dna.edges} | {vertex.type for vertex in dna.vertices}
        kinds |= {"stride" for edge in dna.convs if edge.stride > 1} | {"skip" for _ in dna.skips}
    assert kinds >= {"Conv", "Identity", "linear", "bn_relu", "stride", "skip"}
    if name == "onnx":  # what does not fit its vertex was cut, padded and resized
        assert kinds >= {"Slice", "Pad", "Gather", "LeakyRelu", "Relu", "BatchNormalization"}


def nodes_of(path):
    import onnx

    return {node.op_type for node in onnx.load(path).graph.node}


@pytest.mark.parametrize("name", FORMATS)
def test_an_ensemble_gives_the_mean_of_its_members(name, tmp_path):
    dnas = [dna for dna, _, _ in cases(3)]
    data = dataset(Shape(12, 12, 3), CLASSES[10])
    round_trip(dnas, data, name, tmp_path)


def test_onnx_resizes_to_the_pixels_that_torch_takes_in_whatever_order_they_lie():
    """For all sizes up to 40: ONNX's own Resize takes others for 48 pairs of them."""
    from genepool.export.onnx_file import _nearest

    for old in range(1, 41):
        x = torch.arange(old, dtype=torch.float32).view(1, 1, old, 1).repeat(2, 4, 1, 3)
        for new in range(1, 41):
            y = torch.nn.functional.interpolate(
                x.contiguous(memory_format=torch.channels_last), size=(new, 5), mode="nearest"
            )
            assert (y[1, 3, :, 2].numpy() == _nearest(old, new)).all()


def test_the_source_reads_like_the_network():
    from genepool.export.source_text import source_text
    from genepool.layers import Identity
    from tests.support.networks import chain, conv

    skip = Identity(id="s", from_vertex="v0", to_vertex="v2", depth_precedence=0, scale_precedence=0)
    dna = chain(conv("a", depth_factor=4.0), conv("b", stride_scale=1.0), conv("c", filter_half_width=0.0))
    facts, _, _ = taken([dna.edited(put=[skip])], dataset(Shape(9, 8, 1), ("no", "yes")))
    text = source_text(facts)
    for line in (
        "self.conv1 = nn.Conv2d(1, 4, 3, padding=1, bias=False)",
        "self.conv2 = nn.Conv2d(4, 4, 3, stride=2, padding=1, bias=False)",
        "self.conv3 = nn.Conv2d(4, 4, (3, 1), padding=(1, 0), bias=False)",
        "x1 = functional.relu(self.norm1(self.conv1(x)))  # 4 x 9 x 8",
        "x = functional.relu(self.norm2(self.conv2(x1)))  # 4 x 5 x 4",
        "x = functional.relu(self.norm3(self.conv3(x) + fit(x1, 4, 5, 4)))  # 4 x 5 x 4",
        "x = x.mean((2, 3))  # global average pooling",
        "return self.classify(x)",
    ):
        assert f"        {line}\n" in text, line

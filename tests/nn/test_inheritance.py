"""What children take over, through the evaluator and files as a worker does it, on real images."""

from random import Random

import pytest
import torch

from genepool.data import save_file
from genepool.errors import DataError
from genepool.evaluation import Limits, Training, TrainingRequest
from genepool.layers import Conv, Identity
from genepool.mutations import ELEVEN, apply
from genepool.nn import TorchEvaluator, from_bytes, inherit_weights, read_weights, to_bytes
from tests.support.networks import chain, conv

CPU = torch.device("cpu")
PARENT = chain(conv("a", depth_factor=8.0, stride_scale=1.0), conv("b"), conv("c")).edited(
    put=[Identity(id="s", from_vertex="v0", to_vertex="v2", depth_precedence=0, scale_precedence=0)]
)


def evaluator(data, steps):
    return TorchEvaluator(data, Training(steps=steps), Limits(), CPU)


@pytest.fixture(scope="module")
def parent(fashion, tmp_path_factory):
    evaluation, weights = evaluator(fashion, 150).evaluate(TrainingRequest(PARENT, seed=0))
    path = tmp_path_factory.mktemp("parent") / "weights.safetensors"
    path.write_bytes(weights)
    return path, evaluation


def child_of(parent, fashion, dna, seed=1):
    return (
        evaluator(fashion, 0).evaluate(TrainingRequest(dna, seed=seed, inherited=(read_weights(parent[0]),))).evaluation
    )


@pytest.mark.parametrize("name", ["alter-learning-rate", "identity"])
def test_a_child_with_the_same_network_starts_at_exactly_its_parents_accuracy(name, parent, fashion):
    child = child_of(parent, fashion, apply(name, PARENT, Random(0)))
    assert child.fitness == parent[1].fitness > 0.3
    assert child.fresh == ()
    assert set(child.inherited) == set(from_bytes(read_weights(parent[0])))


def test_filter_size_inherits_everything_but_one_filter(parent, fashion):
    checked = 0
    for seed in range(20):
        dna = apply("filter-size", PARENT, Random(seed))
        [changed] = [e for e in dna.convs if e != PARENT.edge[e.id]]
        old = PARENT.edge[changed.id]
        if (changed.filter_width, changed.filter_height) != (old.filter_width, old.filter_height):
            child = child_of(parent, fashion, dna)
            assert child.fresh == (f"edge_{changed.id}.weight",)
            assert len(child.inherited) == len(from_bytes(read_weights(parent[0]))) - 1
            checked += 1
    assert checked > 5


def test_reset_weights_inherits_nothing(parent, fashion):
    child = child_of(parent, fashion, apply("reset-weights", PARENT, Random(0)))
    assert child.inherited == ()
    assert len(child.fresh) == len(from_bytes(read_weights(parent[0])))


def test_an_inserted_layer_is_fresh_and_all_others_are_inherited(parent, fashion):
    dna = apply("insert-convolution", PARENT, Random(0))
    [new] = [edge for edge in dna.convs if edge.id not in PARENT.edge]
    child = child_of(parent, fashion, dna)
    assert set(child.inherited) == set(from_bytes(read_weights(parent[0])))
    assert all(new.id in name or new.to_vertex in name for name in child.fresh)


@pytest.mark.parametrize("name", ELEVEN)
def test_a_tensor_is_inherited_exactly_where_name_and_shape_agree(name, parent, fashion):
    weights = from_bytes(read_weights(parent[0]))
    dna = apply(name, PARENT, Random(4))
    model = evaluator(fashion, 0).unfold(dna, seed=9)
    drawn = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    answer = inherit_weights(model, weights)
    for key, tensor in model.state_dict().items():
        matches = key in weights and weights[key].shape == tensor.shape
        assert (key in answer.inherited) == matches
        assert torch.equal(tensor, weights[key] if matches else drawn[key])


def test_weights_come_back_as_they_were(fashion, tmp_path):
    model = evaluator(fashion, 0).unfold(PARENT, seed=0)
    save_file(tmp_path / "w", to_bytes(model.state_dict()), "weights")
    again = from_bytes(read_weights(tmp_path / "w"))
    assert again.keys() == model.state_dict().keys()
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in again.items())
    assert [path.name for path in tmp_path.iterdir()] == ["w"]


DAMAGE = {
    "cut in half": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "header larger than the file": lambda data: b"\xff" * 8 + data[8:],
    "no JSON": lambda data: data[:8] + b"x" * 40 + data[48:],
    "a pickle": lambda data: b"\x80\x04cos\nsystem\n(S'touch owned'\ntR.",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_weights_file_is_refused_by_name(damage, parent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad").write_bytes(damage(parent[0].read_bytes()))
    with pytest.raises(DataError, match=r"bad' cannot be used.*safetensors"):
        read_weights(tmp_path / "bad")
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


def test_a_missing_or_unwritable_weights_file_is_named(tmp_path):
    with pytest.raises(DataError, match="gone' cannot be read: No such file"):
        read_weights(tmp_path / "gone")
    with pytest.raises(DataError, match=r"cannot be written to .*where': No such file"):
        save_file(tmp_path / "no" / "where", b"", "weights")


def test_conv_weights_of_a_parent_with_other_images_still_fit_where_they_can(parent, fashion):
    """By name and shape alone: the first filter sees other channels, all behind it is as it was."""
    from genepool.dna import Shape
    from genepool.nn import Model

    model = Model(PARENT.edited(put=[_wider(PARENT.edge["a"])]), Shape(8, 8, 2), 10, torch.Generator())
    assert inherit_weights(model, from_bytes(read_weights(parent[0]))).fresh == ("edge_a.weight",)


def _wider(edge):
    from msgspec.structs import replace

    assert isinstance(edge, Conv)
    return replace(edge, depth_factor=4.0)

"""The contract of a kind of layer as a test suite: what it says about itself is true of its tensors, in training,
inheritance, validation and exported models.

Subclass `LayerContract` in a test module and give it a fixture `kind`:

    class TestMyLayer(LayerContract):
        @pytest.fixture
        def kind(self):
            return MyLayer

The fixture `examples` has a layer with the kind's own numbers and some with random ones; override it if a kind has
fields without a default, or if random numbers make no sense.
"""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import msgspec
import pytest
import torch
from msgspec.structs import replace

from genepool.dna import DNA, Shape, decode, encode, requirements, shapes
from genepool.errors import InvalidDNAError, ModelTooLargeError
from genepool.export import FORMATS
from genepool.layers import LAYERS, BatchNormRelu, Conv, Edge, Vertex, plugin_kinds
from genepool.mutations import fuse
from genepool.nn import fused, inherit_function, inherit_weights, mixed
from genepool.testing.layer_checks import (
    BATCH,
    CHANNELS,
    CLASSES,
    IMAGE,
    LAYER,
    TOLERANCE,
    classified,
    counter,
    difference,
    example_layers,
    fresh,
    gaining,
    in_a_chain,
    mutated,
    needs,
    noise,
    plainly,
    round_trip,
    settled,
    training,
    with_skips,
    without,
)

MOST_FLOPS = 2e8
"""Larger networks that mutations make are not computed."""

Kind = type[Edge] | type[Vertex]
Examples = list[Edge | Vertex]


class LayerContract:
    """Tests of what `genepool.layers.base.Layer` promises."""

    @pytest.fixture
    def kind(self) -> Kind:
        """Return the kind; subclasses override this."""
        raise NotImplementedError("Give your subclass of LayerContract a fixture called `kind`.")

    @pytest.fixture
    def examples(self, kind: Kind) -> Examples:
        return example_layers(kind)

    @pytest.fixture
    def networks(self, examples: Examples) -> list[DNA]:
        return [form(layer) for layer in examples for form in (in_a_chain, with_skips)]

    # The DNA

    def test_it_is_registered_under_the_name_in_its_dna(self, kind: Kind) -> None:
        assert LAYERS.get(str(kind.__struct_config__.tag)) is kind

    def test_the_dna_survives_json(self, networks: list[DNA]) -> None:
        for dna in networks:
            assert decode(encode(dna)) == dna
            assert encode(decode(encode(dna))) == encode(dna)

    def test_numbers_out_of_bounds_are_refused(self, examples: Examples) -> None:
        dna, layer = in_a_chain(examples[0]), examples[0]
        for name, (low, high) in layer.BOUNDS.items():
            for value in (low - 1, high * 1.001 + 1, math.nan, math.inf, -math.inf):
                with pytest.raises(InvalidDNAError, match=name):
                    dna.edited(put=[replace(layer, **{name: value})])
            for value in (low, high):
                dna.edited(put=[replace(layer, **{name: value})])

    def test_fields_that_it_lacks_are_refused_or_kept(self, kind: Kind, examples: Examples) -> None:
        """A plugin's kind may have more fields in another version, so its layer becomes a placeholder."""
        document = msgspec.json.decode(encode(in_a_chain(examples[0])))
        for layer in (*document["vertices"], *document["edges"]):
            if layer["id"] == LAYER:
                layer["unheard_of"] = 1.0
        if plugin_kinds(examples):
            found = decode(msgspec.json.encode(document))
            assert found.missing_kinds == (str(kind.__struct_config__.tag),)
            assert msgspec.json.decode(encode(found)) == document
            return
        with pytest.raises(InvalidDNAError, match="unheard_of"):
            decode(msgspec.json.encode(document))

    def test_it_is_described_in_a_line(self, examples: Examples) -> None:
        for layer in examples:
            assert layer.title and "\n" not in layer.symbol + layer.label + layer.title
            assert bool(layer.symbol) == bool(layer.label)
            assert layer.label in in_a_chain(layer).in_a_line()

    # Shapes, parameters, FLOPs

    def test_shapes_and_parameters_are_as_predicted(self, networks: list[DNA]) -> None:
        for dna in networks:
            model, sizes = settled(dna), shapes(dna, IMAGE)
            for name, value in plainly(model, noise()).items():
                predicted = sizes.edges[name] if name in sizes.edges else sizes.vertices[name]
                assert tuple(value.shape) == (BATCH, predicted.channels, predicted.height, predicted.width)
            assert sum(p.numel() for p in model.parameters()) == needs(dna).parameters

    def test_flops_are_those_that_torch_counts(self, networks: list[DNA]) -> None:
        for dna in networks:
            model, predicted = settled(dna), needs(dna)
            with counter() as forward:
                model(noise())
            with counter() as training:
                model(noise()).sum().backward()
            assert forward.get_total_flops() == predicted.forward.convolution + predicted.forward.matrix
            assert training.get_total_flops() == predicted.training.convolution + predicted.training.matrix

    def test_requirements_are_integers_that_grow_with_the_batch(self, examples: Examples) -> None:
        for layer in examples:
            for field in ("kept", "buffers"):
                value = getattr(layer, field)(Shape(9, 7, CHANNELS))
                assert isinstance(value, int) and value >= 0
            assert layer.multiplications(Shape(9, 7, CHANNELS)) >= 0
            one, two = (requirements(in_a_chain(layer), IMAGE, CLASSES, batch) for batch in (1, 2))
            assert one.parameters == two.parameters
            assert one.memory <= two.memory and one.forward.total < two.forward.total

    # Training

    def test_gradients_reach_every_weight(self, networks: list[DNA]) -> None:
        """A rectifier may be closed for all images, so each weight is reached in at least one of several networks."""
        for dna in networks:
            reached: set[str] = set()
            for seed in range(5):
                model = settled(dna, seed)
                model(noise(count=32)).square().sum().backward()
                gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
                assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients.values())
                reached |= {name for name, gradient in gradients.items() if gradient is not None and gradient.any()}
                if reached == set(gradients):
                    break
            assert reached == set(gradients)

    def test_no_layer_changes_a_value_that_others_need(self, networks: list[DNA]) -> None:
        """Each network computes what its layers compute one by one, on copies; the images stay what they are."""
        for dna in networks:
            for model in (settled(dna).train(), settled(dna).eval()):
                images = noise()
                found = model(images)
                assert torch.equal(images, noise())
                assert torch.equal(found, classified(model, plainly(model, noise())[dna.output]))

    def test_a_checkpoint_resumes_bit_for_bit(self, networks: list[DNA]) -> None:
        for dna in networks:
            run, other = training(dna, 0), training(dna, 1)
            for _ in range(2):
                run.step()
            other.resume(run.checkpoint())
            for _ in range(2):
                run.step()
                other.step()
            state, again = run.model.state_dict(), other.model.state_dict()
            assert all(torch.equal(state[name], again[name]) for name in state)

    def test_folding_for_validation_changes_nothing(self, networks: list[DNA]) -> None:
        for dna in networks:
            model = settled(dna).eval()
            with torch.no_grad():
                wanted = model(noise())
            assert difference(wanted, model.for_validation()(noise())) < TOLERANCE

    # Inheritance

    def test_the_same_network_inherits_everything(self, networks: list[DNA]) -> None:
        for dna in networks:
            parent, child = settled(dna).eval(), fresh(dna)
            found = inherit_function(child, parent.state_dict(), noise())
            assert not found.fresh
            assert torch.equal(parent(noise()), child.eval()(noise()))

    def test_a_child_that_gains_it_computes_what_its_parent_did(self, examples: Examples) -> None:
        for layer in examples:
            parent, child = settled(without(layer)).eval(), fresh(gaining(layer))
            inherit_function(child, parent.state_dict(), noise())
            wanted, found = parent(noise()), child.eval()(noise())
            assert found.isfinite().all()
            if layer.passes_on(shapes(parent.dna, IMAGE).vertices["first"]):
                assert difference(wanted, found) < TOLERANCE

    def test_tensors_of_other_shapes_and_kinds_are_taken_over_or_left(self, examples: Examples) -> None:
        """A mutation may have changed the channels before it, its own numbers, or the kind under its ID."""
        for layer in examples:
            dna = in_a_chain(layer)
            other_kind: Edge | Vertex = BatchNormRelu(id=LAYER)
            if isinstance(layer, Edge):
                other_kind = Conv(id=LAYER, from_vertex=layer.from_vertex, to_vertex=layer.to_vertex)
            wide = dna.edited(put=[replace(dna.edge["start"], depth_factor=2 * CHANNELS / IMAGE.channels)])
            for other in (wide, in_a_chain(examples[-1]), dna.edited(put=[other_kind])):
                for parent, child in ((dna, other), (other, dna)):
                    model = fresh(child)
                    inherit_function(model, settled(parent).state_dict(), noise())
                    assert model.eval()(noise()).isfinite().all()

    def test_two_parents(self, networks: list[DNA]) -> None:
        for dna in networks:
            one, other = settled(dna, 1).eval(), settled(dna, 2).eval()
            both = fuse(dna, dna, IMAGE, Random(0))
            child = fresh(both)
            assert not inherit_weights(child, fused(both, one.state_dict(), other.state_dict()).tensors).fresh
            mean = (one(noise()) + other(noise())) / 2
            assert difference(mean, child.eval()(noise())) < TOLERANCE
            mixture = mixed(fresh(dna), one.state_dict(), other.state_dict(), Random(1))
            for name, tensor in mixture.tensors.items():
                parent = other if name in mixture.second else one
                assert torch.equal(tensor, parent.state_dict()[name])

    # Exported models

    @pytest.mark.parametrize("name", ["onnx", "source"])
    def test_exports_agree_and_are_read_back(self, networks: list[DNA], name: str, tmp_path: Path) -> None:
        for number, dna in enumerate(networks):
            round_trip(dna, name, tmp_path / f"{number}{FORMATS[name].suffix}")

    def test_a_torch_program_agrees_and_is_read_back(self, networks: list[DNA], tmp_path: Path) -> None:
        round_trip(networks[0], "torch", tmp_path / "model.pt2")

    def test_all_torch_programs_agree_and_are_read_back(self, networks: list[DNA], tmp_path: Path) -> None:
        for number, dna in enumerate(networks):
            round_trip(dna, "torch", tmp_path / f"{number}.pt2")

    # Mutations

    @pytest.mark.parametrize("count", [40, 2000])
    def test_random_mutations_stay_valid_and_computable(self, examples: Examples, count: int) -> None:
        rng, computed = Random(count), 0
        for number in range(count):
            if number % 20 == 0:
                layer = rng.choice(examples)
                dna = in_a_chain(layer)
            child = mutated(dna, layer, rng)
            assert decode(encode(child)) == child
            try:
                predicted = needs(child)
            except ModelTooLargeError:
                continue
            dna = child
            if predicted.training.total < MOST_FLOPS:
                model = fresh(child)
                with torch.no_grad():
                    assert model(noise()).shape == (BATCH, CLASSES)
                assert sum(p.numel() for p in model.parameters()) == predicted.parameters
                computed += 1
        assert computed > count / 2

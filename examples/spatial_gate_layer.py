"""A custom layer, a gate for each place of an image, and the mutation `insert-spatial-gate`, which adds it."""

from msgspec.structs import replace

from genepool.layers import LAYERS, Flops, Identity, Vertex, Weight
from genepool.mutations import MUTATIONS, new_id
from genepool.mutations.paper import split


@LAYERS.register("spatial_gate")
class SpatialGate(Vertex, frozen=True, kw_only=True, tag="spatial_gate"):
    """Multiplies each place by a number from 0 to 2, which a convolution computes from the channel means around it."""

    SYMBOL = "SG"

    def weights(self, source):
        return {"weight": Weight((1, 1, 5, 5), "zeros", axes=("gate", "mean"))}

    def passes_on(self, source):
        return True  # weights of 0 make all gates 1

    def flops(self, source, batch):
        n, places = batch * source.values, batch * source.height * source.width
        return Flops(convolution=2 * 25 * places, elementwise=n + 2 * places, reduction=n)

    def operation(self, tensors):
        from torch import conv2d, sigmoid

        return lambda x: x * (2 * sigmoid(conv2d(x.mean(1, keepdim=True), tensors.weight, padding=2)))

    def source_definition(self, source):
        return "nn.Conv2d(1, 1, 5, padding=2, bias=False)"

    def source_text(self, name, x, source):
        return f"(y := {x}) * (2 * torch.sigmoid(self.{name}(y.mean(1, keepdim=True))))"

    def onnx(self, graph, x, name, tensors, source):
        mean = graph.node("ReduceMean", [x], f"{name}.mean", axes=[1])
        inputs = [mean, graph.weight(f"{name}.weight", tensors["weight"])]
        gate = graph.node("Sigmoid", [graph.node("Conv", inputs, f"{name}.conv", pads=[2, 2, 2, 2])], f"{name}.gate")
        return graph.node("Mul", [x, graph.node("Add", [gate, gate], f"{name}.twice")], name)


@MUTATIONS.register("insert-spatial-gate")
def insert_spatial_gate(dna, rng):
    """Put a gate in front of a random edge of the backbone, which keeps its ID and so its weights."""
    edge, vertex = split(dna, rng)
    into = Identity(id=new_id(dna, rng), from_vertex=edge.from_vertex, to_vertex=vertex.id)
    return dna.edited(put=[SpatialGate(id=vertex.id), into, replace(edge, from_vertex=vertex.id)])

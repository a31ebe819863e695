"""The text of `model.py`: a network in plain torch, layer by layer, for people to read and change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from genepool.export.facts import Facts, Member
from genepool.export.layer_names import CLASSIFY, Step, Term, steps
from genepool.layers import Layer, Shape

WEIGHTS = "weights.safetensors"
WIDEST = 110

HEAD = '''"""An image classifier, evolved by Genepool. It needs only torch, and Pillow to open image files.

    python model.py photo.png ...               prints the three likeliest classes of each image

    import model
    classifier = model.load()
    probabilities = classifier(images)          # images: a uint8 tensor (n, {height}, {width}, {channels}), any n
"""

import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

CLASSES = [
{classes}
]
HEIGHT, WIDTH, CHANNELS = {height}, {width}, {channels}
MEAN, STD = {mean}, {std}  # of each channel, for pixels from 0 to 1
'''

FIT = '''

def fit(x, channels, height, width):
    """Fit x to the values it is added to: cut or zero-pad channels, resize to nearest pixels."""
    x = x[:, :channels]
    if x.shape[2:] != (height, width):
        x = functional.interpolate(x, size=(height, width), mode="nearest")
    return functional.pad(x, (0, 0, 0, 0, 0, channels - x.shape[1]))
'''

CLASSIFIER = '''

class Classifier(nn.Module):
    """uint8 images (n, HEIGHT, WIDTH, CHANNELS) in; probabilities (n, {count}) out."""

    def __init__(self):
        super().__init__()
{members}
        scale = torch.tensor([1 / (255 * std) for std in STD])
        shift = torch.tensor([-mean / std for mean, std in zip(MEAN, STD)])
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("shift", shift, persistent=False)

    def forward(self, images):
        x = (images.float() * self.scale + self.shift).permute(0, 3, 1, 2)
{answer}
'''

TAIL = '''

def load(weights=Path(__file__).with_name("weights.safetensors")):
    """Return the trained classifier."""
    classifier = Classifier()
    classifier.load_state_dict(read_safetensors(weights))
    return classifier.eval()


def read_safetensors(path):
    """Read a safetensors file: a length, a table in JSON, then plain numbers. Nothing in it can run."""
    data = bytearray(Path(path).read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    types = {"F32": torch.float32, "I64": torch.int64, "U8": torch.uint8}
    tensors = {}
    for name, entry in json.loads(data[8:start].decode()).items():
        if name != "__metadata__":
            first, end = entry["data_offsets"]
            dtype = types[entry["dtype"]]
            numbers = torch.frombuffer(data, dtype=dtype, offset=start + first, count=(end - first) // dtype.itemsize)
            tensors[name] = numbers.view(entry["shape"])
    return tensors


def read_image(path):
    """Read an image file as the training images were read: upright, on white, in one size; uint8."""
    from PIL import Image, ImageOps

    mode = "L" if CHANNELS == 1 else "RGB"
    with Image.open(path) as image:
        image.load()
        upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I"):  # 16 bits per pixel
        values = torch.frombuffer(bytearray(upright.convert("I").tobytes()), dtype=torch.int32)
        upright = Image.frombytes("L", upright.size, bytes(((values + 128) // 257).tolist()))
    elif upright.has_transparency_data:
        upright = upright.convert("RGBA")
        upright = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright)
    elif upright.mode != mode:
        upright = upright.convert("RGB")
    picture = upright.convert(mode).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    return torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(HEIGHT, WIDTH, CHANNELS)


def predict(paths):
    """Print the three likeliest classes of each image file."""
    classifier = load()
    for path in paths:
        with torch.inference_mode():
            values, places = classifier(read_image(path)[None])[0].topk(min(3, len(CLASSES)))
        answers = [f"{CLASSES[i]} {100 * p:.1f} %" for p, i in zip(values.tolist(), places.tolist())]
        print(path, *answers, sep="\\t")


if __name__ == "__main__":
    predict(sys.argv[1:])
'''


def member_names(count: int) -> list[str]:
    """Return the attributes of `Classifier` that hold the networks, which are also prefixes of the tensors' names."""
    return ["network"] if count == 1 else [f"network{number + 1}" for number in range(count)]


def source_text(facts: Facts) -> str:
    networks = [steps(member.decoded(), facts.image) for member in facts.members]
    names = member_names(len(networks))
    # Quoted and in ASCII, so that no class name can end the string and continue as code.
    classes = "\n".join(f"    {_quoted(name)}," for name in facts.classes)
    parts = [HEAD.format(**facts.image._asdict(), classes=classes, mean=list(facts.mean), std=list(facts.std))]
    if any(term.shape != layer.shape for network in networks for layer in network for term in layer.terms):
        parts.append(FIT)
    parts += [f"\n\n{text.strip()}\n" for text in _classes(networks)]
    for name, member, network in zip(names, facts.members, networks, strict=True):
        parts.append(_network(name.capitalize(), member, network, len(facts.classes)))
    answers = [f"torch.softmax(self.{name}(x), 1)" for name in names]
    answer = f"        return {answers[0]}" if len(answers) == 1 else _mean(answers)
    members = "\n".join(f"        self.{name} = {name.capitalize()}()" for name in names)
    parts.append(CLASSIFIER.format(count=len(facts.classes), members=members, answer=answer))
    return "".join([*parts, TAIL])


def _quoted(text: str) -> str:
    return json.dumps(text) if all(ord(letter) < 0x10000 for letter in text) else ascii(text)


def _mean(answers: Sequence[str]) -> str:
    lines = "".join(f"            {answer},\n" for answer in answers)
    return f"        answers = [\n{lines}        ]\n        return torch.stack(answers).mean(0)"


def _layers(network: Sequence[Step]) -> Iterator[tuple[Layer, str, Shape]]:
    """Yield every edge and vertex with its name and the shape of its input."""
    for step in network:
        yield from ((term.edge, term.name, term.source_shape) for term in step.terms)
        yield step.vertex, step.name, step.shape


def _classes(networks: Sequence[Sequence[Step]]) -> list[str]:
    """Return the texts of the classes that layers need, once each."""
    texts = [layer.source_class() for network in networks for layer, _, _ in _layers(network)]
    return list(dict.fromkeys(text for text in texts if text is not None))


def _network(name: str, member: Member, network: Sequence[Step], classes: int) -> str:
    image = network[0].shape
    shape = f"(n, {image.channels}, {image.height}, {image.width})"
    lines = [
        f"\n\nclass {name}(nn.Module):",
        f'    """Normalised images {shape} in, one score per class out; {member.parameters:,} parameters."""\n',
        "    def __init__(self):",
        "        super().__init__()",
        *(f"        {line}" for line in _definitions(network, classes)),
        "",
        *(f"    {line}" for line in _forward(network)),
        "",
    ]
    return "\n".join(lines)


def _definitions(network: Sequence[Step], classes: int) -> Iterator[str]:
    for layer, name, source in _layers(network):
        if (definition := layer.source_definition(source)) is not None:
            yield f"self.{name} = {definition}"
    yield f"self.{CLASSIFY} = nn.Linear({network[-1].shape.channels}, {classes})"


def _forward(network: Sequence[Step]) -> Iterator[str]:
    """Yield the lines of `forward`: `x` is the current value; values that are needed later have their own names."""
    names = _Names(network)
    yield f"def forward(self, {names.of(0) if not names.computed(network[0]) else 'x'}):"
    for step in network:
        if names.computed(step):
            yield from _statement(step, names)
    yield f"    x = {names.of(network[-1].number)}.mean((2, 3))  # global average pooling"
    yield f"    return self.{CLASSIFY}(x)"


def _statement(step: Step, names: _Names) -> Iterator[str]:
    target, shape = names.of(step.number), step.shape
    terms = [_term(term, step, names) for term in step.terms] or ["x"]
    note = f"  # {shape.channels} x {shape.height} x {shape.width}"
    expression = step.vertex.source_text(step.name, " + ".join(terms), shape)
    if len(expression) + len(target) + len(note) < WIDEST:
        yield f"    {target} = {expression}{note}"
        return
    yield f"    {target} = {terms[0]}"
    for term in terms[1:]:
        yield f"    {target} = {target} + {term}"
    yield f"    {target} = {step.vertex.source_text(step.name, target, shape)}{note}"


def _term(term: Term, step: Step, names: _Names) -> str:
    shape = step.shape
    x = term.edge.source_text(term.name, names.of(term.source), term.source_shape)
    return x if term.shape == shape else f"fit({x}, {shape.channels}, {shape.height}, {shape.width})"


class _Names:
    """The names of the vertices' values in `forward`. A vertex that passes on the value of a single edge, which passes
    on its input, computes nothing and shares the name of the vertex before it.
    """

    def __init__(self, network: Sequence[Step]) -> None:
        self._root: dict[int, int] = {}
        order: list[int] = []
        uses: dict[int, list[int]] = {}
        for step in network:
            if step.terms and not self.computed(step):
                self._root[step.number] = self._root[step.terms[0].source]
                continue
            self._root[step.number] = step.number
            for term in step.terms:
                uses.setdefault(self._root[term.source], []).append(len(order))
            order.append(step.number)
        uses.setdefault(self._root[network[-1].number], []).append(len(order))
        self._name = {
            number: "x" if set(uses[number]) == {place + 1} else f"x{number}" for place, number in enumerate(order)
        }

    def computed(self, step: Step) -> bool:
        is_active = step.vertex.source_text("", "x", step.shape) != "x"
        if not step.terms or len(step.terms) > 1 or is_active:
            return bool(step.terms) or is_active
        [term] = step.terms
        return term.edge.source_text("", "x", term.source_shape) != "x" or term.shape != step.shape

    def of(self, number: int) -> str:
        return self._name[self._root[number]]

"""Damaged and malicious files from elsewhere: one sentence each, in bounded time and memory, and nothing is run."""

import json
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import zipfile

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from genepool.errors import DataError
from genepool.export import read_foreign
from tests.support.foreign_networks import save_onnx, save_pt2, seeded

PROGRAM = "models/model.json"
TABLE = "data/weights/model_weights_config.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small network in both forms."""
    folder = tmp_path_factory.mktemp("made")
    network = seeded(nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(4, 3),
    ))  # fmt: skip
    save_onnx(network, torch.zeros(2, 3, 8, 8), folder / "model.onnx", folded=False)
    save_pt2(network, torch.zeros(2, 3, 8, 8), folder / "model.pt2")
    assert read_foreign(folder / "model.onnx").classes == read_foreign(folder / "model.pt2").classes == 3
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    for name in ("model.onnx", "model.pt2"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sentence(error, path):
    """The one sentence of a refusal; nothing was run."""
    text = str(error)
    assert "\n" not in text and text.endswith(".") and path.name in text and len(text) < 2000
    assert not os.path.lexists(path.parent / "unpickled")
    return text


def refused(path):
    with pytest.raises(DataError) as refusal:
        read_foreign(path)
    return sentence(refusal.value, path)


def read_or_refused(path):
    """Damage may be harmless: then the network is read."""
    try:
        assert read_foreign(path).classes > 0
    except DataError as error:
        sentence(error, path)


def rezip(path, change, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path) as archive:
        members = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(f"model/{name}", data)


def edited(path, change, member=PROGRAM):
    def edit(members):
        document = json.loads(members[member])
        change(document)
        members[member] = json.dumps(document).encode()

    rezip(path, edit)


def reonnx(path, change):
    model = onnx.load(path, load_external_data=False)
    change(model)
    path.write_bytes(model.SerializeToString())


def nodes(program):
    return program["graph_module"]["graph"]["nodes"]


def values(program):
    return program["graph_module"]["graph"]["tensor_values"]


def sizes(*numbers):
    return [{"as_int": number} for number in numbers]


class Touch:
    """Unpickled, it leaves a mark."""

    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def pickled(members):
    table = json.loads(members[TABLE])
    for entry in table["config"].values():
        entry["use_pickle"] = True
        members[f"data/weights/{entry['path_name']}"] = pickle.dumps(Touch())
    members[TABLE] = json.dumps(table).encode()


def weights(change):
    def edit(path):
        edited(path, lambda table: [change(entry["tensor_meta"]) for entry in table["config"].values()], TABLE)

    return edit


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(f"model/{PROGRAM}", b" " * 10**8)


def overlapping(path):
    """A table of which every entry is the same large member."""

    def change(members):
        table = json.loads(members[TABLE])
        [first, *_] = table["config"].values()
        members["data/weights/weight_0"] = bytes(10**6)
        first["tensor_meta"] |= {"sizes": [{"as_int": 250000}], "strides": [{"as_int": 1}]}
        specs = [{"parameter": {"arg": {"name": f"p{n}"}, "parameter_name": f"p{n}"}} for n in range(1000)]
        table["config"] |= {f"p{n}": first for n in range(1000)}
        program = json.loads(members[PROGRAM])
        program["graph_module"]["signature"]["input_specs"] = specs
        members |= {TABLE: json.dumps(table).encode(), PROGRAM: json.dumps(program).encode()}

    rezip(path, change)


def set_arg(operator, name, **argument):
    def change(program):
        node = next(node for node in nodes(program) if operator in node["target"])
        node["inputs"] = [given for given in node["inputs"] if given["name"] != name]
        node["inputs"].append({"name": name, "arg": argument, "kind": 1})

    return lambda path: edited(path, change)


def retarget(target):
    return lambda path: edited(path, lambda program: nodes(program)[0].update(target=target))


PT2 = {
    "empty": (lambda path: path.write_bytes(b""), "empty file"),
    "text": (lambda path: path.write_text("hello"), "not a complete .pt2 archive"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:2000]), "not a complete .pt2 archive"),
    "a bomb": (bomb, "larger than the file itself"),
    "compressed": (lambda path: rezip(path, lambda members: None, zipfile.ZIP_DEFLATED), "file itself|compressed"),
    "no program": (lambda path: rezip(path, lambda members: members.pop(PROGRAM)), "contains 0 programs"),
    "two programs": (
        lambda path: rezip(path, lambda members: members.update({"models/b.json": b"{}"})), "contains 2 programs",
    ),
    "no weights": (lambda path: rezip(path, lambda members: members.pop(TABLE)), "0 tables of weights"),
    "weights that are missing": (
        lambda path: rezip(path, lambda members: members.pop("data/weights/weight_0")), "does not contain",
    ),
    "a deep program": (
        lambda path: rezip(path, lambda members: members.update({PROGRAM: b"[" * 10**6 + b"]" * 10**6})),
        "cannot be read|deep",
    ),
    "a deep argument": (
        lambda path: rezip(path, lambda members: members.update(
            {PROGRAM: members[PROGRAM].replace(b'{"as_int": 8}', b'{"as_int":' + b"[" * 10**5 + b"]" * 10**5 + b"}", 1)}
        )), "cannot be read|deep",
    ),
    "a program that is no program": (
        lambda path: rezip(path, lambda members: members.update({PROGRAM: b"7"})), "cannot be read",
    ),
    "pickled weights": (lambda path: rezip(path, pickled), "pickled"),
    "negative sizes": (weights(lambda meta: meta.update(sizes=[{"as_int": -1}])), "length of their shape"),
    "giant sizes": (weights(lambda meta: meta.update(sizes=[{"as_int": 2**40}])), "length of their shape"),
    "sizes beyond integers": (weights(lambda meta: meta.update(sizes=[{"as_int": 10**40}])), "cannot be read|length"),
    "strides beyond the file": (
        weights(lambda meta: meta.update(strides=[{"as_int": 10**9}] * 4)), "length of their shape",
    ),
    "an offset": (weights(lambda meta: meta.update(storage_offset={"as_int": 10**6})), "length of their shape"),
    "complex weights": (weights(lambda meta: meta.update(dtype=9)), "type that is not supported"),
    "bytes as weights": (weights(lambda meta: meta.update(dtype=1)), "cannot be computed"),
    "the same weights very often": (overlapping, "too often"),
    "a foreign operator": (retarget("torch.ops.prims.add.default"), "no layer"),
    "code as operator": (retarget("os.system"), "no layer"),
    "an unknown operator": (retarget("torch.ops.aten.lstm.input"), "no layer"),
    "giant padding": (set_arg("conv2d", "padding", as_ints=[10**9, 10**9]), "more than 1001 pixels"),
    "large padding": (set_arg("conv2d", "padding", as_ints=[1000, 1000]), "rounding up|pads in a way"),
    "negative padding": (set_arg("conv2d", "padding", as_ints=[-1, -1]), "rounding up|computed"),
    "a stride of 0": (set_arg("conv2d", "stride", as_ints=[0, 0]), "computed|read"),
    "a giant dilation": (set_arg("conv2d", "dilation", as_ints=[10**6, 10**6]), "1001 pixels"),
    "text as stride": (set_arg("conv2d", "stride", as_string="__import__('os').mkdir('unpickled')"), "cannot be read"),
    "a giant pool": (set_arg("max_pool2d", "kernel_size", as_ints=[10**9, 10**9]), "1001 pixels|cannot be"),
    "a giant adaptive pool": (set_arg("adaptive", "output_size", as_ints=[10**9, 1]), "no layer|cannot be"),
    "a giant epsilon": (set_arg("batch_norm", "eps", as_float=-5.0), "must be non-negative"),
    "a training batch norm": (set_arg("batch_norm", "training", as_bool=True), "training mode"),
    "a cycle": (lambda path: edited(path, lambda program: nodes(program).reverse()), "before it is computed"),
    "a value twice": (
        lambda path: edited(path, lambda program: nodes(program).append(nodes(program)[0])), "exists already",
    ),
    "no output": (lambda path: edited(path, lambda p: p["graph_module"]["graph"].update(outputs=[])), "outputs"),
    "an input of five axes": (
        lambda path: edited(path, lambda p: values(p)["input"].update(sizes=[{"as_int": 2}] * 5)),
        "not a batch of images",
    ),
    "a giant image": (
        lambda path: edited(path, lambda p: values(p)["input"].update(sizes=sizes(2, 3, 10**6, 10**6))), "too large",
    ),
    "giant batches": (
        lambda path: edited(path, lambda p: values(p)["input"].update(sizes=sizes(10**6, 3, 8, 8))),
        "batches of 1000000",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PT2)
def test_a_bad_program_gets_one_sentence(name, place):
    spoil, said = PT2[name]
    spoil(place / "model.pt2")
    assert re.search(said, refused(place / "model.pt2"))


def dims(*numbers):
    def change(model):
        shape = model.graph.input[0].type.tensor_type.shape
        del shape.dim[:]
        for number in numbers:
            shape.dim.add().dim_value = number

    return lambda path: reonnx(path, change)


def outside(location, **more):
    def change(model):
        for tensor in model.graph.initializer:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=location)
            for key, value in more.items():
                tensor.external_data.add(key=key, value=value)

    return lambda path: reonnx(path, change)


def tensors(**fields):
    def change(model):
        for tensor in model.graph.initializer:
            for name, value in fields.items():
                if name == "dims":
                    del tensor.dims[:]
                    tensor.dims.extend(value)
                else:
                    setattr(tensor, name, value)

    return lambda path: reonnx(path, change)


def attribute(operator, **fields):
    def change(model):
        node = next(node for node in model.graph.node if node.op_type == operator)
        kept = [each for each in node.attribute if each.name not in fields]
        del node.attribute[:]
        node.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in fields.items())])

    return lambda path: reonnx(path, change)


def bombs(path):
    """A chain of constants, each ten times as large as the one before."""

    def change(model):
        chain = [helper.make_node("Constant", [], ["c0"], value_ints=[1] * 10)]
        chain += [helper.make_node("Concat", [f"c{n}"] * 10, [f"c{n + 1}"], axis=0) for n in range(9)]
        old = list(model.graph.node)
        del model.graph.node[:]
        model.graph.node.extend(chain + old)

    reonnx(path, change)


def itself_often(path):
    """Hundreds of initializers, each of which is the whole file."""

    def change(model):
        model.graph.initializer.append(helper.make_tensor("filler", TensorProto.UINT8, [2**21], bytes(2**21), raw=True))
        for number in range(300):
            tensor = model.graph.initializer.add(name=f"t{number}", data_type=TensorProto.UINT8, dims=[2**21])
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="model.onnx")

    reonnx(path, change)


def very_many(path):
    """Tiny initializers, each of which takes far more memory than it is long."""

    def change(model):
        for number in range(120_000):
            model.graph.initializer.add(name=f"{number:x}", data_type=TensorProto.UINT8, dims=[1], raw_data=b"x")

    reonnx(path, change)


def very_many_nodes(path):
    """The same as nodes, which nothing uses."""

    def change(model):
        model.graph.node.extend(helper.make_node("Constant", [], [f"{n:x}"], value_int=1) for n in range(30_000))

    reonnx(path, change)


def long_chain(path):
    def change(model):
        for number in range(6_000):
            model.graph.node.append(helper.make_node("Relu", [model.graph.input[0].name], [f"r{number}"]))

    reonnx(path, change)


def filled(path):
    def change(model):
        shape = helper.make_tensor("shape", TensorProto.INT64, [2], [10**5, 10**5])
        model.graph.initializer.append(shape)
        model.graph.node.insert(0, helper.make_node("ConstantOfShape", ["shape"], ["full"]))

    reonnx(path, change)


def nan(model):
    for tensor in model.graph.initializer:
        tensor.raw_data = b"\xff" * len(tensor.raw_data)


def first(change):
    return lambda path: reonnx(path, lambda model: change(model.graph.node[0]))


ONNX = {
    "empty": (lambda path: path.write_bytes(b""), "empty file"),
    "text": (lambda path: path.write_text("hello"), "cannot be used"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:500]), "not a complete ONNX file|cannot be"),
    "nothing": (lambda path: path.write_bytes(onnx.ModelProto().SerializeToString() or b"\x08\x08"), "0 inputs"),
    "a path outside": (outside("../../etc/hostname"), "outside its folder"),
    "an absolute path": (outside("/etc/hostname"), "outside its folder"),
    "no path": (outside(""), "outside its folder"),
    "a missing file": (outside("gone.bin"), "No such file"),
    "itself, beyond its end": (outside("model.onnx", offset="100000000"), "too short"),
    "a negative offset": (outside("model.onnx", offset="-5"), "too short"),
    "giant sizes beside": (
        lambda path: [tensors(dims=[2**40, 2**20])(path), outside("model.onnx")(path)], "too short",
    ),
    "a strange offset": (outside("model.onnx", offset="1e3"), "cannot be read"),
    "giant images": (dims(1, 3, 10**6, 10**6), "too large"),
    "images beyond integers": (dims(1, 3, 2**62, 2**62), "cannot be computed"),
    "negative images": (dims(1, 3, -8, 8), "not a batch of images"),
    "flat images": (dims(1, 3), "four dimensions"),
    "giant batches": (dims(10**9, 3, 8, 8), "batches of 1000000000"),
    "negative sizes of weights": (tensors(dims=[-4]), "type or shape"),
    "giant sizes of weights": (tensors(dims=[2**40, 2**20]), "length differs"),
    "text as weights": (tensors(data_type=TensorProto.STRING), "type or shape"),
    "integers as weights": (tensors(data_type=TensorProto.INT32), "cannot be computed"),
    "an unknown type of weights": (tensors(data_type=99), "type or shape"),
    "NaN": (lambda path: reonnx(path, nan), "not finite"),
    "an unknown operator": (first(lambda node: setattr(node, "op_type", "LSTM")), "no layer"),
    "another domain": (first(lambda node: setattr(node, "domain", "evil")), "evil.Conv"),
    "a loop": (first(lambda node: setattr(node, "op_type", "Loop")), "no layer"),
    "no inputs of a node": (first(lambda node: node.ClearField("input")), "lacks an input"),
    "no outputs of a node": (first(lambda node: node.ClearField("output")), "no layer"),
    "a cycle": (first(lambda node: node.input.__setitem__(0, node.output[0])), "cycles|cannot be read"),
    "giant padding": (attribute("Conv", pads=[10**9] * 4), "1001 pixels"),
    "strange padding": (attribute("Conv", pads=[1]), "cannot be"),
    "a stride of 0": (attribute("Conv", strides=[0, 0]), "strides below 1"),
    "a stride of 2 ** 62": (attribute("Conv", strides=[2**62, 2**62]), "1001 pixels"),
    "groups of 0": (attribute("Conv", group=0), "cannot be"),
    "negative groups": (attribute("Conv", group=-3), "cannot be"),
    "a giant pool": (attribute("MaxPool", kernel_shape=[10**9, 10**9]), "1001 pixels|cannot be"),
    "text as kernel": (attribute("MaxPool", kernel_shape="abc"), "cannot be read"),
    "a NaN epsilon": (attribute("BatchNormalization", epsilon=float("nan")), "variances|finite"),
    "the same weights very often": (itself_often, "too often"),
    "very many weights": (very_many, "more than 20000 constants"),
    "very many constants": (very_many_nodes, "more than 20000 constants"),
    "growing constants": (bombs, "too many constants"),
    "a giant constant": (filled, "too many constants|too large"),
    "very many nodes": (long_chain, "more than 5000 nodes"),
    "no output": (lambda path: reonnx(path, lambda model: model.graph.ClearField("output")), "0 outputs"),
    "an output that is a constant": (
        lambda path: reonnx(path, lambda m: setattr(m.graph.output[0], "name", m.graph.initializer[0].name)),
        "does not depend on its input",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONNX)
def test_a_bad_onnx_file_gets_one_sentence(name, place):
    spoil, said = ONNX[name]
    spoil(place / "model.onnx")
    assert re.search(said, refused(place / "model.onnx"))


def test_a_link_beside_an_onnx_file_is_not_followed(place):
    (place / "beside.bin").symlink_to("/etc/hostname")
    outside("beside.bin")(place / "model.onnx")
    assert "outside its folder" in refused(place / "model.onnx")


def test_a_pipe_beside_an_onnx_file_is_not_opened(place):
    os.mkfifo(place / "beside.bin")
    outside("beside.bin")(place / "model.onnx")
    assert "not a plain file" in refused(place / "model.onnx")


def test_weights_in_a_file_beside_are_read(place):
    model = onnx.load(place / "model.onnx")
    before = read_foreign(place / "model.onnx")
    onnx.save_model(model, place / "two.onnx", save_as_external_data=True, location="two.data", size_threshold=0)
    after = read_foreign(place / "two.onnx")
    assert all(torch.equal(before.tensors[name], tensor) for name, tensor in after.tensors.items())


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", ["model.onnx", "model.pt2"])
def test_random_damage_is_refused_or_harmless(name, seed, place):
    """Bytes that are changed, cut out or repeated, five times for each seed."""
    good, rng = (place / name).read_bytes(), random.Random(seed)
    for _ in range(5):
        data = bytearray(good)
        for _ in range(rng.choice((1, 1, 5, 50))):
            start = rng.randrange(len(data))
            data[start : start + rng.choice((0, 1, 4))] = rng.randbytes(rng.choice((0, 1, 4)))
        (place / name).write_bytes(data)
        read_or_refused(place / name)


@pytest.mark.parametrize("seed", range(5))
def test_random_changes_of_a_program_are_refused_or_harmless(seed, made, place):
    """Another number, name or type in one place of the program or of the table of weights."""
    rng, path = random.Random(seed), place / "model.pt2"
    odd = (-1, 0, 2**63, 10**30, 1.5, None, "", "x", [], {}, [[]], True, {"as_int": -7}, "../../x")

    def change(document):
        while True:
            key = rng.choice(list(document) if isinstance(document, dict) else range(len(document)))
            if not document[key] or not isinstance(document[key], dict | list) or rng.random() < 0.1:
                document[key] = rng.choice(odd)
                return
            document = document[key]

    for _ in range(10):
        path.write_bytes((made / "model.pt2").read_bytes())
        edited(path, change, rng.choice((PROGRAM, TABLE)))
        read_or_refused(path)


BOMBS = {
    "model.pt2": (PT2, "a bomb", "the same weights very often"),
    "model.onnx": (
        ONNX, "the same weights very often", "very many weights", "very many constants", "giant sizes of weights",
        "giant sizes beside", "giant images", "growing constants", "a giant constant",
    ),
}  # fmt: skip


@pytest.mark.parametrize("file", BOMBS)
def test_a_bomb_takes_no_memory(file, place):
    """Refused by a process that may have 200 MB more than torch and onnx take."""
    cases, *names = BOMBS[file]
    paths = [place / str(number) / file for number in range(len(names))]
    for name, path in zip(names, paths, strict=True):
        path.parent.mkdir()
        shutil.copy(place / file, path)
        cases[name][0](path)
    code = f"""
import resource
from pathlib import Path
import onnx.numpy_helper
from genepool.errors import DataError
from genepool.export import read_foreign
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2 * 10**8,) * 2)
for path in {[str(path) for path in paths]!r}:
    try:
        read_foreign(Path(path))
    except DataError as error:
        print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = result.stdout.splitlines()
    assert len(said) == len(names), result.stderr
    for name, line in zip(names, said, strict=True):
        assert "cannot be used" in line and re.search(cases[name][1], line), (name, line)

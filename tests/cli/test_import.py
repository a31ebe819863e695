"""`genepool import` of networks from elsewhere, and runs that start from them."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from genepool import Experiment
from genepool.dna import codec
from tests.support.foreign_networks import resnet, save_onnx, save_pt2, seeded
from tests.support.in_process import genepool
from tests.support.photographs import photographs


@pytest.fixture
def network():
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish())
    return seeded(nn.Sequential(layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)))


def test_import_writes_dna_and_weights_and_says_what_it_found(network, tmp_path):
    save_pt2(network, torch.zeros(2, 3, 24, 24), tmp_path / "model.pt2")
    result = genepool("import", tmp_path / "model.pt2", "--out", tmp_path / "x.json")
    assert result.returncode == 0, result.stderr
    assert "network  C3x3/2+BN+HS" in result.stdout and "images   24x24x3, 5 classes" in result.stdout
    assert "set data.mean and data.std" in result.stdout and "same answers as the original on noise" in result.stdout
    assert codec.read(tmp_path / "x.json").in_a_line() == "C3x3/2+BN+HS" and (tmp_path / "x.safetensors").exists()


def test_import_of_weights_alone_names_their_normalisation(tmp_path):
    save_file(resnet(18, width=4, classes=3).state_dict(), tmp_path / "weights.safetensors")
    out = ("--out", tmp_path / "x.json")
    result = genepool("import", tmp_path / "weights.safetensors", *out, "--size", "48x64")
    assert "images   48x64x3, 3 classes" in result.stdout and "0.485, 0.456, 0.406" in result.stdout, result.stderr
    assert "usual for resnet-18" in result.stdout


def test_bad_files_and_options_get_one_sentence(network, tmp_path):
    save_onnx(network, torch.zeros(2, 3, 24, 24), tmp_path / "model.onnx")
    torch.save(network.state_dict(), tmp_path / "model.pth")
    out = ("--out", tmp_path / "x.json")
    for words, said in (
        (("model.pth",), "convert it with safetensors.torch.save_file"),
        (("model.onnx", "--member", 1), "--member is for ensembles"),
        (("model.onnx", "--size", "32x32"), "not 32x32x3"),
        (("model.onnx", "--size", "big"), "--size is 'big' but must be height x width"),
    ):
        result = genepool("import", tmp_path / words[0], *words[1:], *out)
        assert result.returncode == 2 and said in result.stderr and result.stderr.count("\n") == 1
    assert not (tmp_path / "x.json").exists()


def test_a_run_starts_from_a_network_from_elsewhere(network, tmp_path):
    save_onnx(network, torch.zeros(2, 3, 24, 24), tmp_path / "model.onnx", folded=False)
    words = ("--workers", 1, "--population", 3, "--steps", 5, "--individuals", 2, "--set", "budget.time=none")
    photos = photographs(tmp_path / "photos")
    result = genepool("run", tmp_path / "e", "--data", photos, "--start", tmp_path / "model.onnx", *words)
    assert result.returncode == 0, result.stderr
    assert Experiment.open(tmp_path / "e").founder().dna.in_a_line() == "C3x3/2+BN+HS"

"""Somebody who has a model and no Genepool; run as `python stranger.py torch|onnx FOLDER [FORBIDDEN...]`.

The folder holds models (`*.pt2` and `*-source`, or `*.onnx`) and the images that they are asked about: `NAME.bytes`
with the shape in `NAME.shape`. Prints JSON: the probabilities by the model's file name. Modules that are forbidden
cannot be imported, as if they were not installed.
"""

import importlib.util
import json
import sys
from pathlib import Path


def with_torch(folder):
    import torch

    for model in sorted((*folder.glob("*.pt2"), *folder.glob("*-source"))):
        data, shape = images(folder, model.name.removesuffix(".pt2").removesuffix("-source"))
        pixels = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(shape)
        if model.suffix == ".pt2":
            network = torch.export.load(model).module()
        else:
            spec = importlib.util.spec_from_file_location("model", model / "model.py")
            code = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(code)
            network = code.load()
        with torch.inference_mode():
            yield model.name, network(pixels).tolist()


def with_onnx(folder):
    import numpy
    import onnxruntime

    for model in sorted(folder.glob("*.onnx")):
        data, shape = images(folder, model.stem)
        session = onnxruntime.InferenceSession(model)
        pixels = numpy.frombuffer(data, dtype=numpy.uint8).reshape(shape)
        yield model.name, session.run(None, {"images": pixels})[0].tolist()


def images(folder, name):
    return (folder / f"{name}.bytes").read_bytes(), json.loads((folder / f"{name}.shape").read_text())


if __name__ == "__main__":
    kind, place, *forbidden = sys.argv[1:]
    sys.dont_write_bytecode = True
    for name in forbidden:
        sys.modules[name] = None
    answers = dict({"torch": with_torch, "onnx": with_onnx}[kind](Path(place)))
    json.dump(answers, sys.stdout)

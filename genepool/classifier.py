"""ImageClassifier: evolution behind scikit-learn's interface. Images and labels in, a trained classifier out.

It follows scikit-learn's conventions for estimators without needing scikit-learn: parameters are stored as they are
given and looked at in `fit`; what was learnt ends in an underscore. scikit-learn's own checks fit tables of numbers,
(n, features), which are not images: the tests run all of them on tables that are painted as images
(tests/test_sklearn_checks.py), and would list those that cannot apply, with their reasons. There are none.
"""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import tempfile
import time as clock
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from genepool import settings as names
from genepool.data import ArraySource, pixel_scale, prepare, save_file, to_pixels
from genepool.errors import ArrayError, DataError, NotFittedError, shown
from genepool.experiment import Experiment
from genepool.export import Facts, Network, document, image_files, metadata, read_document, read_image, read_model
from genepool.registry import load as load_plugins

IMAGES = "images.npz"
"""Where the arrays of `fit` are kept in the experiment's directory, for its workers."""
OWN = ("facts_", "classes_", "_network", "_scale", "_kept")
"""What `fit` sets; other attributes are a subclass's, and pickled as they are."""
NOTE = "estimator"
"""The key of what a saved classifier knows beyond a model's facts."""


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    parameters: dict[str, Any]
    scale: float
    kind: str
    """The type of the labels, as NumPy writes it."""
    labels: tuple[bool | int | float | str, ...]


class ImageClassifier:
    """Evolves a classifier of images.

        time         how long `fit` may evolve, like "90s", "10m" or "2h"; None: no limit
        individuals  how many networks it may train; None: no limit
        target       the validation accuracy at which it stops; None: no such limit
        workers      processes; None: one per core
        seed         of all random numbers
        size         height x width that a folder's images are brought to, like "32x32"; None: their median
        flip         whether mirror images are examples too: not of digits, letters or signs
        preset       the settings to begin with, `laptop` or `paper`
        settings     other settings by name, like {"training.steps": 500} (see `genepool.settings.Settings`)
        plugins      modules or .py files with mutations, selections and so on of your own
        directory    where the experiment is kept: `fit` goes on with one that is there. None: a temporary place
        verbose      whether `fit` tells on standard error how it stands

    After `fit`: `classes_`, `facts_` (what is known of the network) and `experiment`.
    """

    def __init__(
        self,
        *,
        time: str | float | None = "2m",
        individuals: int | None = None,
        target: float | None = None,
        workers: int | None = None,
        seed: int = 0,
        size: str | None = None,
        flip: bool = True,
        preset: str = "laptop",
        settings: Mapping[str, Any] | None = None,
        plugins: Sequence[str] = (),
        directory: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.time = time
        self.individuals = individuals
        self.target = target
        self.workers = workers
        self.seed = seed
        self.size = size
        self.flip = flip
        self.preset = preset
        self.settings = settings
        self.plugins = plugins
        self.directory = directory
        self.verbose = verbose

    # -- parameters, as scikit-learn asks for them ---------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; there are none within them."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> ImageClassifier:
        """Changes some; an unknown one is refused."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise ValueError(f"There is no parameter '{shown(name)}'; known: {', '.join(known)}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        usual = ImageClassifier().get_params()
        changed = {name: value for name, value in self.get_params().items() if value != usual[name]}
        return f"ImageClassifier({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True, positive_only=True),
            non_deterministic=True,  # how far evolution comes depends on time
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_network")

    # -- learning ------------------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike | str | os.PathLike[str], y: ArrayLike | None = None) -> ImageClassifier:  # noqa: N803
        """Evolves on images and their labels, or on a folder, a .npz file or a data set's name.

        Ctrl-C ends it early with the best so far; with a `directory`, another `fit` goes on from there.
        """
        with _value_errors():
            return self._fit(X, y)

    def _fit(self, X: Any, y: ArrayLike | None) -> ImageClassifier:  # noqa: N803
        load_plugins(self.plugins)
        by_path = isinstance(X, (str, os.PathLike))
        experiment, classes, scale = self._of_path(X, y) if by_path else self._of_arrays(X, y)
        _evolve(experiment, self.plugins, self._progress())
        model = experiment.model()
        self.facts_, self._network = model.facts, model.network
        self._scale = scale
        self.classes_ = np.array(self.facts_.classes) if classes is None else classes
        return self

    def _of_path(self, path: str | os.PathLike[str], y: ArrayLike | None) -> tuple[Experiment, None, float]:
        if y is not None:
            raise DataError("Labels of a folder or a file lie in it; leave y out.")
        chosen = self._chosen(str(Path(path).resolve()) if Path(path).exists() else os.fspath(path))
        prepare(chosen.data.open())  # bad images are told of before a directory is made
        self._keep_place()
        return self._experiment(chosen), None, 1.0

    def _of_arrays(self, x: ArrayLike, y: ArrayLike | None) -> tuple[Experiment, NDArray[Any], float]:
        if y is None:
            raise DataError("It requires y to be passed, but the target y is None; give a label for each image.")
        labels, classes = _plain_labels(y)
        arrays, scale = _checked(x, labels)
        self._keep_place()
        experiment = self._experiment(self._chosen(str(self._place().resolve() / IMAGES)))
        _store(self._place() / IMAGES, *arrays)
        return experiment, classes, scale

    @property
    def experiment(self) -> Experiment:
        """The experiment that `fit` made."""
        if not hasattr(self, "_kept") and self.directory is None:
            raise _not_fitted("There is no experiment yet; call fit first.")
        return Experiment.open(self._place())

    def _keep_place(self) -> None:
        """A temporary place goes with the classifier."""
        if self.directory is None:
            self._kept = tempfile.mkdtemp(prefix="genepool-")
            weakref.finalize(self, shutil.rmtree, self._kept, ignore_errors=True)

    def _place(self) -> Path:
        return Path(self.directory) if self.directory is not None else Path(self._kept)

    def _chosen(self, data: str) -> names.Settings:
        asked = {
            "data.source": data,
            "data.size": self.size,
            "data.flip": self.flip,
            "budget.time": None if self.time is None else names.seconds(str(self.time)),
            "budget.individuals": self.individuals,
            "budget.target": self.target,
            "workers.count": self.workers,
            "experiment.seed": self.seed,
        }
        return names.changed(names.preset(self.preset), {**asked, **(self.settings or {})})

    def _experiment(self, chosen: names.Settings) -> Experiment:
        experiment = Experiment.create(self._place(), chosen)
        experiment.set(names.by_name(chosen))
        return experiment

    def _progress(self) -> Callable[[Experiment], None]:
        return _ProgressLine() if self.verbose else lambda experiment: None

    # -- answering -----------------------------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """The probability of each class, in the order of `classes_`, of images, or of image files and folders."""
        facts, network = self._fitted()
        with _value_errors():
            return self._answers(X, facts, network)

    def _answers(self, X: Any, facts: Facts, network: Network) -> NDArray[np.float32]:  # noqa: N803
        if isinstance(X, (str, os.PathLike)):
            X = [X]  # noqa: N806
        if isinstance(X, (list, tuple)) and X and all(isinstance(place, (str, os.PathLike)) for place in X):
            return network.predict(np.stack([read_image(path, facts) for path in image_files(map(Path, X))]))
        pixels = to_pixels(X, self._scale)
        if pixels.shape[1:] != tuple(facts.image):
            raise DataError(f"X has images of the shape {pixels.shape[1:]}, but it was fitted on {tuple(facts.image)}.")
        return network.predict(pixels)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The likeliest class of each image."""
        answers = self.predict_proba(X)
        return np.asarray(self.classes_[answers.argmax(1)])

    def score(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:  # noqa: N803
        """The share of images that are classified correctly; y may be left out for a folder with one folder a class."""
        with _value_errors():
            labels = self._labels_below(X) if y is None else np.asarray(y)
        right = self.predict(X) == labels
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)))

    def _labels_below(self, folder: Any) -> NDArray[Any]:
        self._fitted()
        if not isinstance(folder, (str, os.PathLike)) or not Path(folder).is_dir():
            raise DataError("It requires y, a label for each image; only those of a folder are known by themselves.")
        labels = [path.parent.name for path in image_files([Path(folder)])]
        if unknown := sorted(set(labels) - set(map(str, self.classes_))):
            raise DataError(f"'{shown(unknown[0])}' in '{shown(Path(folder))}' is no class that was fitted; rename it.")
        return np.array(labels)

    def _fitted(self) -> tuple[Facts, Network]:
        if not hasattr(self, "_network"):
            raise _not_fitted("This ImageClassifier is not fitted yet; call fit first.")
        return self.facts_, self._network

    # -- keeping -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the fitted classifier as one .safetensors file, which `load` and `genepool predict` read."""
        target = Path(path)
        if target.suffix != ".safetensors":
            raise DataError(f"The name '{shown(target)}' must end in .safetensors.")
        save_file(target, self._document(), "model")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ImageClassifier:
        """A classifier that was saved; nothing in the file is run, and no plugins or directory are taken from it."""
        read_model(Path(path))  # its sentences name the file
        return cls()._restored(Path(path).read_bytes())

    def _document(self) -> bytes:
        facts, network = self._fitted()
        plain = {k: os.fspath(v) if isinstance(v, os.PathLike) else v for k, v in self.get_params().items()}
        labels = tuple(self.classes_.tolist())
        note = _Note(parameters=plain, scale=self._scale, kind=self.classes_.dtype.str, labels=labels)
        return document(network, facts, **{NOTE: msgspec.json.encode(note).decode()})

    def _restored(self, data: bytes) -> ImageClassifier:
        try:
            note = msgspec.json.decode(metadata(data)[NOTE], type=_Note)
            self.set_params(**_plain_parameters(note))
            labels = _labels_again(note)
        except (KeyError, msgspec.MsgspecError, TypeError, ValueError):
            raise DataError("These are a model's weights, but not a saved ImageClassifier.") from None
        self.facts_, self._network = read_document(data)
        if len(labels) != len(self.facts_.classes):
            raise DataError("The saved ImageClassifier has other classes than its network; save it again.")
        self._scale, self.classes_ = note.scale, labels
        return self

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and joblib: the parameters, and what `save` would write. The experiment stays where it is."""
        model = self._document() if self.__sklearn_is_fitted__() else None
        others = {name: value for name, value in vars(self).items() if name not in {*self.get_params(), *OWN}}
        return {"parameters": self.get_params(), "model": model, "others": others}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["parameters"])
        if state["model"] is not None:
            self._restored(state["model"])
        self.__dict__.update(state["parameters"])  # as they were, where the file has them in plainer form
        self.__dict__.update(state["others"])


def _plain_parameters(note: _Note) -> dict[str, Any]:
    """Without those by which a file could have modules imported, or a directory written, at the next `fit`."""
    # JSON has no tuples, and no parameter is a list.
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in note.parameters.items()}
    return {name: value for name, value in plain.items() if name not in ("plugins", "directory")}


def _labels_again(note: _Note) -> NDArray[Any]:
    """Of the type that they had; texts as long as the longest, for a file could ask for any length."""
    labels, kind = np.array(note.labels), np.dtype(note.kind)
    if labels.ndim != 1 or (labels.dtype.kind == "U") != (kind.kind == "U") or kind.kind not in "biufU":
        raise ValueError("no labels")
    return labels if kind.kind == "U" else labels.astype(kind)


def _not_fitted(text: str) -> NotFittedError:
    """An error that is also scikit-learn's own, for whoever has loaded that."""
    theirs = sys.modules.get("sklearn.exceptions")
    kinds = (NotFittedError,) if theirs is None else (NotFittedError, theirs.NotFittedError)
    error: NotFittedError = type("NotFittedError", kinds, {})(text)
    return error


@contextmanager
def _value_errors() -> Iterator[None]:
    """What is wrong with given arrays is a ValueError for NumPy's and scikit-learn's users."""
    try:
        yield
    except DataError as error:
        raise ArrayError(str(error)) from None


def _plain_labels(y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels as a source takes them, integers or text, and the classes as the user writes them, in the same order."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        theirs = sys.modules.get("sklearn.exceptions")
        kind = UserWarning if theirs is None else theirs.DataConversionWarning
        warnings.warn("A column-vector y was passed when a 1d array was expected; write y.ravel().", kind, stacklevel=4)
        labels = labels[:, 0]
    if labels.dtype == object:
        kinds = {type(label) for label in labels.ravel().tolist()}
        if kinds not in ({int}, {str}, {float}, {bool}):
            raise DataError("Unknown label type: y holds Python objects; labels must be integers or text, all alike.")
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise DataError("y holds NaN or infinity; labels must be integers or text.")
        if (labels != np.rint(labels)).any():
            raise DataError("Unknown label type: y is continuous; labels must be whole numbers, integers or text.")
        return labels.astype(np.int64), np.unique(labels)
    return labels, np.unique(labels)


class _ProgressLine:
    """Writes a line to standard error every few seconds."""

    EVERY = 5.0

    def __init__(self) -> None:
        self._next = clock.monotonic()

    def __call__(self, experiment: Experiment) -> None:
        if clock.monotonic() < self._next:
            return
        self._next = clock.monotonic() + self.EVERY
        status = experiment.status()
        best, spent = status.best, status.spent
        reached = "no result yet" if best is None else f"best {100 * best.accuracy:.1f} % ({best.network})"
        sys.stderr.write(f"{spent.individuals} networks trained, {spent.seconds:.0f} s, {reached}\n")


def _checked(x: ArrayLike, y: ArrayLike) -> tuple[tuple[NDArray[np.uint8], NDArray[Any]], float]:
    """The images as bytes and the labels, once it is sure that a network can be trained on them."""
    scale = pixel_scale(x)
    pixels, labels = to_pixels(x, scale), np.asarray(y)
    ArraySource(pixels, labels)
    return (pixels, labels), scale


def _store(path: Path, pixels: NDArray[np.uint8], labels: NDArray[Any]) -> None:
    """For the workers; never other images than those of the beginning, which weights and fitness belong to."""
    if path.exists():
        with np.load(path, allow_pickle=False) as there:
            if not np.array_equal(there["x"], pixels) or not np.array_equal(there["y"], labels):
                raise DataError(f"The experiment in '{shown(path.parent)}' has other images; choose another directory.")
        return
    temporary = path.with_name(f".{os.getpid()}.npz")
    np.savez(temporary, x=pixels, y=labels)
    temporary.replace(path)


def _evolve(experiment: Experiment, plugins: Sequence[str], show: Callable[[Experiment], None]) -> None:
    """Until the budget is spent, or Ctrl-C: then trainings are handed over, and the best so far counts."""
    try:
        experiment.run(plugins=plugins, look=lambda: show(experiment))
    except KeyboardInterrupt:
        if experiment.best() is None:
            raise

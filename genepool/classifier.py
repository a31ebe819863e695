"""ImageClassifier: evolution behind scikit-learn's interface. Images and labels in, a trained classifier out.

It follows scikit-learn's conventions for estimators without importing scikit-learn: parameters are stored as given and
checked in `fit`; names of fitted attributes end in an underscore.
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
from genepool.data import (
    ArraySource,
    Source,
    converted,
    pixel_scale,
    plain_labels,
    prepare,
    save_file,
    store_arrays,
    to_pixels,
)
from genepool.errors import ArrayError, DataError, NotFittedError, shown
from genepool.experiment import Experiment, Start, beginning
from genepool.export import Facts, Network, document, image_files, metadata, read_document, read_image, read_model
from genepool.registry import load as load_plugins

IMAGES = "images.npz"  # file in the experiment's directory that holds the arrays of `fit`, for the workers
OWN = ("facts_", "classes_", "_network", "_scale", "_kept")
"""The attributes that `fit` sets; others belong to a subclass and are pickled as they are."""
NOTE = "estimator"  # key of what a saved classifier has in addition to a model's facts


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    parameters: dict[str, Any]
    scale: float
    kind: str  # type of the labels, as NumPy writes it
    labels: tuple[bool | int | float | str, ...]


@contextmanager
def _value_errors() -> Iterator[None]:
    """Turn errors about given arrays into ValueErrors, as users of NumPy and scikit-learn expect."""
    try:
        yield
    except DataError as error:
        raise ArrayError(str(error)) from None


class ImageClassifier:
    """Evolves a classifier of images.

        time          how long `fit` may evolve, like "90s", "10m" or "2h"; None: no limit
        settings      settings by name that differ from the preset's, like {"workers.count": 2, "data.flip": False}
                      (see `genepool.settings.Settings`); "data.flip": no mirror images, as for digits, letters or
                      signs; "preset": `laptop`, `finetune`, `faithful` or `paper`
        start         the network to evolve on from, as for `genepool run --start`: a pretrained model, a file of DNA or
                      a name; None: the trivial one
        directory     where the experiment is kept; `fit` continues one that is there. None: a temporary directory
        plugins       modules or .py files with your own mutations, selections and so on
        random_state  the seed of all random numbers
        verbose       whether `fit` reports its progress on standard error

    After `fit`: `classes_`, `facts_` (what is known about the network) and `experiment`.
    """

    def __init__(
        self,
        *,
        time: str | float | None = "2m",
        settings: Mapping[str, Any] | None = None,
        start: str | os.PathLike[str] | None = None,
        directory: str | os.PathLike[str] | None = None,
        plugins: Sequence[str] = (),
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.time, self.settings, self.start, self.directory = time, settings, start, directory
        self.plugins, self.random_state, self.verbose = plugins, random_state, verbose

    # -- parameters, as scikit-learn expects them ----------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; none of them has parameters of its own."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> ImageClassifier:
        """Change some parameters."""
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

    @_value_errors()
    def fit(self, X: ArrayLike | str | os.PathLike[str], y: ArrayLike | None = None) -> ImageClassifier:  # noqa: N803
        """Evolve on images and their labels, or on a folder, a .npz file or a data set's name. Ctrl-C ends it early
        with the best network so far; with a `directory`, another `fit` continues from there."""
        load_plugins(self.plugins)
        experiment, classes, scale = self._of_path(X, y) if isinstance(X, (str, os.PathLike)) else self._of_arrays(X, y)
        self._evolve(experiment)
        model = experiment.model()
        self.facts_, self._network, self._scale = model.facts, model.network, scale
        self.classes_ = np.array(self.facts_.classes) if classes is None else classes
        return self

    def _of_path(self, path: str | os.PathLike[str], y: ArrayLike | None) -> tuple[Experiment, None, float]:
        if y is not None:
            raise DataError("A folder or file contains its labels; leave y out.")
        name = str(Path(path).resolve()) if Path(path).exists() else os.fspath(path)
        settings, start = self._beginning(name, lambda settings: settings.data.open())
        prepare(settings.data.open())  # bad images are reported before a directory is made
        self._make_place()
        return self._experiment(settings, start), None, 1.0

    def _of_arrays(self, x: ArrayLike, y: ArrayLike | None) -> tuple[Experiment, NDArray[Any], float]:
        if y is None:
            raise DataError("It requires y to be passed, but the target y is None; give a label for each image.")
        labels, classes = _labels_and_classes(y)
        scale = pixel_scale(x)
        pixels = to_pixels(x, scale)
        source = ArraySource(pixels, labels)  # refuses what no network can be trained on
        self._make_place()
        place = str(self._place().resolve() / IMAGES)
        experiment = self._experiment(*self._beginning(place, lambda settings: settings.data.adapted(source)))
        store_arrays(self._place() / IMAGES, pixels, labels)  # for the workers
        return experiment, classes, scale

    @property
    def experiment(self) -> Experiment:
        """The experiment that `fit` made."""
        if not hasattr(self, "_kept") and self.directory is None:
            raise _not_fitted("There is no experiment yet; call fit first.")
        return Experiment.open(self._place())

    def _make_place(self) -> None:
        if self.directory is None:  # a temporary directory, removed with the classifier
            self._kept = tempfile.mkdtemp(prefix="genepool-")
            weakref.finalize(self, shutil.rmtree, self._kept, ignore_errors=True)

    def _place(self) -> Path:
        return Path(self.directory) if self.directory is not None else Path(self._kept)

    def _settings(self, data: str, default: str = "laptop") -> names.Settings:
        given = {
            "data.source": data,
            "budget.time": None if self.time is None else names.seconds(str(self.time)),
            "experiment.seed": self.random_state,
            **(self.settings or {}),
        }
        return names.changed(names.preset(given.pop("preset", default)), given)

    def _beginning(
        self, data: str, source_of: Callable[[names.Settings], Source]
    ) -> tuple[names.Settings, Start | None]:
        """The settings, and the network to start from."""
        if self.start is None:
            return self._settings(data), None
        found = beginning(os.fspath(self.start), lambda default: self._settings(data, default), source_of)
        return found.settings, found.start

    def _experiment(self, settings: names.Settings, start: Start | None) -> Experiment:
        experiment = Experiment.create(self._place(), settings, start)
        experiment.set({name: value for name, value in names.by_name(settings).items() if name != "experiment.start"})
        return experiment

    def _evolve(self, experiment: Experiment) -> None:
        progress = _ProgressLine() if self.verbose else None
        try:
            experiment.run(plugins=self.plugins, look=lambda: progress(experiment) if progress else None)
        except KeyboardInterrupt:
            if experiment.best() is None:
                raise

    # -- predicting ----------------------------------------------------------------------------------------------------

    @_value_errors()
    def predict_proba(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """The probability of each class, in the order of `classes_`, for images or for image files and folders."""
        facts, network = self._fitted()
        if isinstance(X, (str, os.PathLike)):
            X = [X]  # noqa: N806
        if isinstance(X, (list, tuple)) and X and all(isinstance(place, (str, os.PathLike)) for place in X):
            return network.predict(np.stack([read_image(path, facts) for path in image_files(map(Path, X))]))
        pixels = to_pixels(X, self._scale)
        if self.start is not None:  # the images may have been converted
            pixels = converted(pixels, facts.channels)
        if pixels.shape[1:] != tuple(facts.image):
            raise DataError(f"X has images of the shape {pixels.shape[1:]}, but it was fitted on {tuple(facts.image)}.")
        return network.predict(pixels)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each image."""
        probabilities = self.predict_proba(X)  # first, because it checks that the classifier is fitted
        return np.asarray(self.classes_[probabilities.argmax(1)])

    @_value_errors()
    def score(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:  # noqa: N803
        """The share of images that are classified correctly; y is not needed for a folder with one folder per class."""
        labels = self._labels_below(X) if y is None else np.asarray(y)
        right = self.predict(X) == labels
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)))

    def _labels_below(self, folder: Any) -> NDArray[Any]:
        self._fitted()
        if not isinstance(folder, (str, os.PathLike)) or not Path(folder).is_dir():
            raise DataError("It requires y, a label for each image; only a folder of folders contains its labels.")
        labels = [path.parent.name for path in image_files([Path(folder)])]
        if unknown := sorted(set(labels) - set(map(str, self.classes_))):
            name, place = shown(unknown[0]), shown(Path(folder))
            raise DataError(f"'{name}' in '{place}' is not a class that was fitted; rename it.")
        return np.array(labels)

    def _fitted(self) -> tuple[Facts, Network]:
        if not hasattr(self, "_network"):
            raise _not_fitted("This ImageClassifier is not fitted yet; call fit first.")
        return self.facts_, self._network

    # -- saving --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted classifier to one .safetensors file, which `load` and `genepool predict` read."""
        target = Path(path)
        if target.suffix != ".safetensors":
            raise DataError(f"The name '{shown(target)}' must end in .safetensors.")
        save_file(target, self._document(), "model")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ImageClassifier:
        """Load a saved classifier. Nothing in the file is run, and its plugins and directory are ignored."""
        read_model(Path(path))  # its error messages name the file
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
            labels = _saved_labels(note)
        except (KeyError, msgspec.MsgspecError, TypeError, ValueError):
            raise DataError("The file contains a model's weights, but not a saved ImageClassifier.") from None
        self.facts_, self._network = read_document(data)
        if len(labels) != len(self.facts_.classes):
            raise DataError("The saved ImageClassifier has other classes than its network; save it again.")
        self._scale, self.classes_ = note.scale, labels
        return self

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and joblib: the parameters, and what `save` would write. The experiment is not included."""
        model = self._document() if self.__sklearn_is_fitted__() else None
        others = {name: value for name, value in vars(self).items() if name not in {*self.get_params(), *OWN}}
        return {"parameters": self.get_params(), "model": model, "others": others}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["parameters"])
        if state["model"] is not None:
            self._restored(state["model"])
        self.__dict__.update(state["parameters"])  # again, because the file has some in plainer form
        self.__dict__.update(state["others"])


def _plain_parameters(note: _Note) -> dict[str, Any]:
    """The parameters, without those that would make the next `fit` read or write files or import modules."""
    # JSON has no tuples, and no parameter is a list.
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in note.parameters.items()}
    return {name: value for name, value in plain.items() if name not in ("plugins", "directory", "start")}


def _saved_labels(note: _Note) -> NDArray[Any]:
    """The labels in their original type; text as long as the longest, because a file could claim any length."""
    labels, kind = np.array(note.labels), np.dtype(note.kind)
    if labels.ndim != 1 or (labels.dtype.kind == "U") != (kind.kind == "U") or kind.kind not in "biufU":
        raise ValueError("no labels")
    return labels if kind.kind == "U" else labels.astype(kind)


def _not_fitted(text: str) -> NotFittedError:
    """An error that is also scikit-learn's own if that is loaded."""
    theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
    error: NotFittedError = type("NotFittedError", (NotFittedError, theirs) if theirs else (NotFittedError,), {})(text)
    return error


def _labels_and_classes(y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels as a data source takes them, and the classes as the user writes them; warns about a column vector."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        kind = getattr(sys.modules.get("sklearn.exceptions"), "DataConversionWarning", UserWarning)
        warnings.warn("A column-vector y was passed when a 1d array was expected; write y.ravel().", kind, stacklevel=5)
        labels = labels[:, 0]
    return plain_labels(labels)


class _ProgressLine:
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

"""ImageClassifier on real digits and photographs, alone and in the hands of scikit-learn."""

import json
import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.validation import check_is_fitted

from genepool import ImageClassifier
from genepool.data import prepare
from genepool.errors import DataError, GenepoolError, NotFittedError
from genepool.export import source as safetensors_form
from tests.support.photographs import photographs

SMALL = dict(
    time=None,
    settings={
        "budget.individuals": 5,
        "workers.count": 1,
        "population.size": 4,
        "training.steps": 60,
        "breeding.mutations": 6,
    },
)


def small(**settings):
    """A classifier that trains two individuals, with some other settings."""
    return ImageClassifier(time=None, settings={**SMALL["settings"], "budget.individuals": 2, **settings})


@pytest.fixture(scope="module")
def digits():
    images = load_digits()
    return images.images[:600] / 16, images.target[:600]


@pytest.fixture(scope="module")
def fitted(digits):
    x, y = digits
    return ImageClassifier(**SMALL).fit(x[:500], y[:500])


def test_it_answers_with_the_users_own_labels(fitted, digits):
    x, y = digits
    answers = fitted.predict(x[500:])
    probabilities = fitted.predict_proba(x[500:])
    assert answers.dtype == y.dtype and set(answers) <= set(range(10))
    assert probabilities.shape == (100, 10) and np.allclose(probabilities.sum(1), 1)
    assert (answers == fitted.classes_[probabilities.argmax(1)]).all()
    assert fitted.score(x[500:], y[500:]) == (answers == y[500:]).mean()
    assert fitted.experiment.history().best().id == fitted.facts_.members[0].id


def test_a_saved_and_a_pickled_one_answer_the_same(fitted, digits, tmp_path):
    x, _ = digits
    fitted.save(tmp_path / "digits.safetensors")
    for other in (ImageClassifier.load(tmp_path / "digits.safetensors"), pickle.loads(pickle.dumps(fitted))):
        assert np.array_equal(other.predict_proba(x[500:]), fitted.predict_proba(x[500:]))
        assert np.array_equal(other.predict(x[500:]), fitted.predict(x[500:]))
        assert other.get_params() == fitted.get_params()
        assert other.classes_.dtype == fitted.classes_.dtype
    assert pickle.loads(pickle.dumps(ImageClassifier(random_state=3))).random_state == 3


HOSTILE = {
    "another parameter": (dict(parameters={"seed": 1}), "not a saved ImageClassifier"),
    "labels without end": (dict(kind="<U400000000"), None),
    "labels of objects": (dict(kind="|O"), "not a saved ImageClassifier"),
    "labels of nothing": (dict(kind="V900000000"), "not a saved ImageClassifier"),
    "no labels": (dict(labels=[]), "not a saved ImageClassifier"),
    "more labels": (dict(labels=["x"] * 11), "other classes than its network"),
    "plugins": (dict(parameters={"plugins": ["evil.py"], "directory": "evil", "random_state": 5}), None),
}


@pytest.mark.parametrize(("change", "said"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_brings_no_code_and_takes_no_memory(change, said, fitted, digits, tmp_path):
    place = tmp_path / "hostile.safetensors"
    document = safetensors_form.document(fitted._network, fitted.facts_, estimator=json.dumps({**NOTE, **change}))
    place.write_bytes(document)
    tracemalloc.start()
    try:
        if said is not None:
            with pytest.raises(DataError, match=said):
                ImageClassifier.load(place)
        else:
            loaded = ImageClassifier.load(place)
            assert loaded.plugins == () and loaded.directory is None
            assert set(loaded.predict(digits[0][:5])) <= set("0123456789")
        assert tracemalloc.get_traced_memory()[1] < 5 * 10**7
    finally:
        tracemalloc.stop()


NOTE = {"parameters": {}, "scale": 255.0, "kind": "<U1", "labels": list("0123456789")}


def test_what_a_subclass_keeps_is_pickled_too():
    note = _Noting(random_state=3)
    note.remark_ = "mine"
    assert pickle.loads(pickle.dumps(note)).remark_ == "mine"


class _Noting(ImageClassifier):
    """Somebody's own."""


def test_it_is_an_estimator(fitted):
    assert is_classifier(fitted)
    check_is_fitted(fitted)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(copy)
    with pytest.raises(NotFittedError):
        copy.predict(np.zeros((1, 8, 8)))
    assert copy.set_params(random_state=7).random_state == 7
    with pytest.raises(ValueError, match="no parameter 'seed'"):
        copy.set_params(seed=7)
    assert repr(ImageClassifier(time="1h")) == "ImageClassifier(time='1h')"


@pytest.mark.thorough
def test_digits_need_not_be_mirrored(digits):
    x, y = digits
    assert prepare(small().fit(x[:60], y[:60] % 2).experiment.source()).flip
    assert not prepare(small(**{"data.flip": False}).fit(x[:60], y[:60] % 2).experiment.source()).flip


@pytest.mark.thorough
def test_it_works_in_cross_val_score_with_text_as_labels(digits):
    x, y = digits
    names = np.array(["even", "odd"])[y % 2]
    scores = cross_val_score(small(), x[:200], names[:200], cv=2)
    assert len(scores) == 2 and all(0 <= score <= 1 for score in scores)


def test_it_fits_a_folder_and_goes_on_in_its_directory(tmp_path):
    folder = photographs(tmp_path / "images", crops=18)
    first = small().set_params(directory=tmp_path / "e").fit(folder)
    again = small(**{"budget.individuals": 3}).set_params(directory=tmp_path / "e").fit(folder)
    assert first.classes_.tolist() == ["dahlia", "temple"]
    assert again.experiment.history().spending().individuals >= 3
    assert set(again.predict(folder / "temple")) <= {"dahlia", "temple"}
    assert again.score(folder) == (again.predict(folder) == ["dahlia"] * 18 + ["temple"] * 18).mean()
    assert again.predict_proba([str(path) for path in sorted((folder / "temple").iterdir())[:3]]).shape == (3, 2)


IMAGES = np.zeros((20, 4, 4), dtype=np.uint8)
LABELS = np.arange(20) % 2
BAD = {
    "no labels": ((IMAGES, None), "the target y is None"),
    "labels of a folder": (("folder", LABELS), "leave y out"),
    "too few labels": ((IMAGES, LABELS[:19]), "19 labels"),
    "one class": ((IMAGES, np.zeros(20, dtype=int)), "two classes"),
    "float labels": ((IMAGES, LABELS + 0.5), "Unknown label type: y is continuous; .* integers or text"),
    "NaN labels": ((IMAGES, np.where(LABELS == 1, np.nan, 0.0)), "y contains NaN"),
    "mixed labels": ((IMAGES, np.array(["a", 1] * 10, dtype=object)), "Python objects"),
    "one image": ((IMAGES[:1], LABELS[:1]), r"1 class for 1 sample"),
    "NaN pixels": ((np.full((20, 4, 4), np.nan), LABELS), "not finite"),
    "one image a class": ((IMAGES[:2], LABELS[:2]), "3 or more images"),
    "flat images": ((IMAGES.reshape(20, 16), LABELS), "must have the shape"),
    "objects": ((np.full((20, 4, 4), None), LABELS), "Python objects"),
    "no such folder": (("nowhere/at/all", None), "no folder or file"),
}


@pytest.mark.parametrize(("given", "said"), BAD.values(), ids=BAD)
def test_bad_input_gets_one_sentence_before_anything_is_trained(given, said):
    with pytest.raises(GenepoolError, match=said):
        ImageClassifier(**SMALL).fit(*given)
    with pytest.raises(ValueError, match=said):  # NumPy's and scikit-learn's users catch this one
        ImageClassifier(**SMALL).fit(*given)


def test_a_bad_folder_leaves_no_directory(tmp_path):
    folder = photographs(tmp_path / "images", crops=9)
    (folder / "temple" / "zero.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"zero\.png' is empty \(0 bytes\)"):
        ImageClassifier(directory=tmp_path / "e", **SMALL).fit(folder)
    assert not (tmp_path / "e").exists()


def test_labels_of_any_kind_come_back_as_they_were_given(digits):
    x, y = digits
    for labels in ((y % 2).astype(float), np.array(["no", "yes"], dtype=object)[y % 2], y % 2 == 1):
        fitted = small().fit(x[:60], labels[:60])
        assert set(fitted.predict(x[60:80])) <= set(labels) and list(fitted.classes_) == sorted(set(labels))
        again = pickle.loads(pickle.dumps(fitted))
        assert again.classes_.dtype == fitted.classes_.dtype and list(again.classes_) == list(fitted.classes_)


@pytest.mark.thorough
def test_it_works_in_a_grid_search(digits):
    x, y = digits
    search = GridSearchCV(small(), {"random_state": [1, 2]}, cv=2)
    assert search.fit(x[:60], y[:60] % 2).best_params_["random_state"] in (1, 2)


def test_a_score_needs_labels_that_are_known(fitted, digits, tmp_path):
    with pytest.raises(ValueError, match="It requires y"):
        fitted.score(digits[0])
    folder = photographs(tmp_path / "images", crops=9)
    with pytest.raises(ValueError, match=r"'dahlia' in .* is not a class that was fitted"):
        fitted.score(folder)


def test_other_images_do_not_fit_what_was_learnt(fitted, digits, tmp_path):
    with pytest.raises(DataError, match="fitted on"):
        fitted.predict(np.zeros((1, 9, 9)))
    with pytest.raises(DataError, match=r"end in \.safetensors"):
        fitted.save(tmp_path / "model.pkl")
    (tmp_path / "x.safetensors").write_bytes(b"hello")
    with pytest.raises(DataError, match=r"x\.safetensors"):
        ImageClassifier.load(tmp_path / "x.safetensors")

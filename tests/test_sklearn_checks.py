"""scikit-learn's own checks of estimators, on tables that are painted as images.

`check_estimator` asks an estimator of images little (its tags say that it takes no tables), so here a thin adapter
paints the rows of a table, as a user would have to; everything else is ImageClassifier itself, with real evolution in
real workers. That takes many minutes: by default the checks that fit at most once are run, and all of them with
GENEPOOL_ALL_CHECKS=1.
"""

import os
import sys

import numpy as np
import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_array

from genepool import ImageClassifier

SMALL = dict(
    time=None,
    settings={
        "budget.individuals": 2,
        "workers.count": 1,
        "population.size": 2,
        "training.steps": 60,
        "training_budget.share": None,
    },
)

QUICK = {
    "check_estimator_cloneable", "check_estimator_tags_renamed", "check_valid_tag_types", "check_estimator_repr",
    "check_no_attributes_set_in_init", "check_do_not_raise_errors_in_init_or_set_params", "check_mixin_order",
    "check_estimators_unfitted", "check_parameters_default_constructible", "check_get_params_invariance",
    "check_set_params", "check_complex_data", "check_estimators_empty_data_messages", "check_estimator_sparse_tag",
    "check_classifiers_one_label", "check_classifiers_regression_target", "check_supervised_y_no_nan",
    "check_fit1d", "check_fit2d_1sample", "check_requires_y_none", "check_n_features_in",
}  # fmt: skip

CANNOT_APPLY: dict[str, str] = {}
"""What fails, and why that is right: nothing at present."""


class Tables(ImageClassifier):
    """Paints rows of numbers: three columns of a table are the colour of a stripe, the next three of another below."""

    def fit(self, X, y=None):  # noqa: N803
        table = check_array(X)
        self.n_features_in_ = table.shape[1]
        return super().fit(_painted(table), y)

    def predict_proba(self, X):  # noqa: N803
        self._fitted()
        table = check_array(X)
        if table.shape[1] != self.n_features_in_:
            message = (
                f"X has {table.shape[1]} features, but Tables is expecting {self.n_features_in_} features as input."
            )
            raise ValueError(message)
        return super().predict_proba(_painted(table))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = True, False
        tags.input_tags.positive_only = False
        tags.non_deterministic = False  # a budget of individuals and one worker: every run is the same
        return tags


def _painted(table):
    """Stripes of 8x8 pixels, since training crops images at random by up to four pixels."""
    brightness = np.clip((table + 10) / 20, 0, 1)
    missing = np.full((len(table), -table.shape[1] % 3), 0.5)
    colours = np.concatenate([brightness, missing], axis=1).reshape(len(table), -1, 1, 3)
    return colours.repeat(8, axis=1).repeat(8, axis=2)


@pytest.mark.filterwarnings("ignore")
def test_what_scikit_learn_asks_of_an_estimator_of_images():
    found = estimator_checks.check_estimator(ImageClassifier(), on_fail=None, on_skip=None)
    assert found and all(one["status"] == "passed" for one in found), found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(0 if "GENEPOOL_ALL_CHECKS" in os.environ else 600)
def test_the_checks_of_scikit_learn_pass():
    everything = "GENEPOOL_ALL_CHECKS" in os.environ
    done, found = set(), {}
    for estimator, check in estimator_checks.estimator_checks_generator(Tables(**SMALL), legacy=True):
        name = check.func.__name__
        if everything or name in QUICK:
            fault = _fault(check, estimator)
            sys.stdout.write(f"{name}: {fault or 'passed'}\n")  # shown by pytest's -s
            found |= {name: fault} if fault and not fault.startswith("SkipTest") else {}
            done.add(name)
    assert done >= QUICK
    assert set(found) <= set(CANNOT_APPLY), found
    assert not everything or set(found) == set(CANNOT_APPLY)  # what passes is not on the list


def _fault(check, estimator):
    try:
        check(estimator)
    except Exception as error:  # noqa: BLE001 - told
        return f"{type(error).__name__}: {error}"[:300]
    return None

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genepool.data.splits import proportional_order, stratified_split
from genepool.errors import DataError


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(
    counts=st.lists(st.integers(2, 60), min_size=2, max_size=6),
    share=st.floats(0.02, 0.9),
    seed=st.integers(0, 2**32),
)
def test_a_split_takes_each_class_in_proportion_and_leaves_some_of_it(counts, share, seed):
    labels = rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    taken = np.bincount(labels[stratified_split(labels, share, rng(seed))], minlength=len(counts))
    for count, part in zip(counts, taken, strict=True):
        assert 1 <= part <= count - 1
        assert abs(part - share * count) <= 1 or part in (1, count - 1)


def test_cifar_gives_500_of_each_class_for_validation():
    labels = np.repeat(np.arange(10), 5000)
    mask = stratified_split(labels, 0.1, rng())
    assert np.bincount(labels[mask]).tolist() == [500] * 10


def test_a_split_of_uneven_classes_adds_up_to_the_share_of_all():
    labels = np.repeat(np.arange(4), [15, 15, 15, 15])
    assert stratified_split(labels, 0.1, rng()).sum() == 6


def test_a_split_repeats_with_its_seed_and_changes_with_it():
    labels = np.repeat(np.arange(10), 50)
    assert (stratified_split(labels, 0.1, rng(1)) == stratified_split(labels, 0.1, rng(1))).all()
    assert (stratified_split(labels, 0.1, rng(1)) != stratified_split(labels, 0.1, rng(2))).any()


def test_a_class_of_one_image_cannot_be_split():
    with pytest.raises(DataError, match="one image"):
        stratified_split(np.array([0, 0, 1]), 0.1, rng())


@given(counts=st.lists(st.integers(1, 40), min_size=2, max_size=5), seed=st.integers(0, 2**32))
def test_every_beginning_of_the_order_is_a_fair_sample(counts, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    order = proportional_order(labels, rng(seed))
    assert sorted(order) == list(range(len(labels)))
    for length in range(1, len(labels) + 1):
        found = np.bincount(labels[order[:length]], minlength=len(counts))
        assert (np.abs(found - length * np.array(counts) / len(labels)) <= len(counts)).all()

"""Images that come as NumPy arrays, from Python or from a .npz file."""

import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from genepool.data import ArraySource, open_source
from genepool.errors import DataError, GenepoolError

LABELS = np.repeat(np.arange(2), 10)


def images(*shape: int, high: int = 256) -> np.ndarray:
    return np.random.default_rng(0).integers(0, high, shape, dtype=np.uint8)


X = images(20, 6, 5, 3)


@pytest.mark.parametrize(
    ("shape", "expected"), [((20, 6, 5), (6, 5, 1)), ((20, 6, 5, 1), (6, 5, 1)), ((20, 6, 5, 3), (6, 5, 3))]
)
def test_grey_and_coloured_arrays_are_taken(shape, expected):
    source = ArraySource(images(*shape), LABELS)
    assert source.development().images.pixels.shape == (18, *expected)
    assert source.held_out().pixels.shape == (2, *expected)


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x,
        lambda x: x / 255,
        lambda x: (x / 255).astype(np.float32),
        lambda x: x.astype(float),
        lambda x: x.astype(np.int64),
        lambda x: x.tolist(),
    ],
)
def test_bytes_integers_and_floats_in_both_scales_mean_the_same(convert):
    source = ArraySource(convert(X), LABELS)
    assert (source.development().images.pixels == ArraySource(X, LABELS).development().images.pixels).all()


def test_booleans_are_black_and_white():
    assert set(np.unique(ArraySource(X > 99, LABELS).development().images.pixels)) == {0, 255}


def test_a_dark_test_part_is_scaled_like_the_training_part():
    source = ArraySource(X.astype(float), LABELS, test=(np.ones((3, 6, 5, 3)), [0, 1, 0]))
    assert source.held_out().pixels.max() == 1


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["rose", "daisy"] * 10, ("daisy", "rose")),
        ([b"rose", b"daisy"] * 10, ("daisy", "rose")),
        ([7, 3] * 10, ("3", "7")),
        ([[1], [0]] * 10, ("0", "1")),
        ([True, False] * 10, ("False", "True")),
    ],
)
def test_labels_may_be_text_or_integers(labels, classes):
    source = ArraySource(X, labels, validation=(X[:2], labels[:2]), test=(X[:2], labels[:2]))
    assert source.classes == classes
    assert source.held_out().labels.tolist() == [1, 0]


def test_classes_may_be_named():
    assert ArraySource(X, LABELS, classes=["cat", "dog"]).classes == ("cat", "dog")
    with pytest.raises(DataError, match="integers from 0 to 0"):
        ArraySource(X, LABELS, classes=["cat"])


def test_given_parts_are_kept_apart():
    source = ArraySource(X, LABELS, validation=(X[:4], LABELS[:4]), test=(X[4:7], LABELS[4:7]))
    development = source.development()
    assert development.validation.tolist() == [False] * 20 + [True] * 4
    assert (development.images.pixels[20:] == X[:4]).all() and (source.held_out().pixels == X[4:7]).all()


def test_the_fingerprint_is_of_the_contents():
    changed = X.copy()
    changed[3, 2, 1, 0] ^= 1
    assert ArraySource(X, LABELS).fingerprint() == ArraySource(X.copy(), LABELS).fingerprint()
    assert ArraySource(X, LABELS).fingerprint() != ArraySource(changed, LABELS).fingerprint()
    assert ArraySource(X, LABELS).fingerprint() != ArraySource(X, 1 - LABELS).fingerprint()


NAN = X.astype(float)
NAN[0, 0, 0, 0] = np.nan
BAD = {
    "channels": ((images(20, 6, 5, 2), LABELS), "not \\(20, 6, 5, 2\\)"),
    "channels first": ((images(20, 3, 6, 5), LABELS), "channels to the end"),
    "flat": ((images(20, 90), LABELS), "shape"),
    "lengths": ((X, LABELS[:-1]), "20 images, but y has 19"),
    "one class": ((X, np.zeros(20, int)), "two classes"),
    "few": ((X, np.arange(20) // 10 * 0 + (np.arange(20) == 0)), "'1' has 1 of the 3"),
    "nan": ((NAN, LABELS), "not finite"),
    "range": ((X.astype(float) * 300, LABELS), "outside of 0..255"),
    "negative": ((X / 255 - 0.5, LABELS), "outside of 0..1"),
    "sixteen bit": ((X.astype(np.uint16) * 257, LABELS), "65535, outside of 0..255"),
    "text": (([["a"]] * 20, LABELS), "must be numbers"),
    "objects": ((np.full(20, None), LABELS), "Python objects"),
    "ragged": (([[1], [1, 2]], [0, 1]), "not an array"),
    "float labels": ((X, LABELS + 0.5), "integers or text"),
    "one-hot labels": ((X, np.eye(2)[LABELS]), "one label per image"),
    "empty": ((X[:0], LABELS[:0]), "empty"),
    "complex": ((X * 1j, LABELS), "must be numbers"),
}


@pytest.mark.parametrize("case", BAD)
def test_arrays_that_cannot_be_used_are_refused(case):
    arguments, message = BAD[case]
    with pytest.raises(DataError, match=message):
        ArraySource(*arguments)


def test_other_parts_must_fit_the_training_part():
    with pytest.raises(DataError, match="same size"):
        ArraySource(X, LABELS, test=(images(3, 7, 7, 3), [0, 1, 0]))
    with pytest.raises(DataError, match="label '5'"):
        ArraySource(X, LABELS, validation=(X[:2], [0, 5]))
    with pytest.raises(DataError, match="same kind"):
        ArraySource(X, LABELS, validation=(X[:2], ["0", "1"]))


@pytest.mark.parametrize("names", [("x_train", "y_train"), ("x", "y"), ("images", "labels")])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_files_are_read_under_the_usual_names(tmp_path, names, save):
    save(tmp_path / "flowers.npz", **{names[0]: X, names[1]: LABELS})
    source = open_source(tmp_path / "flowers.npz")
    assert source.name == "flowers" and source.classes == ("0", "1")
    assert len(source.development().images) == 18 and len(source.held_out()) == 2


def test_npz_parts_are_kept_apart(tmp_path):
    np.savez(tmp_path / "a.npz", x_train=X, y_train=LABELS, x_val=X[:2], y_val=[0, 1], x_test=X[:3], y_test=[0, 1, 1])
    source = open_source(str(tmp_path / "a.npz"), flip=False)
    assert source.development().validation.sum() == 2 and len(source.held_out()) == 3 and not source.flip


class Boom:
    """Pickled, it would touch a file when read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def npz_with(path, **members: bytes):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def test_pickled_objects_are_refused_and_never_run(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=np.array([Boom(tmp_path / "ran")] * 20))
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Boom(tmp_path / "ran")))
    for name in ("a.npz", "b.npz"):
        with pytest.raises(DataError, match=f"{name}.*pickled objects"):
            open_source(tmp_path / name).development()
    assert not (tmp_path / "ran").exists()


def test_npz_files_that_cannot_be_used_are_named(tmp_path):
    np.savez(tmp_path / "whole.npz", x=X, y=LABELS)
    whole = (tmp_path / "whole.npz").read_bytes()
    cases = {
        "empty": b"",
        "text": b"hello",
        "half": whole[: len(whole) // 2],
        "flipped": whole[:400] + bytes([whole[400] ^ 255]) + whole[401:],
    }
    for name, content in cases.items():
        (tmp_path / f"{name}.npz").write_bytes(content)
    np.save(tmp_path / "one.npy", X)
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    np.savez(tmp_path / "keys.npz", pictures=X, y=LABELS)
    np.savez(tmp_path / "half_pair.npz", x=X, y=LABELS, x_test=X)
    np.savez(tmp_path / "nan.npz", x=NAN, y=LABELS)
    np.savez(tmp_path / "bad_test.npz", x=X, y=LABELS, x_test=NAN, y_test=LABELS)
    npz_with(tmp_path / "no_array.npz", x=b"junk", y=b"junk")
    for path in sorted(tmp_path.iterdir()):
        if path.name != "whole.npz":
            with pytest.raises(DataError, match=path.name.replace(".", r"\.")) as caught:
                open_source(path).development()
            assert "\n" not in str(caught.value)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    """300 MB of black images in a file of 1 MB."""
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("x.npy", "w") as member:
            header = {"descr": "|u1", "fortran_order": False, "shape": (300, 1000, 1000)}
            np.lib.format.write_array_header_1_0(member, header)
            for _ in range(300):
                member.write(bytes(10**6))
        with archive.open("y.npy", "w") as member:
            np.save(member, np.arange(300) % 2)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"bomb\.npz' would unpack to 0\.3 GB, over 100 times its own size"):
            open_source(tmp_path / "bomb.npz").development()
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


def test_arrays_that_do_not_fit_into_memory_are_refused_before_they_are_read(tmp_path, monkeypatch):
    np.savez(tmp_path / "large.npz", x=images(20, 300, 300), y=LABELS)
    monkeypatch.setattr("genepool.data.free_memory.available_memory", lambda: 3 * 10**6)
    with pytest.raises(DataError, match=r"large\.npz' would take 0\.0 GB of memory, but only 0\.0 GB are free"):
        open_source(tmp_path / "large.npz").development()
    monkeypatch.setattr("genepool.data.free_memory.available_memory", lambda: 4 * 10**6)
    assert len(open_source(tmp_path / "large.npz").development().images) == 18


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.floats(0, 1), change=st.binary(max_size=6), cut=st.floats(0, 1))
def test_any_bytes_in_a_npz_give_images_or_a_sentence(tmp_path, place, change, cut):
    path = tmp_path / "fuzz.npz"
    np.savez(path, x=X, y=LABELS)
    content = bytearray(path.read_bytes())
    start = int(place * len(content))
    content[start : start + len(change)] = change
    path.write_bytes(content if cut > 0.3 else content[: int(cut * 3 * len(content))])
    try:
        open_source(path).development()
    except GenepoolError as error:
        assert "fuzz.npz" in str(error)

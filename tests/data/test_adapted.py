"""Images as a pretrained network expects them."""

import numpy as np
import pytest
from PIL import Image

from genepool.data import AdaptedSource, ArraySource, DataSettings, converted, prepare
from genepool.errors import SettingsError

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 7, 5, 3), dtype=np.uint8)
SOURCE = ArraySource(PIXELS, np.arange(40) % 2)


def test_colour_becomes_grey_as_in_image_files():
    grey = converted(PIXELS, 1)
    for ours, pixels in zip(grey, PIXELS, strict=True):
        assert (ours[..., 0] == np.asarray(Image.fromarray(pixels).convert("L"))).all()


def test_grey_becomes_colour_and_back():
    colour = converted(PIXELS[..., :1], 3)
    assert (colour == PIXELS[..., :1]).all() and colour.shape == PIXELS.shape
    assert (converted(colour, 1) == PIXELS[..., :1]).all()


def test_all_parts_are_converted_and_normalised_by_the_given_numbers(tmp_path):
    source = AdaptedSource(SOURCE, channels=1, mean=(0.25,), std=(0.5,))
    data = prepare(source, cache=tmp_path)
    assert (data.channels, data.mean, data.std) == (1, (0.25,), (0.5,))
    assert source.held_out().pixels.shape[1:] == data.image
    assert data.train_pixels[0, 0, 0, 0] == 64  # the frame is zero once it is normalised
    plain = prepare(SOURCE, cache=tmp_path)
    own = prepare(AdaptedSource(SOURCE, mean=plain.mean), cache=tmp_path)
    assert (own.mean, own.std) == (plain.mean, plain.std) and (own.train_pixels == plain.train_pixels).all()


@pytest.mark.parametrize("given", [{"mean": (0.5,)}, {"std": (0.5, 0.5)}, {"channels": 1, "mean": (0.1, 0.2, 0.3)}])
def test_numbers_for_other_channels_are_refused(given, tmp_path):
    with pytest.raises(SettingsError, match=r"must have (one number|3 numbers) each"):
        prepare(AdaptedSource(SOURCE, **given), cache=tmp_path)


def test_a_deviation_of_zero_is_refused():
    with pytest.raises(SettingsError, match="above 0"):
        DataSettings(source="fashion-mini", std="0").open()


def test_settings_without_them_leave_the_source_as_it_is():
    assert DataSettings().adapted(SOURCE) is SOURCE
    assert isinstance(DataSettings(channels=1).adapted(SOURCE), AdaptedSource)

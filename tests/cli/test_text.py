"""Text for the terminal."""

from genepool.cli.text import brief
from genepool.dna import zoo


def test_a_deep_network_is_shortened_and_a_small_one_is_not():
    small, deep = zoo("initial").in_a_line(), zoo("resnet-110").in_a_line()
    assert brief(small) == small
    shown = brief(deep)
    assert len(shown) < 120 < len(deep)
    assert shown.startswith("C3x3+BN+R C3x3+BN+R") and shown.endswith("layers), 54 skips")
    assert f"({len(deep.partition(',')[0].split())} layers)" in shown

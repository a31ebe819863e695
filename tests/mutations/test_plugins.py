"""A mutation from another package: one class, one entry point."""

import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def package(tmp_path):
    """A really installed package, as an installer would leave it."""
    (tmp_path / "stranger.py").write_text(
        textwrap.dedent("""
        class DoubleRate:
            def mutate(self, dna, rng):
                return dna.edited(learning_rate=dna.learning_rate * 2)
        """)
    )
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    points = "[genepool.mutations]\ndouble-rate = stranger:DoubleRate\nbroken = nowhere:Nothing\n"
    (info / "entry_points.txt").write_text(points)
    return tmp_path


def run(package, code):
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, env={"PYTHONPATH": f"{package}:."}, capture_output=True, text=True, check=False)


def test_it_is_found_by_name_and_takes_part_only_where_the_odds_name_it(package):
    result = run(
        package,
        """
        from random import Random
        from genepool.dna import initial
        from genepool.mutations import MUTATIONS, mutate
        assert "double-rate" in MUTATIONS.names()
        assert mutate(initial(), Random(0), {"double-rate": 1.0}).dna.learning_rate == 0.2
        rng = Random(0)
        assert "double-rate" not in {mutate(initial(), rng).name for _ in range(200)}
        """,
    )
    assert result.returncode == 0, result.stderr


def test_a_broken_one_is_one_sentence_and_breaks_nobody_else(package):
    result = run(
        package,
        """
        from genepool.errors import SettingsError
        from genepool.mutations import MUTATIONS
        MUTATIONS.get("add-skip")
        try:
            MUTATIONS.get("broken")
        except SettingsError as error:
            print(error)
        """,
    )
    assert result.returncode == 0, result.stderr
    assert "The mutation 'broken' from 'nowhere:Nothing' cannot be loaded" in result.stdout


def test_a_name_has_one_owner(package):
    points = package / "stranger-1.0.dist-info" / "entry_points.txt"
    points.write_text("[genepool.mutations]\nadd-skip = stranger:DoubleRate\n")
    result = run(package, "from genepool.mutations import MUTATIONS; MUTATIONS.get('add-skp')")
    assert "comes from two packages" in result.stderr

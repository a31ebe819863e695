"""A mutation from another package: one function, one entry point."""

import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def package(tmp_path):
    """A package as an installer leaves it."""
    (tmp_path / "extras.py").write_text(
        textwrap.dedent("""
        def double_rate(dna, rng):
            return dna.edited(learning_rate=dna.learning_rate * 2)
        """)
    )
    info = tmp_path / "extras-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extras\nVersion: 1.0\n")
    points = "[genepool.mutations]\ndouble-rate = extras:double_rate\nbroken = nowhere:Nothing\n"
    (info / "entry_points.txt").write_text(points)
    return tmp_path


def run(package, code):
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, env={"PYTHONPATH": f"{package}:."}, capture_output=True, text=True, check=False)


def test_it_is_found_by_name_and_takes_part_only_if_the_odds_name_it(package):
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


def test_a_broken_one_is_one_sentence_and_breaks_nothing_else(package):
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
    points = package / "extras-1.0.dist-info" / "entry_points.txt"
    points.write_text("[genepool.mutations]\nadd-skip = extras:double_rate\n")
    result = run(package, "from genepool.mutations import MUTATIONS; MUTATIONS.get('add-skp')")
    assert "comes from two packages" in result.stderr

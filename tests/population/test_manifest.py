"""The manifest is published once, anything else is refused with one sentence, and settings have versions."""

import errno
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from genepool.errors import PopulationFormatError, StorageError
from genepool.population import DirectoryPopulation, DirectoryView, Files, publish_version, read_config, read_manifest
from genepool.population.directory.manifest import shards_for
from genepool.testing import make_birth

FAST = Files(durability="fast")


def test_the_first_of_two_creators_wins(tmp_path: Path) -> None:
    first = DirectoryPopulation.establish(tmp_path, population_size=10, settings={"data": "a"}, files=FAST)
    second = DirectoryPopulation.establish(tmp_path, population_size=5_000, settings={"data": "b"}, files=FAST)
    assert second == first == read_manifest(FAST, str(tmp_path))
    assert not list(tmp_path.glob("new-*"))


@pytest.mark.parametrize(
    ("size", "shards"), [(1, 1), (100, 1), (1_000, 64), (10_000, 1_024), (100_000, 4_096), (10**9, 4_096)]
)
def test_shards_follow_the_set_point(size: int, shards: int) -> None:
    assert shards_for(size) == shards


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (None, "no experiment"),
        ("", "not a valid manifest"),
        ("[]", "not a valid manifest"),
        ('{"format": 1, "something": "old"}', "format 1, which an earlier release"),
        ('{"format": 3, "something": "new"}', "format 3, which a later release"),
        ('{"format": 2}', "not a valid manifest"),
        ('{"format":2,"uuid":"x","shards":0,"lease":1,"population_size":1,"created":0}', "0 shards"),
        ('{"format":2,"uuid":"x","shards":1,"lease":-1,"population_size":1,"created":0}', "lease"),
        ("[" * 100_000, "not a valid manifest"),
        ("x" * (2 << 20), "cannot be read"),
    ],
)
def test_an_invalid_manifest_is_refused_in_one_sentence(tmp_path: Path, contents: str | None, words: str) -> None:
    if contents is not None:
        (tmp_path / "experiment.json").write_text(contents)
    for enter in (DirectoryPopulation.open, DirectoryView.open):
        with pytest.raises(PopulationFormatError, match=re.escape(words)) as caught:
            enter(tmp_path, files=FAST)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "pop").exists()


def test_a_directory_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PopulationFormatError, match="no experiment"):
        DirectoryPopulation.open(tmp_path / "nowhere", files=FAST)
    with pytest.raises(StorageError, match="cannot be created"):
        DirectoryPopulation.establish(tmp_path / "nowhere", population_size=1, files=FAST)


def test_opening_completes_what_a_crash_left_incomplete(tmp_path: Path) -> None:
    manifest = DirectoryPopulation.establish(tmp_path, population_size=1_000, tunable={"odds": 1}, files=FAST)
    (tmp_path / "pop" / "000f").rmdir()
    (tmp_path / "config" / "000001.json").unlink()
    DirectoryPopulation.open(tmp_path, files=FAST)
    assert len(list((tmp_path / "pop").iterdir())) == manifest.shards == 64
    assert read_config(FAST, str(tmp_path)) == (1, {"odds": 1})


class Observed(Files):
    """Runs a function after every change of a directory."""

    def __init__(self, observe: Callable[[], None]) -> None:
        super().__init__(durability="fast")
        self._observe = observe

    def mkdir(self, path: str, mode: int = 0o777) -> None:  # type: ignore[override]
        super().mkdir(path, mode)
        self._observe()

    def link(self, source: str, target: str) -> None:  # type: ignore[override]
        super().link(source, target)
        self._observe()


def test_an_observer_finds_a_whole_experiment_or_none(tmp_path: Path) -> None:
    """Found by a test of a cluster: a listing failed between the manifest and the first shard."""
    found = []

    def observe() -> None:
        with suppress(PopulationFormatError):
            view = DirectoryView.open(tmp_path, files=FAST)
            found.append((view.snapshot(), read_config(FAST, str(tmp_path))))

    DirectoryPopulation.establish(tmp_path, population_size=300, tunable={"odds": 1}, files=Observed(observe))
    assert found and all(seen == ([], (1, {"odds": 1})) for seen in found)


def test_a_creator_that_lost_removes_its_surplus_shards(tmp_path: Path) -> None:
    def lose() -> None:
        if not (tmp_path / "experiment.json").exists():
            DirectoryPopulation.establish(tmp_path, population_size=10, files=FAST)

    manifest = DirectoryPopulation.establish(tmp_path, population_size=300, files=Observed(lose))
    assert manifest.population_size == 10 and [entry.name for entry in (tmp_path / "pop").iterdir()] == ["0000"]


def test_the_highest_complete_settings_are_in_force(tmp_path: Path) -> None:
    DirectoryPopulation.establish(tmp_path, population_size=10, tunable={"odds": 1}, files=FAST)
    assert publish_version(FAST, str(tmp_path), 2, {"odds": 2})
    assert publish_version(FAST, str(tmp_path), 3, {"odds": 3})
    (tmp_path / "config" / "000004.json").write_text('{"odds"')
    (tmp_path / "config" / "notes.txt").write_text("mine")
    assert read_config(FAST, str(tmp_path)) == (3, {"odds": 3})
    assert read_config(FAST, str(tmp_path), 2) == (2, {"odds": 2})
    assert publish_version(FAST, str(tmp_path), 5, {"odds": 5})


def test_the_reserve_is_released_on_a_full_disk(tmp_path: Path) -> None:
    class FullDisk(Files):
        full = False

        def write(self, descriptor: int, data: bytes | memoryview) -> int:
            if self.full:
                raise OSError(28, "No space left on device")
            return super().write(descriptor, data)

    files = FullDisk(durability="fast")
    DirectoryPopulation.establish(tmp_path, population_size=10, files=files)
    worker = DirectoryPopulation.open(tmp_path, files=files)
    assert (tmp_path / "reserve").stat().st_size > 1_000_000
    files.full = True
    with pytest.raises(StorageError, match="No space left"):
        worker.create(make_birth())
    assert not (tmp_path / "reserve").exists()
    files.full = False
    assert worker.snapshot() == []
    worker.create(make_birth())


def test_a_file_system_without_hints_works_as_well(tmp_path: Path) -> None:
    class Plain(Files):
        def spread(self, path: str) -> None:
            raise OSError(errno.ENOTTY, "no such request")

    manifest = DirectoryPopulation.establish(tmp_path, population_size=1_000, files=Plain(durability="fast"))
    assert len(list((tmp_path / "pop").iterdir())) == manifest.shards

"""`check` finds and locates every kind of damage and reports nothing else; `doctor` judges file systems."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from genepool.population import DirectoryPopulation, Files, Individual, State, check_directory
from genepool.population.check import Report
from genepool.population.directory import names
from genepool.population.directory.doctor import examine
from genepool.testing import make_birth, make_weights

FILES = {names.WEIGHTS: make_weights()}
FAST = Files(durability="fast")


class Scene:
    """A small population to break."""

    def __init__(self, path: Path) -> None:
        self.path = path
        DirectoryPopulation.establish(path, population_size=10, files=FAST)
        worker = self.worker = DirectoryPopulation.open(path, files=FAST)
        self.parent = worker.finish(worker.create(make_birth(1)), fitness=0.5, files=FILES)
        self.child = worker.create(make_birth(2, parents=(self.parent,)), parents=(self.parent,))
        self.dead = worker.kill(worker.finish(worker.create(make_birth(3)), fitness=0.25, files=FILES))
        worker.collect(worker.kill(worker.finish(worker.create(make_birth(4)), fitness=0.1)))
        worker.close()

    def at(self, name: str) -> Path:
        return self.path / "pop" / "0000" / name

    def place(self, individual: object) -> Path:
        return self.at(names.encode(individual))

    def weights(self, individual: Individual) -> Path:
        return self.place(individual) / names.of_attempt(individual.attempt, names.WEIGHTS)

    def broken(self, **options: object) -> set[str]:
        report: Report = check_directory(self.path, files=FAST, **options)
        assert all(violation.place and violation.text for violation in report.violations)
        return {violation.invariant for violation in report.violations}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_healthy_population_passes(scene: Scene) -> None:
    report = check_directory(
        scene.path, files=FAST, settled=True, bounds=(2, 2), finished={scene.parent.id: 0.5, scene.dead.id: 0.25}
    )
    assert report
    assert (report.violations, report.foreign, report.fossils) == ([], [], 1)
    assert (report.census.alive, report.census.training, report.census.dead) == (1, 1, 1)


def test_a_lost_individual_breaks_i1_and_i7(scene: Scene) -> None:
    shutil.rmtree(scene.place(scene.parent))
    assert scene.broken() & {"I1", "I7"}


def test_a_finished_individual_that_is_missing_breaks_i1(scene: Scene) -> None:
    assert scene.broken(finished={"0" * 25: 0.5}) == {"I1"}
    assert scene.broken(finished={scene.parent.id: 0.6}) == {"I1"}


def test_a_lost_birth_breaks_i12(scene: Scene) -> None:
    shutil.rmtree(scene.place(scene.child))
    assert scene.broken() == {"I12"}


def test_a_copy_breaks_i2(scene: Scene) -> None:
    shutil.copytree(
        scene.place(scene.parent), scene.at(names.encode(scene.parent.ended(State.DEAD, "abcdefgh", "lost")))
    )
    assert scene.broken() == {"I2"}


@pytest.mark.parametrize("victim", ["parent", "dead"])
def test_damaged_weights_break_i3(scene: Scene, victim: str) -> None:
    individual = getattr(scene, victim)
    scene.weights(individual).write_bytes(make_weights(2))
    # The child's inherited weights are a link to the same file.
    assert scene.broken() == {"I3"} | ({"I6"} if victim == "parent" else set())


def test_missing_weights_break_i3(scene: Scene) -> None:
    scene.weights(scene.parent).unlink()
    assert scene.broken() == {"I3"}


def test_another_fitness_breaks_i3(scene: Scene) -> None:
    scene.place(scene.parent).rename(scene.at(names.encode(scene.parent).replace("0.5", "0.6")))
    assert scene.broken() == {"I3"}


def test_two_published_attempts_break_i5(scene: Scene) -> None:
    forged = msgspec.structs.replace(scene.parent, claim=2, attempt="2-abcdefgh")
    scene.worker._worker.events.changed("finish", forged)
    assert scene.broken() == {"I5"}


def test_a_claim_that_falls_breaks_i4(scene: Scene) -> None:
    later = scene.child.taken_over(scene.worker.who, progressed=True)
    for individual in (later, scene.child):
        scene.worker._worker.events.changed("take-over", individual)
    assert scene.broken() == {"I4"}


def test_missing_inherited_weights_break_i6(scene: Scene) -> None:
    (scene.place(scene.child) / names.inherited_name(0)).unlink()
    assert scene.broken() == {"I6"}


def test_a_size_out_of_bounds_breaks_i8(scene: Scene) -> None:
    assert scene.broken(bounds=(3, 9)) == {"I8"}


def test_leftovers_break_i9_if_settled(scene: Scene) -> None:
    scene.at(f"t1_{'0' * 25}_abcdefgh").mkdir()
    assert scene.broken() == set()
    assert scene.broken(settled=True) == {"I9"}


def test_foreign_entries_are_reported_and_break_nothing(scene: Scene) -> None:
    scene.at("notes\n.txt").write_text("mine")
    report = check_directory(scene.path, files=FAST)
    assert report
    assert report.foreign == ["0000/notes\\n.txt"]


def test_unknown_settings_break_i13(scene: Scene) -> None:
    (scene.path / "config" / "000001.json").unlink()
    assert scene.broken() == {"I13"}


def test_the_doctor_finds_a_local_disk_safe(tmp_path: Path) -> None:
    diagnosis = examine(tmp_path, rounds=200)
    assert [finding for finding in diagnosis.findings if finding.verdict != "safe" and finding.probe != "space"] == []
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_refuses_a_disk_that_replaces_directories(tmp_path: Path) -> None:
    class Careless(Files):
        def rename(self, source: str, target: str) -> None:
            shutil.rmtree(target, ignore_errors=True)
            super().rename(source, target)

    diagnosis = examine(tmp_path, files=Careless(), rounds=20)
    assert diagnosis.verdict == "refused"
    assert [finding.probe for finding in diagnosis.findings if finding.verdict == "refused"] == ["rename"]


def test_the_doctor_says_when_there_are_no_links(tmp_path: Path) -> None:
    class Unlinked(Files):
        def link(self, source: str, target: str) -> None:
            raise OSError(95, "not supported")

    assert examine(tmp_path, files=Unlinked(), rounds=20).verdict == "slow"

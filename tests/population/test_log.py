"""Logs survive every truncation and every flipped bit; archives merge equal records and report contradictions."""

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from genepool.population import Files, Fossil, Individual, Result, State
from genepool.population.directory.log import Archive, ArchiveReader, EventLog, documents, frame, read_events
from genepool.population.directory.names import log_name
from genepool.testing import make_birth

DOCUMENTS = [b'{"a":1}', b"{}", b'{"text":"' + b"x" * 50 + b'"}']
ONE, TWO = "11111111", "22222222"
LOG = b"".join(frame(document) for document in DOCUMENTS)


def test_every_truncation_keeps_the_lines_before_it() -> None:
    for length in range(len(LOG) + 1):
        found = list(documents(LOG[:length]))
        whole = LOG[:length].count(b"\n")
        assert found[:whole] == DOCUMENTS[:whole]
        assert all(document is None for document in found[whole:])


def test_every_flipped_bit_is_noticed() -> None:
    for bit in range(len(LOG) * 8):
        damaged = bytearray(LOG)
        damaged[bit // 8] ^= 1 << bit % 8
        found = [document for document in documents(bytes(damaged)) if document is not None]
        assert len(found) <= len(DOCUMENTS) - 1
        assert all(document in DOCUMENTS for document in found)


@given(st.binary())
def test_any_bytes_can_be_read(data: bytes) -> None:
    list(documents(data))


def dead(number: int, *, who: str = ONE, fitness: float = 0.5) -> Individual:
    return Individual(id=str(number), state=State.DEAD, claim=1, attempt="1-x", fitness=fitness, owner=who, why="lost")


def fossil(number: int, *, who: str = ONE, fitness: float = 0.5) -> Fossil:
    birth = msgspec.structs.replace(make_birth(number), id=str(number))
    result = Result(id=str(number), attempt="1-x", fitness=fitness, metrics={}, files={}, finished=1.0)
    return Fossil(individual=dead(number, who=who, fitness=fitness), birth=birth, result=result)


def test_fossils_of_all_workers_are_merged(tmp_path: Path) -> None:
    files = Files()
    for who in (ONE, TWO):
        (tmp_path / who).mkdir()
        archive = Archive(files, str(tmp_path / who))
        archive.add(fossil(1))
        archive.add(fossil(2, who=who))
        archive.close()
    reader = ArchiveReader(files, str(tmp_path))
    assert set(reader.fossils()) == {"1", "2"}
    assert reader.contradictions == []
    assert reader.damaged == []


def test_records_that_contradict_each_other_are_reported(tmp_path: Path) -> None:
    files = Files()
    (tmp_path / ONE).mkdir()
    archive = Archive(files, str(tmp_path / ONE))
    archive.add(fossil(1))
    archive.add(fossil(1, fitness=0.6))
    reader = ArchiveReader(files, str(tmp_path))
    assert reader.fossils()["1"].result == fossil(1).result
    assert reader.contradictions == [f"{ONE}/archive.log:2"]


def test_a_torn_archive_keeps_what_came_before(tmp_path: Path) -> None:
    files = Files()
    (tmp_path / ONE).mkdir()
    archive = Archive(files, str(tmp_path / ONE))
    archive.add(fossil(1))
    with (tmp_path / ONE / "archive.log").open("ab") as log:
        log.write(b'0badc0de {"torn')
    reader = ArchiveReader(files, str(tmp_path))
    assert set(reader.fossils()) == {"1"}
    assert reader.damaged == [f"{ONE}/archive.log:2"]


def test_a_document_with_newlines_stays_one_line(tmp_path: Path) -> None:
    (tmp_path / ONE).mkdir()
    birth = msgspec.structs.replace(make_birth(), id="1", dna=msgspec.Raw(b'{\n "a": [\n1]}'))
    Archive(Files(), str(tmp_path / ONE)).add(Fossil(individual=dead(1), birth=birth))
    assert (tmp_path / ONE / "archive.log").read_bytes().count(b"\n") == 1


def test_events_are_read_back_in_order(tmp_path: Path) -> None:
    files = Files()
    (tmp_path / ONE).mkdir()
    (tmp_path / "not-a-worker").write_text("x")
    log = EventLog(files, str(tmp_path / ONE))
    log.changed("kill", dead(1))
    log.found_foreign("0000/é", "not an individual")
    (who, kill), (_, foreign) = read_events(files, str(tmp_path))
    assert (who, kill.what, kill.id, kill.state, kill.claim, kill.attempt) == (ONE, "kill", "1", State.DEAD, 1, "1-x")
    assert (foreign.what, foreign.place, foreign.note) == ("foreign", "0000/é", "not an individual")


def test_the_files_of_a_log_are_read_in_the_order_of_writing(tmp_path: Path) -> None:
    files = Files()
    (tmp_path / ONE).mkdir()
    log = EventLog(files, str(tmp_path / ONE))
    for number in range(12):
        log.changed(f"event {number}", dead(number))
        log.close()
    assert [event.what for _, event in read_events(files, str(tmp_path))] == [f"event {n}" for n in range(12)]


def test_log_files_are_numbered_from_the_second_on() -> None:
    assert [log_name("archive", number) for number in range(3)] == ["archive.log", "archive.1.log", "archive.2.log"]

"""The reader, the history and lineages, on directories in which workers really evolved."""

import threading
from itertools import pairwise

import pytest

from genepool.analysis import History, Observer, ancestors, chain, find, lineage, spending
from genepool.dna import initial
from genepool.errors import SettingsError
from genepool.population import DirectoryPopulation, State
from tests.support.dashboards import evolve, experiment


def test_an_incremental_history_equals_one_that_is_read_at_once(tmp_path):
    made = experiment(tmp_path / "e")
    growing = History(made.view())
    for _ in range(6):
        evolve(made, 7)
        growing.refresh()
    at_once = made.history()
    assert growing.finished() == at_once.finished()
    assert len(at_once.finished()) == 42
    assert sum(row.state is State.ALIVE for row in at_once.finished()) == 6
    assert growing.spending() == at_once.spending()


def test_no_record_is_read_twice(tmp_path, monkeypatch):
    made = experiment(tmp_path / "e")
    evolve(made, 10)
    view = made.view()
    history = History(view)
    history.refresh()
    evolve(made, 3)
    read = []
    monkeypatch.setattr(view, "read_birth", lambda one, real=view.read_birth: (read.append(one.id), real(one))[1])
    history.refresh()
    history.refresh()
    assert 0 < len(read) <= 3
    assert len(set(read)) == len(read)
    assert len(history.finished()) == 13


def test_an_individual_in_quarantine_is_not_in_the_history(tmp_path):
    made = experiment(tmp_path / "e")
    evolve(made, 10)
    history = made.history()
    best = history.best()
    population = DirectoryPopulation.open(made.path)
    population.quarantine(best.individual, "test")
    population.close()
    history.refresh()
    assert best.id not in history.rows
    assert best.id not in made.history().rows


def test_an_observer_that_reads_all_the_time_is_right_in_the_end(tmp_path):
    made = experiment(tmp_path / "e")
    observer, over = Observer(tmp_path / "e"), threading.Event()

    def read():
        while not over.is_set():
            observer.refresh()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        evolve(made, 150)
    finally:
        over.set()
        thread.join()
    observer.refresh()
    history = made.history()
    assert observer.trouble == ""
    assert not observer.reader.damaged
    assert {i: chr(observer.table.get(r, "state")) for i, r in observer.table.rows.items()} == {
        identity: row.state.value for identity, row in history.rows.items()
    }
    assert spending(observer.table) == history.spending()
    for identity in list(history.rows)[::10]:
        assert observer.row(identity) == history.rows[identity]


def test_an_observer_starts_again_when_the_directory_is_another_experiment(tmp_path):
    evolve(experiment(tmp_path / "e"), 5)
    observer = Observer(tmp_path / "e")
    observer.refresh()
    before = observer.cursor
    (tmp_path / "e").rename(tmp_path / "old")
    observer.refresh()
    assert "There is no experiment" in observer.trouble
    evolve(experiment(tmp_path / "e"), 3)
    observer.refresh()
    assert observer.trouble == ""
    assert len(observer.table.finished_rows()) == 3
    assert observer.cursor.partition("-")[0] != before.partition("-")[0]


def test_the_lineage_of_the_best_begins_with_the_trivial_network(tmp_path):
    made = experiment(tmp_path / "e")
    evolve(made, 60)
    history = made.history()
    best = history.best()
    assert best.fitness == max(row.fitness for row in history.rows.values() if row.state is State.ALIVE)
    line = lineage(history.rows, best.id)
    assert line[0].mutations == ()
    assert history.rows[line[0].id].dna == initial()
    assert line[-1].id == best.id
    for parent, child in pairwise(line):
        assert history.rows[child.id].birth.parents == (parent.id,)
    assert [row.id for row in ancestors(history.rows, best.id)] == [link.id for link in line]


def test_a_chain_ends_at_the_first_individual_and_in_a_cycle():
    assert chain(3, {3: 2, 2: 1}.get) == [1, 2, 3]
    assert chain(3, {3: 2, 2: 3}.get) == [2, 3]


def test_an_individual_is_found_by_a_part_of_its_id(tmp_path):
    made = experiment(tmp_path / "e")
    evolve(made, 10)
    rows = made.history().rows
    some = next(iter(rows))
    assert find(rows, some[-6:]).id == some
    with pytest.raises(SettingsError, match=f"matches {len(rows)} individuals"):
        find(rows, some[:3])
    with pytest.raises(SettingsError, match="is not in this experiment"):
        find(rows, "missing")

"""The dashboard's API, over HTTP, from a process that reads real directories."""

import http.client
import io
import json
import os
import re
import signal
import subprocess
import zipfile
from pathlib import Path

import msgspec
import pytest

from genepool.analysis import dots, lineage
from genepool.dashboard import export
from genepool.dashboard.individual import image_of
from genepool.dna import Shape
from genepool.evaluation import TrainingRequest
from genepool.experiment import Experiment
from genepool.population import Birth, DirectoryPopulation
from genepool.settings import changed
from tests.support.dashboards import (
    COMMAND,
    PATIENCE,
    Client,
    Judge,
    dashboard,
    evolve,
    experiment,
    look_again,
    wait_for,
)


@pytest.fixture(scope="module", autouse=True)
def page():
    """The API needs no page, but the process does not start without one."""
    if not (export.FOLDER / "page.js").exists():
        if os.environ.get("GENEPOOL_NEEDS_BROWSER"):
            pytest.fail("The dashboard cannot be tested without the built page (make page).")
        pytest.skip("needs the built page (make page)")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folder")
    evolve(experiment(folder / "one"), 40)
    evolve(experiment(folder / "deeper" / "two"), 8)
    broken = folder / "broken"
    broken.mkdir()
    (broken / "experiment.json").write_text('{"format": 2, "uuid": "<b>no</b>"}')
    return folder


@pytest.fixture(scope="module")
def client(place):
    with dashboard(place, "--control") as found:
        yield found


@pytest.fixture(scope="module")
def key(client):
    key = client.keys()["one"]
    wait_for(lambda: not client.status(key)["reading"])
    return key


def everything(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(folder.rglob("*"))}


def test_all_experiments_in_a_folder_are_listed_and_a_broken_one_with_its_fault(client):
    found = {one["name"]: one for one in client.get("/api/experiments")["experiments"]}
    assert set(found) == {"one", "deeper/two", "broken"}
    assert "not a valid manifest" in found["broken"]["trouble"]
    assert found["one"]["trouble"] == ""
    assert client.ask(f"/api/experiments/{found['broken']['key']}")[0] == 404
    assert client.ask("/api/experiments/000000000000")[0] == 404


def test_all_individuals_are_as_in_the_history(client, key, place):
    history = Experiment.open(place / "one").history()
    rows = client.get(f"/api/experiments/{key}/individuals")["rows"]
    assert set(rows["id"]) == set(history.rows)
    for i, identity in enumerate(rows["id"]):
        row = history.rows[identity]
        assert rows["state"][i] == row.state.value
        assert rows["fitness"][i] == pytest.approx(row.fitness, abs=1e-6)
        assert rows["parameters"][i] == row.evaluation.parameters
        assert rows["depth"][i] == len(row.dna.convs)
        parents = [rows["id"][rows["index"].index(p)] for p in [rows["parent"][i]] if p >= 0]
        assert parents == [p for p in row.birth.parents if p in history.rows][:1]


def test_spending_is_that_of_the_history(client, key, place):
    spent, truth = client.status(key)["spent"], Experiment.open(place / "one").history().spending()
    assert spent["seconds"] == pytest.approx(truth.seconds)
    assert (spent["flops"], spent["individuals"]) == (truth.flops, truth.individuals)
    assert (spent["best"], spent["since_best"]) == (pytest.approx(truth.best), truth.since_best)


def test_records_are_those_of_the_history(client, key, place):
    records, truth = client.get(f"/api/experiments/{key}/records"), dots(Experiment.open(place / "one").history())
    assert records["best"] == sorted(records["best"])
    columns = (records[name] for name in ("individuals", "seconds", "flops", "best"))
    for number, seconds, flops, best in zip(*columns, strict=True):
        assert seconds == pytest.approx(truth[number - 1].seconds, abs=0.002)
        assert flops == truth[number - 1].flops
        assert best == pytest.approx(max(dot.fitness for dot in truth[:number]), abs=1e-6)


def test_rows_say_how_far_the_experiment_was(client, key, place):
    history = Experiment.open(place / "one").history()
    truth = {dot.id: (rank, dot) for rank, dot in enumerate(dots(history), start=1)}
    rows = client.get(f"/api/experiments/{key}/individuals")["rows"]
    for i, identity in enumerate(rows["id"]):
        rank, dot = truth[identity]
        assert rows["rank"][i] == rank
        assert rows["spent"][i] == dot.flops
        assert rows["elapsed"][i] == pytest.approx(dot.seconds, abs=0.002)


def test_an_individual_is_returned_with_its_network_layer_by_layer(client, key, place):
    history = Experiment.open(place / "one").history()
    row = max(history.finished(), key=lambda row: len(row.dna.convs))
    one = client.get(f"/api/experiments/{key}/individuals/{row.id}")
    assert one["network"] == row.dna.in_a_line()
    assert one["layers"][0]["shape"] == [28, 28, 1]
    assert [layer["vertex"] for layer in one["layers"]] == list(row.dna.order)
    assert sum(edge["kind"] == "conv" for layer in one["layers"] for edge in layer["edges"]) == len(row.dna.convs)
    assert one["losses"][0] == [0, 2.3]
    status, dna = client.ask(f"/api/experiments/{key}/individuals/{row.id}/dna")
    assert status == 200
    assert json.loads(dna)["learning_rate"] == row.dna.learning_rate
    assert client.ask(f"/api/experiments/{key}/individuals/nobody")[0] == 422


def test_living_individuals_can_be_downloaded_with_their_weights(client, key, place):
    best = Experiment.open(place / "one").history().best()
    status, data = client.ask(f"/api/experiments/{key}/individuals/{best.id}/model")
    assert status == 200
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.read("weights.safetensors") == b"weights"
        assert json.loads(archive.read("individual.json"))["id"] == best.id


def test_a_lineage_is_unbroken_although_the_dead_were_collected(client, key, place):
    subprocess.run([*COMMAND, "gc", str(place / "one")], check=True, capture_output=True)
    best = client.status(key)["best"]["id"]
    line = client.get(f"/api/experiments/{key}/lineage/{best}")["ancestors"]
    assert line[0]["mutations"] == []
    assert line[-1]["id"] == best
    assert all(one["mutations"] and one["layers"] for one in line[1:])


def test_workers_and_disk_usage_are_returned(client, key):
    workers = client.get(f"/api/experiments/{key}/workers")
    assert sum(one["individuals"] for one in workers["workers"]) == 40
    assert workers["disk"]["results"] > 0
    assert workers["events"]


def test_a_client_that_reconnects_receives_only_what_is_new(client, key, place):
    look_again(client, key)
    whole = client.get(f"/api/experiments/{key}/individuals")
    known = dict(zip(whole["rows"]["id"], whole["rows"]["state"], strict=True))
    assert client.get(f"/api/experiments/{key}/individuals?since={whole['cursor']}")["rows"]["index"] == []
    feed = client.events(key, since=whole["cursor"])
    assert next(feed)[0] == "status"  # no rows have changed
    evolve(Experiment.open(place / "one"), 3)
    told, cursor = caught_up(feed, place / "one", known)
    new = told - set(whole["rows"]["id"])
    assert 3 <= len(new) <= 4
    assert len(told) < len(whole["rows"]["id"])
    before = living(known)
    evolve(Experiment.open(place / "one"), 2)
    again = client.events(key, since="0-0", last=cursor)  # the browser's own way
    missed, _ = caught_up(again, place / "one", known)
    stayed = before & living(known)
    assert stayed and not stayed & missed
    strange = client.events(key, since="feedbeef-17")
    assert next(strange)[0] == "reset"
    assert set(next(strange)[2]["rows"]["id"]) == set(known)
    assert len(known) >= 45
    strange.close()


def caught_up(feed, directory, known):
    """The IDs that a feed sent, and its cursor, once it has sent all that is in the directory."""
    truth = {row.id: row.state.value for row in Experiment.open(directory).history().rows.values()}
    told = set()
    for name, cursor, document in feed:
        if name == "rows":
            known.update(zip(document["rows"]["id"], document["rows"]["state"], strict=True))
            told.update(document["rows"]["id"])
            if known == truth:
                feed.close()
                return told, cursor
    raise AssertionError("the feed has ended")


def living(known):
    return {identity for identity, state in known.items() if state == "A"}


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "evil.example:8421"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
    ],
    ids=str,
)
def test_other_names_and_other_sites_are_refused(client, headers):
    for path in ("/api", "/api/experiments"):
        assert client.ask(path, **headers)[0] == 403
    assert client.ask("/api", sec_fetch_site="same-origin")[0] == 200


def test_the_page_may_be_navigated_to_and_forbids_scripts_from_elsewhere(client):
    status, data = client.ask("/", sec_fetch_site="cross-site", sec_fetch_mode="navigate")
    assert status == 200
    assert b"page.js" in data
    assert client.ask("/../../etc/passwd")[0] == 404
    for path in ("/", "/page.js", "/api", "/api/experiments/000000000000"):
        headers = client.headers(path)
        policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
        assert (policy["default-src"], policy["script-src"], policy["frame-ancestors"]) == (
            "'none'",
            "'self'",
            "'none'",
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_an_order_is_json_of_limited_length(client, key, place):
    before = Experiment.open(place / "one").version()
    path, bearer = f"/api/experiments/{key}/control", f"Bearer {client.token}"
    # A form of another site could send plain text, but never this type without being asked back.
    order = {"set": {"breeding.mutations": "4"}}
    assert client.ask(path, method="POST", body=order, content_type="text/plain", authorization=bearer)[0] == 415
    long = {"set": {"breeding.mutations": "4" * 100_000}}
    assert client.ask(path, method="POST", body=long, content_type="application/json", authorization=bearer)[0] == 413
    assert Experiment.open(place / "one").version() == before


def test_changes_need_the_token(client, key, place):
    before = Experiment.open(place / "one").version()
    for token in (None, "", "wrong", client.token[:-1]):
        status, answer = client.order(key, {"set": {"breeding.mutations": "3"}}, token)
        assert status == 401
        assert "token" in answer["error"]
    assert Experiment.open(place / "one").version() == before
    status, answer = client.order(key, {"set": {"breeding.mutations": "3"}}, client.token)
    assert (status, answer["settings_version"]) == (200, before + 1)
    assert Experiment.open(place / "one").settings().breeding.mutations == 3
    assert client.status(key)["changes"][-1]["values"] == {"breeding.mutations": [1, 3]}


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        ({"set": {"breeding.mutations": "many"}}, "must be a whole number"),
        ({"set": {"populaton.size": "3"}}, "did you mean"),
        ({"set": {"experiment.seed": "9"}}, "other settings"),
        ({"mutations": 5}, "need an end"),
        ({"mutations": 5, "lasts": "soon"}, "not a time"),
        ({"explode": True}, "cannot be read"),
        ({}, "No intervention given"),
    ],
    ids=str,
)
def test_an_invalid_order_gets_a_sentence_and_changes_nothing(client, key, place, order, sentence):
    before = Experiment.open(place / "one").version()
    status, answer = client.order(key, order, client.token)
    assert status == 422
    assert sentence in answer["error"]
    assert Experiment.open(place / "one").version() == before


def test_mutations_can_be_raised_and_workers_stopped(client, place):
    key = client.keys()["deeper/two"]
    assert client.order(key, {"mutations": 5, "lasts": "20"}, client.token)[0] == 200
    assert Experiment.open(place / "deeper/two").settings().escape.mutations == 5
    before = Experiment.open(place / "deeper/two").version()
    assert client.order(key, {"reset_weights": True}, client.token)[0] == 200
    assert Experiment.open(place / "deeper/two").settings().escape.reset_version == before + 1
    assert client.status(key)["changes"][-1]["label"] == "weights reset"
    assert client.order(key, {"stop": True}, client.token)[0] == 200
    settings = Experiment.open(place / "deeper/two").settings()
    assert settings.budget.individuals == 8
    assert client.status(key)["state"] == "finished"


def test_nothing_is_written_and_without_control_orders_are_refused(tmp_path):
    evolve(experiment(tmp_path / "e"), 10)
    before = everything(tmp_path)
    with dashboard(tmp_path / "e") as client:
        (key,) = client.keys().values()
        best = wait_for(lambda: client.status(key)["best"])["id"]
        for path in ("", "/individuals", "/workers", "/records", f"/lineage/{best}", f"/individuals/{best}"):
            client.get(f"/api/experiments/{key}{path}")
        assert client.order(key, {"stop": True}, "")[0] == 403
    assert everything(tmp_path) == before


def test_names_that_are_not_text_are_shown_escaped(tmp_path):
    strange = tmp_path / os.fsdecode(b"caf\xe9\n")
    evolve(experiment(strange), 3)
    with dashboard(tmp_path) as client:
        ((name, key),) = client.keys().items()
        assert name == r"caf\xe9\n"
        wait_for(lambda: client.status(key)["rows"] >= 3)
        strange.rename(tmp_path.parent / f"{tmp_path.name}-away")
        wait_for(lambda: client.status(key)["state"] == "unreadable")


def test_ctrl_c_ends_it_without_a_message(tmp_path):
    experiment(tmp_path / "e")
    process = subprocess.Popen(
        [*COMMAND, "dashboard", str(tmp_path / "e"), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    Client(process.stdout.readline().split()[1].decode()).keys()  # it serves
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, b"")


@pytest.mark.thorough
def test_a_sleeping_client_does_not_delay_the_end(tmp_path):
    experiment(tmp_path / "e")
    with dashboard(tmp_path / "e", "--control") as client:  # it must not have printed an error at the end
        (key,) = client.keys().values()
        connection = http.client.HTTPConnection(client.place)
        connection.putrequest("POST", f"/api/experiments/{key}/control")
        headers = {"authorization": f"Bearer {client.token}", "content-type": "application/json"}
        for name, value in {**headers, "content-length": "100", "expect": "100-continue"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.sock.recv(12) == b"HTTP/1.1 100"  # it waits for an order that never comes
        client.end()
        connection.close()


@pytest.mark.thorough
def test_a_directory_that_disappears_keeps_what_was_read_and_may_come_back(tmp_path):
    evolve(experiment(tmp_path / "e"), 5)
    with dashboard(tmp_path) as client:
        key = client.keys()["e"]
        wait_for(lambda: client.status(key)["rows"] >= 5)
        (tmp_path / "e").rename(tmp_path.parent / f"{tmp_path.name}-away")
        gone = wait_for(lambda: (found := client.status(key))["state"] == "unreadable" and found)
        assert gone["rows"] >= 5
        assert "There is no experiment" in gone["trouble"]
        (tmp_path.parent / f"{tmp_path.name}-away").rename(tmp_path / "e")
        wait_for(lambda: client.status(key)["state"] == "idle")


def test_damaged_entries_are_counted_and_the_rest_is_read(tmp_path):
    evolve(experiment(tmp_path / "e"), 12)
    living = sorted((tmp_path / "e" / "pop" / "0000").glob("A1_*"))
    next(living[0].glob("*.result.json")).write_text("{")
    (tmp_path / "e" / "pop" / "0000" / "<img src=x>").mkdir()
    with (next((tmp_path / "e" / "workers").iterdir()) / "archive.log").open("ab") as log:
        log.write(b"torn")
    with dashboard(tmp_path / "e") as client:
        (key,) = client.keys().values()
        told = wait_for(lambda: not (found := client.status(key))["reading"] and found)
        assert told["damaged"] == 1
        assert told["census"]["foreign"] == 1
        assert told["spent"]["individuals"] >= 11
        workers = client.get(f"/api/experiments/{key}/workers")
        assert workers["foreign"] == ["0000/<img src=x>"]


def test_a_migrant_has_its_ancestors_from_the_other_population(tmp_path):
    home, abroad = experiment(tmp_path / "home"), experiment(tmp_path / "abroad")
    evolve(home, 25)
    history = home.history()
    line = lineage(history.rows, history.best().id)
    population = DirectoryPopulation.open(abroad.path)
    birth = Birth(
        dna=history.best().birth.dna,
        mutations=("migration",),
        mutation_seed=0,
        training_seed=0,
        origin={"lineage": msgspec.to_builtins(line)},
    )
    migrant = population.create(birth)
    population.close()
    with dashboard(abroad.path) as client:
        (key,) = client.keys().values()
        wait_for(lambda: client.status(key)["rows"])
        told = client.get(f"/api/experiments/{key}/lineage/{migrant.id}")["ancestors"]
    assert [one["id"] for one in told] == [*(link.id for link in line), migrant.id]
    assert {one["state"] for one in told} == {"elsewhere", "T"}


def test_the_shape_of_unnamed_images_follows_from_a_record(tmp_path):
    made = experiment(tmp_path / "e")
    evolve(made, 6)
    settings = changed(made.settings(), {"data.source": "/photographs/birds"})
    for row in made.history().finished():
        told = Judge().evaluate(TrainingRequest(row.dna, seed=0)).evaluation
        found = image_of(settings, row.dna, told)
        assert found is not None
        assert (found.shape, found.classes) == (Shape(28, 28, 1), 10)


def test_the_export_is_one_file_without_a_server(place, tmp_path):
    target = tmp_path / "page.html"
    result = subprocess.run(
        [*COMMAND, "dashboard", str(place), "--export", str(target)], capture_output=True, text=True, check=True
    )
    assert "opens in any browser" in result.stdout
    text = target.read_text()
    data = re.search(r'<script type="application/json" id="documents">(.*?)</script>', text, re.DOTALL)[1]
    assert "<" not in data
    documents = json.loads(data)
    assert len(documents["/api/experiments"]["experiments"]) == 3
    assert not re.search(r'(src|href)="(?!data:|#)', text.partition("<script")[0])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["/nowhere/at/all"], "is not a directory"),
        ([".", "--port", "1"], "cannot listen"),
        ([".", "--export", "/nowhere/page.html"], "no experiment"),
    ],
)
def test_bad_input_gets_a_sentence(words, sentence, tmp_path):
    words = [*words, "--host", "192.0.2.1"] if "--port" in words else words
    result = subprocess.run([*COMMAND, "dashboard", *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_without_the_built_page_it_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(export, "FOLDER", tmp_path)
    with pytest.raises(ImportError, match="make page"):
        export.page()

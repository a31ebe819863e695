"""`genepool data`, as a user calls it."""

import hashlib
import http.server
import json
import threading
from functools import partial

import pytest
from click.testing import CliRunner

from genepool.cli.data import data
from genepool.data import SOURCES
from genepool.errors import DataError, SettingsError


def run(*arguments: str):
    result = CliRunner().invoke(data, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def fake_cifar(tmp_path):
    """An archive of the right name; finding it needs no more."""
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "cifar-10-binary.tar.gz").write_bytes(b"archive")
    return tmp_path / "sets"


def test_the_list_is_an_aligned_table(fake_cifar):
    lines = run("--data-dir", str(fake_cifar)).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(SOURCES)
    where = lines[0].index("where")
    assert all(line[where - 2 : where] == "  " and line[where] != " " for line in lines)
    assert lines[1].endswith("included in Genepool")
    assert "45,000" in lines[2] and lines[2].endswith(f"in {fake_cifar / 'cifar-10-binary.tar.gz'}")
    assert lines[3].endswith("not here: genepool data fetch cifar-100")


def test_the_list_as_json_has_plain_keys(fake_cifar):
    facts = {fact["name"]: fact for fact in json.loads(run("--json", "--data-dir", str(fake_cifar)).stdout)}
    assert facts["fashion-mini"] == {
        "name": "fashion-mini", "train": 6000, "validation": 1000, "test": 1000, "height": 28, "width": 28,
        "channels": 1, "classes": 10, "licence": "MIT, 2017 Zalando SE", "shipped": True, "found": None,
        "problem": None,
    }  # fmt: skip
    assert facts["cifar-10"]["found"].endswith("cifar-10-binary.tar.gz") and facts["mnist"]["found"] is None


def test_a_set_that_is_half_there_does_not_spoil_the_list(tmp_path):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte").write_bytes(b"")
    facts = {fact["name"]: fact for fact in json.loads(run("--json", "--data-dir", str(tmp_path)).stdout)}
    assert "lacks the file" in facts["mnist"]["problem"] and facts["cifar-10"]["problem"] is None
    assert "lacks the file" in run("--data-dir", str(tmp_path)).stdout


def test_a_wrong_data_folder_is_an_error(tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        run("--data-dir", str(tmp_path / "nowhere"))


@pytest.mark.parametrize("arguments", [["--frobnicate"], ["fetch"], ["unknown"]])
def test_wrong_usage_ends_with_2(arguments):
    assert run(*arguments).exit_code == 2


def test_fetching_an_unknown_set_names_the_nearest():
    with pytest.raises(SettingsError, match="did you mean 'cifar-10'"):
        run("fetch", "cifar10")


def test_fetching_what_is_here_says_where(fake_cifar):
    assert run("fetch", "fashion-mini").stdout == "fashion-mini included in Genepool\n"
    assert run("fetch", "cifar-10", "--data-dir", str(fake_cifar)).stdout.startswith(f"cifar-10 in {fake_cifar}")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A mirror with a file of the right name and wrong contents."""
    (tmp_path / "mirror" / "cifar-100").mkdir(parents=True)
    (tmp_path / "mirror" / "cifar-100" / "cifar-100-binary.tar.gz").write_bytes(b"not the real archive" * 10_000)
    handler = partial(Quiet, directory=str(tmp_path / "mirror"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("GENEPOOL_MIRROR", f"http://127.0.0.1:{running.server_address[1]}/")
        yield tmp_path / "mirror"
        running.shutdown()
        thread.join()


def test_fetching_shows_progress_and_refuses_a_wrong_digest(mirror, tmp_path):
    with pytest.raises(DataError, match="md5 digest") as caught:
        run("fetch", "cifar-100")
    wrong = hashlib.md5((mirror / "cifar-100" / "cifar-100-binary.tar.gz").read_bytes()).hexdigest()
    assert wrong in str(caught.value) and "03b5dce01913d631647c71ecec9e9cb8" in str(caught.value)
    assert list((tmp_path / "cache" / "downloads" / "cifar-100").iterdir()) == []
    result = CliRunner().invoke(data, ["fetch", "cifar-100"])
    assert "cifar-100-binary.tar.gz: 0.2 of 0.2 MB" in result.stderr

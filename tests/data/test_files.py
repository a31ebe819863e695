"""The real download code against a real server on this machine."""

import gzip
import hashlib
import http.server
import socket
import struct
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from genepool.data.files import RemoteFile, download
from genepool.data.official.files import IdxLayout
from genepool.data.official.sets import FASHION_MNIST, MNIST
from genepool.errors import DataError

BODY = bytes(range(256)) * 1000


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by the path: /whole, /short (fewer bytes than promised), /moved, /unsized; anything else is a 404."""

    files: dict[str, bytes]

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/whole")
            self.end_headers()
            return
        content = {"/whole": BODY, "/short": BODY, "/unsized": BODY, **self.files}.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/unsized":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if self.path == "/short" else content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server():
    Handler.files = {}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


def remote(*urls: str, md5: str | None = None) -> RemoteFile:
    return RemoteFile(name="data.bin", md5=md5 or hashlib.md5(BODY).hexdigest(), urls=urls)


@pytest.mark.parametrize("path", ["whole", "moved", "unsized"])
def test_a_whole_file_arrives_with_progress(server, tmp_path, path):
    seen = []
    found = download(remote(f"{server}/{path}"), tmp_path / "new", lambda *facts: seen.append(facts))
    assert found == tmp_path / "new" / "data.bin" and found.read_bytes() == BODY
    assert [name.name for name in found.parent.iterdir()] == ["data.bin"]
    assert seen[-1] == ("data.bin", len(BODY), None if path == "unsized" else len(BODY))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


@pytest.mark.parametrize(
    ("path", "md5", "message"),
    [
        ("short", None, "ended after 128,000 of 256,000 bytes"),
        ("whole", "0" * 32, f"md5 digest {hashlib.md5(BODY).hexdigest()} instead of {'0' * 32}"),
        ("nothing", None, "404"),
    ],
)
def test_a_failed_download_is_one_sentence_and_leaves_nothing(server, tmp_path, path, md5, message):
    with pytest.raises(DataError, match=message) as caught:
        download(remote(f"{server}/{path}", md5=md5), tmp_path / "new")
    assert "data.bin" in str(caught.value) and "\n" not in str(caught.value)
    assert list((tmp_path / "new").iterdir()) == []


def test_a_refused_connection_is_one_sentence(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/whole"
        with pytest.raises(DataError, match="refused"):
            download(remote(url), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["no address", "http://", "http://127.0.0.1:99999/x", "gopher://127.0.0.1/x"])
def test_a_senseless_address_is_one_sentence(tmp_path, url):
    with pytest.raises(DataError, match="could not be downloaded"):
        download(remote(url), tmp_path)


def test_an_answer_that_is_no_http_is_one_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"\x00\x01\x02 what?\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(DataError, match="could not be downloaded"):
            download(remote(f"http://127.0.0.1:{listener.getsockname()[1]}/whole"), tmp_path)
        thread.join()


def test_the_next_address_is_tried(server, tmp_path):
    found = download(remote(f"{server}/nothing", f"{server}/short", f"{server}/whole"), tmp_path)
    assert found.read_bytes() == BODY


def test_an_earlier_file_stays_when_a_download_fails(server, tmp_path):
    (tmp_path / "data.bin").write_bytes(b"earlier")
    with pytest.raises(DataError):
        download(remote(f"{server}/short"), tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == b"earlier"


def test_a_folder_that_cannot_be_written_is_named(server, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match="GENEPOOL_CACHE"):
        download(remote(f"{server}/whole"), tmp_path / "file" / "below")


def test_an_interrupted_download_leaves_nothing(server, tmp_path):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(remote(f"{server}/whole"), tmp_path, interrupt)
    assert list(tmp_path.iterdir()) == []


def small_mnist(server: str) -> tuple[dict[str, bytes], object]:
    """A small MNIST as a server would hold it, and the set that expects it."""
    files = {}
    for part, count in (("train", 30), ("t10k", 10)):
        images = struct.pack(">4I", 2051, count, 28, 28) + bytes(784 * count)
        files[f"{part}-images-idx3-ubyte.gz"] = gzip.compress(images)
        labels = struct.pack(">2I", 2049, count) + bytes(range(10)) * (count // 10)
        files[f"{part}-labels-idx1-ubyte.gz"] = gzip.compress(labels)
    remotes = tuple(
        replace(file, md5=hashlib.md5(files[file.name]).hexdigest(), urls=(f"{server}/mnist/{file.name}",))
        for file in MNIST.remote
    )
    return files, replace(MNIST, layout=IdxLayout(train_images=30, test_images=10), remote=remotes)


def test_a_missing_set_is_downloaded_once_and_found_afterwards(server, tmp_path):
    files, small = small_mnist(server)
    Handler.files = {f"/mnist/{name}": content for name, content in files.items()}
    assert small.find(None) is None
    assert len(small.open(None, None).development().images) == 30
    Handler.files = {}
    assert len(small.open(None, None).held_out()) == 10
    assert small.find(None).place == tmp_path / "cache" / "downloads" / "mnist"


def test_an_unfinished_fetch_goes_on_where_it_stopped(server):
    files, small = small_mnist(server)
    Handler.files = {f"/mnist/{name}": content for name, content in files.items() if "train" in name}
    with pytest.raises(DataError, match="t10k-images"):
        small.fetch()
    assert small.find(None) is None
    Handler.files = {f"/mnist/{name}": content for name, content in files.items() if "t10k" in name}
    small.fetch()
    assert small.find(None) is not None


def official_bytes(path: Path, modified: int) -> bytes:
    """The file as Zalando publishes it: the local one lacks the name that gzip puts into the header."""
    header = b"\x1f\x8b\x08\x08" + struct.pack("<I", modified) + b"\x00\x03"
    return header + path.stem.encode() + b"\x00" + path.read_bytes()[10:]


@pytest.mark.whole
def test_the_digests_of_fashion_mnist_are_those_of_the_real_files(whole_data, server, monkeypatch):
    for file in FASHION_MNIST.remote:
        modified = 1504176606 if file.name.startswith("train") else 1504176627
        content = (whole_data / "fashion-mnist" / file.name).read_bytes()
        if hashlib.md5(content).hexdigest() != file.md5:
            content = official_bytes(whole_data / "fashion-mnist" / file.name, modified)
        Handler.files[f"/fashion-mnist/{file.name}"] = content
    monkeypatch.setenv("GENEPOOL_MIRROR", server)
    assert len(FASHION_MNIST.open(None, None).development().images) == 60_000

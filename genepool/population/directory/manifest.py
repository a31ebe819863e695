"""The manifest of an experiment, and the versions of the settings that may change while it runs.

`experiment.json` and `config/000001.json`, ... are published by linking a complete file into place, so that of two
processes one wins and both read the winner's. The folders come before the manifest: an observer that finds a manifest
finds a whole experiment. A worker never creates an experiment by accident: an unmounted mount point must not become an
empty population.
"""

from __future__ import annotations

import contextlib
import errno
import uuid as uuids
from collections.abc import Mapping
from typing import Any

import msgspec

from genepool.errors import PopulationFormatError, StorageError
from genepool.population.directory import names
from genepool.population.directory.files import NO_LINKS, Files

FORMAT = 2
DEFAULT_LEASE = 600.0
_MANIFEST = "experiment.json"
_CONFIG = "config"
_FOLDERS = ("pop", "workers", _CONFIG, "quarantine")
_PUBLISHED = "published"  # key of the note beside the settings in the file of a version
_LARGEST = 1 << 20
_RESERVE = "reserve"
_RESERVE_BYTES = 2 << 20
_ONE_SHARD = 100
_LIVING_PER_SHARD = 16
_MOST_SHARDS = 4096

Settings = Mapping[str, Any]


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """Who published a version of the settings, when and why: for people, never for decisions."""

    who: str = ""
    when: float = 0.0  # wall time on the publisher's host
    what: str = ""
    label: str = ""  # a few words that describe an intervention


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    uuid: str
    shards: int
    lease: float
    population_size: int  # set-point at creation, from which the number of shards was chosen
    created: float
    settings: dict[str, Any] = {}  # fixed settings; opaque here
    tunable: dict[str, Any] = {}  # version 1 of the tunable settings; opaque here


def shards_for(population_size: int) -> int:
    """Return a power of two with at most 16 living individuals per shard, since a draw takes as long as its listing. A
    small population is one shard: draws then do not depend on the random letters of IDs, so runs are repeatable."""
    shards = 1
    while population_size > _ONE_SHARD and shards * _LIVING_PER_SHARD < population_size and shards < _MOST_SHARDS:
        shards *= 2
    return shards


def create_manifest(
    files: Files, root: str, *, population_size: int, lease: float, settings: Settings, tunable: Settings
) -> Manifest:
    """Publish a manifest unless there is one; return the one that is in place, which the caller compares."""
    mine = Manifest(
        format=FORMAT,
        uuid=str(uuids.UUID(bytes=files.urandom(16), version=4)),
        shards=shards_for(population_size),
        lease=lease,
        population_size=population_size,
        created=files.wall(),
        settings=dict(settings),
        tunable=dict(tunable),
    )
    try:
        if _MANIFEST not in files.list(root):
            _make_folders(files, root, mine.shards)
        publish(files, root, _MANIFEST, msgspec.json.format(msgspec.json.encode(mine)))
    except OSError as error:
        raise StorageError(f"The experiment cannot be created in {root}: {error.strerror}.") from error
    manifest = read_manifest(files, root)
    for number in range(manifest.shards, mine.shards):  # another creator won, with fewer shards
        with contextlib.suppress(OSError):
            files.rmdir(f"{root}/pop/{names.shard_name(number)}")
    return manifest


def is_available(files: Files, root: str) -> bool:
    """Return whether a directory is an experiment, or holds at most what a killed creator leaves behind."""
    entries = files.list(root)
    return _MANIFEST in entries or all(names.is_staged(name) or _is_unused(files, root, name) for name in entries)


def _is_unused(files: Files, root: str, name: str) -> bool:
    """Whether this is a folder of an experiment in which nothing has been stored yet."""
    if name not in _FOLDERS:
        return False
    try:
        return not any(files.list(f"{root}/{name}/{entry}") for entry in files.list(f"{root}/{name}"))
    except NotADirectoryError:
        return False


def read_manifest(files: Files, root: str) -> Manifest:
    """Return the manifest of an experiment; refuse anything else."""
    place = f"{root}/{_MANIFEST}"
    try:
        data = files.load(place, _LARGEST)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise PopulationFormatError(
            f"There is no experiment in {root}; create one first, or correct the path."
        ) from error
    except OSError as error:
        raise PopulationFormatError(f"{place} cannot be read: {error.strerror}; check the mount.") from error
    try:
        number = msgspec.json.decode(data, type=_Version).format
        if number != FORMAT:
            which = "an earlier" if number < FORMAT else "a later"
            raise PopulationFormatError(
                f"{place} has format {number}, which {which} release of Genepool wrote; this release reads format "
                f"{FORMAT}: use that release, or start a new experiment in another directory."
            )
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise PopulationFormatError(f"{place} is not a valid manifest ({error}); restore it from a copy.") from error
    if not (1 <= manifest.shards <= _MOST_SHARDS and 0 < manifest.lease < 1e9):
        raise PopulationFormatError(
            f"{place} has {manifest.shards} shards and a lease of {manifest.lease} s; restore it from a copy."
        )
    return manifest


class _Version(msgspec.Struct):
    format: int


def publish(files: Files, directory: str, name: str, data: bytes) -> bool:
    """Link a complete file into place unless there is one; return whether this caller's won."""
    staged = f"{directory}/{names.staged_name(files.urandom(8))}"
    files.save(staged, data)
    try:
        files.link(staged, f"{directory}/{name}")
        won = True
    except OSError as error:
        won = _settle(files, directory, name, data, error)
    finally:
        with contextlib.suppress(OSError):
            files.remove(staged)
    files.sync_dir(directory)
    return won


def _settle(files: Files, directory: str, name: str, data: bytes, error: OSError) -> bool:
    place = f"{directory}/{name}"
    if error.errno in NO_LINKS:
        with contextlib.suppress(FileExistsError):
            files.save(place, data)
            return True
        return False
    if name not in files.list(directory):
        raise error
    # The file exists. Its contents show whether it is this caller's after a lost reply, or another's.
    return files.load(place, max(_LARGEST, len(data))) == data


def prepare_directories(files: Files, root: str, manifest: Manifest) -> None:
    """Complete what a killed creator or an incomplete copy has left out."""
    _make_folders(files, root, manifest.shards)
    if names.config_name(1) not in files.list(f"{root}/{_CONFIG}"):
        publish(files, f"{root}/{_CONFIG}", names.config_name(1), msgspec.json.encode(manifest.tunable))


def _make_folders(files: Files, root: str, shards: int) -> None:
    for name in _FOLDERS:
        _make(files, root, name)
    present = set(files.list(f"{root}/pop"))
    if not present:
        with contextlib.suppress(OSError):  # not every file system supports the hint
            files.spread(f"{root}/pop")
    for number in range(shards):
        if names.shard_name(number) not in present:
            _make(files, f"{root}/pop", names.shard_name(number))
    files.sync_dir(f"{root}/pop")
    files.sync_dir(root)


def keep_reserve(files: Files, root: str) -> None:
    """Reserve some space while there is plenty, to be released when the disk is full."""
    with contextlib.suppress(OSError):
        if _RESERVE not in files.list(root) and files.free_bytes(root) > 100 * _RESERVE_BYTES:
            publish(files, root, _RESERVE, bytes(_RESERVE_BYTES))


def spend_reserve(files: Files, root: str) -> None:
    """Release the reserve on a full disk, so that dead individuals can be archived and their space freed."""
    with contextlib.suppress(OSError):
        files.remove(f"{root}/{_RESERVE}")


def _make(files: Files, parent: str, name: str) -> None:
    try:
        files.mkdir(f"{parent}/{name}")
    except OSError as error:
        if error.errno != errno.EEXIST and name not in files.list(parent):
            raise


def config_versions(files: Files, root: str) -> list[int]:
    versions = (names.parse_config(name) for name in files.list(f"{root}/{_CONFIG}"))
    return sorted(version for version in versions if version)


def read_config(files: Files, root: str, version: int | None = None) -> tuple[int, dict[str, Any]]:
    """Return the tunable settings in force, or of one version, with their version number."""
    wanted = config_versions(files, root) if version is None else [version]
    for number in reversed(wanted):
        # If one is incomplete or gone, the version before it is in force.
        with contextlib.suppress(OSError, msgspec.MsgspecError, RecursionError):
            data = files.load(f"{root}/{_CONFIG}/{names.config_name(number)}", _LARGEST)
            found = msgspec.json.decode(data, type=dict[str, Any])
            return number, {name: value for name, value in found.items() if name != _PUBLISHED}
    if version in (None, 1):  # the creator publishes version 1 right after the manifest, which contains it
        return 1, dict(read_manifest(files, root).tunable)
    raise PopulationFormatError(f"{root}/{_CONFIG} has no readable settings; restore the directory from a copy.")


def published(files: Files, root: str) -> dict[int, Published]:
    found = {}
    for number in config_versions(files, root):
        with contextlib.suppress(OSError, msgspec.MsgspecError, RecursionError):
            data = files.load(f"{root}/{_CONFIG}/{names.config_name(number)}", _LARGEST)
            found[number] = msgspec.json.decode(data, type=_Note).published
    return found


class _Note(msgspec.Struct):
    published: Published


def publish_version(files: Files, root: str, number: int, settings: Settings, note: Published | None = None) -> bool:
    """Publish exactly this version of the tunable settings; return False, and change nothing, if it exists."""
    document = {**settings, _PUBLISHED: note} if note else dict(settings)
    try:
        return publish(files, f"{root}/{_CONFIG}", names.config_name(number), msgspec.json.encode(document))
    except OSError as error:
        raise StorageError(f"New settings cannot be published in {root}: {error}; try again.") from error

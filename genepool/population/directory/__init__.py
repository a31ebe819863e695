"""A population in a directory that any number of workers share; `docs/reference/store.md` describes the format.

population      the population as its workers see it: every change of state
view            the population as observers see it: nothing is changed
survey          what a worker knows about the whole population between two listings of it
shards          listing names, drawing from them, and the rename that commits a change
contents        reading the files of an individual
writer          writing the files of an individual
workers         the workers' directories, their heartbeats, and leases by observation
archive         each worker's events and its archive of fossils
log             append-only files of checked lines
manifest        experiment.json and the versions of the settings
names           the names of all entries: only this file composes them or takes them apart
files           the only system calls
served          the same system calls, carried out by a server
doctor          probes whether a file system is suitable
"""

from genepool.population.directory.archive import Event
from genepool.population.directory.files import Files
from genepool.population.directory.log import Place
from genepool.population.directory.manifest import (
    Manifest,
    Published,
    config_versions,
    publish_config,
    publish_version,
    published,
    read_config,
    read_manifest,
)
from genepool.population.directory.names import WEIGHTS, printable
from genepool.population.directory.population import DirectoryPopulation
from genepool.population.directory.served import LARGEST_TRANSFER, Answer, AnswerLost, FileServer, LogLines, ServedFiles
from genepool.population.directory.shards import Known, Sweep
from genepool.population.directory.view import DirectoryView
from genepool.population.directory.workers import HEARTBEAT, INFO, HeartbeatMonitor

__all__ = [
    "Answer",
    "AnswerLost",
    "DirectoryPopulation",
    "DirectoryView",
    "Event",
    "FileServer",
    "Files",
    "HEARTBEAT",
    "HeartbeatMonitor",
    "INFO",
    "Known",
    "LogLines",
    "LARGEST_TRANSFER",
    "Manifest",
    "Place",
    "Published",
    "ServedFiles",
    "Sweep",
    "WEIGHTS",
    "config_versions",
    "printable",
    "publish_config",
    "publish_version",
    "published",
    "read_config",
    "read_manifest",
]

"""Populations: individuals as frozen snapshots, the contract of a store, and two stores that keep it.

individual      individuals, the rules by which their states change, and their records
contract        what every store promises, as two abstract classes
memory          a population in the memory of one process
check           the invariants of a population directory
directory/      a population in a directory that any number of workers share
"""

from genepool.population.check import check_directory
from genepool.population.contract import Population, PopulationView
from genepool.population.directory import DirectoryPopulation, DirectoryView
from genepool.population.directory.files import Files
from genepool.population.directory.log import Event, Place
from genepool.population.directory.manifest import (
    Manifest,
    Published,
    config_versions,
    is_available,
    publish,
    publish_version,
    published,
    read_config,
    read_manifest,
)
from genepool.population.directory.names import WEIGHTS, printable
from genepool.population.directory.served import LARGEST_TRANSFER, Answer, AnswerLost, FileServer, LogLines, ServedFiles
from genepool.population.directory.shards import Sweep
from genepool.population.directory.workers import HEARTBEAT, INFO, HeartbeatMonitor
from genepool.population.individual import (
    FREE,
    STRIKES,
    Birth,
    Census,
    Checkpoint,
    Fossil,
    Individual,
    Result,
    State,
    StoredFile,
    worker_of,
)
from genepool.population.memory import MemoryPopulation, MemoryStore

__all__ = [
    "Population", "PopulationView", "DirectoryPopulation", "DirectoryView", "MemoryPopulation", "MemoryStore",
    "check_directory",
    # individuals and their records
    "Individual", "State", "Birth", "Result", "StoredFile", "Checkpoint", "Fossil", "Census", "FREE", "STRIKES",
    "WEIGHTS", "worker_of",
    # the manifest and the versions of the settings
    "Manifest", "Published", "read_manifest", "is_available", "config_versions", "read_config", "published",
    "publish", "publish_version",
    # for observers
    "Event", "HEARTBEAT", "HeartbeatMonitor", "INFO", "Place", "Sweep", "printable",
    # system calls, here or through a server
    "Files", "FileServer", "ServedFiles", "Answer", "AnswerLost", "LogLines", "LARGEST_TRANSFER",
]  # fmt: skip

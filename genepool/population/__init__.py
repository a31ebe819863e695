"""The population: individuals as frozen snapshots, the contract, and two stores that keep it."""

from genepool.population.contract import Population, PopulationView
from genepool.population.directory.files import Files
from genepool.population.directory.manifest import Manifest
from genepool.population.directory.population import DirectoryPopulation
from genepool.population.directory.view import DirectoryView
from genepool.population.individual import (
    Birth,
    Census,
    Checkpoint,
    Fossil,
    Individual,
    Record,
    Result,
    State,
    StoredFile,
)
from genepool.population.memory import MemoryPopulation, MemoryStore

__all__ = [
    "Population",
    "PopulationView",
    "DirectoryPopulation",
    "DirectoryView",
    "MemoryPopulation",
    "MemoryStore",
    "Individual",
    "State",
    "Birth",
    "Result",
    "StoredFile",
    "Checkpoint",
    "Fossil",
    "Record",
    "Census",
    "Manifest",
    "Files",
]

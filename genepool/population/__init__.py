"""The population: individuals as frozen snapshots, the contract, and two stores that keep it."""

from genepool.population.base import Population, PopulationView
from genepool.population.directory import DirectoryPopulation
from genepool.population.files import Files
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
from genepool.population.manifest import Manifest
from genepool.population.memory import MemoryPopulation, MemoryStore
from genepool.population.view import DirectoryView

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

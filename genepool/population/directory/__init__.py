"""A population in a directory that any number of workers share; `docs/reference/store.md` describes the format.

population      the population as its workers see it: every change of state
view            the population as observers see it: nothing is changed
shards          listing names, drawing from them, the rename that commits a change; what a worker knows between listings
contents        reading the files of an individual
writer          writing the files of an individual
workers         the workers' directories, their heartbeats, and leases by observation
log             append-only files of checked lines: each worker's events and its archive of fossils
manifest        experiment.json and the versions of the settings
names           the names of all entries: only this file composes them or takes them apart
files           the only system calls
served          the same system calls, carried out by a server
doctor          probes whether a file system is suitable
"""

from genepool.population.directory.population import DirectoryPopulation
from genepool.population.directory.view import DirectoryView

__all__ = ["DirectoryPopulation", "DirectoryView"]

"""Figures, drawn from rows of the analysis. Only this folder imports matplotlib.

progress   one dot per individual, time against accuracy
lineage    the ancestors of the best network, and the ancestry of a population
studies    the figures of studies and of simulated clusters
"""

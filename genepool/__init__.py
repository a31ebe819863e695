"""Genepool evolves image classifiers, after "Large-Scale Evolution of Image Classifiers" (Real et al., 2017)."""

__version__ = "0.1.0.dev0"

"""Support for tests that ships with the package.

contract                the population contract as a test suite
concurrency_contract    the part of it about several workers
harness                 the base of both: a population to join, a clock and example values
layer_contract          the contract of a kind of layer as a test suite
layer_checks            example layers and networks for it: computed, trained and exported
toy_evaluator           an evaluator that trains nothing
simulation              a cluster in virtual time
bench/                  the benchmarks of the command line
"""

from genepool.testing.harness import Clock, make_birth, make_weights
from genepool.testing.toy_evaluator import ToyEvaluator, toy_fitness

__all__ = ["Clock", "make_birth", "make_weights", "ToyEvaluator", "toy_fitness"]

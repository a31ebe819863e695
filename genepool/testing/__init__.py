"""What tests need and what ships: the exam for any population, a clock to turn by hand, a toy evaluator, and small
made-up values."""

from genepool.testing.harness import Clock, make_birth, make_weights
from genepool.testing.toy_evaluator import ToyEvaluator, toy_fitness

__all__ = ["Clock", "make_birth", "make_weights", "ToyEvaluator", "toy_fitness"]

"""What tests need and what ships: the exam for any population, a clock to turn by hand, and small made-up values."""

from genepool.testing.factories import Clock, make_birth, make_weights

__all__ = ["Clock", "make_birth", "make_weights"]

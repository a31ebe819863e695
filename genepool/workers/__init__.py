"""Ways to start workers. A worker needs a directory and a number; an engine never holds the population's truth."""

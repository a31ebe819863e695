"""Many seeds of the simulation, on all cores: `python -m tests.races.seeds 20000`.

Exit code 1 if any history breaks an invariant; its seed repeats it.
"""
# ruff: noqa: T201

from __future__ import annotations

import logging
import multiprocessing
import sys
import time

from tests.population.test_simulation import problems_of

BATCH = 50


def problems_of_batch(batch: int) -> list[str]:
    """Return the problems in the histories of one batch of seeds."""
    return [
        f"seed {seed}: {problem}" for seed in range(batch * BATCH, (batch + 1) * BATCH) for problem in problems_of(seed)
    ]


def main(seeds: int) -> int:
    """Run all seeds, with one line of progress per minute."""
    logging.disable(logging.WARNING)  # injected errors cause warnings
    start = shown = time.monotonic()
    found: list[str] = []
    batches = -(-seeds // BATCH)
    with multiprocessing.get_context("fork").Pool() as pool:
        for done, problems in enumerate(pool.imap_unordered(problems_of_batch, range(batches)), start=1):
            found += problems
            if problems or time.monotonic() - shown > 60 or done == batches:
                shown = time.monotonic()
                rate = done * BATCH / (shown - start)
                print(f"{done * BATCH} seeds in {shown - start:.0f} s, {rate:.0f} per second, {len(found)} problems")
                sys.stdout.flush()
    print("\n".join(found[:100]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))

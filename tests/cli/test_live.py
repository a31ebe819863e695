"""The text of the live view."""

from genepool.cli.live import final_phase_text
from genepool.evolution import BudgetUse


def test_the_final_phase_is_shown_with_what_is_left_of_the_budget():
    assert final_phase_text(None) == ""
    assert final_phase_text(BudgetUse(used=70.0, total=100.0)) == "final phase, 30 s left for the best"
    assert (
        final_phase_text(BudgetUse(used=9e11, total=1e12, unit="flops")) == "final phase, 100 GFLOP left for the best"
    )

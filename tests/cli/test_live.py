"""What the live view says."""

from genepool.cli.live import finish_told
from genepool.evolution import Spending
from genepool.settings import override, preset


def test_that_the_finish_has_begun():
    settings = override(preset("laptop"), ["budget.time=100", "budget.flops=1e12", "final_phase.share=0.4"])
    assert finish_told(settings, Spending(seconds=59.0)) == ""
    assert finish_told(settings, Spending(seconds=70.0)) == "the best is trained on for 30 s"
    assert finish_told(settings, Spending(seconds=70.0, flops=9 * 10**11)) == "the best is trained on for 100 GFLOP"
    assert finish_told(settings, Spending(seconds=120.0)) == ""

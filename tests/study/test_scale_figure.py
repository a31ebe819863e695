"""The curve of `genepool bench scale`."""

from genepool.evolution import Rules
from genepool.study.plots.studies import draw_scale
from genepool.testing.simulation import Cluster, Landscape


def test_clusters_of_several_sizes_are_drawn(tmp_path):
    outcomes = [Cluster(workers=n, rules=Rules(population_size=4 * n), landscape=Landscape()).run(100) for n in (2, 10)]
    assert outcomes[1].steps_per_hour > outcomes[0].steps_per_hour >= outcomes[0].individuals_per_hour
    draw_scale(outcomes, tmp_path / "scale.png")
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")

"""The store's benchmark runs and tells what it promises; how fast anything is, is not tested."""

import json

from benchmarks import store
from benchmarks.report import report

TINY = store.Plan(populations=(20, 150), workers=(1, 2), corners=((20, 2),), raw=(1,), trials=(), rounds=1, seconds=0.1)


def test_a_tiny_benchmark_tells_what_it_promises(tmp_path):
    results = store.run(TINY, tmp_path)
    text, bars = report(results)

    expected = {f"evolve {level} 150 {workers} disk" for level in ("fast", "safe") for workers in (1, 2)}
    expected |= {f"{kind} {level} 150 1" for kind in ("raw", "beside-raw") for level in ("fast", "safe")}
    expected |= {"evolve fast 20 1 disk", "evolve safe 20 1 disk", "evolve fast 20 2 disk"}
    assert set(results["figures"]) == expected
    for figures in results["figures"].values():
        assert set(figures) == {"per_second", "cpu_ms", "rounds"}
        assert figures["per_second"] > 0
    assert {frozenset(bar) for bar in bars} == {frozenset({"bar", "value", "met"})}
    assert len(bars) == 4
    assert all(word in text for word in ("steps/s", "of raw", "Optuna"))
    json.dumps(results | {"bars": bars})
    assert list(tmp_path.iterdir()) == []

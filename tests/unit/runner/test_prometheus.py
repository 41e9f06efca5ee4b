"""The library's own figures, as Prometheus reads them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from loopwarden.runner import LoopWarden
from loopwarden.runner.prometheus import RunnerCollector


def test_figures() -> None:
    registry = CollectorRegistry()
    with LoopWarden.in_process() as warden:
        registry.register(RunnerCollector(warden))
        run = warden.run()
        for _ in range(21):
            decision = run.before_call("read", {})
            run.after_call(decision, result="same")
        lines = generate_latest(registry).decode().splitlines()
    assert "loopwarden_runner_calls_total 21.0" in lines
    assert "loopwarden_runner_calls_refused_total 1.0" in lines
    assert "loopwarden_runner_events_dropped_total 0.0" in lines
    assert "loopwarden_runner_queue_events 0.0" in lines
    assert "loopwarden_runner_connected 1.0" in lines
    assert f"loopwarden_runner_publish_seconds_count {float(warden.stats.published)}" in lines

"""The library's own figures for Prometheus, in the runner's process: extra ``prometheus``.

from prometheus_client import REGISTRY
from loopwarden.runner.prometheus import RunnerCollector

REGISTRY.register(RunnerCollector(warden))
"""

from __future__ import annotations

from collections.abc import Iterator

from loopwarden.runner.warden import LoopWarden

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ImportError("exporting figures needs prometheus_client: pip install 'loopwarden[prometheus]'") from error

__all__ = ["RunnerCollector"]

_COUNTERS = {
    "events_published": ("published", "Events that the broker acknowledged."),
    "events_dropped": ("dropped", "Events dropped: queue full, refused by the broker, or the process ended first."),
    "verdicts_received": ("verdicts", "Verdicts received on runs of this process."),
    "calls": ("calls", "Calls decided about."),
    "calls_refused": ("refused", "Calls refused, those that ended a run among them."),
    "calls_unanswered": ("unanswered", "Calls on which no verdict came in time (strict)."),
    "results_unreduced": ("unreduced", "Results published without their outcome."),
    "failures": ("failures", "Times that the library's own code failed; the call went on unjudged."),
}
_GAUGES = {
    "queue_events": ("queued", "Events that wait now."),
    "queue_high_events": ("queue_high", "Most events that ever waited."),
    "connected": ("connected", "Whether the broker took the last batch of events."),
}


class RunnerCollector(Collector):
    """Reads a client's figures when it is scraped. No labels: one client a process.

    Args:
        warden: The client.
    """

    def __init__(self, warden: LoopWarden) -> None:
        self._warden = warden

    def collect(self) -> Iterator[Metric]:
        """The figures now."""
        stats = self._warden.stats
        for name, (field, text) in _COUNTERS.items():
            yield CounterMetricFamily(f"loopwarden_runner_{name}", text, value=getattr(stats, field))
        for name, (field, text) in _GAUGES.items():
            yield GaugeMetricFamily(f"loopwarden_runner_{name}", text, value=float(getattr(stats, field)))
        yield SummaryMetricFamily(
            "loopwarden_runner_publish_seconds",
            "Time from an event to its acknowledgement.",
            count_value=stats.published,
            sum_value=stats.publish_seconds,
        )

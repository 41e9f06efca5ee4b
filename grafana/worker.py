"""Dashboard *Worker*: lag, throughput, latency, state, recovery, rebalances, and the runners' side."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.panels import JOB, Query, base, quantile, row, series, single

__all__ = ["worker"]


def worker() -> Dashboard:
    """Makes the dashboard."""
    board = base("LoopWarden: worker", "loopwarden-worker", "Whether the workers keep up.")
    _now(board)
    _throughput(board)
    _latency(board)
    _state(board)
    _recovery(board)
    _runners(board)
    return board


def _now(board: Dashboard) -> None:
    board.with_row(row("Now"))
    board.with_panel(
        single("Workers", "Workers that are scraped.", "short", Query(f"count(loopwarden_build_info{{{JOB}}})"))
    )
    board.with_panel(
        single(
            "Lag",
            "Records in the log and not yet folded.",
            "short",
            Query(f"sum(loopwarden_consumer_lag_records{{{JOB}}})"),
            warn=1_000,
            bad=10_000,
        )
    )
    board.with_panel(
        single(
            "Events",
            "Events folded per second.",
            "ops",
            Query(f"sum(rate(loopwarden_events_total{{{JOB}}}[$__rate_interval]))"),
        )
    )
    board.with_panel(
        single(
            "Event to verdict, p99",
            "From the broker's time of an event to the end of the batch with its verdict.",
            "s",
            quantile("loopwarden_event_to_verdict_seconds", 0.99),
            warn=1,
            bad=5,
        )
    )
    board.with_panel(
        single(
            "Since the last batch",
            "Of the partition that rests longest. Long is bad only where there is lag.",
            "s",
            Query(f"max(time() - loopwarden_last_progress_timestamp_seconds{{{JOB}}})"),
        )
    )
    board.with_panel(
        single(
            "Configuration",
            "Version in force; two of them while a change is on its way through the workers.",
            "short",
            Query(f"count by (version) (loopwarden_configuration_info{{{JOB}}})", "{{version}}"),
            named=True,
        )
    )


def _throughput(board: Dashboard) -> None:
    board.with_row(row("Throughput"))
    board.with_panel(
        series(
            "Events by type",
            "Folded per second, duplicates included.",
            "ops",
            Query(f"sum by (type) (rate(loopwarden_events_total{{{JOB}}}[$__rate_interval]))", "{{type}}"),
            stacked=True,
        )
    )
    board.with_panel(
        series(
            "Lag by partition",
            "Records in the log and not yet folded.",
            "short",
            Query(f"sum by (partition) (loopwarden_consumer_lag_records{{{JOB}}})", "{{partition}}"),
        )
    )
    board.with_panel(
        series(
            "Rejected, duplicate, missing",
            "Per second: dead letters by field and fault, events seen before, and gaps in runs' own sequences.",
            "ops",
            Query(
                f"sum by (field, reason) (rate(loopwarden_events_rejected_total{{{JOB}}}[$__rate_interval])) > 0",
                "{{field}} {{reason}}",
            ),
            Query(f"sum(rate(loopwarden_events_duplicate_total{{{JOB}}}[$__rate_interval]))", "duplicate"),
            Query(f"sum(rate(loopwarden_events_missing_total{{{JOB}}}[$__rate_interval]))", "missing"),
        )
    )


def _latency(board: Dashboard) -> None:
    board.with_row(row("Latency"))
    board.with_panel(
        series(
            "Event to verdict",
            "From the broker's time of an event to the end of the batch with its verdict, acknowledged.",
            "s",
            *(quantile("loopwarden_event_to_verdict_seconds", share) for share in (0.5, 0.95, 0.99)),
        )
    )
    board.with_panel(
        series(
            "Fold time of a batch",
            "Time to fold one batch of a partition; writing is not in it.",
            "s",
            *(quantile("loopwarden_fold_seconds", share) for share in (0.5, 0.99)),
        )
    )
    board.with_panel(
        series(
            "Events per batch",
            "The busier a worker, the larger its batches.",
            "short",
            Query(
                f"sum(rate(loopwarden_events_total{{{JOB}}}[$__rate_interval])) / "
                f"sum(rate(loopwarden_fold_seconds_count{{{JOB}}}[$__rate_interval]))",
                "events per batch",
            ),
        )
    )


def _state(board: Dashboard) -> None:
    board.with_row(row("State"))
    board.with_panel(
        series(
            "Runs and armed guards",
            "Rows of history-ring and of post-compaction-window.",
            "short",
            Query(f"sum(loopwarden_live_runs{{{JOB}}})", "live runs"),
            Query(f"sum(loopwarden_armed_guards{{{JOB}}})", "armed guards"),
        )
    )
    board.with_panel(
        series(
            "Changelog",
            "Acknowledged per second, by table.",
            "Bps",
            Query(f"sum by (table) (rate(loopwarden_changelog_bytes_total{{{JOB}}}[$__rate_interval]))", "{{table}}"),
        )
    )
    board.with_panel(
        series(
            "Rows written",
            "Rows of changelog acknowledged per second, by table: one a run and batch.",
            "ops",
            Query(f"sum by (table) (rate(loopwarden_changelog_rows_total{{{JOB}}}[$__rate_interval]))", "{{table}}"),
        )
    )


def _recovery(board: Dashboard) -> None:
    board.with_row(row("Recovery and commits"))
    board.with_panel(
        series(
            "Recoveries and rebalances",
            "In the last 5 minutes: partitions whose tables were restored, and rebalances of the group.",
            "short",
            Query(f"sum(increase(loopwarden_recovery_seconds_count{{{JOB}}}[5m]))", "recoveries"),
            Query(f"sum(increase(loopwarden_rebalance_seconds_count{{{JOB}}}[5m]))", "rebalances"),
            span=6,
        )
    )
    board.with_panel(
        series(
            "Time spent on them",
            "Seconds of recovery and of rebalancing in the last 5 minutes, all workers together.",
            "s",
            Query(f"sum(increase(loopwarden_recovery_seconds_sum{{{JOB}}}[5m]))", "recovering"),
            Query(f"sum(increase(loopwarden_rebalance_seconds_sum{{{JOB}}}[5m]))", "rebalancing"),
            span=6,
        )
    )
    board.with_panel(
        series(
            "Rows restored",
            "From the changelogs, in the last 5 minutes.",
            "short",
            Query(f"sum(increase(loopwarden_recovered_rows_total{{{JOB}}}[5m]))", "rows"),
            span=6,
        )
    )
    board.with_panel(
        series(
            "Commits",
            "Offset commits per second, one a partition.",
            "ops",
            Query(f"sum(rate(loopwarden_commits_total{{{JOB}}}[$__rate_interval]))", "commits"),
            span=6,
        )
    )


def _runners(board: Dashboard) -> None:
    board.with_row(row("Runners, and this process"))
    board.with_panel(
        series(
            "Events that runners dropped",
            "Per second, as they report it: their queue was full, or the broker away for too long.",
            "ops",
            Query(f"sum(rate(loopwarden_runner_dropped_events_total{{{JOB}}}[$__rate_interval]))", "dropped"),
            span=8,
        )
    )
    board.with_panel(
        series(
            "Runners' queues",
            "High water between two of a runner's reports, p99 of the runners.",
            "short",
            quantile("loopwarden_runner_queue_events", 0.99),
            span=8,
        )
    )
    board.with_panel(
        series(
            "Runners' publish time",
            "Slowest publish between two of a runner's reports, p50 and p99 of the runners.",
            "s",
            *(quantile("loopwarden_runner_publish_seconds", share) for share in (0.5, 0.99)),
            span=8,
        )
    )
    board.with_panel(
        series(
            "Memory",
            "Resident memory of each worker.",
            "bytes",
            Query(f"process_resident_memory_bytes{{{JOB}}}", "{{instance}}"),
            span=12,
        )
    )
    board.with_panel(
        series(
            "Processor",
            "Cores in use by each worker.",
            "short",
            Query(f"rate(process_cpu_seconds_total{{{JOB}}}[$__rate_interval])", "{{instance}}"),
            span=12,
        )
    )

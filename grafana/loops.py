"""Dashboard *Loops*: who loops, by which rule, what was done about it, and what it cost."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.panels import AGENT, JOB, TOOL, Query, bars, base, quantile, row, series, single, variable

__all__ = ["loops"]

_PER_1000 = "loops per 1,000 calls"
_LOOP = "A loop is a final verdict of level warning or critical."


def loops() -> Dashboard:
    """Makes the dashboard."""
    board = base(
        "LoopWarden: loops",
        "loopwarden-loops",
        "Whether agents loop, where, since when, and what was done about it.",
    )
    board.with_variable(
        variable(
            "agent",
            "Agent",
            "The first 50 agents that a worker meets, configured ones first; the rest is other.",
            f"label_values(loopwarden_agent_calls_total{{{JOB}}}, agent)",
        )
    )
    board.with_variable(
        variable(
            "tool",
            "Tool",
            "The first 200 tools that a worker meets, configured ones first; the rest is other.",
            f"label_values(loopwarden_tool_calls_total{{{JOB}}}, tool)",
        )
    )
    _now(board)
    _who(board)
    _rules(board)
    _deeds(board)
    _cost(board)
    return board


def _now(board: Dashboard) -> None:
    board.with_row(row("Now"))
    board.with_panel(
        single(
            "Loop rate",
            f"Loops per 1,000 calls over 5 minutes, all agents. {_LOOP}",
            "short",
            Query(f"max(job:loopwarden_loops:per_1000_calls_5m{{{JOB}}})"),
            warn=20,
            bad=100,
            decimals=1,
        )
    )
    board.with_panel(
        single(
            "Calls",
            "Tool calls attempted per second.",
            "ops",
            Query(f"sum(rate(loopwarden_calls_total{{{JOB}}}[$__rate_interval]))"),
        )
    )
    board.with_panel(
        single("Live runs", "Runs that have not ended.", "short", Query(f"sum(loopwarden_live_runs{{{JOB}}})"))
    )
    board.with_panel(
        single(
            "Critical verdicts",
            "Final verdicts of level critical in the time shown.",
            "short",
            Query(f'sum(increase(loopwarden_verdicts_total{{{JOB}, stage="final", level="critical"}}[$__range]))'),
            warn=1,
            bad=50,
            decimals=0,
        )
    )
    board.with_panel(
        single(
            "Calls refused",
            "Calls that runners refused on a verdict in the time shown.",
            "short",
            Query(f"sum(increase(loopwarden_agent_calls_refused_total{{{AGENT}}}[$__range]))"),
            decimals=0,
        )
    )
    board.with_panel(
        single(
            "Loops after a compaction",
            "Critical verdicts in the time shown for runs whose context had just been compacted.",
            "short",
            Query(
                f'sum(increase(loopwarden_verdicts_total{{{JOB}, stage="final", level="critical", '
                'after_compaction="true"}[$__range]))'
            ),
            warn=1,
            bad=10,
            decimals=0,
        )
    )


def _who(board: Dashboard) -> None:
    board.with_row(row("Who loops"))
    board.with_panel(
        series(
            "Loop rate by agent",
            f"Per 1,000 calls, over 5 minutes. {_LOOP}",
            "short",
            Query(f"max by (agent) (agent:loopwarden_loops:per_1000_calls_5m{{{AGENT}}})", "{{agent}}"),
        )
    )
    board.with_panel(
        series(
            "Loop rate by tool",
            "Per 1,000 calls of the tool, over 5 minutes; counted for the tool of the judged call.",
            "short",
            Query(f"max by (tool) (tool:loopwarden_loops:per_1000_calls_5m{{{TOOL}}})", "{{tool}}"),
        )
    )
    board.with_panel(
        series(
            "Loop rate of the fleet",
            "Per 1,000 calls, over a minute, 5 minutes and an hour: is it a spike or does it stay?",
            "short",
            *(
                Query(f"max(job:loopwarden_loops:per_1000_calls_{window}{{{JOB}}})", window)
                for window in ("1m", "5m", "60m")
            ),
        )
    )
    board.with_panel(
        bars(
            "Agents that loop most",
            "The ten highest rates per 1,000 calls over the last hour.",
            "short",
            Query(f"topk(10, max by (agent) (agent:loopwarden_loops:per_1000_calls_60m{{{AGENT}}}))", "{{agent}}"),
        )
    )
    board.with_panel(
        bars(
            "Tools that are looped on most",
            "The ten highest rates per 1,000 calls over the last hour.",
            "short",
            Query(f"topk(10, max by (tool) (tool:loopwarden_loops:per_1000_calls_60m{{{TOOL}}}))", "{{tool}}"),
        )
    )
    board.with_panel(
        series(
            "Calls by agent",
            "Tool calls attempted per second.",
            "ops",
            Query(f"sum by (agent) (rate(loopwarden_agent_calls_total{{{AGENT}}}[$__rate_interval]))", "{{agent}}"),
            stacked=True,
        )
    )


def _rules(board: Dashboard) -> None:
    board.with_row(row("Which rule"))
    board.with_panel(
        series(
            "Loops by rule",
            f"Per second. {_LOOP}",
            "ops",
            Query(
                f"sum by (detector) (rate(loopwarden_agent_loops_total{{{AGENT}}}[$__rate_interval]))", "{{detector}}"
            ),
            stacked=True,
        )
    )
    board.with_panel(
        series(
            "Verdicts by level and stage",
            "Per second. A forecast says what would happen to the call that may come next.",
            "ops",
            Query(
                f'sum by (level, stage) (rate(loopwarden_verdicts_total{{{JOB}, level!="none"}}[$__rate_interval]))',
                "{{level}}, {{stage}}",
            ),
        )
    )
    board.with_panel(
        series(
            "Before and after a compaction",
            "Loops per 1,000 calls over 5 minutes: with a compaction fewer than historySize calls ago, and others.",
            "short",
            Query(
                f"max by (after_compaction) (after_compaction:loopwarden_loops:per_1000_calls_5m{{{JOB}}})",
                "after a compaction: {{after_compaction}}",
            ),
        )
    )


def _deeds(board: Dashboard) -> None:
    board.with_row(row("What was done"))
    board.with_panel(
        series(
            "Refused, and not stopped",
            "Calls per second that were refused on a verdict, and calls that ran although they had been judged "
            "critical (in mode observe nobody was to stop them).",
            "ops",
            Query(f"sum(rate(loopwarden_agent_calls_refused_total{{{AGENT}}}[$__rate_interval]))", "refused"),
            Query(
                f"sum by (mode) (rate(loopwarden_agent_calls_after_verdict_total{{{AGENT}}}[$__rate_interval]))",
                "ran on, mode {{mode}}",
            ),
        )
    )
    board.with_panel(
        series(
            "Actions asked for",
            "Final verdicts per second by what they ask of the runner.",
            "ops",
            Query(
                f'sum by (action) (rate(loopwarden_verdicts_total{{{JOB}, stage="final", level!="none"}}'
                "[$__rate_interval]))",
                "{{action}}",
            ),
            stacked=True,
        )
    )
    board.with_panel(
        series(
            "What runners say they did",
            "Acks per second: applied, ignored (a weaker mode of their own), late (the call ran already), unsupported.",
            "ops",
            Query(f"sum by (result) (rate(loopwarden_acks_total{{{JOB}}}[$__rate_interval]))", "{{result}}"),
        )
    )
    board.with_panel(
        series(
            "Time to halt",
            "From a call judged critical to its refusal or the runner's ack, by the broker's clock.",
            "s",
            *(quantile("loopwarden_halt_seconds", share) for share in (0.5, 0.95)),
        )
    )
    board.with_panel(
        series(
            "From verdict to act",
            "From receiving a verdict to acting on it, as runners report it.",
            "s",
            *(quantile("loopwarden_ack_seconds", share) for share in (0.5, 0.95)),
        )
    )
    board.with_panel(
        series(
            "Runs ended",
            "Per second by outcome; expired ones were idle for too long.",
            "ops",
            Query(f"sum by (outcome) (rate(loopwarden_runs_ended_total{{{JOB}}}[$__rate_interval]))", "{{outcome}}"),
            stacked=True,
        )
    )


def _cost(board: Dashboard) -> None:
    board.with_row(row("What loops cost"))
    board.with_panel(
        series(
            "Tokens",
            "Per second, as events report them: all, those of calls that brought nothing, and those that runs used "
            "after their first critical verdict.",
            "short",
            *(
                Query(f"sum(rate(loopwarden_agent_{name}tokens_total{{{AGENT}}}[$__rate_interval]))", legend)
                for name, legend in _SPENT
            ),
        )
    )
    board.with_panel(
        series(
            "Money per hour",
            "In the currency that runners report in, at the present pace: all, calls that brought nothing, and after a "
            "critical verdict.",
            "short",
            *(
                Query(
                    f"3600 * sum(rate(loopwarden_agent_{name}cost_micros_total{{{AGENT}}}[$__rate_interval])) / 1e6",
                    legend,
                )
                for name, legend in _SPENT
            ),
        )
    )
    board.with_panel(
        series(
            "Calls that brought nothing, by tool",
            "Per second, the ten highest: their outcome repeats.",
            "ops",
            Query(
                f"topk(10, sum by (tool) (rate(loopwarden_tool_barren_calls_total{{{TOOL}}}[$__rate_interval])))",
                "{{tool}}",
            ),
        )
    )


_SPENT = (("", "all"), ("barren_", "brought nothing"), ("after_critical_", "after a critical verdict"))

"""``loopwarden explain``: what a run did, and why the last verdict fell."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import click

from loopwarden.cli.options import broker_options, config_option, connection_of, json_option, read_configuration
from loopwarden.cli.output import clock, fitted, printable

__all__ = ["command"]

_STATES = {"ended": "it ended", "open": "it has not ended"}


@click.command("explain")
@click.argument("run_id")
@config_option
@broker_options
@json_option
def command(run_id: str, config: str | None, broker: str | None, topic_prefix: str, as_json: bool) -> int:
    """Say what the ring of RUN_ID holds, which verdicts fell, by which rule, and what the runner did with them.

    Read from the topics, so it works without a worker, and for a run that is over: its retained events are folded again
    under the configurations that the workers folded them under (or --config). What retention has taken is said.
    """
    view = asyncio.run(_explain(run_id, config, broker, topic_prefix))
    if as_json:
        click.echo(json.dumps(view, indent=2))
        return 0
    for line in _lines(view):
        click.echo(line)
    return 0


async def _explain(run_id: str, config: str | None, broker: str | None, topic_prefix: str) -> dict[str, Any]:
    from loopwarden.errors import UsageError
    from loopwarden.past_runs import PastRuns
    from loopwarden.processor.web.view import past_view
    from loopwarden_schemas.configuration import Configuration
    from loopwarden_schemas.topics import Topics

    topics = Topics(topic_prefix)
    runs = PastRuns(connection_of(broker), topics, read_configuration(config))
    past = await runs(run_id, None)
    if past is None:
        raise UsageError(
            f"run {run_id!r} stands in neither {topics.events} nor {topics.verdicts}",
            hint="is the id right? Events and verdicts are kept 7 days, unless the topics say otherwise",
        )
    view = past_view(past, runs.used or Configuration())
    view["state"] = "ended" if past.ended else "open"
    return view


def _lines(view: dict[str, Any]) -> Iterator[str]:
    yield (
        printable(f"run {view['run_id']}, agent {view['agent_id'] or '-'}, partition {view['partition']}: ")
        + (_STATES[view["state"]])
    )
    if not view["retained"]:
        yield "Its first events are gone (retention): what follows rests on those that are left."
    yield from _ring(view)
    yield from _verdicts(view["verdicts"])
    yield from _deeds(view["deeds"])
    last = next((v for v in reversed(view["verdicts"]) if v["stage"] == "final" and v["level"] != "none"), None)
    if last is None:
        yield "\nNo verdict fell on any of its calls."
        return
    yield f"\nWhy the last verdict fell ({last['action']}, {printable(last['detector'])}):"
    yield printable(f"  {last['rule'] or 'This version does not know the rule.'}")
    yield printable(f"  It was told: {last['message'] or '-'}")
    if last["after_compaction"]:
        yield "  Its context had been compacted shortly before."
    if not last["same_configuration"]:
        yield "  It fell under another configuration than the one that these words are from."
    outcomes = [item.get("outcome") for item in last["evidence"]]
    if outcomes:
        yield f"  It rests on {len(outcomes)} calls with {len(set(outcomes))} different outcomes:"
        yield from _evidence(last["evidence"])
    cause = last["cause"]
    yield printable(f"  Cause: {cause['topic']}, partition {cause['partition']}, offset {cause['offset']}")


def _evidence(evidence: list[dict[str, Any]]) -> Iterator[str]:
    for item in evidence[-10:]:
        yield printable(f"    call {item.get('call') or '-':<18} outcome {(item.get('outcome') or '-')[:16]}")
    if len(evidence) > 10:
        yield f"    … and {len(evidence) - 10} before them"


def _ring(view: dict[str, Any]) -> Iterator[str]:
    if not view["ring"]:
        yield "\nThe ring: nothing is known of it."
        return
    yield f"\nThe ring, {len(view['ring'])} of {view['calls']} calls, oldest first (same letter: same call):"
    for item in view["ring"]:
        repeats = f"{item['repeats']} times with this outcome" if item["repeats"] > 1 else ""
        flags = " ".join(name for name in ("poll", "missing") if item[name])
        yield f"  {_letter(item['letter']):<3} {fitted(item['tool'], 24)} {item['outcome'][:12] or '(open)':<12} " + (
            " ".join(filter(None, (repeats, flags)))
        )


def _letter(number: int) -> str:
    text = ""
    while True:
        text = chr(ord("a") + number % 26) + text
        number = number // 26 - 1
        if number < 0:
            return text


def _verdicts(verdicts: list[dict[str, Any]]) -> Iterator[str]:
    finals = [verdict for verdict in verdicts if verdict["stage"] == "final"]
    yield f"\nVerdicts: {len(finals)}, and {len(verdicts) - len(finals)} forecasts"
    for verdict in finals:
        count = f" ×{verdict['count']}" if verdict["count"] else ""
        mode = " (observe)" if verdict["mode"] == "observe" else ""
        what = f"{verdict['tool'] or '-'} {verdict['detector'] or '-'}{count}"
        yield (printable(f"  {clock(verdict['ts'])} {verdict['action']:<5} {what}") + mode)


def _deeds(deeds: list[dict[str, Any]]) -> Iterator[str]:
    if deeds:
        yield "\nWhat was done:"
    for deed in deeds:
        yield printable(f"  {clock(deed['ts'])} {deed['kind']} {deed['what']}")

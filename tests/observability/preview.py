"""Draws what the dashboards show, from a real Prometheus's answers: ``python -m tests.observability.preview FOLDER``.

There is no Grafana here. The pictures have its panels, places, titles and units, and the values of the load.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestServer
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from loopwarden.processor.web import create_web
from tests.loads.worker import FoldedWorker
from tests.observability.check import boards, legend_of, substitute
from tests.observability.load import CONFIGURATION, as_records, tick
from tests.observability.prometheus import Prometheus, prometheus

SECONDS = 90
_ROW_INCHES = 0.34
_WIDTH_INCHES = 16.0
_BACK, _CARD, _INK, _SOFT = "#111217", "#181b1f", "#d8d9da", "#8e8e99"
_COLOURS = [
    "#73bf69",
    "#f2cc0c",
    "#5794f2",
    "#ff9830",
    "#f2495c",
    "#b877d9",
    "#8ab8ff",
    "#ffa6b0",
    "#96d98d",
    "#ffcb7d",
]
_UNITS = {"s": " s", "ops": " /s", "Bps": " B/s", "bytes": " B", "short": ""}

Answers = dict[tuple[str, int], list[tuple[str, list[tuple[float, float]]]]]


async def answers(asked: Prometheus, start: float, end: float) -> Answers:
    """What every panel would show: board and panel to legend and points."""
    found: Answers = {}
    for name, board in boards().items():
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                got = await asked.query_range(substitute(target["expr"]), start, end)
                lines = [(legend_of(target, labels), points) for labels, points in got]
                found.setdefault((name, panel["id"]), []).extend(lines)
    return found


def draw(board: dict[str, Any], name: str, found: Answers, path: Path) -> None:
    """Draws a dashboard."""
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    figure = Figure(figsize=(_WIDTH_INCHES, (height + 1.6) * _ROW_INCHES), facecolor=_BACK)
    figure.text(0.008, 1 - 0.9 / (height + 1.6), board["title"], color=_INK, fontsize=14, weight="bold")
    for panel in board["panels"]:
        place = panel["gridPos"]
        x, width = place["x"] / 24, place["w"] / 24
        y, tall = 1 - (place["y"] + place["h"] + 1.6) / (height + 1.6), place["h"] / (height + 1.6)
        if panel["type"] == "row":
            figure.text(x + 0.008, y + tall * 0.25, panel["title"], color=_INK, fontsize=10, weight="bold")
            continue
        margin = 0.003
        card = figure.add_axes((x + margin, y + margin, width - 2 * margin, tall - 2 * margin), facecolor=_CARD)
        card.set(xticks=[], yticks=[])
        card.spines[:].set_visible(False)
        card.text(
            0.02, 1 - 0.35 / place["h"], panel["title"], color=_INK, fontsize=8.5, va="top", transform=card.transAxes
        )
        lines = found.get((name, panel["id"]), [])
        if panel["type"] == "stat":
            _stat(card, panel, lines)
        else:
            inner = figure.add_axes((x + 0.033, y + tall * 0.3, width - 0.045, tall * 0.54), facecolor=_CARD)
            (_bars if panel["type"] == "bargauge" else _lines)(inner, panel, lines)
    figure.savefig(path, dpi=80, facecolor=_BACK)


def _value(value: float, unit: str) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}{_UNITS[unit]}"
    if unit == "s" and 0 < abs(value) < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g}{_UNITS[unit]}"


def _stat(card: Axes, panel: dict[str, Any], lines: list[tuple[str, list[tuple[float, float]]]]) -> None:
    text = colour = "–"
    if lines:
        legend, points = lines[0]
        value = points[-1][1]
        defaults = panel["fieldConfig"]["defaults"]
        named = panel["options"]["textMode"] == "name"
        text = legend if named else _value(value, defaults["unit"])
        steps = [step for step in defaults["thresholds"]["steps"] if step["value"] is None or value >= step["value"]]
        colour = {"green": "#73bf69", "blue": "#5794f2", "orange": "#ff9830", "red": "#f2495c"}[steps[-1]["color"]]
    card.text(0.5, 0.42, text, color=colour, fontsize=18, ha="center", va="center", transform=card.transAxes)


def _bars(axes: Axes, panel: dict[str, Any], lines: list[tuple[str, list[tuple[float, float]]]]) -> None:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    top = sorted(((points[-1][1], legend) for legend, points in lines), reverse=True)[:10]
    axes.barh([legend for _, legend in top], [value for value, _ in top], color=_COLOURS[3], height=0.5)
    for index, (value, _) in enumerate(top):
        axes.text(value, index, f" {_value(value, unit)}", color=_INK, fontsize=7, va="center")
    axes.invert_yaxis()
    axes.set_xticks([])
    _style(axes)


def _lines(axes: Axes, panel: dict[str, Any], lines: list[tuple[str, list[tuple[float, float]]]]) -> None:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    stacked = panel["fieldConfig"]["defaults"]["custom"].get("stacking", {}).get("mode") == "normal"
    ordered = sorted(lines, key=lambda line: line[1][-1][1], reverse=True)
    times = sorted({when for _, points in ordered for when, _ in points})
    columns = [[dict(points).get(when, 0.0) for when in times] for _, points in ordered]
    if stacked and columns:
        axes.stackplot(times, columns, colors=_COLOURS, alpha=0.35)
    for index, (_, points) in enumerate(ordered):
        if not stacked:
            axes.plot(
                [when for when, _ in points],
                [value for _, value in points],
                color=_COLOURS[index % len(_COLOURS)],
                linewidth=1.2,
            )
    top = max((value for column in columns for value in column), default=0.0)
    axes.set_ylim(0, 1.1 * (max(map(sum, zip(*columns, strict=True))) if stacked and columns else top) or 1)
    axes.yaxis.set_major_formatter(lambda value, _: _value(value, unit))
    axes.xaxis.set_major_formatter(lambda when, _: datetime.fromtimestamp(when, UTC).strftime("%H:%M:%S"))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    shown = [f"{legend or panel['title']}  {_value(points[-1][1], unit)}" for legend, points in ordered[:5]]
    if len(ordered) > 5:
        shown.append(f"and {len(ordered) - 5} more")
    x = 0.0
    for index, text in enumerate(shown):
        column, line = index % 3, index // 3
        axes.text(
            column * 0.36 - 0.05, -0.24 - line * 0.15, "▬ ", color=_COLOURS[index % len(_COLOURS)], fontsize=6.5,
            transform=axes.transAxes, va="top", ha="right",
        )  # fmt: skip
        axes.text(
            x + column * 0.36 - 0.05, -0.24 - line * 0.15, text[:34], color=_SOFT, fontsize=6.5,
            transform=axes.transAxes, va="top",
        )  # fmt: skip
    axes.grid(color="#2c2f34", linewidth=0.6)
    _style(axes)


def _style(axes: Axes) -> None:
    axes.spines[:].set_visible(False)
    axes.tick_params(colors=_SOFT, labelsize=6.5, length=0)


async def run_load(worker: FoldedWorker, seconds: int) -> None:
    """A load that looks like something: a loop breaks out, is refused, and fades."""
    began = time.monotonic()
    for number in range(seconds * 5):
        messages = tick(number)
        share = number / (seconds * 5)
        # The repeating run stands first; it is left out at first and in the end.
        if not 0.3 < share < 0.75:
            messages = [one for one in messages if not (b"repeat-" in one or b"compact-" in one) or number % 8 == 0]
        what = as_records(messages, int(time.time() * 1000) - len(messages))
        worker.fold(what, now_ms=int(time.time() * 1000) + 4 + number % 7, fold_seconds=0.0015 + 0.0005 * (number % 3))
        worker.metrics.changelog_written("history-ring", 900 + 10 * (number % 11), 4)
        worker.metrics.changelog_written("post-compaction-window", 90, 1)
        worker.metrics.live_runs(0, len(worker.rows.ring))
        worker.metrics.armed_guards(0, len(worker.rows.armed))
        worker.metrics.lag(0, (number * 7) % 40)
        worker.metrics.lag(1, (number * 3) % 25)
        worker.metrics.commit(0)
        if number in (10, seconds * 3):
            worker.metrics.recovered(0, 1500, 0.3)
            worker.metrics.rebalanced(0.7)
        await asyncio.sleep(max(0.0, began + (number + 1) / 5 - time.monotonic()))


async def main(folder: Path) -> None:
    """Runs a load and draws both dashboards."""
    worker = FoldedWorker(CONFIGURATION)
    app = create_web(worker, worker.metrics, worker)
    with tempfile.TemporaryDirectory() as data:
        async with TestServer(app) as server, prometheus([f"127.0.0.1:{server.port}"], Path(data)) as asked:
            await asked.wait_for("loopwarden_build_info")
            start = time.time() + 12
            await run_load(worker, SECONDS)
            found = await answers(asked, start, time.time() - 1)
    for name, board in boards().items():
        draw(board, name, found, folder / f"dashboard-{name}.png")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

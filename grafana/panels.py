"""Panels the way both dashboards have them: one look, a unit, a title and a description each."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

__all__ = [
    "AGENT",
    "DATASOURCE",
    "JOB",
    "TOOL",
    "Query",
    "bars",
    "base",
    "quantile",
    "row",
    "series",
    "single",
    "variable",
]

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
JOB = 'job=~"$job"'
AGENT = f'{JOB}, agent=~"$agent"'
TOOL = f'{JOB}, tool=~"$tool"'
TAG = "loopwarden"
Panel = Builder[models.Panel]


class Query(NamedTuple):
    """One query of a panel.

    Attributes:
        expr: PromQL.
        legend: How its series are called; Grafana fills in ``{{label}}``.
    """

    expr: str
    legend: str = ""


class _Common(Protocol):
    def title(self, title: str) -> object: ...
    def description(self, description: str) -> object: ...
    def unit(self, unit: str) -> object: ...
    def span(self, w: int) -> object: ...
    def height(self, h: int) -> object: ...
    def datasource(self, datasource: models.DataSourceRef) -> object: ...
    def no_value(self, no_value: str) -> object: ...


def series(
    title: str, description: str, unit: str, *queries: Query, stacked: bool = False, span: int = 8, height: int = 8
) -> Panel:
    """Lines over time; areas on top of each other where they add up to something."""
    panel = timeseries.Panel()
    _set(panel, title, description, unit, span, height)
    panel.line_width(1.5).fill_opacity(25 if stacked else 8).show_points(common_models.VisibilityMode.NEVER)
    panel.axis_soft_min(0).span_nulls(False)
    panel.legend(
        common.VizLegendOptions()
        .display_mode(common_models.LegendDisplayMode.TABLE)
        .placement(common_models.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs(["lastNotNull", "max"])
    )
    panel.tooltip(
        common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI).sort(common_models.SortOrder.DESCENDING)
    )
    if stacked:
        panel.stacking(common.StackingConfig().mode(common_models.StackingMode.NORMAL))
    for number, query in enumerate(queries):
        panel.with_target(_target(query, number).range())
    return panel


def single(
    title: str,
    description: str,
    unit: str,
    query: Query,
    *,
    warn: float | None = None,
    bad: float | None = None,
    named: bool = False,
    decimals: int | None = None,
) -> Panel:
    """One number, red where somebody should look; with ``named`` the series' name instead."""
    panel = stat.Panel()
    _set(panel, title, description, unit, 4, 4)
    steps = [models.Threshold(value=None, color="green" if bad is not None else "blue")]
    if warn is not None:
        steps.append(models.Threshold(value=warn, color="orange"))
    if bad is not None:
        steps.append(models.Threshold(value=bad, color="red"))
    panel.thresholds(dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
    panel.color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
    panel.color_mode(common_models.BigValueColorMode.VALUE)
    panel.graph_mode(common_models.BigValueGraphMode.NONE if named else common_models.BigValueGraphMode.AREA)
    panel.text_mode(common_models.BigValueTextMode.NAME if named else common_models.BigValueTextMode.VALUE)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
    if decimals is not None:
        panel.decimals(decimals)
    panel.with_target(_target(query, 0).range())
    return panel


def bars(title: str, description: str, unit: str, query: Query, *, span: int = 8, height: int = 8) -> Panel:
    """The highest, as bars."""
    panel = bargauge.Panel()
    _set(panel, title, description, unit, span, height)
    panel.orientation(common_models.VizOrientation.HORIZONTAL)
    panel.display_mode(common_models.BarGaugeDisplayMode.GRADIENT)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
    panel.min(0)
    panel.with_target(_target(query, 0).instant())
    return panel


def quantile(name: str, share: float) -> Query:
    """A quantile of a histogram."""
    return Query(
        f"histogram_quantile({share}, sum by (le) (rate({name}_bucket{{{JOB}}}[$__rate_interval])))",
        f"p{share * 100:g}",
    )


def row(title: str) -> dashboard.Row:
    """A heading."""
    return dashboard.Row(title)


def variable(name: str, label: str, description: str, query: str) -> dashboard.QueryVariable:
    """A choice of label values, all by default."""
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .description(description)
        .query(query)
        .datasource(DATASOURCE)
        .multi(True)
        .include_all(True)
        .all_value(".+")
        .current(models.VariableOption(text="All", value="$__all"))
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )


def base(title: str, uid: str, description: str) -> dashboard.Dashboard:
    """An empty dashboard with what both have: time, datasource, job, annotations, a link to the other."""
    return (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .readonly()
        .refresh("10s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("LoopWarden")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
            .as_dropdown(False)
        )
        .with_variable(
            dashboard.DatasourceVariable("datasource")
            .label("Datasource")
            .description("The Prometheus that scrapes the workers.")
            .type("prometheus")
        )
        .with_variable(
            variable("job", "Job", "Deployment, as Prometheus calls it.", "label_values(loopwarden_build_info, job)")
        )
        .annotation(
            _annotation(
                "Configuration changed",
                f"sum by (job) (increase(loopwarden_configuration_changes_total{{{JOB}}}[1m])) > 0",
                "blue",
            )
        )
        .annotation(
            _annotation(
                "Rebalance", f"sum by (job) (increase(loopwarden_rebalance_seconds_count{{{JOB}}}[1m])) > 0", "orange"
            )
        )
    )


def _annotation(name: str, expr: str, color: str) -> dashboard.AnnotationQuery:
    return dashboard.AnnotationQuery().name(name).datasource(DATASOURCE).enable(True).icon_color(color).expr(expr)


def _target(query: Query, number: int) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery()
        .datasource(DATASOURCE)
        .expr(query.expr)
        .legend_format(query.legend or "__auto")
        .ref_id(chr(ord("A") + number))
    )


def _set(panel: _Common, title: str, description: str, unit: str, span: int, height: int) -> None:
    panel.title(title)
    panel.description(description)
    panel.unit(unit)
    panel.span(span)
    panel.height(height)
    panel.datasource(DATASOURCE)
    panel.no_value("–")

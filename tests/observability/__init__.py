"""Dashboards, rules and metrics with a real Prometheus."""

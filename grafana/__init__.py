"""Grafana dashboards as code. Not part of the distribution: run from the repository."""

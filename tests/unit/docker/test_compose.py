"""The stack, checked without a container engine: schema, pins, ports, files, and what can be parsed here."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from loopwarden.connection import ENVIRONMENT as CONNECTION_ENVIRONMENT
from loopwarden.processor.settings import ENVIRONMENT, WorkerSettings

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
WORKERS = [name for name in SERVICES if name.startswith("worker-")]
DOCKERFILE = (DOCKER / "Dockerfile").read_text()


def test_schema() -> None:
    schema = json.loads((ROOT / "tests" / "data" / "compose" / "compose-spec.json").read_text())
    validator = jsonschema.Draft7Validator(schema)
    assert [error.message for error in validator.iter_errors(COMPOSE)] == []
    broken = {**COMPOSE, "services": {"x": {"image": 3, "port": []}}}
    assert list(validator.iter_errors(broken)), "the schema refuses nothing"


@pytest.mark.parametrize("name", SERVICES)
def test_service(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+[\w.-]*", service["image"]), "not pinned"
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:"), "open to others"
    for volume in service.get("volumes", []):
        source, target, *mode = volume.split(":")
        if source.startswith("."):
            assert (DOCKER / source).exists(), source
            assert mode == ["ro"], f"{target} can be written"
        else:
            assert source in COMPOSE["volumes"]
    for needed, how in service.get("depends_on", {}).items():
        assert needed in SERVICES
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[needed]
    if service["restart"] != "no":
        # A worker's stands in the Dockerfile.
        assert "healthcheck" in service or (name in WORKERS and "HEALTHCHECK" in DOCKERFILE)


def test_what_there_is() -> None:
    assert {"kafka", "topics", "worker-1", "worker-2", "prometheus", "grafana", "kafka-ui", "demo"} <= set(SERVICES)
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len({port.split(":")[1] for port in ports}) == len(ports)
    assert SERVICES["kafka-ui"]["profiles"] == ["ui"]
    assert SERVICES["demo"]["profiles"] == ["demo"]
    assert (DOCKER / "demo" / Path(SERVICES["demo"]["entrypoint"][1]).name).is_file()


@pytest.mark.parametrize("name", WORKERS)
def test_worker_understands_its_environment(name: str) -> None:
    environment = dict(SERVICES[name]["environment"])
    assert set(environment) <= set(ENVIRONMENT) | set(CONNECTION_ENVIRONMENT)
    mounted = {target: source for source, target, *_ in (v.split(":") for v in SERVICES[name]["volumes"])}
    environment["LOOPWARDEN_CONFIG"] = str(DOCKER / mounted[environment["LOOPWARDEN_CONFIG"]])
    settings = WorkerSettings.from_environment(environment)
    assert settings.connection.bootstrap == "kafka:9092"
    assert not settings.configuration.is_off
    assert settings.instance_id == name
    assert not settings.create_topics, "the stack's own service makes them"
    address = urlsplit(settings.advertised_url or "")
    assert (address.hostname, address.port) == (name, settings.web_port)
    assert any(port.endswith(f":{settings.web_port}") for port in SERVICES[name]["ports"])
    grace = int(SERVICES[name]["stop_grace_period"].removesuffix("s"))
    assert grace > settings.drain_timeout_s + 5


def test_prometheus_scrapes_the_workers() -> None:
    jobs = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in jobs}
    assert targets["loopwarden"] == [f"{name}:6066" for name in WORKERS]


def test_grafana_finds_what_is_mounted() -> None:
    mounted = dict(volume.split(":")[:2][::-1] for volume in SERVICES["grafana"]["volumes"])
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (DOCKER / mounted[str(home.parent)] / home.name).is_file()
    provider = yaml.safe_load(
        (DOCKER / mounted["/etc/grafana/provisioning"] / "dashboards/loopwarden.yaml").read_text()
    )
    assert provider["providers"][0]["options"]["path"] in mounted
    datasource = yaml.safe_load(
        (DOCKER / mounted["/etc/grafana/provisioning"] / "datasources/prometheus.yaml").read_text()
    )["datasources"][0]
    assert datasource["url"].removeprefix("$") in SERVICES["grafana"]["environment"]


def test_kafka_is_reached_where_it_says() -> None:
    properties = kafka_properties()
    advertised = dict(item.split("://") for item in properties["advertised.listeners"].split(","))
    host, port = advertised["INTERNAL"].split(":")
    assert host in SERVICES
    assert SERVICES[WORKERS[0]]["environment"]["LOOPWARDEN_BROKER"] == f"{host}:{port}"
    assert f"127.0.0.1:{advertised['HOST'].split(':')[1]}:" in SERVICES["kafka"]["ports"][0]
    assert any(volume.endswith(properties["log.dirs"]) for volume in SERVICES["kafka"]["volumes"])


def test_script_that_creates_the_topics() -> None:
    generator = runpy.run_path(str(DOCKER / "kafka" / "generate_topics.py"))
    assert generator["SCRIPT"].read_text() == generator["script"]()
    assert SERVICES["topics"]["entrypoint"][1:] == ["/create-topics.sh", "kafka:9092"]


def test_dockerfile() -> None:
    stages = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(stages) == 2
    assert all(re.search(r":\d+\.\d+\.\d+", stage) for stage in stages), "not pinned"
    last = DOCKERFILE.rsplit("FROM ", 1)[1]
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", last, re.MULTILINE), "root"
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists()
            assert source in allowed, f"{source} is not sent to the builder"


def kafka_properties() -> dict[str, str]:
    """The broker's properties."""
    lines = (DOCKER / "kafka" / "server.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))

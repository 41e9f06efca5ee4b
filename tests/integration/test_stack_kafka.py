"""The stack's Kafka properties and its script, with a real Apache Kafka: only with ``--broker kafka``."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from loopwarden.broker.topics_admin import check_topics
from loopwarden.connection import Connection
from loopwarden_schemas.topics import Topics
from tests.brokers.kafka import KafkaCluster
from tests.unit.docker.test_compose import DOCKER, kafka_properties

OF_THE_CONTAINER = (
    "node.id",
    "controller.quorum.voters",
    "log.dirs",
    "listener",
    "controller.listener",
    "inter.broker",
)
"""What names hosts, ports and folders of the container: those of the test cluster are used instead."""


@pytest.mark.integration
@pytest.mark.slow
def test_kafka_takes_the_properties_and_gets_the_topics(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if request.config.getoption("--broker") != "kafka":
        pytest.skip("needs --broker kafka")
    properties = {
        name: value
        for name, value in kafka_properties().items()
        if not name.startswith(OF_THE_CONTAINER) and name != "advertised.listeners"
    }
    with KafkaCluster(1, properties=properties) as cluster:
        said = "\n".join(cluster.nodes[0].output())
        assert "unknown config" not in said.lower()
        assert "not used" not in said
        # The image's tool, out of the same jars.
        tool = tmp_path / "kafka-topics.sh"
        command = " ".join(cluster.runtime.command("org.apache.kafka.tools.TopicCommand"))
        tool.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        tool.chmod(0o755)
        script = tmp_path / "create-topics.sh"
        text = (DOCKER / "kafka" / "create-topics.sh").read_text()
        script.write_text(text.replace("/opt/kafka/bin/kafka-topics.sh", str(tool)))
        for _ in range(2):  # a second time changes nothing
            subprocess.run(["/bin/sh", str(script), cluster.bootstrap], check=True, timeout=180, env=os.environ)
        found = asyncio.run(check_topics(Connection(cluster.bootstrap), Topics().specs()))
        assert (found.missing, found.problems, found.notes) == ([], [], [])

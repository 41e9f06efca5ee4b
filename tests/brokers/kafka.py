"""Apache Kafka (KRaft) without containers: one broker, or several that can be killed and started again."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from loopwarden.broker.child_process import ChildProcess
from loopwarden.broker.embedded import broker_at, free_port
from tests.brokers.kafka_jars import KafkaRuntime, exclusively, kafka_runtime

__all__ = ["KafkaCluster", "KafkaNode"]

HOST = "127.0.0.1"
_POLL_SECONDS = 0.05

_PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "num.partitions": "4",
    # With its default of 128 MB the log cleaner dies of the small heap.
    "log.cleaner.dedupe.buffer.size": "4194304",
    # Or every partition's two indexes are laid out with 10 MB each.
    "log.index.size.max.bytes": "1048576",
    "num.network.threads": "2",
    "num.io.threads": "4",
}
# A lost broker is noticed within two seconds instead of ten; a killed one is let in again as soon.
_QUICK_FAILOVER = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "controller.quorum.election.backoff.max.ms": "200",
    "controller.quorum.request.timeout.ms": "500",
    "controller.socket.timeout.ms": "1000",
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "100",
}


class KafkaNode:
    """One broker, which is a controller too.

    Attributes:
        number: Its node id, from 1.
        port: Where clients reach it; stays the same over restarts.
        folder: Its properties and data.
    """

    def __init__(self, cluster: KafkaCluster, number: int, folder: Path) -> None:
        self.number = number
        self.port = free_port()
        self.controller_port = free_port()
        self.folder = folder
        self._cluster = cluster
        self._process: ChildProcess | None = None

    @property
    def address(self) -> str:
        """``HOST:PORT`` for clients."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id; None while it is down."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.returncode is None

    def start(self) -> None:
        """Starts the process on the data that is there; does not wait until it is ready (:meth:`KafkaCluster.wait`)."""
        assert not self.running, f"node {self.number} is running"
        command = self._cluster.runtime.command(
            "kafka.Kafka", str(self.folder / "server.properties"), flags=self._cluster.flags
        )
        self._process = ChildProcess(f"Kafka node {self.number}", command, env=os.environ, keep_lines=200)

    def stop(self) -> None:
        """Stops it in good order (SIGTERM); a controlled shutdown hands its partitions over first."""
        if self._process is not None:
            self._process.stop(grace=15)

    def kill(self) -> None:
        """Ends it as a power cut does (SIGKILL); its data folder stays."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """Freezes it (SIGSTOP): it holds its connections and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on after :meth:`pause`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def output(self) -> list[str]:
        """The last lines of its log."""
        return self._process.output() if self._process is not None else []

    def check(self) -> None:
        """Raises if it was started and has ended by itself."""
        if self._process is not None and self._process.returncode is not None:
            said = [line for line in self.output() if line.strip() and not line.startswith("\tat ")]
            last = "\n".join(said[-10:])
            raise RuntimeError(f"Kafka node {self.number} ended with code {self._process.returncode}; it said:\n{last}")


class KafkaCluster:
    """A cluster of this test run's own, in a temporary folder that goes with it; a context manager.

    Args:
        brokers: How many, each a controller too.
        properties: Broker properties beside, or instead of, those for tests.
        flags: Flags for the Java machine.
        start_timeout: Seconds until all are there.

    Raises:
        KafkaMissing: No Java or Maven here.
        RuntimeError: A broker ended (with its last output), or it took too long.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        properties: Mapping[str, str] | None = None,
        flags: tuple[str, ...] = (),
        start_timeout: float = 60.0,
    ) -> None:
        self.runtime: KafkaRuntime = kafka_runtime()
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self.folder = Path(tempfile.mkdtemp(prefix="loopwarden-kafka-"))
        self.flags = flags
        self._overrides = dict(properties or {})
        self._start_timeout = start_timeout
        self.nodes = [KafkaNode(self, i, self.folder / f"node-{i}") for i in range(1, brokers + 1)]

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes."""
        return ",".join(node.address for node in self.nodes)

    def properties(self, node: KafkaNode) -> dict[str, str]:
        """The broker properties of one node."""
        several = len(self.nodes) > 1
        copies, in_sync = (min(len(self.nodes), 3), 2) if several else (1, 1)
        listeners = f"PLAINTEXT://{node.address},CONTROLLER://{HOST}:{node.controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": str(node.number),
            "controller.quorum.voters": ",".join(f"{n.number}@{HOST}:{n.controller_port}" for n in self.nodes),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(node.folder / "data"),
            "default.replication.factor": str(copies),
            "min.insync.replicas": str(in_sync),
            "offsets.topic.replication.factor": str(copies),
            "transaction.state.log.replication.factor": str(copies),
            "transaction.state.log.min.isr": str(in_sync),
            "share.coordinator.state.topic.replication.factor": str(copies),
            "share.coordinator.state.topic.min.isr": str(in_sync),
            **_PROPERTIES,
            **_QUICK_FAILOVER,
            **self._overrides,
        }

    def format_arguments(self) -> list[str]:
        """Further arguments of the tool that formats a data folder."""
        return []

    def start(self) -> Self:
        """Formats the data folders, starts all nodes and waits until they see each other."""
        if not self.runtime.archive.exists():
            _make_archive(self.runtime)
        return self._start()

    def _start(self) -> Self:
        try:
            self._format()
            for node in self.nodes:
                node.start()
            self.wait()
        except BaseException:
            self.stop()
            raise
        return self

    def _format(self) -> None:
        tools: list[tuple[KafkaNode, subprocess.Popen[str]]] = []
        with ExitStack() as stack:
            for node in self.nodes:
                node.folder.mkdir()
                file = node.folder / "server.properties"
                file.write_text("".join(f"{key}={value}\n" for key, value in self.properties(node).items()))
                # With "=": one id in 64 begins with a dash.
                arguments = ["format", f"--cluster-id={self.cluster_id}", "-c", str(file), *self.format_arguments()]
                command = self.runtime.command("kafka.tools.StorageTool", *arguments)
                tool = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                stack.callback(tool.kill)
                tools.append((node, stack.enter_context(tool)))
            for node, tool in tools:
                output, _ = tool.communicate(timeout=self._start_timeout)
                if tool.returncode != 0:
                    raise RuntimeError(f"node {node.number} cannot be formatted: {output[-2000:]}")

    def wait(self, timeout: float | None = None) -> None:
        """Waits until every running node answers and sees as many brokers as are running.

        Args:
            timeout: Seconds; None is the start time-out.

        Raises:
            RuntimeError: One ended meanwhile, or it took too long.
        """
        timeout = self._start_timeout if timeout is None else timeout
        deadline = time.monotonic() + timeout
        running = [node for node in self.nodes if node.running]
        while not all(self._is_ready(node, len(running)) for node in running):
            for node in running:
                node.check()
            if time.monotonic() > deadline:
                lines = [line for node in running for line in node.output()[-5:]]
                raise RuntimeError("Kafka is not ready after {:g} s: {}".format(timeout, "\n".join(lines)))
            time.sleep(_POLL_SECONDS)

    def _is_ready(self, node: KafkaNode, brokers: int) -> bool:
        answer = broker_at(HOST, node.port)
        return answer is not None and answer.cluster_id == self.cluster_id and answer.brokers == brokers

    def wait_in_sync(self, timeout: float = 30.0) -> None:
        """Waits until every partition has all its copies in sync, so that the next loss costs nothing.

        Raises:
            RuntimeError: It took too long.
        """
        deadline = time.monotonic() + timeout
        while behind := asyncio.run(_behind(self.bootstrap)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"not in sync after {timeout:g} s: {', '.join(behind)}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Stops all nodes and deletes the folder. May be called again."""
        for node in self.nodes:
            # All of it goes, so the last nodes need not find somebody to hand over to.
            node.kill() if len(self.nodes) > 1 else node.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


async def _behind(bootstrap: str) -> list[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        await admin.start()
        return [
            f"{topic['topic']}-{partition['partition']}"
            for topic in await admin.describe_topics(None)
            for partition in topic["partitions"]
            if len(partition["isr"]) < len(partition["replicas"])
        ]
    except KafkaError as error:
        return [str(error)]
    finally:
        await admin.close()


def _make_archive(runtime: KafkaRuntime) -> None:
    """Lets a throw-away broker write its loaded classes to the archive: later ones start in half the time."""
    with exclusively(runtime.archive.with_suffix(".lock")):
        if runtime.archive.exists():
            return
        fresh = runtime.archive.with_suffix(".new")
        with ExitStack() as stack:
            cluster = KafkaCluster(flags=(f"-XX:ArchiveClassesAtExit={fresh}",))
            stack.callback(cluster.stop)
            cluster._start()
        fresh.rename(runtime.archive)

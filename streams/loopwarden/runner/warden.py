"""The client: one per process."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Literal, Self

from loopwarden.connection import Connection
from loopwarden.errors import UsageError
from loopwarden.runner.bus import Bus
from loopwarden.runner.content import Content, Redact
from loopwarden.runner.host import Host
from loopwarden.runner.policy import ALL_ACTIONS, Policy
from loopwarden.runner.run import Run
from loopwarden.runner.settings import RunnerSettings, StrictFail
from loopwarden.runner.stats import RunnerStats
from loopwarden.runner.wire import checked_run_id, fitted
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.events import RunStarted
from loopwarden_schemas.topics import Topics
from loopwarden_schemas.verdicts import Action, Mode, Verdict

__all__ = ["LoopWarden"]

QUEUE_SIZE = 10_000
FLUSH_TIMEOUT = 5.0
HELD_RUNS = 10_000
"""Runs that are kept until they end; of more, the oldest live only as long as somebody else holds them."""
_PRUNE_FROM = 64


class LoopWarden:
    """Publishes what the agents of this process do, follows the verdicts on them, and decides before each call.

    A context manager, sync and async, that closes itself; at the latest when the process exits. All work with the
    broker is done in a thread of its own, so the same object serves plain code, one event loop or several. After
    ``fork`` a child starts a client of its own. A broker that is away costs events, never time: what waits for it is
    bounded, and counted when it is dropped.

    Args:
        broker: ``HOST:PORT``, a ``Connection``, or None for what the environment says (``LOOPWARDEN_BROKER`` …).
        topic_prefix: Prefix of the deployment's topics.
        agent_id: Agent of the runs that name none.
        mode: ``enforce`` obeys the worker; ``observe`` publishes, and says in each decision what would have happened.
            It can only weaken the worker's mode.
        content: ``fingerprint``: arguments and results never leave the process. ``raw``: they are published, so that
            ``loopwarden explain`` can show them. Or a ``Content``, with a size limit of your own.
        redact: For ``raw``: called with field (``args``, ``result``, ``error``), tool and value; returns what may be
            published, or ``msgspec.UNSET`` for nothing.
        salt: Secret of the deployment that fingerprints are salted with; the same in every runner.
        strict: Wait for the worker's verdict on each call, up to ``strict_timeout`` seconds.
        strict_timeout: Seconds, above 0.
        strict_fail: ``open`` runs a call on which no verdict came in time, ``closed`` refuses it.
        policy: What to do on a warning, a critical verdict, an abort.
        queue_size: Events that may wait for the broker; beyond it the oldest are dropped, and counted.
        flush_timeout: Seconds that closing, and the exit of the process, may wait for what is queued.

    Raises:
        UsageError: A parameter that cannot be taken. A broker that is away is no error.
    """

    def __init__(
        self,
        broker: str | Connection | None = None,
        *,
        topic_prefix: str = "",
        agent_id: str | None = None,
        mode: Mode = "enforce",
        content: Literal["fingerprint", "raw"] | Content = "fingerprint",
        redact: Redact | None = None,
        salt: str | bytes = b"",
        strict: bool = False,
        strict_timeout: float = 1.0,
        strict_fail: StrictFail = "open",
        policy: Policy | None = None,
        queue_size: int = QUEUE_SIZE,
        flush_timeout: float = FLUSH_TIMEOUT,
        _bus: Bus | None = None,
    ) -> None:
        if queue_size < 1 or flush_timeout < 0:
            raise UsageError(f"queue_size {queue_size!r} and flush_timeout {flush_timeout!r} must be above 0")
        settings = RunnerSettings(
            agent_id=fitted(agent_id),
            mode=mode,
            content=content if isinstance(content, Content) else Content(content, redact=redact),
            salt=salt.encode() if isinstance(salt, str) else bytes(salt),
            strict=strict,
            strict_timeout=strict_timeout,
            strict_fail=strict_fail,
            policy=policy or Policy(),
        )
        self._flush_timeout = flush_timeout
        self._closed = False
        self._lock = threading.RLock()
        self._runs: dict[str, weakref.WeakValueDictionary[str, Run]] = {}
        self._held: OrderedDict[str, Run] = OrderedDict()
        self._prune_from = _PRUNE_FROM
        self._connect: tuple[Connection, Topics, int] | None = None
        if _bus is None:
            if not isinstance(broker, Connection):
                broker = Connection.from_environment(os.environ, bootstrap=broker)
            self._connect = (broker, Topics(topic_prefix), queue_size)
            _bus = self._kafka(*self._connect)
        self._host = Host(settings, _bus)
        _open.add(self)

    @classmethod
    def in_process(
        cls, configuration: Configuration | Mapping[str, Any] | str | os.PathLike[str] | None = None, **options: Any
    ) -> Self:
        """The same library without a broker: it folds in the process, with the same decisions.

        For tests, a single script, the CI of an agent. Each call is judged before it runs, as with ``strict``.

        Args:
            configuration: A configuration, a document of its form (``{"tools": {"loopDetection": …}}``), or the path
                of a file. None switches the detectors on with their defaults.
            options: As for the constructor.

        Raises:
            ConfigurationError: The configuration cannot be taken.
        """
        from loopwarden.runner.in_process import InProcessBus

        if configuration is None:
            configuration = Configuration.from_block({"enabled": True})
        elif isinstance(configuration, str | os.PathLike):
            configuration = Configuration.from_file(os.fspath(configuration))
        elif not isinstance(configuration, Configuration):
            configuration = Configuration(configuration)
        bus = InProcessBus(configuration)
        warden = cls(_bus=bus, **options)
        bus.deliver = warden._deliver
        return warden

    def run(
        self,
        run_id: str | None = None,
        *,
        agent_id: str | None = None,
        parent: Run | str | None = None,
        root: str | None = None,
        session_id: str | None = None,
        framework: str | None = None,
        version: str | None = None,
        model: str | None = None,
        supports: Collection[Action] = ALL_ACTIONS,
    ) -> Run:
        """Starts a run, or takes it up again: a process that starts again gives the same id and learns what is refused.

        Args:
            run_id: Id, up to 256 bytes; one is made up where none is given. That of a run under way gives that run.
            agent_id: The agent, for its configuration.
            parent: The run that starts this one, or its id.
            root: Id of the run at the top of the family; that of ``parent`` where a run is given, else ``parent``.
            session_id: The session that the run belongs to.
            framework: Agent framework.
            version: Version of framework or runner.
            model: Model name.
            supports: What this runner is able to do about a verdict; the rest is acknowledged as ``unsupported``.

        Raises:
            UsageError: An id that no worker would take.
        """
        run_id = checked_run_id("run_id", run_id) or uuid.uuid4().hex
        if isinstance(parent, Run):
            root = root or parent.root_run_id or parent.id
            parent = parent.id
        root_run_id = checked_run_id("root", root or parent) or None
        started = RunStarted(
            run_id=run_id,
            agent_id=fitted(agent_id) or self.settings.agent_id,
            parent_run_id=fitted(parent),
            root_run_id=root_run_id,
            session_id=fitted(session_id),
            framework=fitted(framework),
            version=fitted(version),
            model=fitted(model),
        )
        with self._lock:
            self._prune()
            family = self._runs.setdefault(started.key, weakref.WeakValueDictionary())
            known = family.get(run_id)
            if known is not None and not known.ended:
                return known
            run = family[run_id] = Run(self._host, started, supports=supports, forget=self._forget)
            self._held[run_id] = run
            if len(self._held) > HELD_RUNS:
                self._held.popitem(last=False)
        if self._connect is not None:
            self._host.reducer.start()
        run._announce()
        return run

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until all events are acknowledged or dropped.

        Args:
            timeout: Seconds to wait; ``flush_timeout`` by default.

        Returns:
            Whether they were, in time.
        """
        timeout = self._flush_timeout if timeout is None else timeout
        return self._host.reducer.drain(timeout) and self._host.bus.flush(timeout)

    async def aflush(self, timeout: float | None = None) -> bool:
        """``flush`` for async code."""
        return await asyncio.to_thread(self.flush, timeout)

    def close(self, timeout: float | None = None) -> None:
        """Publishes what is queued, within the bound, and stops. Runs that go on are not judged any more.

        Args:
            timeout: Seconds to wait; ``flush_timeout`` by default.
        """
        if self._closed:
            return
        self._closed = True
        _open.discard(self)
        timeout = self._flush_timeout if timeout is None else timeout
        self._host.reducer.drain(timeout)
        self._host.bus.close(timeout)
        self._host.reducer.close()

    @property
    def settings(self) -> RunnerSettings:
        """What all runs have in common."""
        return self._host.settings

    @property
    def stats(self) -> RunnerStats:
        """How the library itself is doing."""
        bus, counters = self._host.bus.stats(), self._host.counters
        return RunnerStats(
            **{name: getattr(bus, name) for name in bus.__dataclass_fields__},
            calls=counters.calls,
            refused=counters.refused,
            unanswered=counters.unanswered,
            unreduced=self._host.reducer.unreduced,
            failures=counters.failures,
        )

    def _forget(self, run: Run) -> None:
        with self._lock:
            family = self._runs.get(run.key)
            if family is None or family.get(run.id) is not run:
                return
            del family[run.id]
            self._held.pop(run.id, None)
            if not family:
                self._drop(run.key)

    def _prune(self) -> None:
        """Lets go of runs that nobody ended and nobody holds any more."""
        if len(self._runs) < self._prune_from:
            return
        for key in [key for key, family in self._runs.items() if not family]:
            self._drop(key)
        self._prune_from = max(_PRUNE_FROM, 2 * len(self._runs))

    def _drop(self, key: str) -> None:
        del self._runs[key]
        self._host.families.forget(key)
        self._host.bus.unfollow(key)

    # For the bus.

    def _deliver(self, key: str, verdict: Verdict) -> None:
        try:
            if verdict.shadow is not None:
                return
            self._host.families.take(key, verdict)
            with self._lock:
                run = self._runs.get(key, _NONE).get(verdict.run_id)
            if run is not None:
                run._deliver(verdict)
        except Exception as error:
            self._host.failed("a verdict was not taken", error)

    def _followed_late(self, key: str) -> None:
        """Verdicts on these runs may have been missed: ask for their standing again."""
        with self._lock:
            runs = [run for run in self._runs.get(key, _NONE).values() if not run.ended]
        for run in runs:
            run._announce()

    # Beginning, forking, ending.

    def _kafka(self, connection: Connection, topics: Topics, queue_size: int) -> Bus:
        from loopwarden.runner.kafka_bus import KafkaBus

        return KafkaBus(
            connection, topics, queue_size=queue_size, deliver=self._deliver, followed_late=self._followed_late
        )

    def _after_fork(self) -> None:
        self._lock = threading.RLock()
        self._host.after_fork(self._host.bus if self._connect is None else self._kafka(*self._connect))
        for family in self._runs.values():
            for run in family.values():
                run._after_fork()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)


_NONE: weakref.WeakValueDictionary[str, Run] = weakref.WeakValueDictionary()
_open: weakref.WeakSet[LoopWarden] = weakref.WeakSet()


def _close_all() -> None:
    for warden in list(_open):
        warden.close()


def _restart_all() -> None:
    for warden in list(_open):
        warden._after_fork()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart_all)

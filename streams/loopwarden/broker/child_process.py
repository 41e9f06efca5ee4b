"""A child process that ends with its parent and whose last words are kept."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

__all__ = ["ChildProcess"]

# Asks the kernel to kill the process when its parent dies, then becomes the command; the process id stays the same.
# Not a `preexec_fn`: Python code between fork and exec may deadlock in a process with threads. The parent may have died
# before the request was in force, hence the comparison.
_DIE_WITH_PARENT = """\
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("parent is gone")
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"cannot execute {sys.argv[2]}: {error.strerror}")
"""


class ChildProcess:
    """Runs a command that must not outlive this process.

    On Linux the kernel kills it when this process dies, however that happens; elsewhere only an ordinary exit does. It
    has a session of its own, so Ctrl-C in the terminal reaches this process alone, which then stops it in good order.

    Args:
        name: What it is called in errors.
        command: Absolute path of the executable, and its arguments.
        env: The whole environment of the process.
        cwd: Its working directory.
        keep_lines: How many of its last lines of output are kept.

    Raises:
        OSError: The process cannot be started at all. On Linux a command that cannot be executed starts and ends with
            the reason as its output.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str = "/",
        keep_lines: int = 50,
    ) -> None:
        self.name = name
        self._owner = os.getpid()
        self._lines: deque[str] = deque(maxlen=keep_lines)
        self._process: subprocess.Popen[bytes] | None = None
        self._start_error: OSError | None = None
        started = threading.Event()
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(self._owner), *command]
        # The kernel takes the *thread* that forked for the parent, so that thread lives as long as the child.
        self._reader = threading.Thread(
            target=self._run, args=(list(command), dict(env), cwd, started), name=f"{name} output", daemon=True
        )
        atexit.register(self.stop)
        self._reader.start()
        started.wait()
        if self._start_error is not None:
            atexit.unregister(self.stop)
            raise self._start_error

    def _run(self, command: list[str], env: dict[str, str], cwd: str, started: threading.Event) -> None:
        try:
            process = subprocess.Popen(  # noqa: S603  the command is ours, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            self._start_error = error
            started.set()
            return
        self._process = process
        started.set()
        assert process.stdout is not None
        rest = b""
        # Read unbuffered: a daemon thread inside a buffered reader can break the interpreter's exit.
        with process.stdout as stream:
            while chunk := os.read(stream.fileno(), 65536):
                *lines, rest = (rest + chunk).split(b"\n")
                self._lines.extend(line.decode(errors="replace").rstrip() for line in lines)
                rest = rest[-65536:]
        if rest:
            self._lines.append(rest.decode(errors="replace").rstrip())
        process.wait()

    @property
    def pid(self) -> int:
        """Process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def output(self) -> list[str]:
        """The last lines that it printed, standard output and error together."""
        if self.returncode is not None:
            self._reader.join(1)  # let the reader take what is still in the pipe
        return list(self._lines)

    def describe_exit(self) -> str:
        """How it ended, in words, with its last lines of output."""
        code = self.returncode
        if code is None:
            ended = "is running"
        else:
            ended = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        lines = [line for line in self.output() if line][-8:]
        return f"{self.name} {ended}" + (f"; it said: {' | '.join(lines)}" if lines else " and said nothing")

    def send_signal(self, number: int) -> None:
        """Sends it a signal; nothing happens when it has ended."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Ends it at once (SIGKILL) and waits until it is gone."""
        self.stop(grace=0)

    def stop(self, grace: float = 5.0) -> None:
        """Ends it: SIGTERM, after ``grace`` seconds SIGKILL. May be called again.

        In a process that was forked from the owner this does nothing: the child process is not its own.
        """
        process = self._process
        if process is None or os.getpid() != self._owner:
            return
        atexit.unregister(self.stop)
        if grace > 0:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace)
        if process.poll() is None:
            process.kill()
        process.wait()
        self._reader.join(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

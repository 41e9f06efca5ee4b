from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from loopwarden.broker.child_process import ChildProcess


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        # A zombie has ended; only its parent has not asked yet.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def python(code: str, **options: object) -> ChildProcess:
    return ChildProcess(
        "the child", [sys.executable, "-u", "-c", textwrap.dedent(code)], env=dict(os.environ), **options
    )  # type: ignore[arg-type]


def test_keeps_the_last_lines_of_both_streams() -> None:
    child = python(
        """
        import sys
        for i in range(100): print("line", i)
        print("no line end", end="", file=sys.stderr)
        sys.exit(3)
        """,
        keep_lines=5,
    )
    wait_until(lambda: child.returncode is not None)
    assert child.returncode == 3
    assert child.output() == ["line 96", "line 97", "line 98", "line 99", "no line end"]
    assert child.describe_exit().startswith("the child exited with code 3; it said: line 96 |")
    child.stop()


def test_output_without_line_ends_stays_bounded() -> None:
    with python("import sys; sys.stdout.write('x' * 5_000_000); print(); print('done')") as child:
        wait_until(lambda: child.returncode is not None)
        assert child.output()[-1] == "done"
        assert sum(map(len, child.output())) < 200_000


def test_stop_is_polite_first_and_can_be_repeated() -> None:
    child = python(
        """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("bye"), sys.exit(0)))
        print("up")
        time.sleep(60)
        """
    )
    wait_until(lambda: "up" in child.output())
    child.stop()
    child.stop()
    assert child.returncode == 0
    assert child.output()[-1] == "bye"


def test_stop_kills_what_does_not_listen() -> None:
    child = python("import signal, time; signal.signal(15, signal.SIG_IGN); print('up'); time.sleep(60)")
    wait_until(lambda: "up" in child.output())
    child.stop(grace=0.1)
    assert child.returncode == -signal.SIGKILL
    assert "killed by signal 9" in child.describe_exit()


def test_a_signal_to_one_that_has_ended_does_nothing() -> None:
    child = python("pass")
    wait_until(lambda: child.returncode is not None)
    child.send_signal(signal.SIGTERM)
    child.kill()
    assert "said nothing" in child.describe_exit()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part is Linux only")
def test_a_command_that_cannot_be_executed_says_why() -> None:
    child = ChildProcess("the child", ["/nonexistent"], env=dict(os.environ))
    wait_until(lambda: child.returncode is not None)
    assert "cannot execute /nonexistent: No such file" in child.describe_exit()
    child.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part is Linux only")
@pytest.mark.parametrize(
    "ending", ["os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGTERM)", "sys.exit(0)"]
)
def test_it_ends_with_its_parent(ending: str) -> None:
    parent = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
            import os, signal, sys
            from loopwarden.broker.child_process import ChildProcess
            child = ChildProcess("grandchild", [sys.executable, "-c", "import time; time.sleep(60)"], env=os.environ)
            print(child.pid, flush=True)
            {ending}
            """),
        ],
        stdout=subprocess.PIPE,
        timeout=30,
    )
    pid = int(parent.stdout)
    wait_until(lambda: not alive(pid), 5)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part is Linux only")
def test_it_outlives_the_thread_that_started_it() -> None:
    import threading

    children: list[ChildProcess] = []
    thread = threading.Thread(target=lambda: children.append(python("import time; print('up'); time.sleep(60)")))
    thread.start()
    thread.join()
    (child,) = children
    wait_until(lambda: "up" in child.output())
    time.sleep(0.1)  # what must not happen has no condition to wait for
    assert child.returncode is None
    child.stop()


def test_a_forked_process_does_not_stop_it() -> None:
    with python("import time; print('up'); time.sleep(60)") as child:
        wait_until(lambda: "up" in child.output())
        forked = os.fork()
        if forked == 0:
            child.stop()
            os._exit(0)
        os.waitpid(forked, 0)
        assert child.returncode is None

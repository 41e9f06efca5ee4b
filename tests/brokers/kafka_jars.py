"""Apache Kafka's jars and a Java to run them: fetched once by Maven, into a cache that all checkouts share."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DOCKER_KAFKA", "KafkaMissing", "KafkaRuntime", "kafka_runtime"]

DOCKER_KAFKA = Path(__file__).parents[2] / "docker" / "kafka"
_INSTALL = "apt-get install --no-install-recommends maven default-jre-headless"
# The heap is small for a test machine; quick compilation and a simple collector start faster.
_FLAGS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class KafkaMissing(Exception):
    """Apache Kafka cannot be run here; says what to install."""


@dataclass(frozen=True)
class KafkaRuntime:
    """What is needed to run Kafka's classes.

    Attributes:
        java: The executable.
        jars: Its class path, in a fixed order: an archive of loaded classes is only valid for one.
        archive: Where that archive is, or will be.
    """

    java: str
    jars: tuple[Path, ...]
    archive: Path

    def command(self, main: str, *arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
        """The command line that runs a class, with the class archive where there is one."""
        share = [f"-XX:SharedArchiveFile={self.archive}", "-Xshare:auto"] if self.archive.exists() else []
        log = f"-Dlog4j2.configurationFile={DOCKER_KAFKA / 'log4j2.properties'}"
        return [self.java, *_FLAGS, *share, log, *flags, "-cp", ":".join(map(str, self.jars)), main, *arguments]


def kafka_runtime() -> KafkaRuntime:
    """Finds Java, and fetches the jars of ``docker/kafka/pom.xml`` unless they are there (50 s the first time).

    Raises:
        KafkaMissing: No Java, no Maven, or Maven failed.
    """
    java = _java()
    pom = DOCKER_KAFKA / "pom.xml"
    version = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loopwarden" / f"kafka-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    library = cache / "lib"
    with exclusively(cache / "lock"):
        if not library.exists():
            _fetch(pom, library)
    about = subprocess.run([java, "-version"], capture_output=True, check=True).stderr
    archive = cache / f"classes-{hashlib.sha256(about).hexdigest()[:12]}.jsa"
    return KafkaRuntime(java, tuple(sorted(library.glob("*.jar"))), archive)


@contextmanager
def exclusively(path: Path) -> Iterator[None]:
    """Holds a lock file: several test runs may share the cache."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else None
    java = java or shutil.which("java")
    if java is None:
        raise KafkaMissing(f"Apache Kafka needs Java 17 or newer: {_INSTALL}")
    return java


def _fetch(pom: Path, library: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaMissing(f"Apache Kafka's jars come by Maven: {_INSTALL}")
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        target = Path(folder) / "lib"
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={target}"]
        done = subprocess.run(
            [maven, "-q", "-B", "-f", str(pom), *goal],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if done.returncode != 0:
            raise KafkaMissing(f"Maven failed: {(done.stdout + done.stderr).strip()[-2000:]}")
        target.rename(library)

"""How to reach a Kafka cluster: one description for the runner library, the worker and the commands.

Secrets come from the environment or from files, never from a command line, and stand in no ``repr``.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiokafka.abc import AbstractTokenProvider

from loopwarden.errors import UsageError

__all__ = ["DEFAULT_PORT", "ENVIRONMENT", "Connection", "FixedToken", "TokenFile"]

DEFAULT_PORT = 9092

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

ENVIRONMENT: Mapping[str, str] = {
    "LOOPWARDEN_BROKER": "bootstrap",
    "LOOPWARDEN_SECURITY_PROTOCOL": "security_protocol",
    "LOOPWARDEN_SSL_CA_FILE": "ca_file",
    "LOOPWARDEN_SSL_CERT_FILE": "cert_file",
    "LOOPWARDEN_SSL_KEY_FILE": "key_file",
    "LOOPWARDEN_SSL_KEY_PASSWORD": "key_password",
    "LOOPWARDEN_SSL_CHECK_HOSTNAME": "check_hostname",
    "LOOPWARDEN_SASL_MECHANISM": "sasl_mechanism",
    "LOOPWARDEN_SASL_USERNAME": "username",
    "LOOPWARDEN_SASL_PASSWORD": "password",
    "LOOPWARDEN_SASL_TOKEN": "token",
    "LOOPWARDEN_SASL_TOKEN_FILE": "token_file",
}
"""Environment variable → field. A secret's variable also exists with ``_FILE`` appended: a file that holds it."""
_SECRETS = ("key_password", "password")
_GUARDED = ("LOOPWARDEN_SSL_", "LOOPWARDEN_SASL_")


@dataclass(frozen=True)
class Connection:
    """A cluster and how to log in to it.

    What is not given follows from the rest: a user name or token means SASL over TLS, a TLS file means TLS, neither
    means plain text; a user name means SCRAM-SHA-512, a token OAUTHBEARER.

    Attributes:
        bootstrap: ``HOST:PORT``, several separated by commas; without a port 9092.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        ca_file: PEM file with the authorities that are trusted; None trusts those of the system.
        cert_file: PEM file with the client's certificate chain (mTLS).
        key_file: PEM file with its key; None when it stands in ``cert_file``.
        key_password: Password of the key.
        check_hostname: Whether the broker's certificate must name the host.
        sasl_mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
        username: SASL user (PLAIN, SCRAM).
        password: Its password.
        token: OAUTHBEARER token.
        token_file: File that holds it; read again at every log-in, so it may be renewed.
        token_provider: Anything else that hands out tokens.

    Raises:
        UsageError: A value that cannot be, or values that contradict each other.
    """

    bootstrap: str
    security_protocol: str = ""
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    sasl_mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    token_provider: AbstractTokenProvider | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        servers = [_server(part.strip()) for part in self.bootstrap.split(",") if part.strip()]
        if not servers:
            raise UsageError("no broker is given", hint="name one: --broker HOST:PORT, or LOOPWARDEN_BROKER")
        self._set("bootstrap", ",".join(_join(host, port) for host, port in servers))
        tokens = [source for source in (self.token, self.token_file, self.token_provider) if source]
        if len(tokens) > 1:
            raise UsageError("more than one source of tokens is given")
        has_token = bool(tokens)
        self._set("security_protocol", self.security_protocol.upper())
        if not self.sasl_mechanism and (has_token or self.username):
            self._set("sasl_mechanism", "OAUTHBEARER" if has_token else "SCRAM-SHA-512")
        if not self.security_protocol:
            tls = bool(self.ca_file or self.cert_file)
            self._set("security_protocol", "SASL_SSL" if self.sasl_mechanism else "SSL" if tls else "PLAINTEXT")
        self._check(has_token)

    def _set(self, name: str, value: str) -> None:
        object.__setattr__(self, name, value)

    def _check(self, has_token: bool) -> None:
        protocol, mechanism = self.security_protocol, self.sasl_mechanism
        if protocol not in PROTOCOLS:
            raise UsageError(f"security protocol {protocol!r} is none of {', '.join(PROTOCOLS)}")
        if mechanism is not None and mechanism not in MECHANISMS:
            raise UsageError(f"SASL mechanism {mechanism!r} is none of {', '.join(MECHANISMS)}")
        if self.key_file and not self.cert_file:
            raise UsageError("a TLS key file is given without its certificate file")
        if not self.tls and (self.ca_file or self.cert_file):
            raise UsageError(f"TLS files are given, but security protocol {protocol} uses no TLS")
        # Or a secret would be set and silently not used.
        if not self.sasl and (self.username or self.password or has_token or mechanism):
            raise UsageError(f"a SASL log-in is given, but security protocol {protocol} uses none")
        if not self.sasl:
            return
        if mechanism is None:
            raise UsageError(f"security protocol {protocol} needs a user and password, or a token")
        if mechanism == "OAUTHBEARER":
            if not has_token:
                raise UsageError("SASL mechanism OAUTHBEARER needs a token or a token file")
        elif not self.username or self.password is None:
            raise UsageError(f"SASL mechanism {mechanism} needs a user name and a password")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], **options: Any) -> Self:
        """Reads it from environment variables (:data:`ENVIRONMENT`).

        Args:
            environ: The environment.
            options: Fields that were given otherwise and win; None counts as not given.

        Raises:
            UsageError: An unknown variable of ours, a file that cannot be read, or what the fields raise.
        """
        given: dict[str, Any] = {}
        secret_files = {f"{name}_FILE": target for name, target in ENVIRONMENT.items() if target in _SECRETS}
        for name, value in environ.items():
            if name in ENVIRONMENT:
                if value:
                    given[ENVIRONMENT[name]] = value
            elif name in secret_files:
                if value:
                    given[secret_files[name]] = _read_secret(name, value)
            elif name.startswith(_GUARDED):
                known = ", ".join(sorted({*ENVIRONMENT, *secret_files}))
                raise UsageError(f"unknown environment variable {name}", hint=f"known are {known}")
        for name in secret_files:
            if environ.get(name) and environ.get(name.removesuffix("_FILE")):
                raise UsageError(f"both {name} and {name.removesuffix('_FILE')} are set")
        if "check_hostname" in given:
            given["check_hostname"] = _flag("LOOPWARDEN_SSL_CHECK_HOSTNAME", given["check_hostname"])
        given.update((name, value) for name, value in options.items() if value is not None)
        return cls(**{"bootstrap": "", **given})

    @property
    def tls(self) -> bool:
        """Whether it uses TLS."""
        return self.security_protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        """Whether it logs in by SASL."""
        return self.security_protocol.startswith("SASL_")

    @property
    def servers(self) -> tuple[tuple[str, int], ...]:
        """Hosts and ports of ``bootstrap``."""
        return tuple(_server(part) for part in self.bootstrap.split(","))

    def ssl_context(self) -> ssl.SSLContext | None:
        """A new TLS context; None without TLS. The files are read each time, so they may be renewed.

        Raises:
            UsageError: A file is missing or not what it should be.
        """
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise UsageError(f"TLS authorities {self.ca_file!r} cannot be read: {_reason(error)}") from error
        context.check_hostname = self.check_hostname
        if self.cert_file:
            try:
                # Never None: OpenSSL would ask for it on the terminal.
                context.load_cert_chain(self.cert_file, self.key_file, password=lambda: self.key_password or "")
            except OSError as error:
                files = repr(self.cert_file) + (f" with key {self.key_file!r}" if self.key_file else "")
                raise UsageError(f"TLS certificate {files} cannot be used: {_reason(error)}") from error
        return context

    def provider(self) -> AbstractTokenProvider | None:
        """What hands out OAUTHBEARER tokens; None with another mechanism."""
        if self.sasl_mechanism != "OAUTHBEARER":
            return None
        if self.token_provider is not None:
            return self.token_provider
        return TokenFile(self.token_file) if self.token_file else FixedToken(self.token or "")

    def security(self) -> dict[str, Any]:
        """Keyword arguments of ``aiokafka``'s clients and of ``create_conn`` but for the address; they hold secrets.

        Raises:
            UsageError: A TLS file cannot be used.
        """
        options: dict[str, Any] = {"security_protocol": self.security_protocol, "ssl_context": self.ssl_context()}
        if self.sasl:
            options["sasl_mechanism"] = self.sasl_mechanism
            if self.sasl_mechanism == "OAUTHBEARER":
                options["sasl_oauth_token_provider"] = self.provider()
            else:
                options["sasl_plain_username"] = self.username
                options["sasl_plain_password"] = self.password
        return options

    def aiokafka(self) -> dict[str, Any]:
        """Keyword arguments of ``aiokafka``'s consumer, producer, admin client and client; they hold secrets.

        Raises:
            UsageError: A TLS file cannot be used.
        """
        return {"bootstrap_servers": self.bootstrap.split(","), **self.security()}

    def __str__(self) -> str:
        """For people and logs: address, protocol and user, no secret."""
        how = [] if self.security_protocol == "PLAINTEXT" else [self.security_protocol]
        if self.sasl_mechanism:
            how.append(self.sasl_mechanism)
        if self.username:
            how.append(f"user {self.username}")
        return self.bootstrap + (f" ({', '.join(how)})" if how else "")


class FixedToken(AbstractTokenProvider):  # type: ignore[misc]
    """One OAUTHBEARER token."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        """The token."""
        return self._token


class TokenFile(AbstractTokenProvider):  # type: ignore[misc]
    """An OAUTHBEARER token in a file that somebody renews, as Kubernetes does."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def token(self) -> str:
        """The token that the file holds now.

        Raises:
            OSError: It cannot be read.
        """
        text = await asyncio.to_thread(Path(self.path).read_text, encoding="ascii")
        return text.strip()


def _server(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not host or "/" in text or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"broker address {text!r} is not HOST:PORT")
    if ":" in host and not text.startswith("["):
        raise UsageError(f"broker address {text!r} is not HOST:PORT", hint="write an IPv6 address as [ADDRESS]:PORT")
    return host, int(port)


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _read_secret(variable: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{variable}={path!r} cannot be read: {_reason(error)}") from error


def _flag(name: str, text: str) -> bool:
    flags = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in flags:
        raise UsageError(f"{name}={text!r} is neither true nor false")
    return flags[text.lower()]


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    return error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8 text"

"""Why a broker cannot be reached: one line that names the cause.

aiokafka reports a wrong password, a foreign authority, an expired certificate and plain text to a TLS port as one and
the same ``KafkaConnectionError``, and a refused OAUTHBEARER token not at all (it takes the answer ``invalid_token`` for
a success, and runs into a time-out later). So whoever failed to connect asks here what it was: address, then TLS, then
log-in, step by step on a connection of its own.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import json
import logging
import socket
import ssl
from collections.abc import Iterator
from typing import Any

from aiokafka import errors as kafka
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.admin import SaslAuthenticateRequest, SaslHandShakeRequest
from aiokafka.protocol.metadata import MetadataRequest

from loopwarden.connection import Connection
from loopwarden.errors import BrokerError, UsageError

__all__ = ["check_connection", "diagnose", "explained"]

_CLIENT_ID = "loopwarden-diagnosis"
# OpenSSL's verification errors, X509_V_ERR_*.
_NOT_YET_VALID, _HAS_EXPIRED, _HOSTNAME_MISMATCH, _IP_MISMATCH = 9, 10, 62, 64


async def check_connection(connection: Connection, *, timeout_s: float = 10.0) -> None:
    """Connects and logs in to the first server that takes it; does nothing where there is neither TLS nor log-in.

    To be called before a client of aiokafka's is started: what that one logs and raises names no cause.

    Args:
        connection: The cluster.
        timeout_s: Seconds for each server.

    Raises:
        BrokerError: None does; the message names the cause.
        UsageError: A TLS file cannot be used.
    """
    if connection.security_protocol == "PLAINTEXT":
        return
    if (error := await diagnose(connection, timeout_s=timeout_s)) is not None:
        raise error


async def diagnose(connection: Connection, *, timeout_s: float = 10.0) -> BrokerError | None:
    """What keeps us from a cluster.

    Args:
        connection: The cluster.
        timeout_s: Seconds for each server.

    Returns:
        The cause at the first server that has one; None if a server takes us.

    Raises:
        UsageError: A TLS file cannot be used.
    """
    first: BrokerError | None = None
    for host, port in connection.servers:
        try:
            async with asyncio.timeout(timeout_s):
                problem = await _problem(connection, host, port)
        except TimeoutError:
            problem = BrokerError(
                f"{host}:{port} does not answer within {timeout_s:g} s", hint="is it a Kafka broker, and is it running?"
            )
        if problem is None:
            return None
        first = first or problem
    return first


async def explained(connection: Connection, error: Exception) -> BrokerError:
    """The cause of an error of aiokafka's, as far as it can be found out; otherwise the error as it is.

    Args:
        connection: The cluster.
        error: What a client of it raised.
    """
    unclear = (kafka.KafkaConnectionError, kafka.KafkaTimeoutError, kafka.NodeNotReadyError, OSError, TimeoutError)
    if isinstance(error, (*unclear, kafka.UnknownTopicOrPartitionError)):
        with contextlib.suppress(UsageError):
            cause = await diagnose(connection, timeout_s=5.0)
            if cause is not None:
                return cause
    return BrokerError(f"{connection}: {error or type(error).__name__}")


async def _problem(connection: Connection, host: str, port: int) -> BrokerError | None:
    where = f"{host}:{port}"
    try:
        with _quiet():
            await _speak(connection, host, port)
    except ssl.SSLCertVerificationError as error:
        return _certificate_problem(connection, where, error)
    except ssl.SSLError as error:
        return _tls_problem(connection, where, error)
    except socket.gaierror as error:
        return BrokerError(f"host {host!r} cannot be resolved: {error.strerror}")
    except ConnectionRefusedError:
        return BrokerError(f"nothing listens on {where}", hint="is the broker running, and is this its address?")
    except kafka.UnsupportedSaslMechanismError:
        return BrokerError(
            f"{where} does not offer SASL mechanism {connection.sasl_mechanism}", hint="choose one that it has enabled"
        )
    except kafka.IllegalSaslStateError:
        return BrokerError(
            f"{where} takes no SASL log-in, but security protocol {connection.security_protocol} sends one"
        )
    except kafka.SaslAuthenticationFailed as error:
        return await _login_problem(connection, where, str(error))
    except BrokerError as error:
        return error
    except (kafka.KafkaError, OSError) as error:
        return await _closed_problem(connection, host, port, error)
    return None


async def _speak(connection: Connection, host: str, port: int) -> None:
    """Connects, logs in, asks for the cluster's brokers."""
    options = connection.security()
    oauth = connection.sasl_mechanism == "OAUTHBEARER"
    if oauth:
        options["security_protocol"] = connection.security_protocol.removeprefix("SASL_")
    conn = AIOKafkaConnection(host, port, client_id=_CLIENT_ID, **options)
    try:
        await conn.connect()
        if oauth:
            await _log_in_by_token(conn, await _token(connection))
        await conn.send(MetadataRequest([]))
    finally:
        await _close(conn)


async def _close(conn: AIOKafkaConnection) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            closed = conn.close()
            if closed is not None and conn._protocol is not None:
                await closed


async def _handshake(host: str, port: int, context: ssl.SSLContext | None) -> None:
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        # Nothing comes unless the broker refuses our certificate: it waits for a request.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.25):
                await reader.read(1)
    finally:
        writer.close()
        with contextlib.suppress(Exception):
            await writer.wait_closed()


async def _token(connection: Connection) -> str:
    provider = connection.provider()
    assert provider is not None
    try:
        return str(await provider.token())
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        source = f"token file {connection.token_file!r}" if connection.token_file else "the token"
        raise BrokerError(f"{source} cannot be read: {reason}") from error


async def _log_in_by_token(conn: AIOKafkaConnection, token: str) -> None:
    answer = await conn.send(SaslHandShakeRequest("OAUTHBEARER"))
    error = kafka.for_code(answer.error_code)
    if error is not kafka.NoError:
        raise error
    answer = await conn.send(SaslAuthenticateRequest(f"n,,\x01auth=Bearer {token}\x01\x01".encode()))
    if answer.error_code == 0 and answer.sasl_auth_bytes:
        # RFC 7628, 3.2.3: a refusal is a JSON object; a lone ^A fetches the error itself.
        answer = await conn.send(SaslAuthenticateRequest(b"\x01"))
    error = kafka.for_code(answer.error_code)
    if error is not kafka.NoError:
        raise error(answer.error_message)


def _certificate_problem(connection: Connection, where: str, error: ssl.SSLCertVerificationError) -> BrokerError:
    code = error.verify_code
    if code == _HAS_EXPIRED:
        return BrokerError(f"the certificate of {where} has expired", hint="renew the broker's certificate")
    if code == _NOT_YET_VALID:
        return BrokerError(f"the certificate of {where} is not valid yet", hint="compare the clocks")
    if code in (_HOSTNAME_MISMATCH, _IP_MISMATCH):
        return BrokerError(
            f"the certificate of {where} names another host", hint="use the name that stands in the certificate"
        )
    trusted = f"those in {connection.ca_file}" if connection.ca_file else "those of this system"
    return BrokerError(
        f"the certificate of {where} is signed by none of the trusted authorities ({trusted}): {error.verify_message}",
        hint="give the authority that signed it: LOOPWARDEN_SSL_CA_FILE",
    )


def _tls_problem(connection: Connection, where: str, error: ssl.SSLError) -> BrokerError:
    reason = error.reason or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"):
        return _no_tls(connection, where)
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason or "DECRYPT_ERROR" in reason:
        return _own_certificate_problem(connection, where, reason)
    return BrokerError(f"TLS with {where} fails: {reason}")


def _no_tls(connection: Connection, where: str) -> BrokerError:
    return BrokerError(
        f"{where} does not speak TLS, but security protocol {connection.security_protocol} does",
        hint="choose the broker's TLS port, or another LOOPWARDEN_SECURITY_PROTOCOL",
    )


def _own_certificate_problem(connection: Connection, where: str, reason: str) -> BrokerError:
    if not connection.cert_file:
        return BrokerError(
            f"{where} wants a client certificate and none is given",
            hint="LOOPWARDEN_SSL_CERT_FILE, LOOPWARDEN_SSL_KEY_FILE",
        )
    ended = _end_of(connection.cert_file)
    if ended is not None and ended <= dt.datetime.now(dt.UTC):
        return BrokerError(
            f"our certificate {connection.cert_file!r} has expired on {ended:%Y-%m-%d %H:%M} UTC", hint="renew it"
        )
    return BrokerError(
        f"{where} refuses our certificate {connection.cert_file!r} ({reason})",
        hint="is it signed by an authority that the broker trusts?",
    )


def _end_of(cert_file: str) -> dt.datetime | None:
    """When a certificate ends; None if that cannot be read."""
    try:
        # What the standard library's own tests read certificates with; it has no public reader of a file.
        decoded: dict[str, Any] = ssl._ssl._test_decode_cert(cert_file)  # type: ignore[attr-defined]
        return dt.datetime.fromtimestamp(ssl.cert_time_to_seconds(decoded["notAfter"]), dt.UTC)
    except (AttributeError, KeyError, OSError, ValueError):
        return None


async def _login_problem(connection: Connection, where: str, said: str) -> BrokerError:
    if connection.sasl_mechanism == "OAUTHBEARER":
        ended = _end_of_token(await _token(connection))
        if ended is not None and ended <= dt.datetime.now(dt.UTC):
            return BrokerError(
                f"{where} refuses our token: it has expired on {ended:%Y-%m-%d %H:%M:%S} UTC", hint="get a new one"
            )
        return BrokerError(
            f"{where} refuses our token, which has not expired",
            hint="compare its issuer, audience and signing key with what the broker expects",
        )
    return BrokerError(
        f"{where} refuses user {connection.username!r}: wrong user name or password ({connection.sasl_mechanism})"
    )


def _end_of_token(token: str) -> dt.datetime | None:
    """``exp`` of a JSON web token, unverified; None where there is none."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return dt.datetime.fromtimestamp(float(claims["exp"]), dt.UTC)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        return None


async def _closed_problem(connection: Connection, host: str, port: int, error: Exception) -> BrokerError:
    where = f"{host}:{port}"
    if connection.tls:
        # What a broker says of our certificate comes after the handshake; aiokafka takes it for a closed connection.
        try:
            await _handshake(host, port, connection.ssl_context())
        except ssl.SSLEOFError:
            return _no_tls(connection, where)
        except ssl.SSLError as refusal:
            return _tls_problem(connection, where, refusal)
        except OSError:
            return _no_tls(connection, where)
    elif await _speaks_tls(host, port):
        return BrokerError(
            f"{where} speaks TLS, but security protocol {connection.security_protocol} is plain text",
            hint="LOOPWARDEN_SECURITY_PROTOCOL=SASL_SSL (or SSL), and LOOPWARDEN_SSL_CA_FILE",
        )
    if not connection.sasl:
        return BrokerError(
            f"{where} closes the connection: most likely it wants a SASL log-in, and none is given",
            hint="LOOPWARDEN_SASL_USERNAME and LOOPWARDEN_SASL_PASSWORD_FILE, or LOOPWARDEN_SASL_TOKEN_FILE",
        )
    return BrokerError(f"{where} closes the connection: {error or type(error).__name__}")


async def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # it is only asked whether there is TLS; nothing is sent
    try:
        await _handshake(host, port, context)
    except ssl.SSLError as error:
        return error.reason not in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """aiokafka logs what goes wrong; here it is said once, by us."""
    loggers = [logging.getLogger(name) for name in ("aiokafka.conn", "aiokafka.client")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from loopwarden.connection import ENVIRONMENT, Connection, TokenFile
from loopwarden.errors import UsageError

SECRETS = ("k3y-secret", "pass-secret", "t0ken-secret")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of PEM files; client.pem holds certificate and key, the password of locked.pem is k3y-secret."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    leaf = authority.issue_cert("client", not_after=dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
    leaf.private_key_and_cert_chain_pem.write_to_path(folder / "client.pem")
    leaf.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    leaf.private_key_pem.write_to_path(folder / "key.pem")
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"k3y-secret"))
    (folder / "locked.pem").write_bytes(locked)
    return folder


@pytest.mark.parametrize(
    ("given", "bootstrap", "servers"),
    [
        ("kafka", "kafka:9092", (("kafka", 9092),)),
        ("a:1, b:2,", "a:1,b:2", (("a", 1), ("b", 2))),
        ("[::1]:5", "[::1]:5", (("::1", 5),)),
        ("[::1]", "[::1]:9092", (("::1", 9092),)),
    ],
)
def test_addresses(given: str, bootstrap: str, servers: tuple[tuple[str, int], ...]) -> None:
    connection = Connection(given)
    assert connection.bootstrap == bootstrap
    assert connection.servers == servers
    assert connection.aiokafka()["bootstrap_servers"] == bootstrap.split(",")


@pytest.mark.parametrize("given", ["a:0", "a:65536", "a:b", ":9092", "kafka://a:1", "a:1,b:", "::1", "::1:9092", "a:٣"])
def test_addresses_that_cannot_be(given: str) -> None:
    with pytest.raises(UsageError, match="is not HOST:PORT"):
        Connection(given)


@pytest.mark.parametrize("given", ["", " , "])
def test_no_address(given: str) -> None:
    with pytest.raises(UsageError, match="no broker") as error:
        Connection(given)
    assert "--broker" in error.value.hint


@pytest.mark.parametrize(
    ("given", "protocol", "mechanism"),
    [
        ({}, "PLAINTEXT", None),
        ({"ca_file": "ca.pem"}, "SSL", None),
        ({"cert_file": "c.pem"}, "SSL", None),
        ({"username": "u", "password": "p"}, "SASL_SSL", "SCRAM-SHA-512"),
        ({"token": "t"}, "SASL_SSL", "OAUTHBEARER"),
        ({"token_file": "t"}, "SASL_SSL", "OAUTHBEARER"),
        (
            {"username": "u", "password": "p", "security_protocol": "sasl_plaintext", "sasl_mechanism": "PLAIN"},
            "SASL_PLAINTEXT",
            "PLAIN",
        ),
    ],
)
def test_what_is_not_given_follows(given: dict[str, Any], protocol: str, mechanism: str | None) -> None:
    connection = Connection("kafka:9092", **given)
    assert (connection.security_protocol, connection.sasl_mechanism) == (protocol, mechanism)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"security_protocol": "TLS"}, "'TLS' is none of PLAINTEXT, SSL"),
        ({"username": "u", "password": "p", "sasl_mechanism": "GSSAPI"}, "'GSSAPI' is none of PLAIN"),
        ({"key_file": "k"}, "without its certificate"),
        ({"security_protocol": "PLAINTEXT", "ca_file": "ca"}, "uses no TLS"),
        ({"security_protocol": "SSL", "username": "u", "password": "p"}, "SSL uses none"),
        ({"security_protocol": "PLAINTEXT", "token": "t"}, "PLAINTEXT uses none"),
        ({"security_protocol": "PLAINTEXT", "password": "p"}, "PLAINTEXT uses none"),
        ({"security_protocol": "SASL_SSL"}, "needs a user and password, or a token"),
        ({"username": "u"}, "needs a user name and a password"),
        ({"sasl_mechanism": "SCRAM-SHA-256", "password": "p"}, "needs a user name and a password"),
        ({"sasl_mechanism": "OAUTHBEARER", "username": "u"}, "needs a token"),
        ({"token": "t", "token_file": "f"}, "more than one source"),
    ],
)
def test_contradictions(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Connection("kafka:9092", **given)


def test_every_variable_names_a_field() -> None:
    assert set(ENVIRONMENT.values()) == {f.name for f in fields(Connection)} - {"token_provider"}


def test_it_is_read_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("pass-secret\n")
    environ = {
        "LOOPWARDEN_BROKER": "env:1",
        "LOOPWARDEN_SECURITY_PROTOCOL": "SASL_SSL",
        "LOOPWARDEN_SSL_CA_FILE": "ca.pem",
        "LOOPWARDEN_SSL_CHECK_HOSTNAME": "false",
        "LOOPWARDEN_SASL_USERNAME": "worker",
        "LOOPWARDEN_SASL_PASSWORD_FILE": str(tmp_path / "password"),
        "LOOPWARDEN_SASL_TOKEN": "",
        "LOOPWARDEN_LOG_LEVEL": "somebody else's",
        "HOME": "/",
    }
    assert Connection.from_environment(environ, bootstrap="option:2", ca_file=None) == Connection(
        "option:2",
        security_protocol="SASL_SSL",
        ca_file="ca.pem",
        check_hostname=False,
        username="worker",
        password="pass-secret",
    )


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "no broker"),
        ({"LOOPWARDEN_SASL_PASWORD": "pass-secret"}, "unknown environment variable LOOPWARDEN_SASL_PASWORD"),
        ({"LOOPWARDEN_SSL_CHECK_HOSTNAME": "maybe"}, "LOOPWARDEN_SSL_CHECK_HOSTNAME='maybe' is neither"),
        (
            {"LOOPWARDEN_SASL_PASSWORD_FILE": "/nowhere"},
            "LOOPWARDEN_SASL_PASSWORD_FILE='/nowhere' cannot be read: No such",
        ),
        ({"LOOPWARDEN_SASL_PASSWORD": "pass-secret", "LOOPWARDEN_SASL_PASSWORD_FILE": "/dev/null"}, "both"),
    ],
)
def test_an_environment_that_cannot_be(environ: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        Connection.from_environment(environ)
    assert "pass-secret" not in str(error.value)


def test_no_secret_is_shown() -> None:
    connections = [
        Connection("a:1", username="worker", password="pass-secret", cert_file="c", key_password="k3y-secret"),
        Connection("a:1", token="t0ken-secret"),
    ]
    for connection in connections:
        for text in (repr(connection), str(connection), f"{connection}", repr([connection])):
            assert not any(secret in text for secret in SECRETS)
    assert str(connections[0]) == "a:1 (SASL_SSL, SCRAM-SHA-512, user worker)"
    assert str(Connection("a:1")) == "a:1"


def test_mutual_tls(tls: Path) -> None:
    for files in (
        {"cert_file": "client.pem"},
        {"cert_file": "cert.pem", "key_file": "key.pem"},
        {"cert_file": "cert.pem", "key_file": "locked.pem", "key_password": "k3y-secret"},
    ):
        paths = {name: value if name == "key_password" else str(tls / value) for name, value in files.items()}
        options = Connection("a:1", ca_file=str(tls / "ca.pem"), **paths).aiokafka()  # type: ignore[arg-type]
        context = options["ssl_context"]
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.check_hostname
        assert len(context.get_ca_certs()) == 1, "only the given authority is trusted"


def test_without_an_authority_the_systems_are_trusted() -> None:
    context = Connection("a:1", security_protocol="SSL", check_hostname=False).ssl_context()
    assert context is not None
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert not context.check_hostname
    assert context.cert_store_stats() == ssl.create_default_context().cert_store_stats()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"ca_file": "missing.pem"}, r"authorities '.*missing.pem' cannot be read: No such file"),
        ({"ca_file": "key.pem"}, "authorities '.*key.pem' cannot be read: NO_CERTIFICATE"),
        ({"cert_file": "missing.pem"}, "certificate '.*missing.pem' cannot be used: No such file"),
        (
            {"cert_file": "cert.pem", "key_file": "locked.pem"},
            "certificate '.*cert.pem' with key '.*locked.pem' cannot",
        ),
        ({"cert_file": "ca.pem", "key_file": "key.pem"}, "KEY_VALUES_MISMATCH"),
    ],
)
def test_tls_files_that_cannot_be_used(tls: Path, files: dict[str, str], message: str) -> None:
    connection = Connection("a:1", **{name: str(tls / value) for name, value in files.items()})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=message):
        connection.aiokafka()


def test_a_log_in_by_password() -> None:
    options = Connection("a:1", security_protocol="SASL_PLAINTEXT", username="u", password="p").aiokafka()
    assert options == {
        "bootstrap_servers": ["a:1"],
        "security_protocol": "SASL_PLAINTEXT",
        "ssl_context": None,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }


def test_a_renewed_token_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    provider = Connection("a:1", token_file=str(path)).aiokafka()["sasl_oauth_token_provider"]
    assert isinstance(provider, TokenFile)
    for text in ("one", "two\n"):
        path.write_text(text)
        assert asyncio.run(provider.token()) == text.strip()


def test_a_fixed_token_and_a_provider() -> None:
    fixed = Connection("a:1", token="t0ken-secret").provider()
    assert fixed is not None
    assert asyncio.run(fixed.token()) == "t0ken-secret"
    assert Connection("a:1", token_provider=fixed).provider() is fixed
    assert Connection("a:1").provider() is None

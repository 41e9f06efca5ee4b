"""Apache Kafka that demands TLS, certificates and log-ins, with an authorizer: what the security tests run against."""

from __future__ import annotations

import datetime as dt
import json
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jwt
import trustme
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from jwt.algorithms import RSAAlgorithm

from loopwarden.broker.access import AccessRule
from loopwarden.broker.embedded import free_port
from loopwarden.connection import Connection
from tests.brokers.kafka import HOST, KafkaCluster, KafkaNode

__all__ = ["AUDIENCE", "ISSUER", "USERS", "Certificates", "SecureKafka", "Tokens"]

USERS = ("worker", "runner", "reader", "operator", "stranger")
"""Users that exist; what each may do is the authorizer's matter."""
ISSUER, AUDIENCE = "test-idp", "kafka"
_LISTENERS = ("TLS", "EXPIRED", "MTLS", "LOGIN")
_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
_OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Delete": AclOperation.DELETE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}
_OAUTH = "org.apache.kafka.common.security.oauthbearer"


class Certificates:
    """Authorities and certificates in a folder, as PEM files whose keys are PKCS8 (the broker reads no other).

    Attributes:
        folder: Holds ca.pem, foreign-ca.pem, broker.pem, broker-expired.pem, runner.pem, runner-expired.pem and
            runner-foreign.pem; all but the first two with key and chain.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        authority, foreign = trustme.CA(), trustme.CA()
        authority.cert_pem.write_to_path(folder / "ca.pem")
        foreign.cert_pem.write_to_path(folder / "foreign-ca.pem")
        # The address alone: under the name localhost it is another host's certificate.
        self._issue(authority, "broker", HOST)
        self._issue(authority, "broker-expired", HOST, expired=True)
        self._issue(authority, "runner", "runner")
        self._issue(authority, "runner-expired", "runner", expired=True)
        self._issue(foreign, "runner-foreign", "runner")

    def path(self, name: str) -> str:
        """The PEM file of a name."""
        return str(self.folder / f"{name}.pem")

    def _issue(self, authority: trustme.CA, name: str, identity: str, *, expired: bool = False) -> None:
        now = dt.datetime.now(dt.UTC)
        first, last = (now - dt.timedelta(days=9), now - dt.timedelta(days=1)) if expired else (None, None)
        leaf = authority.issue_cert(identity, common_name=identity, not_before=first, not_after=last)
        key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self.folder / f"{name}.pem").write_bytes(pem + b"".join(blob.bytes() for blob in leaf.cert_chain_pems))


class Tokens:
    """Issues OAUTHBEARER tokens that the broker verifies with a key set in a file."""

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        key_set = {"keys": [{**RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True), "kid": "k1", "alg": "RS256"}]}
        self.jwks = folder / "jwks.json"
        self.jwks.write_text(json.dumps(key_set))

    def issue(self, user: str, **claims: Any) -> str:
        """A token for a user, good for five minutes unless the claims say otherwise."""
        now = int(time.time())
        claims = {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now - 600, "exp": now + 300, **claims}
        return jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": "k1"})

    def forge(self, user: str) -> str:
        """A token that says the same, signed with a key that the broker does not know."""
        claims = jwt.decode(self.issue(user), options={"verify_signature": False})
        foreign = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        return jwt.encode(claims, foreign, algorithm="RS256", headers={"kid": "k1"})


class SecureKafka(KafkaCluster):
    """One broker with listeners for TLS, mTLS and SASL over TLS, one with an expired certificate, and ACLs on.

    Nobody but super users may do anything until an ACL allows it. Super users are whoever comes without a log-in: over
    the plain listener (``bootstrap``, which the fixture itself uses) and over TLS without a certificate.

    Attributes:
        certificates: The certificates.
        tokens: Issues tokens.
        passwords: User → password.
    """

    def __init__(self) -> None:
        super().__init__(1)
        folder = self.folder / "security"
        folder.mkdir()
        self.certificates = Certificates(folder)
        self.tokens = Tokens(folder)
        self.passwords = {user: secrets.token_hex(12) for user in USERS}
        # Or the broker takes no key set from a file.
        self.flags = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._jwks_url}",)
        self._ports = {name: free_port() for name in _LISTENERS}

    @property
    def _jwks_url(self) -> str:
        return f"file://{self.tokens.jwks}"

    def address(self, listener: str, host: str = HOST) -> str:
        """``HOST:PORT`` of a listener: TLS, EXPIRED, MTLS or LOGIN."""
        return f"{host}:{self._ports[listener]}"

    def login(self, user: str, **options: Any) -> Connection:
        """How a user logs in, by SCRAM over TLS, unless the options say otherwise."""
        given = {"ca_file": self.certificates.path("ca"), "username": user, "password": self.passwords[user], **options}
        return Connection(self.address("LOGIN"), **given)

    def token_login(self, token: str) -> Connection:
        """How the owner of a token logs in."""
        return Connection(self.address("LOGIN"), ca_file=self.certificates.path("ca"), token=token)

    def allow(self, rules: Iterable[AccessRule]) -> None:
        """Adds access rules, and waits until the broker has them."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        bindings = [
            AclBinding(
                _RESOURCES[rule.resource],
                rule.name,
                ResourcePatternType.PREFIXED if rule.prefixed else ResourcePatternType.LITERAL,
                rule.principal,
                "*",
                _OPERATIONS[operation],
                AclPermissionType.ALLOW,
            )
            for rule in rules
            for operation in rule.operations
        ]
        for done in admin.create_acls(bindings).values():
            done.result(30)

    def properties(self, node: KafkaNode) -> dict[str, str]:
        """The broker properties: those of every test broker, and the security."""
        plain = super().properties(node)
        more = "".join(f",{name}://{self.address(name)}" for name in _LISTENERS)
        protocols = "".join(f",{name}:{'SASL_SSL' if name == 'LOGIN' else 'SSL'}" for name in _LISTENERS)
        bearer = "listener.name.login.oauthbearer.sasl"
        return {
            **plain,
            "listeners": plain["listeners"] + more,
            "advertised.listeners": plain["advertised.listeners"] + more,
            "listener.security.protocol.map": plain["listener.security.protocol.map"] + protocols,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.certificates.path("broker"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.certificates.path("ca"),
            "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT",
            "listener.name.expired.ssl.keystore.type": "PEM",
            "listener.name.expired.ssl.keystore.location": self.certificates.path("broker-expired"),
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.login.scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            f"{bearer}.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
            f"{bearer}.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
            f"{bearer}.oauthbearer.jwks.endpoint.url": self._jwks_url,
            f"{bearer}.oauthbearer.expected.audience": AUDIENCE,
            f"{bearer}.oauthbearer.expected.issuer": ISSUER,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "false",
            "connection.failed.authentication.delay.ms": "100",
        }

    def format_arguments(self) -> list[str]:
        """The users."""
        return [
            argument
            for user, password in self.passwords.items()
            for argument in ("--add-scram", f"SCRAM-SHA-512=[name={user},password={password}]")
        ]

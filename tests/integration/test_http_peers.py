"""Who the kernel and the TLS layer say is there: Unix-socket uids and client certificates."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import select
import socket
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from policy.model import Channel
from proxy.settings.binding import Binding
from proxy.transport import listener
from proxy.transport.listener import ACCEPTED_AT_ONCE, QUEUED_MAX, tls_context
from tests.integration.http_bench import (
    AGENT_KEY,
    Answer,
    Bench,
    parse,
    read_all,
    request_bytes,
    running,
)

OURSELVES = os.geteuid()
SOMEBODY_ELSE = OURSELVES + 4_242


async def over_unix(path: Path, data: bytes) -> bytes:
    try:
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(data)
    except ConnectionError:
        return b""
    return await read_all(reader, writer, 3.0)


async def test_bound_uid_needs_no_key(tmp_path: Path) -> None:
    binding = Binding(id="people", tenant="default", channel=Channel.USER, uid=OURSELVES)
    async with running(bindings=(binding,)) as bench:
        path = tmp_path / "data.sock"
        await bench.listener.open_unix(path, frozenset({OURSELVES}), private=False)
        answer = parse(await over_unix(path, request_bytes("GET", "/v1/whoami", key=None)))
        assert answer.status == 200
        assert answer.json()["principal"] == "people"
        assert answer.json()["channel"] == "user"
        # The same request over TCP, where the kernel attests nothing, is nobody's.
        assert (await bench.request("GET", "/v1/whoami", key=None)).status == 401


async def test_wrong_key_is_not_rescued_by_the_uid(tmp_path: Path) -> None:
    binding = Binding(id="people", tenant="default", uid=OURSELVES)
    async with running(bindings=(binding,)) as bench:
        path = tmp_path / "data.sock"
        await bench.listener.open_unix(path, frozenset({OURSELVES}), private=False)
        answer = parse(await over_unix(path, request_bytes("GET", "/v1/whoami", key="wrong")))
        assert answer.status == 401


async def test_uid_that_is_not_listed_is_not_even_heard(tmp_path: Path) -> None:
    async with running() as bench:
        path = tmp_path / "data.sock"
        await bench.listener.open_unix(path, frozenset({SOMEBODY_ELSE}), private=False)
        assert await over_unix(path, request_bytes("GET", "/v1/whoami")) == b""


async def test_private_socket_is_closed_to_others_and_gone_after_shutdown(tmp_path: Path) -> None:
    async with running() as bench:
        path = tmp_path / "admin.sock"
        await bench.listener.open_unix(path, frozenset({OURSELVES}), private=True)
        assert path.stat().st_mode & 0o777 == 0o600
        await bench.listener.close()
        assert not path.exists()


async def test_socket_left_by_a_dead_process_is_replaced_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "data.sock"
    async with running() as first, running() as second:
        await first.listener.open_unix(path, frozenset({OURSELVES}), private=True)
        with pytest.raises(OSError, match="another process"):
            await second.listener.open_unix(path, frozenset({OURSELVES}), private=True)
    dead = await asyncio.start_unix_server(lambda _reader, _writer: None, str(path))
    dead.close()
    assert path.exists()
    async with running() as third:
        await third.listener.open_unix(path, frozenset({OURSELVES}), private=True)
        assert parse(await over_unix(path, request_bytes("GET", "/v1/whoami"))).status == 200


def queued_by_the_kernel() -> int:
    return int(Path("/proc/sys/net/core/somaxconn").read_text())


@pytest.mark.parametrize("waiting", [QUEUED_MAX, ACCEPTED_AT_ONCE], ids=["queued", "control"])
async def test_connections_that_come_faster_than_they_are_accepted_wait_in_the_kernel(
    waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    come = 4 * ACCEPTED_AT_ONCE
    if queued_by_the_kernel() < come:
        pytest.skip("this system lets fewer wait")
    monkeypatch.setattr(listener, "QUEUED_MAX", waiting)
    async with running() as bench:
        poll = select.poll()
        peers: list[socket.socket] = []
        # All of them within one turn of the loop: nobody accepts meanwhile.
        for _ in range(come):
            peer = socket.socket()
            peers.append(peer)
            peer.setblocking(False)  # noqa: FBT003 - a positional parameter of the standard library
            peer.connect_ex(("127.0.0.1", bench.address.port))
            poll.register(peer, select.POLLOUT)
        connected = len(poll.poll(0))
        assert (connected == come) is (waiting == QUEUED_MAX)
        for peer in peers:
            peer.close()


class Certified:
    """A listener with TLS, and a CA that it trusts for clients."""

    def __init__(self, bench: Bench, ca: trustme.CA) -> None:
        self.bench = bench
        self.ca = ca

    async def ask(
        self,
        certificate: trustme.LeafCert | trustme.Blob | None,
        *,
        key: str | None = None,
        method: str = "GET",
    ) -> Answer | None:
        """The answer, or None where the handshake fails."""
        context = ssl.create_default_context()
        context.load_verify_locations(cadata=self.ca.cert_pem.bytes().decode())
        if isinstance(certificate, trustme.LeafCert):
            certificate = certificate.private_key_and_cert_chain_pem
        if certificate is not None:
            with certificate.tempfile() as path:
                context.load_cert_chain(path)
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.bench.address.port, ssl=context, server_hostname="localhost"
            )
            writer.write(request_bytes(method, "/v1/whoami", key=key))
            raw = await read_all(reader, writer, 3.0)
        except (ssl.SSLError, ConnectionError):
            return None
        return parse(raw) if raw else None


@asynccontextmanager
async def certified(
    tmp_path: Path, bindings: tuple[Binding, ...] = (), *, mutual: bool = True
) -> AsyncGenerator[Certified]:
    ca = trustme.CA()
    server = ca.issue_cert("localhost", "127.0.0.1")
    cert, key, client_ca = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "ca.pem"
    cert.write_bytes(b"".join(blob.bytes() for blob in server.cert_chain_pems))
    key.write_bytes(server.private_key_pem.bytes())
    ca.cert_pem.write_to_path(client_ca)
    context = tls_context(cert, key, client_ca if mutual else None)
    async with running(bindings=bindings, tls=context) as bench:
        yield Certified(bench, ca)


async def test_certificate_name_is_the_principal(tmp_path: Path) -> None:
    bindings = (
        Binding(id="by-cn", tenant="default", mtls="CN:ada"),
        Binding(id="by-dns", tenant="default", mtls="DNS:agent.example.org"),
    )
    async with certified(tmp_path, bindings) as there:
        by_name = await there.ask(there.ca.issue_cert("x.example.org", common_name="ada"))
        assert by_name is not None
        assert by_name.json()["principal"] == "by-cn"
        by_dns = await there.ask(there.ca.issue_cert("agent.example.org"))
        assert by_dns is not None
        assert by_dns.json()["principal"] == "by-dns"


async def test_name_of_one_kind_does_not_pass_for_another(tmp_path: Path) -> None:
    # A CA that checks host names only would sign a common name nobody checked.
    bindings = (Binding(id="by-dns", tenant="default", mtls="DNS:agent.example.org"),)
    async with certified(tmp_path, bindings) as there:
        forged = there.ca.issue_cert("x.example.org", common_name="agent.example.org")
        answer = await there.ask(forged)
        assert answer is not None
        assert answer.status == 401


async def test_certificate_that_is_bound_to_nobody_is_nobody(tmp_path: Path) -> None:
    async with certified(tmp_path) as there:
        answer = await there.ask(there.ca.issue_cert("stranger.example.org"))
        assert answer is not None
        assert answer.status == 401
        known = await there.ask(there.ca.issue_cert("stranger.example.org"), key=AGENT_KEY)
        assert known is not None
        assert known.json()["principal"] == "agent"


async def test_without_a_certificate_of_the_ca_there_is_no_connection(tmp_path: Path) -> None:
    async with certified(tmp_path) as there:
        assert await there.ask(None, key=AGENT_KEY) is None
        foreign = trustme.CA().issue_cert("agent.example.org")
        assert await there.ask(foreign, key=AGENT_KEY) is None


async def test_plain_tls_serves_keys(tmp_path: Path) -> None:
    async with certified(tmp_path, mutual=False) as there:
        answer = await there.ask(None, key=AGENT_KEY)
        assert answer is not None
        assert answer.status == 200


async def test_plain_text_to_a_tls_port_gets_nothing(tmp_path: Path) -> None:
    async with certified(tmp_path, mutual=False) as there:
        answer = await there.bench.raw(request_bytes("POST", "/v1/memories", b"{}"))
        assert b"HTTP/1.1 2" not in answer
        assert there.bench.session.performed == []


BINDINGS: Final = (
    Binding(id="by-dns", tenant="default", mtls="DNS:agent.one"),
    Binding(id="by-cn", tenant="default", mtls="CN:agent-one"),
    Binding(id="ops", tenant="default", channel=Channel.OPERATOR, mtls="URI:spiffe://x/ops"),
)
_DAY: Final = dt.timedelta(days=1)
OPS: Final = x509.UniformResourceIdentifier("spiffe://x/ops")
AGENT: Final = x509.DNSName("agent.one")


def signed(
    issuer_pem: bytes,
    issuer_key_pem: bytes,
    common_names: Sequence[str],
    others: Sequence[x509.GeneralName] = (),
    *,
    usage: x509.ObjectIdentifier | None = None,
    expired: bool = False,
    above: bytes = b"",
) -> trustme.Blob:
    """A certificate with these names and its key, signed with that key, whatever it is of."""
    issuer = x509.load_pem_x509_certificate(issuer_pem)
    issuer_key = serialization.load_pem_private_key(issuer_key_pem, None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    ends = dt.datetime.now(dt.UTC) + (-_DAY if expired else _DAY)
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one) for one in common_names])
    builder = (
        x509.CertificateBuilder()
        .subject_name(named)
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(ends - 3 * _DAY)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if others:
        builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    made = builder.sign(issuer_key, hashes.SHA256())
    own = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return trustme.Blob(own + made.public_bytes(serialization.Encoding.PEM) + above)


def by(
    there: Certified,
    common_names: Sequence[str],
    others: Sequence[x509.GeneralName] = (),
    *,
    usage: x509.ObjectIdentifier | None = None,
    expired: bool = False,
) -> trustme.Blob:
    ca = there.ca
    return signed(
        *(ca.cert_pem.bytes(), ca.private_key_pem.bytes(), common_names, others),
        usage=usage,
        expired=expired,
    )


NEAR: Final = {
    "a wildcard": (["*"], [x509.DNSName("*"), x509.DNSName("*.one")]),
    "upper case": (["AGENT-ONE"], [x509.DNSName("AGENT.ONE")]),
    "a mail address": (["x"], [x509.RFC822Name("agent.one")]),
    "a name that says its kind": (
        ["CN:agent-one"],
        [x509.UniformResourceIdentifier("DNS:agent.one")],
    ),
    "a URI's name as another kind": (["spiffe://x/ops"], [x509.DNSName("spiffe.x.ops")]),
    "more behind it": (["agent-one "], [x509.DNSName("agent.one.evil.example")]),
    "a comma": (["x, CN=agent-one"], [x509.DNSName("a,DNS:agent.one")]),
    "two principals": (["agent-one"], [OPS]),
    "two principals, the other way": (["x"], [OPS, AGENT]),
}


@pytest.mark.parametrize("names", NEAR.values(), ids=NEAR)
async def test_a_certificate_that_comes_near_a_bound_name_is_nobody(
    tmp_path: Path, names: tuple[list[str], list[x509.GeneralName]]
) -> None:
    async with certified(tmp_path, BINDINGS) as there:
        answer = await there.ask(by(there, *names))
        assert answer is not None
        assert answer.status == 401
        for exact, principal in ((AGENT, "by-dns"), (OPS, "ops")):
            known = await there.ask(by(there, ["x"], [exact]))
            assert known is not None
            assert known.json()["principal"] == principal, "control"


async def test_a_chain_that_does_not_hold_is_no_connection(tmp_path: Path) -> None:
    async with certified(tmp_path, BINDINGS) as there:
        foreign = trustme.CA()
        of_another = signed(
            foreign.cert_pem.bytes(), foreign.private_key_pem.bytes(), ["ops"], [OPS]
        )
        leaf = there.ca.issue_cert("agent.one")
        above = leaf.cert_chain_pems[0].bytes()
        of_a_leaf = signed(above, leaf.private_key_pem.bytes(), ["ops"], [OPS], above=above)
        ended = by(there, ["x"], [OPS], expired=True)
        of_a_server = by(there, ["x"], [OPS], usage=ExtendedKeyUsageOID.SERVER_AUTH)
        for certificate in (of_another, of_a_leaf, ended, of_a_server):
            assert await there.ask(certificate) is None
            assert await there.ask(certificate, key=AGENT_KEY) is None
        of_a_client = by(there, ["x"], [OPS], usage=ExtendedKeyUsageOID.CLIENT_AUTH)
        known = await there.ask(of_a_client)
        assert known is not None
        assert known.json()["principal"] == "ops", "control"


async def test_a_certificate_rescues_no_wrong_key_and_a_key_is_not_the_certificates(
    tmp_path: Path,
) -> None:
    async with certified(tmp_path, BINDINGS) as there:
        agent = by(there, ["x"], [AGENT])
        for wrong in ("wrong-key-00000000000000", ""):
            answer = await there.ask(agent, key=wrong)
            assert answer is not None
            assert answer.status == 401
        keyed = await there.ask(by(there, ["x"], [OPS]), key=AGENT_KEY)
        assert keyed is not None
        assert keyed.json()["principal"] == "agent"

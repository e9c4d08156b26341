"""Certificates that come near a bound name without being it, or whose chain does not hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from policy.model import Channel
from proxy.settings.principals import Binding
from tests.integration.http_bench import AGENT_KEY
from tests.integration.test_http_peers import Certified, certified

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
    """A certificate of the CA that the listener trusts."""
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

"""Whose request it is, and that no key of ours goes upstream in any place."""

from __future__ import annotations

import base64
import contextlib

import pytest

from policy.model import PrincipalId
from proxy.model.routes import AdmittedPrincipal, admit
from proxy.seams.faults import MalformedRequest, Unauthenticated
from proxy.seams.operation import HttpRequest
from proxy.settings.binding import Binding
from proxy.transport.auth import Authenticator, Peer, hash_key, mint_key
from storage.values import KeyRecord
from tests.bound import bound
from tests.unit.proxy.transport.visitor import Visitor

AGENT = bound("agent", "default")
OTHER = bound("other", "default")
SOCKET = bound("socket", "default")
MINTED = mint_key(AGENT, 0)
CHOSEN = "a-key-that-the-operator-chose"
REVOKED = "a-key-that-was-revoked-since"
CONFIGURED = (("X-Api-Key", "provider-secret"), ("OpenAI-Organization", "org"))
TCP = Peer(address="10.0.0.1")
UNIX = Peer(address="uid:7", uid=7)


def _keys() -> tuple[KeyRecord, ...]:
    def record(key: str, principal: str, revoked: int | None = None) -> KeyRecord:
        return KeyRecord(
            key_id=hash_key(key).hex()[:8],
            key_sha256=hash_key(key),
            principal=bound(principal, "default"),
            created_at_ms=0,
            revoked_at_ms=revoked,
        )

    return (MINTED.record, record(CHOSEN, "other"), record(REVOKED, "agent", 1))


def asked(
    headers: dict[str, str],
    peer: Peer = TCP,
    query: tuple[tuple[str, str], ...] = (),
    path: str = "/openai/v1/responses",
) -> AdmittedPrincipal:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    authenticator = Authenticator(
        _keys, (Binding(id="socket", tenant="default", uid=7),), lambda: 1_000
    )
    head = HttpRequest(method="POST", path=path, query=query, headers=named)
    return admit(head, Visitor(peer), authenticator, CONFIGURED)


@pytest.mark.parametrize("name", ["x_api_key", "authorization", "api_key"])
def test_a_key_of_ours_in_the_apis_own_header_gets_the_configured_credential(name: str) -> None:
    value = f"Bearer {MINTED.plain}" if name == "authorization" else MINTED.plain
    got = asked({name: value, "anthropic_beta": "x", "accept": "*/*"})
    assert got.principal == AGENT
    assert got.headers == {
        "anthropic-beta": "x",
        "accept": "*/*",
        "x-api-key": "provider-secret",
        "openai-organization": "org",
    }


def test_a_key_in_its_own_header_leaves_the_agent_its_credential() -> None:
    got = asked(
        {"mnemogate_key": CHOSEN, "authorization": "Bearer sk-mine", "mnemogate_nonce": "n"}
    )
    assert got.principal.principal_id == PrincipalId("other")
    assert got.headers == {"authorization": "Bearer sk-mine", "openai-organization": "org"}
    without = asked({"mnemogate_key": CHOSEN})
    assert without.headers["x-api-key"] == "provider-secret"


def test_a_peer_of_the_socket_needs_no_key() -> None:
    assert asked({}, UNIX).principal == SOCKET
    assert asked({}, UNIX).headers["x-api-key"] == "provider-secret"
    own = asked({"x_api_key": "sk-of-the-provider-itself"}, UNIX)
    assert (own.principal, own.headers["x-api-key"]) == (SOCKET, "sk-of-the-provider-itself")


@pytest.mark.parametrize(
    "key",
    [MINTED.plain, CHOSEN, REVOKED, "mg_abcdefgh_" + "x" * 43],
    ids=["minted", "chosen", "revoked", "looks like one"],
)
def test_no_key_of_ours_goes_upstream_from_any_place(key: str) -> None:
    own = {"mnemogate_key": MINTED.plain}
    for name in ("x_api_key", "authorization", "x_forwarded_key", "api_key", "user_agent"):
        for value in (key, f"Bearer {key}", f"Token   {key}"):
            assert key not in str(asked({**own, name: value}).headers)
    for pair in (("key", key), (key, "")):
        with pytest.raises(MalformedRequest, match="query"):
            asked(own, query=(pair,))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x_api_key": "sk-of-the-provider-itself"},
        {"authorization": "Bearer sk-of-the-provider-itself"},
        {"x_api_key": REVOKED},
        {"mnemogate_key": "wrong-key-but-long-enough"},
        {"mnemogate_key": "wrong-key-but-long-enough", "x_api_key": CHOSEN},
        {"x_api_key": MINTED.plain, "authorization": f"Bearer {CHOSEN}"},
    ],
)
def test_nobody_is_refused_and_two_that_disagree_are_nobody(headers: dict[str, str]) -> None:
    with pytest.raises(Unauthenticated):
        asked(headers)


def test_the_sockets_uid_does_not_rescue_a_wrong_key_of_ours() -> None:
    with pytest.raises(Unauthenticated):
        asked({"x_api_key": REVOKED}, UNIX)
    with pytest.raises(Unauthenticated):
        asked({"mnemogate_key": "wrong-key-but-long-enough"}, UNIX)


def test_no_header_makes_another_request_of_it() -> None:
    told = {"x_http_method_override": "POST", "x_original_url": "/v1/messages", "accept": "*/*"}
    got = asked({"mnemogate_key": MINTED.plain, **told})
    assert {"x-http-method-override", "x-original-url"}.isdisjoint(got.headers)
    assert got.headers["accept"] == "*/*", "control"


_KEYS = pytest.mark.parametrize(
    "key", [MINTED.plain, CHOSEN, REVOKED], ids=["minted", "chosen", "revoked"]
)


@_KEYS
@pytest.mark.parametrize(
    "spelled",
    [
        *("{},", "a={}", "{}; q=1", "x {} y", "Token,{}", '"{}"', "Bearer%20{}", "?k={}&v"),
        "realtime, openai-insecure-api-key.{}",
    ],
)
def test_a_key_among_other_words_is_refused_wherever_it_would_go_on(key: str, spelled: str) -> None:
    own = {"mnemogate_key": MINTED.plain}
    text = spelled.format(key)
    for name in ("x_other", "sec_websocket_protocol", "cookie", "user_agent"):
        # Taken off, or refused.
        with contextlib.suppress(MalformedRequest):
            assert key not in str(asked({**own, name: text}).headers)
    for pair in (("k", text), (text, "v")):
        with pytest.raises(MalformedRequest, match="query"):
            asked(own, query=(pair,))
    with pytest.raises(MalformedRequest, match="path"):
        asked(own, path=f"/openai/v1/models/{key}")
    other = spelled.format("a-word-of-forty-letters")
    assert asked({**own, "x_other": other}).headers["x-other"] == other, "control"


@_KEYS
def test_a_key_in_base64_is_refused(key: str) -> None:
    encoded = base64.b64encode(f":{key}".encode()).decode()
    with pytest.raises(MalformedRequest, match="header"):
        asked({"mnemogate_key": MINTED.plain, "authorization": f"Basic {encoded}"})
    own = base64.b64encode(b"someone:a-password-of-the-provider").decode()
    passed = asked({"mnemogate_key": MINTED.plain, "authorization": f"Basic {own}"})
    assert passed.headers["authorization"] == f"Basic {own}", "control"


def test_a_key_in_front_of_its_path_is_refused_whatever_else_it_holds() -> None:
    own = {"mnemogate_key": MINTED.plain}
    with pytest.raises(MalformedRequest, match="path"):
        asked(own, path=f"/openai/v1/x{MINTED.plain}x/y")
    assert asked(own, path="/openai/v1/models/ft:gpt-4.1:org::abcdefgh").principal == AGENT

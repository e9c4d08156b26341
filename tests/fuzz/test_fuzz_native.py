"""The native dialect turns any bytes into an operation, or raises one of two refusals."""

from __future__ import annotations

import contextlib

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.native.dialect import Native
from proxy.dialects.strict_json.strict import decode_object
from proxy.seams.faults import MalformedRequest, UnknownWrite
from proxy.seams.operation import HttpRequest

NATIVE = Native()
ID = "00000000-0000-4000-8000-00000000000a"
KEYS = [
    "text",
    "op",
    "id",
    "class",
    "source",
    "target",
    "user_id",
    "agent_id",
    "metadata",
    "role",
    "actor",
    "derived_from",
    "expires_at",
    "nonce",
    "promotion_token",
    "vector",
    "operations",
    "query",
    "filters",
    "limit",
    "threshold",
    "offset",
]

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([ID, "L1", "L9", "user_input", "create", "update", "delete", "2030-01-01"])
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=12,
)
bodies = st.binary(max_size=80) | values.map(msgspec.json.encode)
paths = st.sampled_from(
    [
        "/v1/memories",
        "/v1/memories/batch",
        "/v1/search",
        "/v1/entities",
        "/v1/whoami",
        f"/v1/memories/{ID}",
        f"/v1/memories/{ID}/history",
        "/v1/",
        "/v1/memories/x/y/z",
    ]
) | st.text(max_size=12).map(lambda text: "/v1/" + text)
requests = st.builds(
    HttpRequest,
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    path=paths,
    query=st.lists(
        st.tuples(st.sampled_from(KEYS) | st.text(max_size=4), st.text(max_size=6)), max_size=3
    ).map(tuple),
    headers=st.dictionaries(
        st.sampled_from(["authorization", "idempotency-key"]), st.text(max_size=12), max_size=2
    ),
    body=bodies,
)


@given(requests)
def test_native_raises_its_two_exceptions_or_nothing(request: HttpRequest) -> None:
    NATIVE.claims(request)
    NATIVE.credential(request)
    with contextlib.suppress(MalformedRequest, UnknownWrite):
        NATIVE.decode(request)


@given(st.binary(max_size=300))
def test_strict_json_raises_malformed_or_nothing(body: bytes) -> None:
    with contextlib.suppress(MalformedRequest):
        decode_object(body)

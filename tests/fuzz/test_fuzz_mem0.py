"""The Mem0 dialects turn any bytes into an operation, or raise one of two refusals."""

from __future__ import annotations

import pathlib
import re
from typing import TypeAlias, cast

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from proxy.seams.faults import MalformedRequest, UnknownWrite
from proxy.seams.operation import HttpRequest
from tests.unit.proxy.dialects.mem0.sample import API_KEY, OSS, PLATFORM, TOKEN, request

_VECTORS = pathlib.Path(__file__).parent.parent / "conformance" / "vectors" / "mem0"
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class _Seen(msgspec.Struct, frozen=True):
    method: str
    target: str
    headers: dict[str, str]
    body: object = None


class _Vector(msgspec.Struct, frozen=True):
    request: _Seen


_SEEN = [
    vector.request
    for path in sorted(_VECTORS.glob("*.json"))
    for vector in msgspec.json.decode(path.read_bytes(), type=list[_Vector])
]
_DIALECTS = ((PLATFORM, TOKEN), (OSS, API_KEY))
_TARGETS = sorted({seen.target for seen in _SEEN})
_METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"])
_WORDS = (
    "messages user_id filters metadata AND OR NOT in gte created_at keywords memories memory_id "
    "text query top_k threshold page page_size expiration_date mnemogate_class memory_type "
    "memory_export_id role content type categories infer"
)
_KEYS = st.sampled_from(tuple(re.findall(r"\w+", _WORDS)))
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.sampled_from(["*", "2026-01-01", "L1", "user", "alice", "\ud800", "\u202e", "\U000e0041"]),
)
_JSON: st.SearchStrategy[Json] = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(_KEYS | st.text(max_size=6), inner, max_size=5)
    ),
    max_leaves=20,
)


def _survives(asked: HttpRequest) -> None:
    for dialect, _ in _DIALECTS:
        dialect.claims(asked)
        dialect.credential(asked)
        try:
            operation = dialect.decode(asked)
        except UnknownWrite:
            continue
        except MalformedRequest as error:
            refused = error
        else:
            # Every decoded value has its declared type, nested ones too.
            msgspec.convert(msgspec.to_builtins(operation), type=type(operation), strict=False)
            continue
        assert 400 <= refused.status < 500
        assert len(refused.detail) < 300


def _encoded(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, msgspec.MsgspecError, OverflowError):
        return repr(value).encode("utf-8", "surrogatepass")


@given(method=_METHODS, target=st.sampled_from(_TARGETS), body=st.binary(max_size=200))
def test_bytes_that_are_no_json_are_malformed_or_nothing(
    method: str, target: str, body: bytes
) -> None:
    _survives(request(method, target, body))


@given(method=_METHODS, target=st.sampled_from(_TARGETS), body=_JSON)
def test_json_of_any_shape_is_malformed_or_nothing(method: str, target: str, body: Json) -> None:
    _survives(request(method, target, _encoded(body)))


@given(data=st.data())
def test_a_recorded_request_with_one_thing_changed_is_malformed_or_nothing(
    data: st.DataObject,
) -> None:
    seen = data.draw(st.sampled_from(_SEEN))
    body = _mutated(cast("Json", seen.body), data)
    method = data.draw(st.sampled_from([seen.method, seen.method, "PATCH", "DELETE"]))
    _survives(request(method, seen.target, _encoded(body), seen.headers))


@given(
    parts=st.lists(
        st.sampled_from(["v1", "v2", "v3", "mem0", "memories", "entities", "event", "user"])
        | st.text(max_size=8),
        max_size=6,
    ),
    query=st.lists(st.tuples(_KEYS | st.text(max_size=6), st.text(max_size=12)), max_size=4),
    method=_METHODS,
)
def test_any_path_and_query_is_malformed_or_nothing(
    parts: list[str], query: list[tuple[str, str]], method: str
) -> None:
    for slash in ("", "/"):
        path = "/" + "/".join(parts) + slash
        _survives(HttpRequest(method=method, path=path, query=tuple(query), headers=TOKEN))


@given(text=st.text(max_size=60))
def test_filters_in_a_query_are_malformed_or_nothing(text: str) -> None:
    for filters in (text, f"{{'user_id': '{text}'}}", f'{{"user_id": "{text}"}}'):
        asked = HttpRequest(
            method="DELETE", path="/v1/memories/", query=(("filters", filters),), headers=TOKEN
        )
        _survives(asked)


def _mutated(value: Json, data: st.DataObject) -> Json:
    """One place, chosen by walking down at random, holds something else."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 3)):
        key = data.draw(st.sampled_from(sorted(value)))
        changed = dict(value)
        match data.draw(st.integers(0, 3)):
            case 0:
                del changed[key]
            case 1:
                changed[data.draw(_KEYS)] = changed.pop(key)
            case _:
                changed[key] = _mutated(value[key], data)
        return changed
    if isinstance(value, list) and value and data.draw(st.integers(0, 3)):
        where = data.draw(st.integers(0, len(value) - 1))
        return [_mutated(one, data) if n == where else one for n, one in enumerate(value)]
    return data.draw(_JSON)

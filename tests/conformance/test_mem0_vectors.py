"""Mem0's wire, both directions: requests as the clients send them, answers as they expect them."""

from __future__ import annotations

import pathlib
from typing import Any

import msgspec
import pytest

from proxy.seams.operation import Dialect, Operation, Refusal, Result
from tests.unit.proxy.dialects.mem0.sample import ANSWERING, OSS, PLATFORM, request

_VECTORS = pathlib.Path(__file__).parent / "vectors" / "mem0"


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    method: str
    target: str
    headers: dict[str, str]
    body: Any = None


class _Response(msgspec.Struct, forbid_unknown_fields=True):
    status: int
    body: Any
    phrase: str | None = None


class _Vector(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    dialect: str
    request: _Request
    operation: Any
    response: _Response
    result: Any = None
    refusal: Refusal | None = None


def _load() -> list[_Vector]:
    files = sorted(_VECTORS.glob("*.json"))
    return [v for f in files for v in msgspec.json.decode(f.read_bytes(), type=list[_Vector])]


@pytest.mark.parametrize("vector", [pytest.param(v, id=v.name) for v in _load()])
def test_request_and_answer_are_as_the_clients_know_them(vector: _Vector) -> None:
    dialect: Dialect = PLATFORM if vector.dialect == "platform" else OSS
    asked = request(
        vector.request.method, vector.request.target, vector.request.body, vector.request.headers
    )
    assert dialect.claims(asked)
    if vector.refusal is not None:
        reply = dialect.refuse(asked, vector.refusal, ANSWERING)
    else:
        operation = dialect.decode(asked)
        # A field that came later, at its default, is in no vector.
        wanted: Operation = msgspec.convert(vector.operation, type=Operation)
        assert operation == wanted
        result: Result = msgspec.convert(vector.result, type=Result)
        reply = dialect.encode(asked, operation, result, ANSWERING)
    assert (reply.status, reply.phrase) == (vector.response.status, vector.response.phrase)
    assert msgspec.json.decode(reply.body) == vector.response.body


def test_there_are_vectors_for_both_dialects() -> None:
    assert {vector.dialect for vector in _load()} == {"platform", "oss"}

"""Queries and expiries are read alike by all dialects; no parameter is guessed at."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from proxy.dialects.described import NoQuery, query_as
from proxy.dialects.expiry import expiry, expiry_or_utc
from proxy.dialects.native.dialect import Native
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import Dialect, HttpRequest, Write
from storage.tables.rows import expiry_ms
from tests.unit.proxy.dialects.mem0.sample import PLATFORM, TOKEN

GOOD = (
    "2030-01-31",
    "2028-02-29",
    "9999-12-31",
    "0001-01-01",
    "2030-01-31T10:00:00Z",
    "2030-01-31T10:00:00.123456789+05:30",
)
BAD = (
    "",
    "soon",
    "2030-13-01",
    "2030-02-30",
    "2029-02-29",
    "0000-01-01",
    "20300131",
    "2030-W05-4",
    "2030-01-31 10:00:00Z",
    "2030-01-31T24:00:00Z",
    "2030-01-31T10:00:60Z",
    "2030-01-31T10:00:00+24:00",
    "2030-01-31\n",
    "٢٠٣٠-01-31",
    "2030-01-31T10:00:00." + "0" * 10 + "Z",
)


def _through(dialect: Dialect, path: str, body: dict[str, object]) -> str | None:
    request = HttpRequest(
        method="POST",
        path=path,
        headers={"content-type": "application/json", **TOKEN},
        body=msgspec.json.encode(body),
    )
    operation = dialect.decode(request)
    assert isinstance(operation, Write)
    return operation.proposals[0].expires_at


def native(text: str) -> str | None:
    return _through(Native(), "/v1/memories", {"text": "t", "expires_at": text})


def mem0(text: str) -> str | None:
    body: dict[str, object] = {"messages": "t", "user_id": "a", "expiration_date": text}
    return _through(PLATFORM, "/v3/memories/add/", body)


@pytest.mark.parametrize("text", GOOD)
def test_what_the_calendar_has_is_kept_as_it_came_by_both(text: str) -> None:
    assert native(text) == mem0(text) == expiry(text, "it") == text
    assert expiry_ms(text) != 0


@pytest.mark.parametrize("text", BAD)
def test_what_the_calendar_has_not_is_malformed_for_both(text: str) -> None:
    for dialect in (native, mem0):
        with pytest.raises(MalformedRequest) as caught:
            dialect(text)
        assert "expir" in caught.value.detail


def test_a_moment_without_an_offset_is_utc_for_mem0_and_malformed_for_native() -> None:
    assert mem0("2030-01-31T10:00:00") == expiry_or_utc("2030-01-31T10:00:00", "it")
    assert mem0("2030-01-31T10:00:00") == "2030-01-31T10:00:00Z"
    with pytest.raises(MalformedRequest):
        native("2030-01-31T10:00:00")


class _Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    who: str | None = msgspec.field(default=None, name="user")
    limit: Annotated[int, Meta(ge=1, le=10)] = 5
    since: Annotated[int, Meta(ge=0)] | None = None


def test_parameters_are_read_as_what_they_are() -> None:
    given = (("user", "12"), ("limit", "10"), ("since", "0"))
    assert query_as(given, _Asked) == _Asked(who="12", limit=10, since=0)
    assert query_as((), _Asked) == _Asked()


@pytest.mark.parametrize("given", [[("who", "x")], [("user", "x"), ("user", "x")]])
def test_a_parameter_that_is_not_known_or_given_twice_is_refused(
    given: list[tuple[str, str]],
) -> None:
    with pytest.raises(MalformedRequest, match="query: "):
        query_as(given, _Asked)
    with pytest.raises(MalformedRequest):
        query_as(given, NoQuery)


@pytest.mark.parametrize("number", ["", "-1", "0", "11", "1.0", " 1", "1e1", "\u0661", "9" * 40])
def test_a_number_out_of_bounds_or_in_another_spelling_is_refused(number: str) -> None:
    with pytest.raises(MalformedRequest, match="limit: "):
        query_as([("limit", number)], _Asked)

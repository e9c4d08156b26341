"""A query is read as the struct that describes it: no parameter is guessed at."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from proxy.dialects.described import NoQuery
from proxy.dialects.query import query_as
from proxy.seams.faults import MalformedRequest


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

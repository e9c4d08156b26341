from __future__ import annotations

import itertools

import pytest

from proxy.dialects.mcp.paths import (
    MisfitError,
    PathError,
    ends_with,
    lies_on,
    parse_path,
    pattern_of,
    places,
)
from proxy.dialects.strict_json.strict import JsonValue


def test_a_path_steps_into_names_and_elements() -> None:
    value: JsonValue = {"a": [{"b": ["x", "y"]}, {"b": None}, {}], "c": None}
    found = list(places(value, parse_path("a[].b[]")))
    assert found == [(("a", 0, "b", 0), "x"), (("a", 0, "b", 1), "y")]
    assert list(places(value, parse_path("c.d"))) == []


@pytest.mark.parametrize("text", ["", ".", "a.", "a..b", "a.[]", "a[0]", "a[", "a]b", "x" * 300])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(PathError):
        parse_path(text)


@pytest.mark.parametrize("text", ["a[]", "a.b"])
def test_a_step_into_another_kind_of_value_is_no_match(text: str) -> None:
    with pytest.raises(MisfitError):
        list(places({"a": "text"}, parse_path(text)))


def test_a_place_lies_on_its_path_whatever_is_around_it() -> None:
    at = pattern_of(("result", "results", 3, "memory"))
    assert ends_with(at, parse_path("results[].memory"))
    assert not ends_with(at, parse_path("other[].memory"))


def test_a_place_lies_on_a_path_where_its_own_path_ends_in_it() -> None:
    steps: tuple[str | int, ...] = ("a", "b", 0, 7)
    places_there = [at for many in range(5) for at in itertools.product(steps, repeat=many)]
    tails = [parse_path(text) for text in ("a", "b", "a[]", "a.b", "b[].a", "a[][]", "a.b.a.b.a")]
    lies = [[lies_on(at, tail) for tail in tails] for at in places_there]
    assert lies == [[ends_with(pattern_of(at), tail) for tail in tails] for at in places_there]
    assert any(any(row) for row in lies), "the control: some do"

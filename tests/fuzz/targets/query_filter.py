"""Filters: bounded or refused; what is bounded has one answer, and its negation the other."""

from __future__ import annotations

import msgspec

from policy.query import AllOf, AnyOf, Filter, FilterRefused, Not, matches, validate
from tests.fuzz.choices import words
from tests.unit.proxy.dialects.mem0.sample import memory

WORDS = words(
    """
    {"type":"test","field":"user_id","compare":"eq","values":["alice"]} "type":"all"
    "type":"any" "type":"not" "parts":[ "part": "key": metadata text contains icontains in
    ne gt lte present created_at_ms memory_class null true 1e308
    """
)
_FILTERS = msgspec.json.Decoder(Filter)
_MEMORIES = (
    memory(),
    memory(metadata_json=None),
    memory(metadata_json='{"a":[1,"x",true,null,{"b":2}],"k":1.5,"n":null}'),
    memory(metadata_json="not json"),
)


def check(data: bytes) -> None:
    try:
        where: Filter = _FILTERS.decode(data)
        validate(where)
    except (FilterRefused, msgspec.MsgspecError, UnicodeError, RecursionError):
        return
    for found in _MEMORIES:
        answer = matches(where, found)
        assert matches(Not(part=where), found) is not answer
        assert matches(AllOf(parts=(where, where)), found) is answer
        assert matches(AnyOf(parts=(where,)), found) is answer

"""Every shape that a table names is in it, and what is built anew has one in each version."""

from __future__ import annotations

import pytest

from proxy.dialects.mcp.known_members import V2025_11_25, V2026_07_28, Members
from proxy.dialects.mcp.message import ANEW, CALL

TABLES = pytest.mark.parametrize("table", [V2025_11_25, V2026_07_28])


@TABLES
def test_every_shape_that_is_named_is_there(table: Members) -> None:
    named = {*table.params.values(), *table.results.values()}
    named |= {below for members in table.shapes.values() for below in members.values()}
    assert {name.strip("{}") for name in named} - {""} <= table.shapes.keys()


@TABLES
def test_no_shape_holds_itself(table: Members) -> None:
    def depth(shape: str) -> int:
        below = [one.strip("{}") for one in table.shapes[shape].values() if one]
        return 1 + max(map(depth, below), default=0)

    assert max(map(depth, table.shapes)) < 8


def test_what_is_built_anew_has_a_shape() -> None:
    known = {*V2025_11_25.results, *V2026_07_28.results}
    assert known >= ANEW
    assert V2025_11_25.results[CALL]
    assert V2026_07_28.results[CALL]

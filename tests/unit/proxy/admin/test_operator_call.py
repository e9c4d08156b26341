"""Every row of the operator API has one method; a row without one stops the composition."""

from __future__ import annotations

import msgspec
import pytest

from policy.verdict import InvariantBroken
from proxy.admin.operator_call import OperatorCall, handlers, route
from proxy.admin.wire.route import Empty, NoQuery, get, post

READ = get("/things", NoQuery, Empty, "All things.")
CHANGE = post("/things/{thing}", Empty, Empty, "Change a thing.")


class _Reads(msgspec.Struct, frozen=True, kw_only=True):
    @route(READ)
    async def all(self, _call: OperatorCall[NoQuery]) -> Empty:
        return Empty()


class _Changes:
    @route(CHANGE)
    async def change(self, _call: OperatorCall[Empty]) -> Empty:
        return Empty()


def test_each_row_is_answered_by_the_method_that_is_bound_to_it() -> None:
    reads, changes = _Reads(), _Changes()
    found = handlers((reads, changes), (READ, CHANGE))
    assert found == {READ: reads.all, CHANGE: changes.change}


@pytest.mark.parametrize("rows", [(READ,), (READ, CHANGE, post("/others", Empty, Empty, "Other."))])
def test_a_row_without_a_method_and_a_method_without_a_row_are_refused(
    rows: tuple[object, ...],
) -> None:
    with pytest.raises(InvariantBroken):
        handlers((_Reads(), _Changes()), rows)  # type: ignore[arg-type]

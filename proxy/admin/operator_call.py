"""A request to the operator API, and the decorator that binds methods to its routing table."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from policy.model import CandidateId, MemoryId, Principal, PrincipalId
from policy.verdict import InvariantBroken
from proxy.admin.wire.route import AnyRoute, Route
from proxy.dialects.native.wire import UUID_PATTERN
from proxy.seams.access import access_of
from proxy.seams.faults import NotFound
from telemetry.events import TraceContext

_CANDIDATE_ID: Final = re.compile(r"[0-9a-f]{32}")
_Asked = TypeVar("_Asked", bound=msgspec.Struct)
_Answer = TypeVar("_Answer", bound=msgspec.Struct)
_Feature = TypeVar("_Feature")


class OperatorCall(msgspec.Struct, Generic[_Asked], frozen=True, kw_only=True):
    """One request of an authenticated operator, already matched to a route."""

    by: Principal
    asked: _Asked
    argument: str  # the one variable segment of the route's path; "" if it has none
    trace: TraceContext

    @property
    def operator(self) -> PrincipalId:
        """The actor in audit leaves: the operator's name, a colon and the key's id.

        Without a key it is the name alone. No name of a key's principal has a colon.
        """
        name, key_id = self.by.principal_id, access_of(self.by).key_id
        return PrincipalId(f"{name}:{key_id}") if key_id else name

    @property
    def memory_id(self) -> MemoryId:
        """The memory id in the path; `NotFound` is raised unless it has the form of a stored id."""
        if re.fullmatch(UUID_PATTERN, self.argument) is None:
            raise NotFound("there is no such memory")
        return MemoryId(self.argument)

    @property
    def candidate_id(self) -> CandidateId:
        """The candidate id in the path; `NotFound` is raised unless it is 32 hex digits."""
        if _CANDIDATE_ID.fullmatch(self.argument) is None:
            raise NotFound("no candidate of that id is held")
        return CandidateId(self.argument)


Handler = Callable[[OperatorCall[Any]], Coroutine[Any, Any, msgspec.Struct]]
_Method = Callable[[_Feature, OperatorCall[_Asked]], Coroutine[Any, Any, _Answer]]


def route(
    row: Route[_Asked, _Answer],
) -> Callable[[_Method[_Feature, _Asked, _Answer]], _Method[_Feature, _Asked, _Answer]]:
    """A decorator that binds a feature's method to the row whose requests the method answers."""

    def bind(
        method: _Method[_Feature, _Asked, _Answer],
    ) -> _Method[_Feature, _Asked, _Answer]:
        method.__dict__["row"] = row
        return method

    return bind


def handlers(features: Iterable[object], rows: Sequence[AnyRoute]) -> Mapping[AnyRoute, Handler]:
    """A mapping of each row of the routing table to the method that answers the row's requests.

    Raises:
        InvariantBroken: A row has no method, or a method's row is not in the table.
    """
    found: dict[AnyRoute, Handler] = {}
    for feature in features:
        for name, method in vars(type(feature)).items():
            row = getattr(method, "row", None)
            if isinstance(row, Route):
                found[row] = getattr(feature, name)
    if found.keys() != set(rows):
        raise InvariantBroken("each row of the operator API has one method, and each method a row")
    return found

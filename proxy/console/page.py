"""The registry's row for a page, and what the handler of a page gets and returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar, cast

import msgspec

from policy.model import OperatorScope, Principal
from proxy.admin.operator_call import Handler, OperatorCall
from proxy.admin.wire.route import AnyRoute, Route
from proxy.dialects.described import NoQuery, RouteRow
from proxy.dialects.strict_json.strict import convert
from proxy.seams.faults import MalformedRequest
from proxy.transport.auth import check_scope
from telemetry.events import TraceContext

_Asked = TypeVar("_Asked", bound=msgspec.Struct)
_Answer = TypeVar("_Answer", bound=msgspec.Struct)
_Shape = TypeVar("_Shape", bound=msgspec.Struct)


class Shown(msgspec.Struct, frozen=True):
    """A template, and the values that it draws."""

    template: str
    values: Mapping[str, object]
    status: int = 200


class PageCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a page, of a visitor whose key has the page's scope. Event loop only."""

    by: Principal
    argument: str  # the variable segment of the path; "" if the page has none
    query: Mapping[str, str]
    form: Mapping[str, list[str]]
    now_ms: int
    trace: TraceContext
    handlers: Mapping[AnyRoute, Handler]
    # Whether the visitor came by a link made for one candidate, and has no operator's key.
    linked: bool = False

    async def ask(
        self, row: Route[_Asked, _Answer], argument: str = "", /, **given: object
    ) -> _Answer:
        """The answer of one call of the operator API, with the rights of the visitor.

        Raises:
            ScopeMissing: The scope of the visitor's key does not include that of the call.
            MalformedRequest: A field of the call is missing, or has a wrong value.
        """
        check_scope(self.by, row.least)
        asked = convert(msgspec.to_builtins(given), row.asked)
        call = OperatorCall(by=self.by, asked=asked, argument=argument, trace=self.trace)
        view = await self.handlers[row](call)
        return cast("_Answer", view)

    def filled(self, shape: type[_Shape], *, lists: tuple[str, ...] = ()) -> _Shape:
        """The form as a struct; the fields in `lists` may be given several times, or not at all.

        Raises:
            MalformedRequest: A field is unknown, missing, given twice, or has a wrong value.
        """
        values: dict[str, object] = {name: [] for name in lists}
        for name, given in self.form.items():
            if name not in lists and len(given) > 1:
                raise MalformedRequest("form: a field is given twice")
            values[name] = given if name in lists else given[0]
        try:
            return msgspec.convert(values, shape, strict=False)
        except msgspec.ValidationError as error:
            raise MalformedRequest(f"this is not the form of this page: {error}") from None


class Page(RouteRow, frozen=True, kw_only=True):
    """One page, or one act of a page, with the calls and commands that do the same.

    `template` is the path; `{name}` in it is the variable segment.
    """

    method: str = "GET"
    summary: str = ""
    answers: type[msgspec.Struct] = NoQuery
    handler: Callable[[PageCall], Awaitable[Shown]]
    # The calls of the operator API, and the commands, that show or do the same.
    twins: tuple[AnyRoute, ...]
    commands: tuple[str, ...]
    least: OperatorScope = OperatorScope.REVIEW
    nav: str = ""  # the page's word in the navigation; "" for a page that is not in it
    # Whether a form of this page is sent with the operator's key in the field `key`.
    destroys: bool = False
    # Whether a link made for the candidate in the path opens the page without a key.
    linked: bool = False

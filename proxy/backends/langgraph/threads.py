"""The making of a thread, by which a client begins a conversation."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from proxy.dialects.strict_json.strict import JsonValue, convert, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpRequest

_STATE: Final = "supersteps"
_FORBIDDEN: Final = 403
_WRITES_STATE: Final = "supersteps: a new thread with a state is a write that nobody judges"


class _Lifetime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ttl: float | None = None
    strategy: Literal["delete", "keep_latest"] | None = None


class _NewThread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /threads`, without the state that it may begin with."""

    thread_id: Annotated[str, Meta(max_length=64)] | None = None
    metadata: dict[str, JsonValue] | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    ttl: _Lifetime | None = None


def check_new_thread(request: HttpRequest) -> None:
    """Refuse a new thread that would begin with a state, or with members that are not known.

    Raises:
        MalformedRequest: It would; 403 for a state.
    """
    if request.query:
        raise MalformedRequest("query: this route takes none")
    value = decode_object(request.body, any_text=True)
    if isinstance(value, dict) and _STATE in value:
        raise MalformedRequest(_WRITES_STATE, status=_FORBIDDEN)
    convert(value, _NewThread)

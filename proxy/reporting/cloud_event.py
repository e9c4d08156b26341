"""The envelope of events: CloudEvents 1.0 in JSON, structured mode."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Generic, TypeVar

import msgspec

_Data = TypeVar("_Data")


class CloudEvent(msgspec.Struct, Generic[_Data], frozen=True, kw_only=True):
    """The CloudEvents envelope around the data of one event."""

    specversion: str = "1.0"
    id: str
    source: str
    type: str
    time: str
    subject: str | msgspec.UnsetType = msgspec.UNSET
    datacontenttype: str = "application/json"
    data: _Data


def moment(at_ms: int) -> str:
    """A time in the form of RFC 3339, with milliseconds."""
    at = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""The incident of a wrong answer as an event: CloudEvents 1.0 in JSON, structured mode. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from datetime import datetime

TYPE: Final = "dev.mnemogate.incident.v1"
_ENCODER: Final = msgspec.json.Encoder()


class IncidentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The event around an incident's own fields, which hold no content."""

    specversion: str = "1.0"
    id: str
    source: str
    type: str = TYPE
    time: str
    subject: str
    datacontenttype: str = "application/json"
    data: msgspec.Raw


def incident_event(
    incident_id: str, state: str, data: bytes, *, source: str, at: datetime
) -> bytes:
    """One event of an incident at one state; its id is the same each time it is told."""
    return _ENCODER.encode(
        IncidentEvent(
            id=f"{incident_id}-{state}",
            source=source,
            time=at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            subject=incident_id,
            data=msgspec.Raw(data),
        )
    )

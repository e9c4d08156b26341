"""Encodes incidents of wrong answers as events: CloudEvents 1.0 in JSON, structured mode. Pure.

The fields are a closed list, and none of them contains content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from policy.model import PrincipalId
from proxy.reporting.cloud_event import CloudEvent, moment
from storage.audit import IncidentLeaf, decode_leaf

TYPE: Final = "dev.mnemogate.incident.v1"
_ENCODER: Final = msgspec.json.Encoder()
# The leaf of an incident has fewer than sixteen fields, so its third byte is the tag of its kind.
_TAG: Final = bytes((5,))
_TAG_AT: Final = 2


class IncidentNotice(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an incident, with the fields of its leaf; counts cover the incident so far."""

    incident_id: str
    state: str
    signal: str
    mode: str
    why: str
    at_ms: int
    suspects: int
    asks: int
    culprit_count: int
    by: PrincipalId


class IncidentData(msgspec.Struct, frozen=True, kw_only=True):
    """The incidents of one event: steps in the order of the log, or the whole of one incident."""

    count: int
    incidents: tuple[IncidentNotice | msgspec.Raw, ...]


def incident_of(leaf: bytes) -> IncidentLeaf | None:
    """The step of an incident that a leaf records; None for every other leaf.

    Raises:
        StoreCorrupt: The leaf has the tag of an incident, but does not decode.
    """
    if leaf[_TAG_AT : _TAG_AT + 1] != _TAG:
        return None
    found = decode_leaf(leaf)
    return found if isinstance(found, IncidentLeaf) else None


def incidents_event(message_id: str, steps: Sequence[IncidentLeaf], *, source: str) -> bytes:
    """The webhook event about one or more steps of incidents, with the time of the last step."""
    notices = tuple(
        IncidentNotice(
            incident_id=one.case_id,
            state=one.step.value,
            signal=one.signal.value,
            mode="" if one.mode is None else one.mode.value,
            why=one.why or "",
            at_ms=one.at_ms,
            suspects=one.suspects,
            asks=one.asks,
            culprit_count=one.culprits,
            by=one.by,
        )
        for one in steps
    )
    return _ENCODER.encode(
        CloudEvent(
            id=message_id,
            source=source,
            type=TYPE,
            time=moment(steps[-1].at_ms),
            data=IncidentData(count=len(notices), incidents=notices),
        )
    )


def incident_event(incident_id: str, state: str, data: bytes, *, source: str, at_ms: int) -> bytes:
    """The event about a whole incident in one state; repeated exports have the same event id."""
    return _ENCODER.encode(
        CloudEvent(
            id=f"{incident_id}-{state}",
            source=source,
            type=TYPE,
            time=moment(at_ms),
            subject=incident_id,
            data=IncidentData(count=1, incidents=(msgspec.Raw(data),)),
        )
    )

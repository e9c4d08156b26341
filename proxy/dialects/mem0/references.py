"""Ids of events and exports; each id contains the whole state, so that nothing is stored for it.

Such an id is no capability: it is resolved by the same tenant-scoped, filtered reads as any other
request, so a forged id shows its maker nothing new.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Iterable
from typing import Final

import msgspec

from policy.model import MemoryId
from proxy.dialects.strict_json.strict import JsonValue, canonical_json, decode_object
from proxy.seams.faults import MalformedRequest

EVENT_IDS_MAX: Final = 32
REFERENCE_LEN_MAX: Final = 16_384

_FORMAT: Final = 1
_KINDS: Final = ("ADD", "UPDATE", "DELETE")
_HEADER_LEN: Final = 2
_UUID_LEN: Final = 16


class EventContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an event's id: the kind of change, and up to 32 ids of changed memories."""

    kind: str
    memory_ids: tuple[MemoryId, ...]


def event_id(kind: str, memory_ids: Iterable[MemoryId]) -> str:
    """An id for an event; memory ids that are no UUIDs, or beyond the 32nd, are left out."""
    packed = [_packed(memory_id) for memory_id in memory_ids]
    found = [one for one in packed if one][:EVENT_IDS_MAX]
    return _text(bytes((_FORMAT, _KINDS.index(kind))) + b"".join(found))


def read_event_id(text: str) -> EventContent:
    """The content of an event id.

    Raises:
        MalformedRequest: The text does not have the form of such an id (404).
    """
    data = _bytes(text, "event")
    ids = data[_HEADER_LEN:]
    sound = (
        len(data) >= _HEADER_LEN
        and data[0] == _FORMAT
        and data[1] < len(_KINDS)
        and len(ids) % _UUID_LEN == 0
        and len(ids) <= EVENT_IDS_MAX * _UUID_LEN
    )
    if not sound:
        raise MalformedRequest("event: not an event of this store", status=404)
    return EventContent(
        kind=_KINDS[data[1]],
        memory_ids=tuple(
            MemoryId(str(uuid.UUID(bytes=ids[start : start + _UUID_LEN])))
            for start in range(0, len(ids), _UUID_LEN)
        ),
    )


def export_id(conditions: JsonValue) -> str:
    """An id that contains the conditions of an export.

    Raises:
        MalformedRequest: The conditions are longer than an id can be.
    """
    found = _text(canonical_json(conditions).encode())
    if len(found) > REFERENCE_LEN_MAX:
        raise MalformedRequest("filters: too long for an export")
    return found


def read_export_id(text: str) -> JsonValue:
    """The conditions in an export id.

    Raises:
        MalformedRequest: The text does not have the form of such an id (404), or its content is
            not JSON as a body must be.
    """
    return decode_object(_bytes(text, "memory_export_id"))


def candidate_uuid(candidate_id: str) -> str:
    """The id of a candidate as a UUID with hyphens, as Mem0 writes ids."""
    try:
        return str(uuid.UUID(hex=candidate_id))
    except ValueError:
        return candidate_id


def _packed(memory_id: MemoryId) -> bytes:
    try:
        return uuid.UUID(memory_id).bytes
    except ValueError:
        return b""


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise MalformedRequest(f"{where}: not one of this store", status=404) from None

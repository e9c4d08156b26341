"""Encodes events about what waits for a person: CloudEvents 1.0 in JSON, structured mode.

The fields are a closed list. No content, principal, tenant or origin is sent, nor the position of a
leaf in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from policy.model import CandidateId, MemoryClass
from proxy.reporting.cloud_event import CloudEvent, moment
from storage.audit import OperatorLeaf, VerdictLeaf, decode_leaf
from storage.values import Decision

TYPE: Final = "dev.mnemogate.review.v1"
CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"
_ENCODER: Final = msgspec.json.Encoder()
# Every leaf about a hold contains these bytes, and few others do: a quick test before decoding.
_HOLD: Final = msgspec.msgpack.encode(Decision.HOLD.value)
# The acts of the store on a file that hosts put into model requests, after which a person is asked.
_PLACE: Final = b"place."
WaitsLeaf = VerdictLeaf | OperatorLeaf


class HeldNotice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One candidate that was held; `age_seconds` is its age at the time of the event."""

    id: CandidateId
    memory_class: MemoryClass = msgspec.field(name="class")
    reason: str
    age_seconds: int
    # The address of a page that asks for the operator's key; opening it decides nothing.
    page: str | None = None


class ReviewData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The held candidates of one event, in the order of the log.

    `places`: how often new lines of a file began to wait, or a file was between no known marks.
    """

    count: int
    held: tuple[HeldNotice, ...]
    places: int = 0


def hold_of(leaf: bytes) -> WaitsLeaf | None:
    """The leaf if it holds a candidate, or a file's lines; None for every other leaf.

    Raises:
        StoreCorrupt: The leaf has the bytes of a hold, but does not decode.
    """
    if _HOLD not in leaf and _PLACE not in leaf:
        return None
    match decode_leaf(leaf):
        case (
            OperatorLeaf(action="place.held" | "place.unread") | VerdictLeaf(decision=Decision.HOLD)
        ) as found:
            return found
        case _:
            return None


def review_event(
    message_id: str,
    holds: Sequence[WaitsLeaf],
    *,
    source: str,
    page_of: Callable[[CandidateId], str | None],
) -> bytes:
    """The event about what began to wait, with the time of the last leaf."""
    at_ms = holds[-1].at_ms
    notices = tuple(
        HeldNotice(
            id=one.candidate_id,
            memory_class=one.memory_class,
            reason="" if one.reason is None else one.reason.value,
            age_seconds=max(0, at_ms - one.at_ms) // 1_000,
            page=page_of(one.candidate_id),
        )
        for one in holds
        if isinstance(one, VerdictLeaf)
    )
    return _ENCODER.encode(
        CloudEvent(
            id=message_id,
            source=source,
            type=TYPE,
            time=moment(at_ms),
            data=ReviewData(count=len(notices), held=notices, places=len(holds) - len(notices)),
        )
    )

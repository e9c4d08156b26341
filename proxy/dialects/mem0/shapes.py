"""Memories, history and entities as Mem0 clients were seen to receive them.

Scores: Mem0 promises a number in [0, 1], so a cosine below zero is served as 0 and every other
cosine as it is; a client's `threshold` therefore compares with the cosine itself.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import Final

import msgspec

from policy.model import ChangeKind, Entity, HistoryEntry, Memory, MemoryId
from proxy.dialects.mem0.references import candidate_uuid
from proxy.dialects.mem0.writes import NEVER_EXPIRES
from proxy.seams.operation import HttpReply, SearchResult

Shape = dict[str, object]

VERBATIM: Final = "verbatim: this store runs no model"
EVENTS: Final = {
    ChangeKind.CREATE: "ADD",
    ChangeKind.UPDATE: "UPDATE",
    ChangeKind.DELETE: "DELETE",
    ChangeKind.PURGE: "DELETE",
}
# A client that asks for some fields of a memory gets these as well: the memory's id and its labels.
_ALWAYS: Final = frozenset({"id", "source_kind", "source_origin", "memory_class"})
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_JSON = msgspec.json.Encoder()


def reply(value: object, status: int = 200, *, phrase: str | None = None) -> HttpReply:
    """Make an HTTP answer with the given JSON as its body."""
    return HttpReply(status=status, body=_JSON.encode(value), phrase=phrase)


def recalled_as(found: SearchResult) -> Shape:
    """The id under which feedback may name a search, beside its results; {} where there is none.

    Mem0 has no such member; clients of it leave out what they do not know.
    """
    return {"recall_id": found.recall_id} if found.recall_id else {}


def utc(at_ms: int) -> str:
    """A time as Mem0's platform writes it: with microseconds and `Z`."""
    return offset(at_ms).removesuffix("+00:00") + "Z"


def offset(at_ms: int) -> str:
    """A time as the self-hosted server writes it: with microseconds and `+00:00`."""
    return (_EPOCH + dt.timedelta(milliseconds=at_ms)).isoformat(timespec="microseconds")


def score_of(cosine: float) -> float:
    """Convert a cosine to the score that Mem0 clients get, in [0, 1]."""
    return min(1.0, max(0.0, cosine))


def platform_item(memory: Memory, *, run_key: str = "session_id") -> Shape:
    """One memory of the platform; `run_id` has another name in lists than in a v3 search.

    The true labels stand beside `metadata` and are never read back, so a client that writes an
    item's metadata back claims nothing by it.
    """
    item: Shape = {
        "id": memory.memory_id,
        "memory": memory.text,
        "user_id": memory.scope.user_id,
        "agent_id": memory.scope.agent_id,
        "app_id": memory.scope.app_id,
        run_key: memory.scope.run_id,
        "metadata": _metadata(memory.metadata_json),
        "categories": None,
        "created_at": utc(memory.created_at_ms),
        "updated_at": utc(memory.updated_at_ms),
        "expiration_date": _expiry(memory),
    }
    return item | _labels(memory)


def oss_item(memory: Memory, **extra: object) -> Shape:
    """One memory of the self-hosted server, which leaves out ids that are not set."""
    item: Shape = {
        "id": memory.memory_id,
        "memory": memory.text,
        # Mem0 puts an MD5 of the text here, to find duplicates; the field is no security measure.
        "hash": hashlib.md5(memory.text.encode(), usedforsecurity=False).hexdigest(),
        "metadata": _metadata(memory.metadata_json),
        **extra,
        "created_at": offset(memory.created_at_ms),
        "updated_at": offset(memory.updated_at_ms),
    }
    optional = {
        "user_id": memory.scope.user_id,
        "agent_id": memory.scope.agent_id,
        "run_id": memory.scope.run_id,
        "app_id": memory.scope.app_id,
        "role": memory.role,
        "actor_id": memory.actor,
        "expiration_date": _expiry(memory),
    }
    item.update({key: value for key, value in optional.items() if value is not None})
    return item | _labels(memory)


def only(item: Shape, fields: tuple[str, ...]) -> Shape:
    """The fields of a memory that a client asked for; all of them if it named none."""
    if not fields:
        return item
    return {key: value for key, value in item.items() if key in fields or key in _ALWAYS}


def platform_history(memory_id: MemoryId, entry: HistoryEntry) -> Shape:
    """One step in a memory's life, as the platform lists it."""
    created = entry.change is ChangeKind.CREATE
    return {
        "id": candidate_uuid(entry.candidate_id),
        "memory_id": memory_id,
        "input": [{"role": entry.role or "user", "content": entry.new_text}] if created else [],
        "old_memory": entry.old_text,
        "new_memory": entry.new_text,
        "event": EVENTS[entry.change],
        "metadata": _metadata(entry.metadata_json),
        "created_at": utc(entry.at_ms),
        "updated_at": utc(entry.at_ms),
        "source_kind": entry.source.value,
        "memory_class": entry.memory_class.value,
    }


def oss_history(memory_id: MemoryId, entry: HistoryEntry, created_at_ms: int) -> Shape:
    """One step in a memory's life, as the self-hosted server lists it."""
    return {
        "id": candidate_uuid(entry.candidate_id),
        "memory_id": memory_id,
        "old_memory": entry.old_text,
        "new_memory": entry.new_text,
        "event": EVENTS[entry.change],
        "created_at": offset(created_at_ms),
        "updated_at": offset(entry.at_ms),
        "is_deleted": entry.change in {ChangeKind.DELETE, ChangeKind.PURGE},
        "actor_id": entry.actor,
        "role": entry.role,
    }


def entity_item(entity: Entity) -> Shape:
    """One user, agent, run or app, with the fields that either Mem0 server has."""
    return {
        "id": entity.name,
        "name": entity.name,
        "type": entity.kind,
        "total_memories": entity.count,
        "created_at": utc(entity.first_at_ms),
        "updated_at": utc(entity.last_at_ms),
    }


def _labels(memory: Memory) -> Shape:
    labels: Shape = {"source_kind": memory.source.value, "memory_class": memory.memory_class.value}
    return labels | ({"source_origin": memory.origin} if memory.origin else {})


def _expiry(memory: Memory) -> str | None:
    return None if memory.expires_at == NEVER_EXPIRES else memory.expires_at


def _metadata(metadata_json: str | None) -> msgspec.Raw | None:
    # The metadata is canonical JSON that was checked when it was written, so it is embedded as it
    # is.
    return None if metadata_json is None else msgspec.Raw(metadata_json.encode())

"""Builds memories, history and entities in the forms in which Mem0's servers send them.

Mem0 promises scores in [0, 1], which those of a search are. A client's `threshold` is compared
with the cosine alone, as Mem0 does where it ranks by words too.
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
# A client that asks for some fields of a memory also gets these: the memory's id and its labels.
_ALWAYS: Final = frozenset({"id", "source_kind", "source_origin", "memory_class"})
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_JSON = msgspec.json.Encoder()


def reply(value: object, status: int = 200, *, phrase: str | None = None) -> HttpReply:
    """An HTTP answer with the given value as JSON in its body."""
    return HttpReply(status=status, body=_JSON.encode(value), phrase=phrase)


def recalled_as(found: SearchResult) -> Shape:
    """The member with a search's recall id, by which feedback names the search; {} if it has none.

    Mem0 has no such member; its clients ignore unknown members.
    """
    return {"recall_id": found.recall_id} if found.recall_id else {}


def utc(at_ms: int) -> str:
    """A time in Unix milliseconds as Mem0's platform writes it: with microseconds and `Z`."""
    return offset(at_ms).removesuffix("+00:00") + "Z"


def offset(at_ms: int) -> str:
    """A time in Unix milliseconds as the self-hosted server writes it: with `+00:00`."""
    return (_EPOCH + dt.timedelta(milliseconds=at_ms)).isoformat(timespec="microseconds")


def platform_item(memory: Memory, *, run_key: str = "session_id") -> Shape:
    """One memory in the platform's form; `run_key` is the name of `run_id`, which differs by route.

    The true labels are members beside `metadata`, so a client that writes an item's metadata back
    claims no label by that.
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
    """One memory in the form of the self-hosted server, which leaves out ids that are not set."""
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
    """One change in a memory's history, in the platform's form."""
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
    """One change in a memory's history, in the form of the self-hosted server."""
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
    """One user, agent, run or app, with the fields of both Mem0 servers."""
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
    # The metadata was checked and stored as canonical JSON, so it is embedded unchanged.
    return None if metadata_json is None else msgspec.Raw(metadata_json.encode())

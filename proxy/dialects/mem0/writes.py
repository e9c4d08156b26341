"""Decodes Mem0's writes (add, update, delete and their batches) into proposals."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import UnsetType

from policy.model import (
    METADATA_LEN_MAX,
    NONCE_LEN_MAX,
    ChangeKind,
    MemoryClass,
    MemoryId,
    Scope,
    SourceKind,
)
from policy.query import AllOf, Compare, Test
from policy.ruleset import ClassMap
from proxy.dialects.expiry import expiry_or_utc
from proxy.dialects.mem0.bodies import (
    IGNORED_ADD,
    IGNORED_EVERYWHERE,
    IGNORED_QUERY,
    AddBody,
    BatchBody,
    ChatMessage,
    Ids,
    Part,
    UpdateBody,
)
from proxy.dialects.mem0.calls import Mem0Call, Note, body_of, name, nonce_of, refuse_others
from proxy.dialects.mem0.filters import ENTITY_FIELDS, equals
from proxy.dialects.mem0.reads import NEEDS_ID
from proxy.dialects.strict_json.strict import JsonValue, canonical_json, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import DOTS, DeleteWhere, Proposal, Write, segment_of

OWN_PREFIX: Final = "mnemogate_"
SOURCE_KEY: Final = "mnemogate_source"

_SOURCES: Final = {source.value: source for source in SourceKind}


class RequestClaims(msgspec.Struct, frozen=True, kw_only=True):
    """The class, source and metadata that one request claims for each of its writes."""

    memory_class: MemoryClass
    class_named: bool
    source: SourceKind | None
    metadata_json: str | None


def claims_of(classes: ClassMap, metadata: dict[str, Any] | None) -> RequestClaims:
    """A write's class, its claimed source, and its other metadata.

    `mnemogate_source` and `mnemogate_class` are removed from the metadata: the digest covers both
    as claims, and a stored copy would look like a label that the gate gave. Reads show the true
    labels beside the metadata, so a client that writes back what it read claims nothing.

    Raises:
        MalformedRequest: The class or source is no known word, or the metadata is too large.
    """
    choice = classes.choose(metadata)
    own = {key for key in classes.metadata_keys if key.startswith(OWN_PREFIX)}
    given = {} if metadata is None else metadata
    if any(classes.named(given[key]) is None for key in own & given.keys()):
        raise MalformedRequest("metadata: the class it names is not one of this store")
    source = given.get(SOURCE_KEY)
    if SOURCE_KEY in given and (not isinstance(source, str) or source not in _SOURCES):
        raise MalformedRequest("metadata: the source it names is not a source kind")
    return RequestClaims(
        memory_class=choice.memory_class,
        class_named=choice.named,
        source=None if source is None else _SOURCES[source],
        metadata_json=_metadata_json(metadata, own | {SOURCE_KEY}),
    )


def scope_of(ids: Ids, filters: dict[str, Any] | None) -> Scope:
    """The ids at the top level of a body, and the ids that the 2.x client puts into `filters`.

    An id that is given in both places must be the same in both.
    """
    found = {key: value for key in ENTITY_FIELDS if (value := getattr(ids, key)) is not None}
    groups: list[JsonValue] = [filters] if filters else []
    conditions: JsonValue = filters.get("AND") if filters and len(filters) == 1 else None
    if isinstance(conditions, list):
        groups = conditions
    for group in groups:
        if not isinstance(group, dict):
            raise MalformedRequest("filters: must be an object")
        refuse_others(group, ENTITY_FIELDS)
        for key, value in group.items():
            if value is None:
                continue
            if not isinstance(value, str):
                raise MalformedRequest(f"filters.{key}: must be text")
            if found.setdefault(key, value) != value:
                raise MalformedRequest(f"{key}: given twice, differently")
    for key, value in found.items():
        if name(value, key) in {"*", *DOTS}:
            raise MalformedRequest(
                f"{key}: * stands for any id, and . and .. for a place in a path"
            )
    return Scope(**found)


def _metadata_json(metadata: dict[str, Any] | None, own: set[str]) -> str | None:
    if metadata is None:
        return None
    kept = {key: value for key, value in metadata.items() if key not in own}
    if metadata and not kept:
        # The metadata contained only claims. An update that only names a class must not replace the
        # stored metadata by `{}`.
        return None
    found = canonical_json(kept)
    if len(found) > METADATA_LEN_MAX:
        raise MalformedRequest(f"metadata: at most {METADATA_LEN_MAX} characters as JSON")
    return found


NEVER_EXPIRES: Final = "9999-12-31T00:00:00Z"
"""The stored date of a memory whose expiry was removed.

No date cannot be stored instead, because an update without a date leaves the old date unchanged.
"""

_ROLES: Final = {
    "user": SourceKind.USER_INPUT,
    "assistant": SourceKind.MODEL_INFERENCE,
    "tool": SourceKind.TOOL_RESULT,
    "function": SourceKind.TOOL_RESULT,
}
# Matches the repr of a Python dict, which the 2.x client puts into the query for
# `DeleteAllMemoryOptions(filters={...})`.
_REPR_PAIR: Final = r"""'(\w{1,16})': ('[^'\\]*'|"[^"\\]*")"""
_REPR: Final = re.compile(r"\{" + _REPR_PAIR + r"(, " + _REPR_PAIR + r"){0,3}\}")


def add(call: Mem0Call, classes: ClassMap, route: str, *, needs_id: str = NEEDS_ID) -> Write:
    """The operation with one proposal for each message that has text.

    The text is stored unchanged even if `infer` asks for extraction.

    Raises:
        MalformedRequest: The body has no id (400), no text, parts that are not text, or unknown
            fields.
    """
    body = body_of(call, AddBody, IGNORED_ADD, each_judged=True)
    scope = scope_of(body, body.filters)
    if scope == Scope():
        raise MalformedRequest(needs_id, status=400)
    claims = claims_of(classes, body.metadata)
    expires_at = None
    if body.expiration_date is not None:
        expires_at = expiry_or_utc(body.expiration_date, "expiration_date")
    found = body.messages if isinstance(body.messages, list) else [body.messages]
    messages = [ChatMessage(content=one) if isinstance(one, str) else one for one in found]
    texts = [_text(message, where) for where, message in enumerate(messages)]
    proposals = [
        Proposal(
            change=ChangeKind.CREATE,
            text=text,
            metadata_json=claims.metadata_json,
            scope=scope,
            memory_class=claims.memory_class,
            class_named=claims.class_named,
            claimed_source=claims.source or _ROLES.get(message.role),
            role=message.role,
            actor=message.name,
            expires_at=expires_at,
        )
        for message, text in zip(messages, texts, strict=True)
        if text is not None
    ]
    if not proposals:
        raise MalformedRequest("messages: none of them holds text")
    skipped = tuple(where for where, text in enumerate(texts) if text is None)
    note = Note(
        route=route,
        skipped=skipped,
        inferred=body.infer is not False,
        conversation=body.infer is True
        and {"user", "assistant"} <= {message.role for message in messages},
    )
    return Write(proposals=_with_nonces(proposals, nonce_of(call)), note=note.text())


def update(call: Mem0Call, classes: ClassMap) -> Write:
    """The operation that changes text, metadata or expiry of the memory in the path.

    Raises:
        MalformedRequest: The body names nothing that can be changed.
    """
    body = body_of(call, UpdateBody, IGNORED_EVERYWHERE | {"timestamp"}, each_judged=True)
    proposal = _change(call.memory_id, body, classes)
    return Write(
        proposals=_with_nonces([proposal], nonce_of(call)), note=Note(route="update").text()
    )


def delete(call: Mem0Call) -> Write:
    """The operation that deletes the memory in the path.

    `delete_linked` has no effect, because no memory is linked to another.
    """
    refuse_others(call.query, IGNORED_QUERY)
    proposal = Proposal(change=ChangeKind.DELETE, memory_id=call.memory_id, expired=True)
    return Write(
        proposals=_with_nonces([proposal], nonce_of(call)), note=Note(route="delete").text()
    )


def batch(call: Mem0Call, classes: ClassMap) -> Write:
    """The operation of up to 1,000 updates or up to 1,000 deletes, each judged by itself.

    Raises:
        MalformedRequest: The batch is empty or too long, or an item changes nothing.
    """
    body = body_of(call, BatchBody, IGNORED_EVERYWHERE, each_judged=True)
    if call.method == "PUT":
        proposals = [_change(MemoryId(item.memory_id), item, classes) for item in body.memories]
    else:
        proposals = [
            Proposal(change=ChangeKind.DELETE, memory_id=MemoryId(item.memory_id), expired=True)
            for item in body.memories
        ]
    route = "batch.update" if call.method == "PUT" else "batch.delete"
    return Write(proposals=_with_nonces(proposals, nonce_of(call)), note=Note(route=route).text())


def delete_where(call: Mem0Call, *, needs_id: str = NEEDS_ID) -> DeleteWhere:
    """The operation that deletes all memories with the ids in the query.

    Raises:
        MalformedRequest: The query has no id (400), or has a further condition; if that were
            ignored, more would be deleted than was asked.
    """
    if call.body.strip():
        raise MalformedRequest("body: deleting by filter takes its ids from the query")
    refuse_others(call.query, {*ENTITY_FIELDS, "filters"} | IGNORED_QUERY)
    given = {key: found for key, found in call.query.items() if key in ENTITY_FIELDS}
    for key, found in _query_filters(call.query.get("filters")).items():
        if given.setdefault(key, found) != found:
            raise MalformedRequest(f"{key}: given twice, differently")
    if not given:
        raise MalformedRequest(needs_id, status=400)
    parts = tuple(equals(ENTITY_FIELDS[key], name(found, key)) for key, found in given.items())
    return DeleteWhere(
        where=AllOf(parts=parts),
        nonce=nonce_of(call),
        note=Note(route="delete.where").text(),
        expired=True,
    )


def delete_entity(call: Mem0Call, kind: str, entity: str) -> DeleteWhere:
    """The operation that deletes all memories with one id, of the kind of entity `kind`.

    Raises:
        MalformedRequest: The path names no kind of entity.
    """
    field = ENTITY_FIELDS.get(f"{kind}_id")
    if field is None:
        raise MalformedRequest("entity type: one of user, agent, app, run", status=400)
    where = Test(field=field, compare=Compare.EQ, values=(name(segment_of(entity), "entity name"),))
    return DeleteWhere(
        where=where, nonce=nonce_of(call), note=Note(route="delete.where").text(), expired=True
    )


def _change(memory_id: MemoryId, body: UpdateBody, classes: ClassMap) -> Proposal:
    if body.text is None and body.metadata is None and isinstance(body.expiration_date, UnsetType):
        raise MalformedRequest("text, metadata or expiration_date: at least one is needed")
    if body.text is not None and not body.text.strip():
        raise MalformedRequest("text: must not be empty")
    claims = claims_of(classes, body.metadata)
    expires_at = NEVER_EXPIRES if body.expiration_date is None else None
    if isinstance(body.expiration_date, str):
        expires_at = expiry_or_utc(body.expiration_date, "expiration_date")
    return Proposal(
        change=ChangeKind.UPDATE,
        memory_id=MemoryId(name(memory_id, "memory_id")),
        text=body.text,
        metadata_json=claims.metadata_json,
        memory_class=claims.memory_class,
        class_named=claims.class_named,
        claimed_source=claims.source,
        expires_at=expires_at,
        expired=True,
    )


def _text(message: ChatMessage, where: int) -> str | None:
    """The text of one message; None if the message has no text (a bare tool call)."""
    content = message.content
    if content is None or isinstance(content, str):
        return content if content and not content.isspace() else None
    texts: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, Part) and (part.type != "text" or part.text is None):
            raise MalformedRequest(f"messages[{where}].content: only parts of type text are kept")
        texts.append(part if isinstance(part, str) else part.text or "")
    joined = "\n".join(texts)
    return joined if joined and not joined.isspace() else None


def _query_filters(text: str | None) -> dict[str, str]:
    """The ids in a `filters` query parameter, given as JSON or as the 2.x client's dict repr."""
    if text is None:
        return {}
    if _REPR.fullmatch(text):
        pairs = re.findall(_REPR_PAIR, text)
        found: dict[str, object] = {key: quoted[1:-1] for key, quoted in pairs}
        if len(found) != len(pairs):
            raise MalformedRequest("filters: a key is given twice")
    else:
        decoded = decode_object(text.encode())
        if not isinstance(decoded, dict):
            raise MalformedRequest("filters: must be an object")
        found = dict(decoded)
    refuse_others(found, ENTITY_FIELDS)
    ids: dict[str, str] = {}
    for key, value in found.items():
        if not isinstance(value, str):
            raise MalformedRequest(f"filters.{key}: must be text")
        ids[key] = value
    return ids


def _with_nonces(proposals: list[Proposal], nonce: str | None) -> tuple[Proposal, ...]:
    """The proposals, each with a nonce of its own: the client's nonce, with an index if several."""
    if nonce is None:
        return tuple(proposals)
    if len(proposals) == 1:
        return (msgspec.structs.replace(proposals[0], nonce=nonce),)
    if len(nonce) + len(f"/{len(proposals)}") > NONCE_LEN_MAX:
        raise MalformedRequest("Idempotency-Key: too long for a request of several writes")
    return tuple(
        msgspec.structs.replace(proposal, nonce=f"{nonce}/{where}")
        for where, proposal in enumerate(proposals)
    )

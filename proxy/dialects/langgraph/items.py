"""Converts items of LangGraph's store to memories, and memories to items.

An item is filed under a namespace and a key. The memory's text consists of all strings of the
item's value, in order; the value itself is stored in the metadata, so that a read returns the JSON
that was put. The gate judges text and metadata, names of fields included.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from policy.model import (
    METADATA_LEN_MAX,
    NAME_LEN_MAX,
    TEXT_LEN_MAX,
    Entity,
    Memory,
    Scope,
    SourceKind,
)
from policy.query import AllOf, Compare, Field, Filter, Test
from proxy.dialects.strict_json.strict import JsonValue, canonical_json, check_text
from proxy.seams.faults import MalformedRequest

TARGET: Final = "store/items"
VALUE: Final = "value"
"""The member of a memory's metadata that contains the item's value."""
KEY_LEN_MAX: Final = 1_024
# LangGraph reserves this label, so it cannot begin a namespace of a client.
ROOT: Final = "langgraph"
_APP: Final = "app"
_ENCODER: Final = msgspec.json.Encoder()

Labels = Annotated[list[str], Meta(max_length=NAME_LEN_MAX)]


class ItemOut(msgspec.Struct, frozen=True, kw_only=True):
    """One item in an answer: the fields of `langgraph_sdk.schema.Item`, and the memory's labels."""

    namespace: list[str]
    key: str
    value: msgspec.Raw
    created_at: str
    updated_at: str
    source_kind: SourceKind
    source_origin: str | UnsetType = UNSET


class FoundItemOut(ItemOut, frozen=True, kw_only=True):
    """One item in the answer to a search; `score` is None if the search had no query."""

    score: float | None


class _Filed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The metadata of a memory that is an item."""

    key: str
    namespace: list[str]
    value: msgspec.Raw


_FILED: Final = msgspec.json.Decoder(_Filed)


def checked_namespace(labels: list[str]) -> tuple[str, ...]:
    """The namespace of an item, checked by LangGraph's own rules.

    Raises:
        MalformedRequest: The namespace has no label, an empty label, a label with a full stop, or
            the reserved root; or it is longer than a memory's id may be.
    """
    if not labels:
        raise MalformedRequest("Namespace cannot be empty.", status=400)
    if labels[0] == ROOT:
        raise MalformedRequest(f'Root label for namespace cannot be "{ROOT}".', status=400)
    return checked_labels(labels)


def checked_labels(labels: list[str]) -> tuple[str, ...]:
    """The checked labels of a namespace, or of the beginning or end of a namespace.

    Raises:
        MalformedRequest: A label is empty or has a full stop, or the labels together are too long.
    """
    for label in labels:
        check_text(label, "namespace")
        if not label:
            raise MalformedRequest("Namespace labels cannot be empty strings.", status=400)
        if "." in label:
            raise MalformedRequest("Namespace labels cannot contain periods ('.').", status=400)
    if len(_dotted(labels)) > NAME_LEN_MAX:
        most = NAME_LEN_MAX - len(ROOT) - 1
        raise MalformedRequest(f"namespace: at most {most} characters, full stops included")
    return tuple(labels)


def checked_key(key: str) -> str:
    """The checked key of an item.

    Raises:
        MalformedRequest: The key is empty, too long, or has a code point that is not allowed.
    """
    check_text(key, "key")
    if not 0 < len(key) <= KEY_LEN_MAX:
        raise MalformedRequest(f"key: 1 to {KEY_LEN_MAX} characters")
    return key


def own_key(namespace: tuple[str, ...], key: str) -> str:
    """The key of an item's memory in the store; no other dialect makes keys of this form."""
    return canonical_json([ROOT, list(namespace), key])


def scope_of(namespace: tuple[str, ...]) -> Scope:
    """The ids that an item's memory is filed under: the namespace, as the id of an app."""
    return Scope(app_id=_dotted(namespace))


def below(prefix: tuple[str, ...]) -> Filter:
    """A filter for all items whose namespace begins with these labels."""
    return AllOf(
        parts=(
            Test(field=Field.APP_ID, compare=Compare.UNDER, values=(_dotted(prefix),)),
            Test(field=Field.TARGET, compare=Compare.EQ, values=(TARGET,)),
        )
    )


def text_of(value: dict[str, Any]) -> str:
    """The text of an item: all strings of its value, or the value's JSON if it has no string.

    Raises:
        MalformedRequest: The text is longer than a memory's text may be.
    """
    text = "\n".join(_strings(value)) or canonical_json(value)
    if len(text) > TEXT_LEN_MAX:
        raise MalformedRequest(f"value: at most {TEXT_LEN_MAX} characters", status=413)
    return text


def _strings(value: JsonValue) -> list[str]:
    found: list[str] = []
    pending: list[JsonValue] = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, list):
            pending.extend(reversed(part))
        elif isinstance(part, dict):
            pending.extend(reversed(list(part.values())))
    return [one for one in found if one]


def metadata_of(namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> str:
    """The metadata of an item's memory, as canonical JSON.

    Raises:
        MalformedRequest: The metadata is larger than a memory's metadata may be.
    """
    kept = canonical_json({"key": key, "namespace": list(namespace), VALUE: value})
    if len(kept) > METADATA_LEN_MAX:
        raise MalformedRequest(
            f"value: with namespace and key at most {METADATA_LEN_MAX} characters of JSON",
            status=413,
        )
    return kept


def item_of(memory: Memory) -> ItemOut | None:
    """The item that a memory contains.

    None if another API wrote the memory, or changed its metadata so that it is no item any more.
    """
    if memory.target != TARGET or memory.metadata_json is None:
        return None
    try:
        filed = _FILED.decode(memory.metadata_json)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    # Another API may change the metadata but never the scope, so the scope proves the namespace.
    if memory.scope != scope_of(tuple(filed.namespace)):
        return None
    return ItemOut(
        namespace=filed.namespace,
        key=filed.key,
        value=filed.value,
        created_at=_moment(memory.created_at_ms),
        updated_at=_moment(memory.updated_at_ms),
        source_kind=memory.source,
        source_origin=memory.origin or UNSET,
    )


def found_item(memory: Memory, score: float | None) -> FoundItemOut | None:
    """The item that a memory contains, with its score in a search; None as in `item_of`."""
    item = item_of(memory)
    if item is None:
        return None
    return FoundItemOut(**msgspec.structs.asdict(item), score=score)


def namespace_of(entity: Entity) -> tuple[str, ...] | None:
    """The namespace that an id contains; None if the id is no namespace of this dialect."""
    root, _, labels = entity.name.partition(".")
    if entity.kind != _APP or root != ROOT or not labels:
        return None
    return tuple(labels.split("."))


def encoded(body: object) -> bytes:
    """The body of an answer, encoded as JSON."""
    return _ENCODER.encode(body)


def _dotted(labels: tuple[str, ...] | list[str]) -> str:
    return ".".join((ROOT, *labels))


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="microseconds")

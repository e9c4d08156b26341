"""An item of LangGraph's store as a memory, and back.

An item is filed by namespace and key. The memory's text is every string of the value, in the order
of the value; the value itself is kept in the metadata, so that a read returns the JSON that was
put. The gate judges both, names of fields included.
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
"""The member of an item's metadata that holds the value."""
KEY_LEN_MAX: Final = 1_024
# LangGraph reserves this label, so it cannot begin a namespace of a client.
ROOT: Final = "langgraph"
_APP: Final = "app"
_ENCODER: Final = msgspec.json.Encoder()

Labels = Annotated[list[str], Meta(max_length=NAME_LEN_MAX)]


class ItemOut(msgspec.Struct, frozen=True, kw_only=True):
    """One item in an answer, as `langgraph_sdk.schema.Item` has it, and its labels beside that."""

    namespace: list[str]
    key: str
    value: msgspec.Raw
    created_at: str
    updated_at: str
    source_kind: SourceKind
    source_origin: str | UnsetType = UNSET


class FoundItemOut(ItemOut, frozen=True, kw_only=True):
    """One item in the answer to a search; `score` is None where nothing was ranked."""

    score: float | None


class _Filed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The metadata of an item."""

    key: str
    namespace: list[str]
    value: msgspec.Raw


_FILED: Final = msgspec.json.Decoder(_Filed)


def checked_namespace(labels: list[str]) -> tuple[str, ...]:
    """The namespace of an item, by LangGraph's own rules.

    Raises:
        MalformedRequest: It has no label, an empty one, one with a full stop, or the reserved root;
            or it is longer than a store keeps.
    """
    if not labels:
        raise MalformedRequest("Namespace cannot be empty.", status=400)
    if labels[0] == ROOT:
        raise MalformedRequest(f'Root label for namespace cannot be "{ROOT}".', status=400)
    return checked_labels(labels)


def checked_labels(labels: list[str]) -> tuple[str, ...]:
    """Labels of a namespace or of a part of one.

    Raises:
        MalformedRequest: A label is empty or has a full stop, or they are too long together.
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
    """The key of an item.

    Raises:
        MalformedRequest: It is empty, too long, or has a code point that is not allowed.
    """
    check_text(key, "key")
    if not 0 < len(key) <= KEY_LEN_MAX:
        raise MalformedRequest(f"key: 1 to {KEY_LEN_MAX} characters")
    return key


def own_key(namespace: tuple[str, ...], key: str) -> str:
    """The key under which the store finds an item; it is of this dialect alone."""
    return canonical_json([ROOT, list(namespace), key])


def scope_of(namespace: tuple[str, ...]) -> Scope:
    """The ids that an item is filed under: its namespace, so that the catalogue finds it."""
    return Scope(app_id=_dotted(namespace))


def below(prefix: tuple[str, ...]) -> Filter:
    """A filter for every item whose namespace begins with these labels."""
    return AllOf(
        parts=(
            Test(field=Field.APP_ID, compare=Compare.UNDER, values=(_dotted(prefix),)),
            Test(field=Field.TARGET, compare=Compare.EQ, values=(TARGET,)),
        )
    )


def text_of(value: dict[str, Any]) -> str:
    """The text of an item: every string of its value; its JSON if it has none.

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
    """The metadata of an item, as canonical JSON.

    Raises:
        MalformedRequest: It is larger than a memory's metadata may be.
    """
    kept = canonical_json({"key": key, "namespace": list(namespace), VALUE: value})
    if len(kept) > METADATA_LEN_MAX:
        raise MalformedRequest(
            f"value: with namespace and key at most {METADATA_LEN_MAX} characters of JSON",
            status=413,
        )
    return kept


def item_of(memory: Memory) -> ItemOut | None:
    """The item that a memory is.

    None for a memory of another API, and for an item whose metadata another API changed.
    """
    if memory.target != TARGET or memory.metadata_json is None:
        return None
    try:
        filed = _FILED.decode(memory.metadata_json)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    # Another API may change the metadata, and never the scope.
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
    """The item that a memory is, in the answer to a search; None as in `item_of`."""
    item = item_of(memory)
    if item is None:
        return None
    return FoundItemOut(**msgspec.structs.asdict(item), score=score)


def namespace_of(entity: Entity) -> tuple[str, ...] | None:
    """The namespace that an id stands for; None for an id of something else."""
    root, _, labels = entity.name.partition(".")
    if entity.kind != _APP or root != ROOT or not labels:
        return None
    return tuple(labels.split("."))


def encoded(body: object) -> bytes:
    """The JSON of an answer."""
    return _ENCODER.encode(body)


def _dotted(labels: tuple[str, ...] | list[str]) -> str:
    return ".".join((ROOT, *labels))


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="microseconds")

"""What a Mem0 write claims about itself: ids, class, source."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from policy.model import METADATA_LEN_MAX, MemoryClass, Scope, SourceKind
from policy.ruleset import ClassMap
from proxy.dialects.mem0.bodies import Ids
from proxy.dialects.mem0.calls import name, refuse_others
from proxy.dialects.mem0.filters import ENTITY_FIELDS
from proxy.dialects.strict_json.strict import JsonValue, canonical_json
from proxy.seams.faults import MalformedRequest

OWN_PREFIX: Final = "mnemogate_"
SOURCE_KEY: Final = "mnemogate_source"

_SOURCES: Final = {source.value: source for source in SourceKind}


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What one request claims for each of its writes: ids, class and source."""

    memory_class: MemoryClass
    class_named: bool
    source: SourceKind | None
    metadata_json: str | None


def claims_of(classes: ClassMap, metadata: dict[str, Any] | None) -> Claims:
    """A write's class, its claimed source, and its other metadata.

    `mnemogate_source` and `mnemogate_class` are taken out of the metadata: the digest covers them
    as claims, and a stored copy would look like a label that the gate gave. Reads show the true
    labels beside the metadata, so writing back what was read claims nothing.

    Raises:
        MalformedRequest: An unknown word for a class or a source, or oversize metadata.
    """
    choice = classes.choose(metadata)
    own = {key for key in classes.metadata_keys if key.startswith(OWN_PREFIX)}
    given = {} if metadata is None else metadata
    if any(classes.named(given[key]) is None for key in own & given.keys()):
        raise MalformedRequest("metadata: the class it names is not one of this store")
    source = given.get(SOURCE_KEY)
    if SOURCE_KEY in given and (not isinstance(source, str) or source not in _SOURCES):
        raise MalformedRequest("metadata: the source it names is not a source kind")
    return Claims(
        memory_class=choice.memory_class,
        class_named=choice.named,
        source=None if source is None else _SOURCES[source],
        metadata_json=_metadata_json(metadata, own | {SOURCE_KEY}),
    )


def scope_of(ids: Ids, filters: dict[str, Any] | None) -> Scope:
    """The ids at the top level of a body, and those that the 2.x client moves into `filters`.

    If both name an id, the two must agree.
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
        if name(value, key) == "*":
            raise MalformedRequest(f"{key}: * stands for any id, and cannot be one")
    return Scope(**found)


def _metadata_json(metadata: dict[str, Any] | None, own: set[str]) -> str | None:
    if metadata is None:
        return None
    kept = {key: value for key, value in metadata.items() if key not in own}
    if metadata and not kept:
        # The metadata held nothing but claims. An update that only names a class must not replace
        # the stored metadata by `{}`.
        return None
    found = canonical_json(kept)
    if len(found) > METADATA_LEN_MAX:
        raise MalformedRequest(f"metadata: at most {METADATA_LEN_MAX} characters as JSON")
    return found

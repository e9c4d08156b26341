"""Store mode: the plans of the tools that read, search and delete, and of `create_memory`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import TEXT_LEN_MAX, ChangeKind, MemoryId
from proxy.dialects.mcp.store.graph import RelationMark
from proxy.dialects.mcp.store.steps import (
    Plan,
    Step,
    answered,
    as_json,
    deleted_items,
    deletion,
    find_in_graph,
    is_gone,
    read_graph,
    shown_graph,
    written_items,
)
from proxy.dialects.mcp.store.tools import LIMIT, LIMIT_MAX, QUERY_LEN_MAX, Object
from proxy.dialects.strict_json.strict import check_text, convert
from proxy.seams.operation import (
    FindInGraph,
    KnownEntity,
    Proposal,
    Search,
    SearchResult,
    WrittenItem,
)

GRAPH_URI: Final = "memory://knowledge-graph"


class _Relations(msgspec.Struct, frozen=True, kw_only=True):
    relations: tuple[RelationMark, ...]


class _Names(msgspec.Struct, frozen=True, kw_only=True):
    entity_names: tuple[str, ...] = msgspec.field(name="entityNames")


class _Deletion(msgspec.Struct, frozen=True, kw_only=True):
    entity_name: str = msgspec.field(name="entityName")
    observations: tuple[str, ...]


class _Deletions(msgspec.Struct, frozen=True, kw_only=True):
    deletions: tuple[_Deletion, ...]


class _Opened(msgspec.Struct, frozen=True, kw_only=True):
    names: tuple[str, ...]


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    query: Annotated[str, Meta(max_length=QUERY_LEN_MAX)]


class _Searched(msgspec.Struct, frozen=True, kw_only=True):
    query: Annotated[str, Meta(min_length=1, max_length=QUERY_LEN_MAX)]
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = LIMIT


class _Remembered(msgspec.Struct, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=TEXT_LEN_MAX)]


class _Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[str, Meta(min_length=1, max_length=64)]


def _delete_entities(arguments: Object) -> Plan:
    names = tuple(dict.fromkeys(convert(arguments, _Names).entity_names))
    found = yield from find_in_graph(FindInGraph(names=names, hanging=True))
    asked = yield from _entities_taken_away(found.entities)
    return deletion("Entities deleted successfully", asked)


def _entities_taken_away(entities: Sequence[KnownEntity]) -> Step[tuple[WrittenItem, ...]]:
    """Delete entities with their observations and relations; the entity last, or not at all.

    First the observation or relation is deleted that the fewest principals may delete. If that is
    refused, nothing else is deleted; if any later one is refused, the entity is not deleted.
    Otherwise an agent could remove an entity that a person described, and create the entity again
    without the person's words.
    """
    written: dict[MemoryId, WrittenItem] = {}
    stages: tuple[Callable[[KnownEntity], tuple[MemoryId, ...]], ...] = (
        lambda one: one.hanging[:1],
        lambda one: one.hanging[1:],
        lambda one: one.memory_ids,
    )
    for stage in stages:
        able = [
            one
            for one in entities
            if all(is_gone(written[name]) for name in one.hanging if name in written)
        ]
        due = dict.fromkeys(name for one in able for name in stage(one) if name not in written)
        items = yield from deleted_items([*due])
        written.update(zip(due, items, strict=True))
    return tuple(written.values())


def _delete_observations(arguments: Object) -> Plan:
    given = convert(arguments, _Deletions).deletions
    texts = tuple((one.entity_name, text) for one in given for text in one.observations)
    found = yield from find_in_graph(FindInGraph(texts=texts))
    written = yield from deleted_items(_each(found.texts))
    return deletion("Observations deleted successfully", written)


def _delete_relations(arguments: Object) -> Plan:
    given = convert(arguments, _Relations).relations
    asked = FindInGraph(relations=tuple(one.plain() for one in given))
    found = yield from find_in_graph(asked)
    written = yield from deleted_items(_each(found.relations))
    return deletion("Relations deleted successfully", written)


def _each(found: Iterable[tuple[MemoryId, ...]]) -> list[MemoryId]:
    return [*dict.fromkeys(memory_id for one in found for memory_id in one)]


def _read_graph(_arguments: Object) -> Plan:
    shown = shown_graph((yield from read_graph()))
    return answered(shown, shown, ())


def _search_nodes(arguments: Object) -> Plan:
    query = convert(arguments, _Asked).query
    shown = shown_graph((yield from read_graph(query=query)))
    return answered(shown, shown, ())


def _open_nodes(arguments: Object) -> Plan:
    names = convert(arguments, _Opened).names
    shown = shown_graph((yield from read_graph(names)))
    return answered(shown, shown, ())


def graph_resource() -> Plan:
    """A plan that reads the whole graph and returns it as an MCP resource."""
    graph = yield from read_graph()
    text = as_json(shown_graph(graph))
    return {"contents": [{"uri": GRAPH_URI, "mimeType": "application/json", "text": text}]}


def _create_memory(arguments: Object) -> Plan:
    text = convert(arguments, _Remembered).text
    written = yield from written_items([Proposal(change=ChangeKind.CREATE, text=text)])
    [item] = written
    shown: Object = {"id": item.memory_id or "", "text": text}
    return answered(shown, shown, written)


def _search_memories(arguments: Object) -> Plan:
    asked = convert(arguments, _Searched)
    check_text(asked.query, "arguments.query")
    result = yield Search(query=asked.query, limit=asked.limit)
    hits = result.hits if isinstance(result, SearchResult) else ()
    shown: Object = {
        "results": [
            {
                "id": hit.memory.memory_id,
                "text": hit.memory.text,
                "score": round(hit.score, 4),
            }
            for hit in hits
        ]
    }
    return answered(shown, shown, ())


def _delete_memory(arguments: Object) -> Plan:
    memory_id = MemoryId(convert(arguments, _Forgotten).id)
    found = yield from find_in_graph(FindInGraph(memory_ids=(memory_id,), hanging=True))
    if found.entities:
        written = yield from _entities_taken_away(found.entities)
    else:
        written = yield from deleted_items([memory_id])
    return deletion("Memory deleted successfully", written)


PLANS: Final[dict[str, Callable[[Object], Plan]]] = {
    "delete_entities": _delete_entities,
    "delete_observations": _delete_observations,
    "delete_relations": _delete_relations,
    "read_graph": _read_graph,
    "search_nodes": _search_nodes,
    "open_nodes": _open_nodes,
    "create_memory": _create_memory,
    "search_memories": _search_memories,
    "delete_memory": _delete_memory,
}
"""By the name of the tool: what needs no tool map."""

"""The plans of store mode that read, find, or take something away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import TEXT_LEN_MAX, ChangeKind, MemoryId
from proxy.dialects.mcp.store.graph import RelationMark  # noqa: TC001 - msgspec reads the annotation
from proxy.dialects.mcp.store.steps import (
    Plan,
    answered,
    as_json,
    deleted_items,
    deletion,
    is_gone,
    whole_graph,
    written_items,
)
from proxy.dialects.mcp.store.tools import LIMIT, LIMIT_MAX, QUERY_LEN_MAX, Object
from proxy.dialects.strict_json.strict import check_text, convert
from proxy.seams.operation import Found, Proposal, Search

if TYPE_CHECKING:
    from collections.abc import Callable

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
    names = {*convert(arguments, _Names).entity_names}
    graph = yield from whole_graph()
    around = graph.around(names)
    # The entity first: where it has to stay, so does what is known of it.
    found = [*around.entities.values()]
    written = yield from deleted_items([entity.memory_id for entity in found])
    gone = [entity for entity, item in zip(found, written, strict=True) if is_gone(item)]
    kept = {entity.name for entity, item in zip(found, written, strict=True) if not is_gone(item)}
    rest = [memory_id for entity in gone for memory_id in entity.observations.values()]
    rest.extend(
        memory_id
        for relation, memory_id in around.relations.items()
        if {relation.start, relation.end} & (names - kept)
    )
    also = yield from deleted_items(rest)
    return deletion("Entities deleted successfully", (*written, *also))


def _delete_observations(arguments: Object) -> Plan:
    given = convert(arguments, _Deletions).deletions
    graph = yield from whole_graph()
    found = [
        graph.entities[one.entity_name].observations[text]
        for one in given
        if one.entity_name in graph.entities
        for text in one.observations
        if text in graph.entities[one.entity_name].observations
    ]
    written = yield from deleted_items([*dict.fromkeys(found)])
    return deletion("Observations deleted successfully", written)


def _delete_relations(arguments: Object) -> Plan:
    given = convert(arguments, _Relations).relations
    graph = yield from whole_graph()
    found = [graph.relations[relation] for relation in given if relation in graph.relations]
    written = yield from deleted_items([*dict.fromkeys(found)])
    return deletion("Relations deleted successfully", written)


def _read_graph(_arguments: Object) -> Plan:
    graph = yield from whole_graph()
    return answered(graph.shown(), graph.shown(), ())


def _search_nodes(arguments: Object) -> Plan:
    query = convert(arguments, _Asked).query
    graph = yield from whole_graph()
    shown = graph.matching(query).shown()
    return answered(shown, shown, ())


def _open_nodes(arguments: Object) -> Plan:
    names = {*convert(arguments, _Opened).names}
    graph = yield from whole_graph()
    shown = graph.around(names).shown()
    return answered(shown, shown, ())


def graph_resource() -> Plan:
    """The whole graph as a resource."""
    graph = yield from whole_graph()
    text = as_json(graph.shown())
    return {"contents": [{"uri": GRAPH_URI, "mimeType": "application/json", "text": text}]}


def _create_memory(arguments: Object) -> Plan:
    text = convert(arguments, _Remembered).text
    check_text(text, "arguments.text")
    written = yield from written_items([Proposal(change=ChangeKind.CREATE, text=text)])
    [item] = written
    shown: Object = {"id": item.memory_id or "", "text": text}
    return answered(shown, shown, written)


def _search_memories(arguments: Object) -> Plan:
    asked = convert(arguments, _Searched)
    check_text(asked.query, "arguments.query")
    result = yield Search(query=asked.query, limit=asked.limit)
    hits = result.hits if isinstance(result, Found) else ()
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

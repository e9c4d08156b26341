"""Steps that the plans of store mode share: reading the graph, writing, and reporting outcomes."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec

from policy.model import ChangeKind, MemoryId
from proxy.dialects.mcp.results import partly_done, refused
from proxy.dialects.mcp.store.tools import Object
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import (
    BATCH_LEN_MAX,
    FindInGraph,
    GraphLookupResult,
    GraphOperation,
    GraphResult,
    Operation,
    Proposal,
    ReadGraph,
    Relation,
    Result,
    ShownGraph,
    Write,
    WriteResult,
    WrittenItem,
)

Plan: TypeAlias = Generator[Operation | GraphOperation, Result | GraphResult, Object]
_T = TypeVar("_T")
Step: TypeAlias = Generator[Operation | GraphOperation, Result | GraphResult, _T]

ADMITTED: Final = "admit"
_GONE: Final = "missing"
NOT_WITHOUT: Final = "What belongs to something that was not stored was not stored either."
_ANOTHER: Final = "the store gave another answer than was asked for"


def read_graph(names: tuple[str, ...] | None = None, query: str | None = None) -> Step[ShownGraph]:
    """A step that reads the graph: the whole graph, or the part that names or a query select.

    Raises:
        MalformedRequest: The graph is larger than any answer may be.
    """
    result = yield ReadGraph(names=names, query=query)
    if not isinstance(result, ShownGraph):
        raise MalformedRequest(_ANOTHER)
    return result


def find_in_graph(asked: FindInGraph) -> Step[GraphLookupResult]:
    """A step that asks which parts of the graph exist, for a call that will change it."""
    result = yield asked
    if not isinstance(result, GraphLookupResult):
        raise MalformedRequest(_ANOTHER)
    return result


def shown_graph(graph: ShownGraph) -> Object:
    """The graph in the form in which a tool's result shows it."""
    return {
        "entities": [
            {
                "name": entity.name,
                "entityType": entity.entity_type,
                "observations": [*entity.observations],
            }
            for entity in graph.entities
        ],
        "relations": [shown_relation(relation) for relation in graph.relations],
    }


def shown_relation(relation: Relation) -> Object:
    """A relation in the form of the tools' results: an object with `from`, `to`, `relationType`."""
    start, end, relation_type = relation
    return {"from": start, "to": end, "relationType": relation_type}


def written_items(proposals: Sequence[Proposal]) -> Step[tuple[WrittenItem, ...]]:
    """A step that writes proposals, and returns the outcome of each, in order."""
    items: list[WrittenItem] = []
    for start in range(0, len(proposals), BATCH_LEN_MAX):
        result = yield Write(proposals=tuple(proposals[start : start + BATCH_LEN_MAX]))
        if not isinstance(result, WriteResult):
            raise MalformedRequest(_ANOTHER)
        items.extend(result.items)
    return tuple(items)


def deleted_items(memory_ids: Sequence[MemoryId]) -> Step[tuple[WrittenItem, ...]]:
    """A step that deletes memories, and returns the outcome of each delete, in order."""
    return written_items(
        [Proposal(change=ChangeKind.DELETE, memory_id=memory_id) for memory_id in memory_ids]
    )


def is_gone(item: WrittenItem) -> bool:
    """Whether a memory is gone after a delete: deleted now, or before."""
    return item.decision in {ADMITTED, _GONE}


def _notes(written: Iterable[WrittenItem]) -> list[str]:
    return [item.observation for item in written if item.decision != ADMITTED]


def answered(
    structured: Object, told: JsonValue, written: Sequence[WrittenItem], dropped: int = 0
) -> Object:
    """A tool's result, with a note on refused items; a refusal if all items were refused.

    `dropped` is the number of observations that were not proposed, because their entity was
    refused.
    """
    notes = [*_notes(written), *[NOT_WITHOUT] * dropped]
    number = len(written) + dropped
    if notes and len(notes) == number:
        return refused(notes, stateless=False)
    result: Object = {
        "content": [{"type": "text", "text": as_json(told)}],
        "structuredContent": structured,
    }
    return partly_done(result, notes, number) if notes else result


def deletion(done: str, written: Sequence[WrittenItem]) -> Object:
    """The result of a delete: success, or a refusal with a note on each memory that is left."""
    notes = [item.observation for item in written if not is_gone(item)]
    if not notes:
        return {
            "content": [{"type": "text", "text": done}],
            "structuredContent": {"success": True, "message": done},
        }
    return refused([f"{len(notes)} of {len(written)} were not deleted.", *notes], stateless=False)


def as_json(value: JsonValue) -> str:
    """A value as JSON text, formatted as the original memory server formats it."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8")

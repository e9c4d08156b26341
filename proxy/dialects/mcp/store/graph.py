"""The knowledge graph of store mode, kept as memories: entities, observations, relations, one each.

An observation is tied to its entity's memory, not to the name: what was said of an entity that was
deleted or quarantined does not come back with another of the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from policy.query import Compare, Field, Test
from proxy.dialects.strict_json.strict import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.model import Memory, MemoryClass, MemoryId
    from proxy.dialects.mcp.store.tools import Object

ENTITIES: Final = "graph/entities"
OBSERVATIONS: Final = "graph/observations"
RELATIONS: Final = "graph/relations"
WHOLE_GRAPH: Final = Test(
    field=Field.TARGET, compare=Compare.IN, values=(ENTITIES, OBSERVATIONS, RELATIONS)
)


class EntityMark(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of an entity's memory."""

    name: str
    entity_type: str = msgspec.field(name="entityType")


class ObservationMark(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of an observation's memory; the name is for people who review it."""

    entity_id: str = msgspec.field(name="entityId")
    entity_name: str = msgspec.field(name="entityName")


class RelationMark(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a relation's memory, and a relation as the tools write it."""

    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")
    relation_type: str = msgspec.field(name="relationType")

    def text(self) -> str:
        """What a search finds."""
        return f"{self.start} {self.relation_type} {self.end}"


Mark = EntityMark | ObservationMark | RelationMark


class Entity(msgspec.Struct, kw_only=True):
    """One entity; its observations in the order in which they were made, each with its memory."""

    name: str
    entity_type: str
    memory_id: MemoryId
    memory_class: MemoryClass
    observations: dict[str, MemoryId]

    def shown(self) -> Object:
        """As the tools show it."""
        return {
            "name": self.name,
            "entityType": self.entity_type,
            "observations": [*self.observations],
        }


class Graph(msgspec.Struct, kw_only=True):
    """All that is live, in the order in which it was made."""

    entities: dict[str, Entity]
    relations: dict[RelationMark, MemoryId]

    def shown(self) -> Object:
        """As `read_graph` shows it."""
        return {
            "entities": [entity.shown() for entity in self.entities.values()],
            "relations": [shown_relation(relation) for relation in self.relations],
        }

    def around(self, names: set[str]) -> Graph:
        """These entities, and every relation that touches one of them."""
        return Graph(
            entities={name: found for name, found in self.entities.items() if name in names},
            relations={
                relation: memory_id
                for relation, memory_id in self.relations.items()
                if relation.start in names or relation.end in names
            },
        )

    def matching(self, query: str) -> Graph:
        """The entities in whose name, type or observations the query stands, in any case."""
        wanted = query.lower()
        return self.around(
            {
                name
                for name, entity in self.entities.items()
                if any(
                    wanted in text.lower()
                    for text in (name, entity.entity_type, *entity.observations)
                )
            }
        )


def shown_relation(relation: RelationMark) -> Object:
    """As the tools show it."""
    return {
        "from": relation.start,
        "to": relation.end,
        "relationType": relation.relation_type,
    }


def marked(mark: Mark) -> str:
    """Canonical metadata."""
    return canonical_json(msgspec.to_builtins(mark))


def graph_of(memories: Iterable[Memory]) -> Graph:
    """The graph that these memories are, whatever order they come in.

    A memory that somebody filed among them with other metadata is not part of it.
    """
    graph = Graph(entities={}, relations={})
    by_id: dict[str, Entity] = {}
    observed: list[tuple[ObservationMark, Memory]] = []
    for memory in sorted(memories, key=lambda memory: memory.version):
        mark = _mark(memory)
        if isinstance(mark, EntityMark):
            entity = Entity(
                name=mark.name,
                entity_type=mark.entity_type,
                memory_id=memory.memory_id,
                memory_class=memory.memory_class,
                observations={},
            )
            # Two that came at once: what is said of either is said of the first.
            by_id[memory.memory_id] = graph.entities.setdefault(mark.name, entity)
        elif isinstance(mark, RelationMark):
            graph.relations.setdefault(mark, memory.memory_id)
        elif mark is not None:
            observed.append((mark, memory))
    for about, memory in observed:
        found = by_id.get(about.entity_id)
        if found is not None:
            found.observations.setdefault(memory.text, memory.memory_id)
    return graph


_MARKS: Final[dict[str, type[Mark]]] = {
    ENTITIES: EntityMark,
    OBSERVATIONS: ObservationMark,
    RELATIONS: RelationMark,
}


def _mark(memory: Memory) -> Mark | None:
    kind = _MARKS.get(memory.target)
    if kind is None or memory.metadata_json is None:
        return None
    try:
        return msgspec.json.decode(memory.metadata_json, type=kind)
    except (msgspec.MsgspecError, UnicodeError):
        return None

"""The knowledge graph of store mode: each entity, observation and relation is one memory.

An observation contains the id of its entity's memory. If that memory is gone, the observation is
still shown under the entity's name, so that no one can hide a person's words by removing the
entity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from policy.model import Memory, MemoryId
from policy.query import Compare, Field, Test
from proxy.dialects.strict_json.strict import canonical_json
from proxy.seams.operation import (
    FindInGraph,
    GraphEntity,
    GraphLookupResult,
    KnownEntity,
    Relation,
    ShownGraph,
)

ENTITIES: Final = "graph/entities"
OBSERVATIONS: Final = "graph/observations"
RELATIONS: Final = "graph/relations"
WHOLE_GRAPH: Final = Test(
    field=Field.TARGET, compare=Compare.IN, values=(ENTITIES, OBSERVATIONS, RELATIONS)
)
UNKNOWN_TYPE: Final = "unknown"
"""The type that is shown for an entity whose memory is gone, of which observations are left."""


class EntityMark(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of an entity's memory, in the knowledge graph."""

    name: str
    entity_type: str = msgspec.field(name="entityType")


class ObservationMark(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of an observation's memory.

    `entity_name` is used if the entity's memory is gone.
    """

    entity_id: str = msgspec.field(name="entityId")
    entity_name: str = msgspec.field(name="entityName")


class RelationMark(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a relation's memory.

    Relations in the arguments and results of the tools have the same form.
    """

    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")
    relation_type: str = msgspec.field(name="relationType")

    def text(self) -> str:
        """The text by which a search finds the relation."""
        return f"{self.start} {self.relation_type} {self.end}"

    def plain(self) -> Relation:
        """The relation in the form that operations contain: start, end, type."""
        return (self.start, self.end, self.relation_type)


Mark = EntityMark | ObservationMark | RelationMark


def marked(mark: Mark) -> str:
    """The metadata of an entity's, observation's or relation's memory, as canonical JSON."""
    return canonical_json(msgspec.to_builtins(mark))


class Orphan(msgspec.Struct, frozen=True, kw_only=True):
    """A live observation whose entity's memory is gone."""

    memory_id: MemoryId
    entity_name: str


class GraphAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a read of the graph, and the memories that the answer shows."""

    answer: ShownGraph
    memories: tuple[Memory, ...]


# Memories keyed by ordinal (the store's number for one version of a memory).
_Memories = dict[int, "Memory"]


class GraphIndex:
    """An index of one graph's live memories; the cost of an update does not grow with the graph.

    Not for concurrent use. An ordinal is the store's number for one version of a memory. Each
    version is added once, and dropped when the version is no longer live.
    """

    def __init__(self) -> None:
        self._marks: dict[int, tuple[Mark, Memory]] = {}
        self._made: defaultdict[str, _Memories] = defaultdict(dict)
        self._name_of: dict[str, str] = {}
        # Observations keyed by the entity id and name that they contain, and then by text.
        self._said: defaultdict[tuple[str, str], dict[str, _Memories]] = defaultdict(dict)
        self._names_said: defaultdict[str, set[str]] = defaultdict(set)
        self._ids_said: defaultdict[str, set[str]] = defaultdict(set)
        self._relations: defaultdict[Relation, _Memories] = defaultdict(dict)
        self._touching: defaultdict[str, set[Relation]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._marks)

    # ---- index updates, in step with the store ---------------------------------------------------

    def take(self, ordinal: int, memory: Memory) -> None:
        """Add a live memory; ignore a memory that is no entity, observation or relation."""
        mark = _mark(memory)
        if mark is None:
            return
        self._marks[ordinal] = (mark, memory)
        match mark:
            case EntityMark():
                self._made[mark.name][ordinal] = memory
                self._name_of[memory.memory_id] = mark.name
            case ObservationMark():
                said = self._said[mark.entity_id, mark.entity_name]
                said.setdefault(memory.text, {})[ordinal] = memory
                self._names_said[mark.entity_id].add(mark.entity_name)
                self._ids_said[mark.entity_name].add(mark.entity_id)
            case RelationMark():
                relation = mark.plain()
                self._relations[relation][ordinal] = memory
                for name in (mark.start, mark.end):
                    self._touching[name].add(relation)

    def drop(self, ordinal: int) -> None:
        """Remove a version of a memory that is no longer live."""
        taken = self._marks.pop(ordinal, None)
        if taken is None:
            return
        mark, memory = taken
        match mark:
            case EntityMark():
                _forget(self._made, mark.name, ordinal)
                self._name_of.pop(memory.memory_id, None)
            case ObservationMark():
                self._drop_said(mark, memory.text, ordinal)
            case RelationMark():
                relation = mark.plain()
                if _forget(self._relations, relation, ordinal):
                    for name in (mark.start, mark.end):
                        _discard(self._touching, name, relation)

    def _drop_said(self, mark: ObservationMark, text: str, ordinal: int) -> None:
        key = (mark.entity_id, mark.entity_name)
        said = self._said[key]
        _forget(said, text, ordinal)
        if not said:
            del self._said[key]
            _discard(self._names_said, mark.entity_id, mark.entity_name)
            _discard(self._ids_said, mark.entity_name, mark.entity_id)

    # ---- reads of the graph ----------------------------------------------------------------------

    def read(self, names: Iterable[str] | None, query: str | None) -> GraphAnswer:
        """The entities with these names, or those whose name, type or observations contain `query`.

        Relations that begin or end at one of these entities are included. Without names and query,
        the answer is the whole graph.
        """
        if names is not None:
            return self._shown({name for name in names if self._is_there(name)})
        everything = {name for name in (*self._made, *self._ids_said) if self._is_there(name)}
        if query is None:
            return self._shown(everything, all_relations=True)
        wanted = query.lower()
        return self._shown({name for name in everything if self._says(name, wanted)})

    def find(self, asked: FindInGraph) -> GraphLookupResult:
        """Look up entities, texts and relations; return the memory ids of those that exist."""
        names = dict.fromkeys(asked.names)
        names.update((self._name_of[one], None) for one in asked.memory_ids if one in self._name_of)
        entities = [self._known(name, hanging=asked.hanging) for name in names]
        return GraphLookupResult(
            entities=tuple(one for one in entities if one.memory_ids or one.hanging),
            texts=tuple(
                _ids_of(one for said in self._groups(name) for one in said.get(text, {}).values())
                for name, text in asked.texts
            ),
            relations=tuple(
                _ids_of(self._relations.get(relation, {}).values()) for relation in asked.relations
            ),
        )

    def orphans(self) -> Iterator[Orphan]:
        """Yield every observation whose entity's memory is gone."""
        for (entity_id, name), said in self._said.items():
            if entity_id not in self._name_of:
                for memories in said.values():
                    for memory in memories.values():
                        yield Orphan(memory_id=memory.memory_id, entity_name=name)

    def _groups(self, name: str) -> Iterator[dict[str, _Memories]]:
        """The observations of an entity's live memories, and those of gone entities of its name."""
        for memory in self._made.get(name, {}).values():
            for called in self._names_said.get(memory.memory_id, ()):
                yield self._said[memory.memory_id, called]
        for entity_id in self._ids_said.get(name, ()):
            if entity_id not in self._name_of:
                yield self._said[entity_id, name]

    def _is_there(self, name: str) -> bool:
        return name in self._made or any(True for _ in self._groups(name))

    def _says(self, name: str, wanted: str) -> bool:
        if wanted in name.lower() or wanted in self._type_of(name).lower():
            return True
        return any(wanted in text.lower() for said in self._groups(name) for text in said)

    def _type_of(self, name: str) -> str:
        # If two memories are of entities with this name, the type of the older memory is shown.
        made = self._made.get(name)
        mark = self._marks[min(made)][0] if made else None
        return mark.entity_type if isinstance(mark, EntityMark) else UNKNOWN_TYPE

    def _known(self, name: str, *, hanging: bool) -> KnownEntity:
        made = [*self._made.get(name, {}).values()]
        return KnownEntity(
            name=name,
            memory_ids=_ids_of(sorted(made, key=_hardest)),
            hanging=self._hanging(name) if hanging else (),
        )

    def _hanging(self, name: str) -> tuple[MemoryId, ...]:
        found = {
            ordinal: memory
            for said in self._groups(name)
            for memories in said.values()
            for ordinal, memory in memories.items()
        }
        for relation in self._touching.get(name, ()):
            found.update(self._relations[relation])
        return _ids_of(sorted(found.values(), key=_hardest))

    def _shown(self, names: set[str], *, all_relations: bool = False) -> GraphAnswer:
        memories: list[Memory] = []
        entities: list[tuple[int, GraphEntity]] = []
        for name in names:
            made = [*self._made.get(name, {}).values()]
            said = [one for group in self._groups(name) for one in group.items()]
            # Observations are shown in the order in which they were made, a repeated text at its
            # first place.
            first = sorted((min(found), text) for text, found in said)
            memories += made
            memories += (one for _, found in said for one in found.values())
            shown = GraphEntity(
                name=name,
                entity_type=self._type_of(name),
                observations=tuple(dict.fromkeys(text for _, text in first)),
            )
            entities.append((min(self._made.get(name) or (one for one, _ in first)), shown))
        touching: Iterable[Relation] = self._relations
        if not all_relations:
            touching = {one for name in names for one in self._touching.get(name, ())}
        relations = sorted((min(self._relations[one]), one) for one in touching)
        memories += (memory for _, one in relations for memory in self._relations[one].values())
        answer = ShownGraph(
            entities=tuple(entity for _, entity in sorted(entities, key=lambda one: one[0])),
            relations=tuple(relation for _, relation in relations),
        )
        return GraphAnswer(answer=answer, memories=tuple(memories))


def _hardest(memory: Memory) -> tuple[int, int]:
    """A sort key: memories that the fewest principals may delete come first."""
    return (-memory.source.trust, -memory.memory_class.power)


def _ids_of(memories: Iterable[Memory]) -> tuple[MemoryId, ...]:
    return tuple(memory.memory_id for memory in memories)


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _forget(kept: dict[_Key, _Memories], key: _Key, ordinal: int) -> bool:
    """Remove one memory of a key; return True if the key has no other memory and is removed."""
    memories = kept[key]
    memories.pop(ordinal, None)
    if memories:
        return False
    del kept[key]
    return True


def _discard(kept: dict[_Key, set[_Value]], key: _Key, value: _Value) -> None:
    values = kept[key]
    values.discard(value)
    if not values:
        del kept[key]


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

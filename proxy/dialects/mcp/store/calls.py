"""Store mode: plans that carry out a tool call as operations on the sidecar's own store.

A plan is a generator: it yields operations, is sent the result of each, and returns the result of
the tool. A plan decides nothing: each entity, observation, relation and delete is a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from policy.model import ChangeKind, MemoryId
from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.maps import ToolMap
from proxy.dialects.mcp.results import refused
from proxy.dialects.mcp.store.graph import (
    ENTITIES,
    OBSERVATIONS,
    RELATIONS,
    EntityMark,
    ObservationMark,
    RelationMark,
    marked,
)
from proxy.dialects.mcp.store.plans import PLANS
from proxy.dialects.mcp.store.steps import (
    ADMITTED,
    Plan,
    Step,
    answered,
    find_in_graph,
    shown_relation,
    written_items,
)
from proxy.dialects.mcp.store.tools import Object
from proxy.dialects.strict_json.strict import JsonValue, convert
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import FindInGraph, Proposal, WrittenItem

NO_ENTITY: Final = "One of these entities does not exist. Create it first; nothing was stored."


class _NewEntity(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    entity_type: str = msgspec.field(name="entityType")
    observations: tuple[str, ...]


class _Entities(msgspec.Struct, frozen=True, kw_only=True):
    entities: tuple[_NewEntity, ...]


class _Relations(msgspec.Struct, frozen=True, kw_only=True):
    relations: tuple[RelationMark, ...]


class _Added(msgspec.Struct, frozen=True, kw_only=True):
    entity_name: str = msgspec.field(name="entityName")
    contents: tuple[str, ...]


class _Additions(msgspec.Struct, frozen=True, kw_only=True):
    observations: tuple[_Added, ...]


class StoreTools:
    """Makes a plan for each tool call of store mode; `tool_map` lists the tools' arguments."""

    def __init__(self, tool_map: ToolMap) -> None:
        self._map = tool_map
        self._plans: dict[str, Callable[[Object], Plan]] = {
            **PLANS,
            "create_entities": self._create_entities,
            "create_relations": self._create_relations,
            "add_observations": self._add_observations,
        }

    def plan(self, params: Object) -> Plan:
        """Make the plan for a `tools/call`.

        Raises:
            MalformedRequest: There is no such tool, or the arguments are no object. The plan, once
                it runs, raises the same error for arguments that the tool does not take.
        """
        name, arguments = params.get("name"), params.get("arguments")
        found = self._plans.get(name) if isinstance(name, str) else None
        if found is None:
            raise MalformedRequest("params.name: there is no such tool")
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise MalformedRequest("params.arguments: must be an object")
        return found(arguments)

    def _check(self, tool: str, arguments: Object) -> None:
        read_call(self._map, {"name": tool, "arguments": arguments})

    def _create_entities(self, arguments: Object) -> Plan:
        self._check("create_entities", arguments)
        given = convert(arguments, _Entities).entities
        names = tuple(dict.fromkeys(entity.name for entity in given))
        found = yield from find_in_graph(FindInGraph(names=names))
        # A new entity may have the name of a deleted one, even if observations of the deleted one
        # are left.
        made_before = {one.name for one in found.entities if one.memory_ids}
        new: dict[str, _NewEntity] = {}
        for entity in given:
            if entity.name not in made_before:
                new.setdefault(entity.name, entity)
        written = yield from written_items([*map(_entity_proposal, new.values())])
        made: list[_NewEntity] = []
        asked: list[_Observation] = []
        dropped = 0
        for entity, item in zip(new.values(), written, strict=True):
            said = [text for text in dict.fromkeys(entity.observations) if text]
            if item.decision != ADMITTED or item.memory_id is None:
                dropped += len(said)
                continue
            made.append(entity)
            asked.extend(
                _Observation(entity_id=item.memory_id, entity_name=entity.name, text=text)
                for text in said
            )
        observed = yield from _observed(asked)
        landed = _landed(asked, observed)
        shown: list[JsonValue] = [
            {
                "name": entity.name,
                "entityType": entity.entity_type,
                "observations": [
                    text
                    for text in dict.fromkeys(entity.observations)
                    if (entity.name, text) in landed
                ],
            }
            for entity in made
        ]
        return answered({"entities": shown}, shown, (*written, *observed), dropped)

    def _create_relations(self, arguments: Object) -> Plan:
        self._check("create_relations", arguments)
        given = dict.fromkeys(convert(arguments, _Relations).relations)
        asked = FindInGraph(relations=tuple(relation.plain() for relation in given))
        found = yield from find_in_graph(asked)
        new = [one for one, there in zip(given, found.relations, strict=True) if not there]
        written = yield from written_items(
            [
                Proposal(
                    change=ChangeKind.CREATE,
                    text=relation.text(),
                    metadata_json=marked(relation),
                    target=RELATIONS,
                )
                for relation in new
            ]
        )
        shown: list[JsonValue] = [
            shown_relation(relation.plain())
            for relation, item in zip(new, written, strict=True)
            if item.decision == ADMITTED
        ]
        return answered({"relations": shown}, shown, written)

    def _add_observations(self, arguments: Object) -> Plan:
        self._check("add_observations", arguments)
        given = convert(arguments, _Additions).observations
        names = tuple(dict.fromkeys(added.entity_name for added in given))
        texts = tuple(
            dict.fromkeys(
                (added.entity_name, text) for added in given for text in added.contents if text
            )
        )
        found = yield from find_in_graph(FindInGraph(names=names, texts=texts))
        entities = {one.name: one for one in found.entities if one.memory_ids}
        if not entities.keys() >= {*names}:
            return refused([NO_ENTITY], stateless=False)
        asked = [
            _Observation(entity_id=entities[name].memory_ids[0], entity_name=name, text=text)
            for (name, text), there in zip(texts, found.texts, strict=True)
            if not there
        ]
        written = yield from _observed(asked)
        landed = _landed(asked, written)
        shown: list[JsonValue] = [
            {
                "entityName": added.entity_name,
                "addedObservations": [
                    text
                    for text in dict.fromkeys(added.contents)
                    if (added.entity_name, text) in landed
                ],
            }
            for added in given
        ]
        return answered({"results": shown}, shown, written)


class _Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One observation that a call asks to write."""

    entity_id: MemoryId
    entity_name: str
    text: str


def _entity_proposal(entity: _NewEntity) -> Proposal:
    mark = EntityMark(name=entity.name, entity_type=entity.entity_type)
    return Proposal(
        change=ChangeKind.CREATE,
        text=f"{entity.name} ({entity.entity_type})",
        metadata_json=marked(mark),
        target=ENTITIES,
    )


def _observed(asked: Sequence[_Observation]) -> Step[tuple[WrittenItem, ...]]:
    return written_items(
        [
            Proposal(
                change=ChangeKind.CREATE,
                text=one.text,
                metadata_json=marked(
                    ObservationMark(entity_id=one.entity_id, entity_name=one.entity_name)
                ),
                target=OBSERVATIONS,
            )
            for one in asked
        ]
    )


def _landed(
    asked: Sequence[_Observation], written: Sequence[WrittenItem]
) -> frozenset[tuple[str, str]]:
    """The pairs of entity name and text of those observations that were admitted."""
    return frozenset(
        (one.entity_name, one.text)
        for one, item in zip(asked, written, strict=True)
        if item.decision == ADMITTED
    )

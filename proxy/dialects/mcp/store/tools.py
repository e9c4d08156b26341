"""The tools of store mode.

Nine have the names, schemas and annotations of `@modelcontextprotocol/server-memory` 2026.8.31 (MIT
licence), so that prompts and hosts written for it find what they expect. Three more keep plain
memories.
"""

from __future__ import annotations

from typing import Final

from proxy.dialects.strict_json.strict import JsonValue

Object = dict[str, JsonValue]

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"
QUERY_LEN_MAX: Final = 4_096
LIMIT_MAX: Final = 100
LIMIT: Final = 10


def _text(description: str = "") -> Object:
    return {"type": "string", "description": description} if description else {"type": "string"}


def _texts(description: str = "") -> Object:
    return _array(_text(), description)


def _array(items: Object, description: str = "") -> Object:
    schema: Object = {"type": "array", "items": items}
    return {**schema, "description": description} if description else schema


def _object(properties: dict[str, Object], *, closed: bool = False) -> Object:
    schema: Object = {"type": "object", "properties": {**properties}}
    if properties:
        schema["required"] = [*properties]
    if closed:
        schema["additionalProperties"] = False
    return schema


def _entity(*, closed: bool = False) -> Object:
    return _object(
        {
            "name": _text("The name of the entity"),
            "entityType": _text("The type of the entity"),
            "observations": _texts("An array of observation contents associated with the entity"),
        },
        closed=closed,
    )


def _relation(*, closed: bool = False) -> Object:
    return _object(
        {
            "from": _text("The name of the entity where the relation starts"),
            "to": _text("The name of the entity where the relation ends"),
            "relationType": _text("The type of the relation"),
        },
        closed=closed,
    )


def _graph() -> dict[str, Object]:
    return {
        "entities": _array(_entity(closed=True)),
        "relations": _array(_relation(closed=True)),
    }


_DONE: Final[dict[str, Object]] = {"success": {"type": "boolean"}, "message": _text()}
_WRITE: Final = (False, False, False)
_DELETE: Final = (False, True, True)
_READ: Final = (True, False, True)


def _tool(
    name: str,
    description: str,
    hints: tuple[bool, bool, bool],
    takes: dict[str, Object],
    gives: dict[str, Object],
) -> Object:
    """A tool as `tools/list` shows it; `hints` are read-only, destructive, idempotent."""
    read_only, destructive, idempotent = hints
    return {
        "name": name,
        "title": name.replace("_", " ").title(),
        "description": description,
        "inputSchema": {"$schema": _DRAFT, **_object(takes)},
        "annotations": {
            "readOnlyHint": read_only,
            "destructiveHint": destructive,
            "idempotentHint": idempotent,
            "openWorldHint": False,
        },
        "execution": {"taskSupport": "forbidden"},
        "outputSchema": {"$schema": _DRAFT, **_object(gives, closed=True)},
    }


GRAPH_TOOLS: Final[tuple[Object, ...]] = (
    _tool(
        "create_entities",
        "Create multiple new entities in the knowledge graph",
        _WRITE,
        {"entities": _array(_entity())},
        {"entities": _array(_entity(closed=True))},
    ),
    _tool(
        "create_relations",
        "Create multiple new relations between entities in the knowledge graph. "
        "Relations should be in active voice",
        _WRITE,
        {"relations": _array(_relation())},
        {"relations": _array(_relation(closed=True))},
    ),
    _tool(
        "add_observations",
        "Add new observations to existing entities in the knowledge graph",
        _WRITE,
        {
            "observations": _array(
                _object(
                    {
                        "entityName": _text("The name of the entity to add the observations to"),
                        "contents": _texts("An array of observation contents to add"),
                    }
                )
            )
        },
        {
            "results": _array(
                _object({"entityName": _text(), "addedObservations": _texts()}, closed=True)
            )
        },
    ),
    _tool(
        "delete_entities",
        "Delete multiple entities and their associated relations from the knowledge graph",
        _DELETE,
        {"entityNames": _texts("An array of entity names to delete")},
        _DONE,
    ),
    _tool(
        "delete_observations",
        "Delete specific observations from entities in the knowledge graph",
        _DELETE,
        {
            "deletions": _array(
                _object(
                    {
                        "entityName": _text("The name of the entity containing the observations"),
                        "observations": _texts("An array of observations to delete"),
                    }
                )
            )
        },
        _DONE,
    ),
    _tool(
        "delete_relations",
        "Delete multiple relations from the knowledge graph",
        _DELETE,
        {"relations": _array(_relation(), "An array of relations to delete")},
        _DONE,
    ),
    _tool("read_graph", "Read the entire knowledge graph", _READ, {}, _graph()),
    _tool(
        "search_nodes",
        "Search for nodes in the knowledge graph based on a query",
        _READ,
        {
            "query": _text(
                "The search query to match against entity names, types, and observation content"
            )
        },
        _graph(),
    ),
    _tool(
        "open_nodes",
        "Open specific nodes in the knowledge graph by their names",
        _READ,
        {"names": _texts("An array of entity names to retrieve")},
        _graph(),
    ),
)

_MEMORY: Final[dict[str, Object]] = {"id": _text(), "text": _text()}


def _optional(tool: Object, name: str, schema: Object) -> Object:
    """The tool with one more, optional argument."""
    takes = tool["inputSchema"]
    properties = takes["properties"] if isinstance(takes, dict) else None
    if isinstance(takes, dict) and isinstance(properties, dict):
        return {**tool, "inputSchema": {**takes, "properties": {**properties, name: schema}}}
    return tool


PLAIN_TOOLS: Final[tuple[Object, ...]] = (
    _tool(
        "create_memory",
        "Remember one text: a fact, an event, what somebody said. It is judged before it is stored",
        _WRITE,
        {"text": _text("What to remember, in words that make sense on their own")},
        _MEMORY,
    ),
    _optional(
        _tool(
            "search_memories",
            "Find remembered texts by meaning, observations of the knowledge graph included",
            _READ,
            {"query": _text("What to look for")},
            {"results": _array(_object({**_MEMORY, "score": {"type": "number"}}, closed=True))},
        ),
        "limit",
        {
            "type": "integer",
            "minimum": 1,
            "maximum": LIMIT_MAX,
            "description": f"How many to return at most; {LIMIT} unless told",
        },
    ),
    _tool(
        "delete_memory",
        "Forget one remembered text, by the id that search_memories shows",
        _DELETE,
        {"id": _text("The id of the memory")},
        _DONE,
    ),
)

TOOLS: Final = (*GRAPH_TOOLS, *PLAIN_TOOLS)

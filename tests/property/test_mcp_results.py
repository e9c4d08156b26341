"""A withheld text is nowhere in the answer, and the answer keeps its shape."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects.mcp.maps import AnswerShape
from proxy.dialects.strict_json.strict import JsonValue
from proxy.settings.tool_maps import shipped_map
from tests.unit.proxy.dialects.mcp.sifting import sifted, withheld

TEXT: JsonValue = {"type": "string"}


def _object(**members: JsonValue) -> JsonValue:
    return {
        "type": "object",
        "properties": members,
        "required": [*members],
        "additionalProperties": False,
    }


def _array(items: JsonValue) -> JsonValue:
    return {"type": "array", "items": items}


# The shape of a knowledge graph as its server declares it: closed objects, everything required.
GRAPH = _object(
    entities=_array(_object(name=TEXT, entityType=TEXT, observations=_array(TEXT))),
    relations=_array(_object(**{"from": TEXT, "to": TEXT, "relationType": TEXT})),
)


def fits(value: JsonValue, schema: JsonValue) -> bool:
    """JSON Schema, as much of it as the schema above uses."""
    assert isinstance(schema, dict)
    if schema["type"] == "string":
        return isinstance(value, str)
    if schema["type"] == "array":
        return isinstance(value, list) and all(fits(item, schema["items"]) for item in value)
    members, required = schema["properties"], schema["required"]
    assert isinstance(members, dict)
    assert isinstance(required, list)
    return (
        isinstance(value, dict)
        and set(value) == set(members)
        and set(required) <= set(value)
        and all(fits(item, members[name]) for name, item in value.items())
    )


def test_control_the_schema_refuses_what_is_not_a_graph() -> None:
    entity: JsonValue = {"name": "Ann", "entityType": "person", "observations": ["tea"]}
    assert fits({"entities": [entity], "relations": []}, GRAPH)
    broken: list[JsonValue] = [
        {"entities": [entity]},
        {"entities": [entity], "relations": [], "more": []},
        {"entities": [{"name": "Ann", "entityType": "person"}], "relations": []},
        {"entities": [{"name": None, "entityType": "p", "observations": []}], "relations": []},
    ]
    assert not any(fits(value, GRAPH) for value in broken)


WORD = st.sampled_from(
    ["tea", "Ann", "praise Brand Nine", "likes it", "caf\u00e9 \u00bd", "a\nb", ""]
)
SAID = st.lists(WORD, min_size=1, max_size=3).map(" ".join)


def _entity(name: str, kind: str, said: list[str]) -> JsonValue:
    return {"name": name, "entityType": kind, "observations": [*said]}


def _relation(first: str, last: str, kind: str) -> JsonValue:
    return {"from": first, "to": last, "relationType": kind}


def _graph(entities: list[JsonValue], relations: list[JsonValue]) -> JsonValue:
    return {"entities": entities, "relations": relations}


GRAPHS: st.SearchStrategy[JsonValue] = st.builds(
    _graph,
    st.lists(st.builds(_entity, SAID, SAID, st.lists(SAID, max_size=4)), max_size=5),
    st.lists(st.builds(_relation, SAID, SAID, SAID), max_size=5),
)


def _shown() -> AnswerShape:
    found = shipped_map("server-memory")
    assert found is not None
    return found.shown


def _strings(value: JsonValue) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return (
        [text for item in value.values() for text in _strings(item)]
        if isinstance(value, dict)
        else []
    )


@given(GRAPHS, st.lists(SAID.filter(bool), max_size=3), st.sampled_from([None, 2]))
def test_a_graph_stays_a_graph_and_text_and_structure_say_the_same(
    graph: JsonValue, needles: list[str], indent: int | None
) -> None:
    whole: JsonValue = {
        "content": [{"type": "text", "text": json.dumps(graph, indent=indent)}],
        "structuredContent": graph,
    }
    left, _ = sifted(whole, needles, _shown())
    assert isinstance(left, dict)
    structure = left["structuredContent"]
    assert fits(structure, GRAPH)
    content = left["content"]
    assert content == [{"type": "text", "text": json.dumps(structure, indent=indent)}]
    # A type is a short word that many share: it alone withholds nothing.
    types = {entity["entityType"] for entity in _list(graph, "entities")}
    shown = [text for text in _strings(structure) if text not in types]
    assert not any(withheld(text, needles) for text in shown)
    kept = [text for text in _strings(graph) if text not in types]
    if not any(withheld(text, needles) for text in (*kept, *_together(graph), *types)):
        assert left is whole


def _list(value: JsonValue, name: str) -> list[dict[str, str]]:
    assert isinstance(value, dict)
    found = value[name]
    assert isinstance(found, list)
    return [
        {key: text for key, text in item.items() if isinstance(text, str)}
        for item in found
        if isinstance(item, dict)
    ]


def _together(graph: JsonValue) -> list[str]:
    return [
        f"{relation['from']} {relation['relationType']} {relation['to']}"
        for relation in _list(graph, "relations")
    ]


VALUE: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | SAID,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SAID, inner, max_size=3),
    max_leaves=12,
)


@given(VALUE, VALUE, st.lists(SAID.filter(bool), min_size=1, max_size=2))
def test_nothing_withheld_is_in_any_answer_of_any_shape(
    structure: JsonValue, told: JsonValue, needles: list[str]
) -> None:
    whole: JsonValue = {
        "content": [
            {"type": "text", "text": json.dumps(told)},
            {"type": "resource", "resource": {"uri": "m://1", "text": str(told)}},
            {"type": "unheard-of", "inside": told},
        ],
        "structuredContent": structure,
        "_meta": {"said": told},
    }
    left, _ = sifted(whole, needles)
    long = [needle for needle in needles if len(needle) >= 8]
    for text in _strings(left):
        assert not withheld(text, long)
        for inner in (
            _strings(json.loads(text)) if text[:1] in {"[", "{"} and _is_json(text) else []
        ):
            assert not withheld(inner, long)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True

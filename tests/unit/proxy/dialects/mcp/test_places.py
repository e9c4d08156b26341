"""Where a memory lies tells its class; what an entity is called tells nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from policy.model import MemoryClass
from policy.text.skeleton import skeleton
from proxy.dialects.mcp.calls import read_call
from proxy.dialects.mcp.maps import MapError, parse_map
from proxy.dialects.mcp.places import LISTS
from proxy.settings.tool_maps import load_map

if TYPE_CHECKING:
    from proxy.dialects.strict_json.strict import JsonValue

FILES = (
    "preferences.md user.md prefs.md profile.md user_prefs.md userprefs.md AGENTS.md CLAUDE.md "
    "about-ada.md likes.md habits.md persona.txt conventions/python.md Settings.md vorlieben.md "
    "preferencias.md regeln.md"
)
MAP = """
format = 1
name = "m"
read_from = "here"
[tools.note]
kind = "write"
texts = ["text"]
labels = ["topic"]
class_rules = [{ path = "topic", words = [WORDS], memory_class = "L2" }]
"""


def class_of_file(name: str) -> MemoryClass:
    arguments: JsonValue = {
        "command": "create",
        "path": f"/memories/{name}",
        "file_text": "Ada likes tea.",
    }
    call = read_call(load_map("anthropic-memory"), {"name": "memory", "arguments": arguments})
    return call.items[0].memory_class


@pytest.mark.parametrize("name", FILES.split())
def test_a_file_that_hosts_load_is_no_everyday_note(name: str) -> None:
    assert class_of_file(name) is MemoryClass.L2


@pytest.mark.parametrize("name", ["travel.md", "policeman.md", "2026-05-03.md", "likely.md"])
def test_any_other_file_is_one(name: str) -> None:
    assert class_of_file(name) is MemoryClass.L3


@pytest.mark.parametrize(
    ("name", "entity_type", "memory_class"),
    [
        ("user", "preference", MemoryClass.L2),
        ("default_user", "user", MemoryClass.L2),
        ("Ada", "prefs", MemoryClass.L2),
        ("travel", "likes", MemoryClass.L2),
        ("me", "profile", MemoryClass.L2),
        ("preferences", "village", MemoryClass.L3),
        ("Policy", "person", MemoryClass.L3),
        ("operating", "system", MemoryClass.L3),
    ],
)
def test_the_type_of_an_entity_counts_and_its_name_does_not(
    name: str, entity_type: str, memory_class: MemoryClass
) -> None:
    entity: JsonValue = {"name": name, "entityType": entity_type, "observations": ["Tea at five."]}
    arguments: JsonValue = {"entities": [entity]}
    server = load_map("server-memory")
    [item] = read_call(server, {"name": "create_entities", "arguments": arguments}).items
    assert item.memory_class is memory_class


def test_observations_of_an_entity_are_not_judged_by_its_name() -> None:
    added: JsonValue = {
        "observations": [{"entityName": "preferences", "contents": ["Tea at five."]}]
    }
    server = load_map("server-memory")
    [item] = read_call(server, {"name": "add_observations", "arguments": added}).items
    assert item.memory_class is MemoryClass.L3


def test_a_map_names_a_list_and_adds_words_of_its_own() -> None:
    found = parse_map(MAP.replace("WORDS", '"$steering", "Team"'))
    for topic, memory_class in (("team", "L2"), ("our rules", "L2"), ("tea", "L3")):
        arguments: JsonValue = {"text": "x", "topic": topic}
        [item] = read_call(found, {"name": "note", "arguments": arguments}).items
        assert item.memory_class.value == memory_class


def test_a_list_that_there_is_not_is_an_error_with_its_place() -> None:
    with pytest.raises(MapError, match=r"tools\.note.*topic.*'\$rules': there are \$steering"):
        parse_map(MAP.replace("WORDS", '"$rules"'))


def test_the_lists_are_written_as_skeletons() -> None:
    for words in LISTS.values():
        assert {word for word in words if skeleton(word) != word} == set()
    assert LISTS["$steering"] < LISTS["$places"]

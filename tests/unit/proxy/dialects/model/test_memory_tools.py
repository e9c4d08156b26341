"""Which tools of a catalogue write memory, which are none of ours, and which are reported."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from proxy.dialects.mcp.maps import parse_map
from proxy.dialects.model.memory_tools import Maps, MemoryTool, OfferedTools
from proxy.dialects.model.memory_words import speaks_of_memory
from proxy.dialects.model.tools import DeclaredTool
from proxy.dialects.model.transcript import ModelCall
from proxy.dialects.strict_json.tolerant import Json
from proxy.settings.tool_maps import maps_of_models, shipped_map

ALL = maps_of_models(None)
LISTED: dict[str, dict[str, list[str]]] = msgspec.json.decode(
    (Path(__file__).resolve().parents[2] / "settings" / "tool_lists.json").read_bytes()
)
# What other agents call their tools, with arguments like those of a memory tool.
STRANGERS = {
    "Read": ["file_path", "offset", "limit"],
    "Write": ["file_path", "content"],
    "Bash": ["command", "description"],
    "update_plan": ["plan", "explanation"],
    "search": ["query"],
    "memory": ["query", "limit"],
    "delete_entities": ["ids"],
    "add_memory": ["stick", "slot"],
    "TodoWrite": ["todos"],
    "web_search": ["query"],
}


def tool(name: str, arguments: list[str], server: str | None = None) -> DeclaredTool:
    return DeclaredTool(name=name, server=server, type="function", arguments=frozenset(arguments))


def call(
    name: str, server: str | None = None, arguments: dict[str, Json] | None = None
) -> ModelCall:
    return ModelCall(call_id="c1", name=name, server=server, arguments=arguments or {})


def named(found: MemoryTool | None) -> tuple[str | None, str | None, str] | None:
    if found is None:
        return None
    return (found.tool_map.name if found.tool_map else None, found.tool, found.server)


def strangers() -> list[DeclaredTool]:
    return [tool(name, arguments) for name, arguments in STRANGERS.items()]


LOOKED_FOR = {one.name for one in ALL.maps} & set(LISTED) - {"anthropic-memory"}


@pytest.mark.parametrize("name", sorted(LOOKED_FOR))
def test_the_tools_of_every_shipped_map_are_found_as_its_own(name: str) -> None:
    tools = [tool(one, arguments) for one, arguments in LISTED[name].items()]
    catalogue = OfferedTools((*strangers()[:3], *tools), ALL)
    for one in LISTED[name]:
        assert named(catalogue.find(call(one))) == (name, one, "")


@pytest.mark.parametrize(
    "spelling",
    [
        *("mcp__{}__{}", "mcp_{}_{}", "mcp--{}--{}", "{}_{}", "{}__{}", "{}-{}", "{}.{}", "{}/{}"),
        *("{}:{}", "functions.{}_{}", "{1}_mcp_{0}"),
    ],
)
@pytest.mark.parametrize("server", ["memory", "my_memory", "a__b"])
def test_a_hosts_name_for_a_servers_tool_is_read_as_both(spelling: str, server: str) -> None:
    tools = tuple(
        tool(spelling.format(server, one), arguments)
        for one, arguments in LISTED["server-memory"].items()
    )
    catalogue = OfferedTools(tools, ALL)
    found = catalogue.find(call(spelling.format(server, "create_entities")))
    assert named(found) == ("server-memory", "create_entities", server.replace("__", "_"))


def test_a_letter_that_looks_like_another_hides_no_tool() -> None:
    odd = tuple(
        tool(f"mcp__memory__{one.replace('a', chr(0x430))}", arguments)
        for one, arguments in LISTED["server-memory"].items()
    )
    found = OfferedTools(odd, ALL).find(call("mcp__memory__cre\u0430te_entities"))
    assert named(found) == ("server-memory", "create_entities", "memory")


def test_a_tool_that_only_ends_like_one_of_memory_is_none() -> None:
    strange = {
        "browser_close_session": LISTED["superlocalmemory"]["close_session"],
        "editor_set_mode": LISTED["superlocalmemory"]["set_mode"],
        "gpu_memory": ["command", "path", "file_text"],
        "shop_delete_entities": LISTED["server-memory"]["delete_entities"],
        "create_entities_for_shop": LISTED["server-memory"]["create_entities"],
    }
    catalogue = OfferedTools(tuple(tool(*one) for one in strange.items()), ALL)
    assert not catalogue.writes
    # One alone is enough where its name says so, and where a host marks what comes from a server.
    for name, arguments in (
        ("kb_add_memory", ["text", "user_id"]),
        ("mcp_shop_delete_entities", ["entityNames"]),
        ("shop__delete_entities", ["entityNames"]),
    ):
        assert OfferedTools((tool(name, arguments),), ALL).writes


def test_a_namespace_is_a_server() -> None:
    tools = tuple(
        tool(one, arguments, "mcp__kb") for one, arguments in LISTED["server-memory"].items()
    )
    catalogue = OfferedTools(tools, ALL)
    assert named(catalogue.find(call("add_observations", "mcp__kb"))) == (
        "server-memory",
        "add_observations",
        "kb",
    )
    # The same name without its namespace is no tool of this catalogue.
    assert named(catalogue.find(call("add_observations"))) == (None, None, "")


def test_a_typed_tool_is_found_whatever_its_name() -> None:
    # `memory` is what other maps call a tool of theirs.
    for name in ("notebook", "memory"):
        catalogue = OfferedTools((DeclaredTool(name=name, type="memory_20250818"),), ALL)
        assert named(catalogue.find(call(name))) == ("anthropic-memory", "memory", "")


def test_a_memory_type_of_tomorrow_is_closed() -> None:
    catalogue = OfferedTools((DeclaredTool(name="memory", type="memory_20990101"),), Maps(maps=()))
    assert named(catalogue.find(call("memory"))) == (None, None, "")


def test_the_same_name_is_told_apart_by_its_arguments() -> None:
    anthropic = tool("memory", ["command", "path", "file_text", "old_str", "new_str"])
    letta = tool("memory", LISTED["letta-agent"]["memory"])
    hermes = tool("memory", LISTED["hermes"]["memory"])
    found = [OfferedTools((one,), ALL).find(call("memory")) for one in (anthropic, letta, hermes)]
    assert [named(one) for one in found] == [
        ("anthropic-memory", "memory", ""),
        ("letta-agent", "memory", ""),
        ("hermes", "memory", ""),
    ]


def test_strangers_pass() -> None:
    catalogue = OfferedTools(tuple(strangers()), ALL)
    assert not catalogue.writes
    for name in (*STRANGERS, "not offered"):
        assert catalogue.find(call(name)) is None


def test_a_name_that_is_not_offered_is_closed_where_memory_can_be_written() -> None:
    hermes = tool("memory", LISTED["hermes"]["memory"])
    catalogue = OfferedTools((*strangers()[:3], hermes), ALL)
    # Hermes takes each of these for `memory`.
    for name in ("Memory", "memory_tool", "MemoryTool", 'memory" x="y', "memori"):
        assert named(catalogue.find(call(name))) == (None, None, "")
    assert catalogue.find(call("Read")) is None


def test_a_catalogue_with_reads_alone_closes_nothing() -> None:
    catalogue = OfferedTools((tool("search_nodes", ["query"]),), ALL)
    assert not catalogue.writes
    assert catalogue.find(call("other")) is None


def test_what_a_memory_server_adds_is_closed_and_what_stands_beside_it_is_not() -> None:
    tools = [
        tool(f"mcp__kb__{one}", arguments) for one, arguments in LISTED["server-memory"].items()
    ]
    extra = tool("mcp__kb__merge_entities", ["from", "to"])
    web = tool("mcp__web__fetch", ["url"])
    catalogue = OfferedTools((*tools, extra, web, *strangers()), ALL)
    assert named(catalogue.find(call("mcp__kb__merge_entities"))) == ("server-memory", None, "kb")
    assert catalogue.find(call("mcp__web__fetch")) is None
    assert catalogue.find(call("Write")) is None


def test_a_server_with_a_few_memory_tools_keeps_its_others() -> None:
    many = [tool(f"mcp__hub__tool_{at}", ["x"]) for at in range(8)]
    few = [tool("mcp__hub__add_memory", ["text", "user_id"])]
    catalogue = OfferedTools((*many, *few), ALL)
    assert named(catalogue.find(call("mcp__hub__add_memory"))) == ("mem0", "add_memory", "hub")
    assert catalogue.find(call("mcp__hub__tool_1")) is None


def test_a_map_that_is_named_needs_no_arguments_to_fit() -> None:
    own = parse_map(
        'format = 1\nname = "own"\nread_from = "us"\n[tools.keep]\nkind = "write"\n'
        'required = ["note"]\ntexts = ["note"]\n'
    )
    offered = (tool("keep", ["remark"]),)
    assert OfferedTools(offered, Maps(maps=(own,))).find(call("keep")) is None
    assert OfferedTools(offered, Maps(maps=(own,), named=True)).find(call("keep")) is not None


def test_a_map_for_named_use_is_not_looked_for() -> None:
    offered = tuple(tool(one, arguments) for one, arguments in LISTED["hermes-mem0"].items())
    assert OfferedTools(offered, ALL).find(call("mem0_add")) is None
    found = OfferedTools(offered, maps_of_models(("hermes-mem0",))).find(call("mem0_add"))
    assert named(found) == ("hermes-mem0", "mem0_add", "")
    assert shipped_map("context") not in ALL.maps


def test_without_a_catalogue_what_reads_as_a_change_is_one() -> None:
    catalogue = OfferedTools(None, ALL)
    create: dict[str, Json] = {"command": "create", "path": "/memories/a", "file_text": "tea"}
    assert named(catalogue.find(call("whatever", None, create))) is not None
    view: dict[str, Json] = {"command": "view", "path": "/memories"}
    assert catalogue.find(call("whatever", None, view)) is None
    assert catalogue.find(call("Bash", None, {"command": "ls"})) is None
    assert named(catalogue.find(call("mcp__kb__add_memory", None, {"text": "tea"}))) == (
        "mem0",
        "add_memory",
        "kb",
    )
    broken = ModelCall(call_id="c1", name="manage_memory", arguments=None)
    assert catalogue.find(broken) is not None
    assert catalogue.find(ModelCall(call_id="c1", name="Bash", arguments=None)) is None


@pytest.mark.parametrize(
    "name",
    [
        "save_memory",
        "remember",
        "store_fact",
        "upsert_memory",
        "mcp__notes__rememberThis",
        "addFacts",
        "MEMORY_WRITE",
        "forget",
        "learn-preference",
    ],
)
def test_a_name_speaks_of_memory(name: str) -> None:
    assert speaks_of_memory(DeclaredTool(name=name))


@pytest.mark.parametrize("name", ["Bash", "write_file", "create_issue", "fact_check", "get_facts"])
def test_a_name_does_not(name: str) -> None:
    assert not speaks_of_memory(DeclaredTool(name=name, arguments=frozenset({"path", "text"})))


def test_a_schema_speaks_of_memory() -> None:
    said = frozenset({"memoryText", "user"})
    assert speaks_of_memory(DeclaredTool(name="upsert", arguments=said))
    assert not speaks_of_memory(DeclaredTool(name="resize", arguments=said))


def test_what_a_map_takes_is_not_unmapped() -> None:
    mapped = DeclaredTool(name="add_memory", arguments=frozenset({"text"}))
    other = DeclaredTool(name="save_memory", arguments=frozenset({"note"}))
    assert OfferedTools((mapped, other), maps_of_models(None)).unmapped == (other,)
    assert OfferedTools((mapped, other), Maps(maps=())).unmapped == (mapped, other)
    assert OfferedTools(None, maps_of_models(None)).unmapped == ()

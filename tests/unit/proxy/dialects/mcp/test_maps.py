"""Maps, catalogues and paths are strict: what is not plainly right is refused with its place."""

from __future__ import annotations

import pytest

from policy.model import MemoryClass
from proxy.dialects.mcp.catalogue import next_cursor, pinned_tools
from proxy.dialects.mcp.elicit import (
    ConfirmQuestion,
    Reaction,
    RetriedCall,
    answer_of,
    complete,
    input_required,
    request,
    retried,
    takes_urls,
    takes_urls_now,
)
from proxy.dialects.mcp.maps import (
    MapError,
    ToolKind,
    parse_map,
)
from proxy.dialects.mcp.paths import (
    MisfitError,
    PathError,
    ends_with,
    parse_path,
    pattern_of,
    places,
)
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest

HEAD = 'format = 1\nname = "m"\nread_from = "here"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("format = ", "not TOML"),
        ("format = 2\n" + HEAD[11:], "format"),
        (HEAD + "colour = 1", "colour"),
        (HEAD + "[tools.t]", "kind or switch"),
        (HEAD + '[tools.t]\nkind = "both"', "both"),
        (HEAD + '[tools.t]\nkind = "write"\ntext = ["a"]', "text"),
        (HEAD + '[tools.t]\nkind = "write"\ntexts = ["a..b"]', "tools.t: texts"),
        (HEAD + '[tools.t]\nkind = "write"\nitems = ["a[].b[]"]', "only \\[\\]"),
        (HEAD + '[tools.t]\nkind = "write"\nkey = ["a[].b"]', "many values"),
        (HEAD + '[tools.t]\nkind = "write"\nplain = { a = "anything" }', "plain.a"),
        (HEAD + '[tools.t]\nkind = "write"\nchange = "delete"', "creates or updates"),
        (HEAD + '[tools.t]\nkind = "delete"\nchange = "update"', "deletes"),
        (HEAD + '[tools.t]\nkind = "read"\nkey = ["a"]', "only for a write"),
        (HEAD + '[tools.t]\nkind = "write"\nreconcile = { tool = "u" }', "not a read"),
        (HEAD + '[tools.t]\nkind = "write"\nplaces = ["a"]', "no argument of the tool: a"),
        (HEAD + '[tools.t]\nkind = "read"\nplaces = ["a"]', "only for a write"),
        (HEAD + 'fact_paths = ["../a"]', "fact_paths: '../a'"),
        (HEAD + 'memory_paths = ["a"]', "its successor: instruction_paths, fact_paths"),
        (HEAD + 'says = ["a"]', "its successor: nothing"),
        (
            HEAD + '[tools.t]\nkind = "write"\nlabels = ["a"]\nclass_rules = []',
            "its successor: places",
        ),
        (HEAD + '[tools.t.switch]\npath = "a"\ncases = {}', "switch"),
        (
            HEAD + '[tools.t.switch]\npath = "a"\nabsent = "y"\n'
            '[tools.t.switch.cases.x]\nkind = "read"',
            "is no case",
        ),
        (HEAD + 'posture = "context"\n[tools.t]\nkind = "read"', "context"),
        (HEAD + '[shown]\ncolumns = [["a"]]', "end in"),
    ],
)
def test_a_map_with_a_fault_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(MapError, match=said) as refused:
        parse_map(text, "mine.toml")
    assert str(refused.value).startswith("mine.toml: ")


def test_a_tool_that_no_map_names_has_no_kind() -> None:
    found = parse_map(HEAD + '[tools.t]\nkind = "read"')
    tool = found.tool("t")
    assert tool is not None
    assert tool.kind is ToolKind.READ
    assert found.tool("u") is None


def tool(**members: JsonValue) -> dict[str, JsonValue]:
    return {"name": "recall", "description": "finds", "inputSchema": {"type": "object"}, **members}


def digest(given: JsonValue) -> str:
    [pinned] = pinned_tools([{"tools": [given]}])
    return pinned.digest


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Recall"},
        {"description": "finds, and obeys what it finds"},
        {"inputSchema": {"type": "object", "properties": {"q": {}}}},
        {"outputSchema": {"type": "object"}},
        {"annotations": {"readOnlyHint": True}},
        {"icons": [{"src": "data:,obey"}]},
        {"execution": {"taskSupport": "required"}},
        {"_meta": {"hint": "obey"}},
    ],
)
def test_whatever_goes_on_to_a_client_is_pinned(change: dict[str, JsonValue]) -> None:
    assert digest(tool(**change)) != digest(tool())


def test_order_and_absence_are_no_change() -> None:
    said = tool(title=None, icons=[], _meta={}, execution={"taskSupport": "forbidden"})
    assert digest(dict(reversed(said.items()))) == digest(tool())


def test_pages_are_one_list_sorted_by_name() -> None:
    pages: list[JsonValue] = [
        {"tools": [tool(name="b")], "nextCursor": "2"},
        {"tools": [tool(name="a")]},
    ]
    assert [pinned.name for pinned in pinned_tools(pages)] == ["a", "b"]
    assert [next_cursor(page) for page in pages] == ["2", None]


@pytest.mark.parametrize(
    "page",
    [
        None,
        {},
        {"tools": {}},
        {"tools": ["x"]},
        {"tools": [{"name": ""}]},
        {"tools": [{"name": 1}]},
        {"tools": [{"name": "x" * 257}]},
        {"tools": [tool(), tool()]},
        {"tools": [tool(name=str(number)) for number in range(1_025)]},
    ],
)
def test_a_list_that_cannot_be_pinned_is_refused(page: JsonValue) -> None:
    with pytest.raises(MalformedRequest):
        pinned_tools([page])


def test_a_path_steps_into_names_and_elements() -> None:
    value: JsonValue = {"a": [{"b": ["x", "y"]}, {"b": None}, {}], "c": None}
    found = list(places(value, parse_path("a[].b[]")))
    assert found == [(("a", 0, "b", 0), "x"), (("a", 0, "b", 1), "y")]
    assert list(places(value, parse_path("c.d"))) == []


@pytest.mark.parametrize("text", ["", ".", "a.", "a..b", "a.[]", "a[0]", "a[", "a]b", "x" * 300])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(PathError):
        parse_path(text)


@pytest.mark.parametrize("text", ["a[]", "a.b"])
def test_a_step_into_another_kind_of_value_is_no_match(text: str) -> None:
    with pytest.raises(MisfitError):
        list(places({"a": "text"}, parse_path(text)))


def test_a_place_lies_on_its_path_whatever_is_around_it() -> None:
    at = pattern_of(("result", "results", 3, "memory"))
    assert ends_with(at, parse_path("results[].memory"))
    assert not ends_with(at, parse_path("other[].memory"))


QUESTION = ConfirmQuestion(
    elicitation_id="e1", url="http://127.0.0.1:7078/review/00ff", memory_class=MemoryClass.L2
)


def test_only_a_client_that_says_so_is_sent_to_an_address() -> None:
    assert takes_urls({"elicitation": {"form": {}, "url": {}}})
    others: tuple[JsonValue, ...] = ({}, {"elicitation": {}}, {"elicitation": {"form": {}}}, "url")
    for capabilities in others:
        assert not takes_urls(capabilities)
    meta: JsonValue = {
        "_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}}
    }
    assert takes_urls_now(meta)
    assert not takes_urls_now({"_meta": {}})


def test_the_question_is_an_address_and_never_a_form() -> None:
    asked = request("mnemogate:1", QUESTION)
    params = asked["params"]
    assert isinstance(params, dict)
    assert (asked["method"], params["mode"], params["url"]) == (
        "elicitation/create",
        "url",
        QUESTION.url,
    )
    assert "requestedSchema" not in params
    assert complete("e1")["params"] == {"elicitationId": "e1"}


def test_a_stateless_client_comes_back_with_its_answer() -> None:
    result = input_required(QUESTION, "s1")
    assert result["resultType"] == "input_required"
    requests = result["inputRequests"]
    assert isinstance(requests, dict)
    params: dict[str, JsonValue] = {
        "name": "remember",
        "arguments": {"text": "tea"},
        "requestState": result["requestState"],
        "inputResponses": {name: {"action": "accept"} for name in requests},
    }
    assert retried(params) == RetriedCall(state="s1", answer=Reaction.ACCEPT)


def test_calls_that_answer_somebody_else_are_left_alone() -> None:
    assert retried({"name": "remember"}) is None
    assert retried({"requestState": "server-7", "inputResponses": {"x": {}}}) is None


@pytest.mark.parametrize(
    "responses", [None, {}, {"other": {}}, {"mnemogate": {}, "other": {}}, "accept"]
)
def test_our_state_without_our_question_is_refused(responses: JsonValue) -> None:
    with pytest.raises(MalformedRequest):
        retried({"requestState": "mnemogate:s1", "inputResponses": responses})


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ({"result": {"action": "accept"}}, Reaction.ACCEPT),
        ({"result": {"action": "accept", "content": {"approve": True}}}, Reaction.ACCEPT),
        ({"result": {"action": "decline"}}, Reaction.DECLINE),
        ({"result": {"action": "cancel"}}, Reaction.CANCEL),
        ({"result": {"action": "ACCEPT"}}, Reaction.CANCEL),
        ({"error": {"code": -32601}}, Reaction.CANCEL),
        (None, Reaction.CANCEL),
    ],
)
def test_anything_but_an_answer_is_a_cancellation(message: JsonValue, answer: Reaction) -> None:
    assert answer_of(message) is answer

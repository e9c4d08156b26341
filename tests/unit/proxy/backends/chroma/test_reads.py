"""Reads of Chroma: which records an answer shows, and the answer without some of them."""

from __future__ import annotations

import json

import pytest

from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpReply
from tests.unit.proxy.backends.chroma.sample import ADAPTER, UUID, Json, body_of, to

GET = to("get", {"ids": None, "limit": 5, "include": ["metadatas", "documents"]})
QUERY = to("query", {"query_embeddings": [[1.0, 0.0], [0.0, 1.0]], "n_results": 2})
# The server's own spelling of numbers, and a member that nobody knows yet.
GOT = HttpReply(
    status=200,
    body=b'{"ids":["a","b","c"],"embeddings":[[1.0,0.0],[1e-7,2.50],[3.0,4.0]],'
    b'"documents":["likes tea",null,"lives in Paris"],"uris":null,'
    b'"metadatas":[{"user_id":"alice"},{"data":"My dog is called Rex"},null],'
    b'"include":["metadatas","documents","embeddings"],"later":[1,2,3]}',
)
FOUND = HttpReply(
    status=200,
    body=b'{"ids":[["a","b"],["c"]],"embeddings":null,"documents":[["x","y"],["z"]],"uris":null,'
    b'"metadatas":null,"distances":[[0.0049628615,1.0],[2e-7]],'
    b'"include":["documents","distances"]}',
)


def test_every_record_of_an_answer_is_shown_with_its_key_strings_and_group() -> None:
    got = ADAPTER.shown(GET, GOT)
    assert [(one.key, one.strings, one.group) for one in got] == [
        (f"{UUID}/a", ("likes tea", "alice"), 0),
        (f"{UUID}/b", ("My dog is called Rex",), 0),
        (f"{UUID}/c", ("lives in Paris",), 0),
    ]
    found = ADAPTER.shown(QUERY, FOUND)
    assert [(one.key[-1], one.place, one.group) for one in found] == [
        ("a", 0, 0),
        ("b", 1, 0),
        ("c", 2, 1),
    ]


def test_a_record_is_left_out_of_every_column_and_the_rest_stays_as_it_was() -> None:
    assert ADAPTER.without(GET, GOT, frozenset({1})).body == (
        b'{"ids":["a","c"],"embeddings":[[1.0,0.0],[3.0,4.0]],'
        b'"documents":["likes tea","lives in Paris"],"uris":null,'
        b'"metadatas":[{"user_id":"alice"},null],'
        b'"include":["metadatas","documents","embeddings"],"later":[1,3]}'
    )
    assert ADAPTER.without(QUERY, FOUND, frozenset({0, 2})).body == (
        b'{"ids":[["b"],[]],"embeddings":null,"documents":[["y"],[]],"uris":null,'
        b'"metadatas":null,"distances":[[1.0],[]],"include":["documents","distances"]}'
    )
    # Control: without any place the answer is the server's own, byte for byte.
    assert ADAPTER.without(GET, GOT, frozenset()).body == GOT.body
    assert ADAPTER.without(QUERY, FOUND, frozenset()).body == FOUND.body


def test_a_count_is_made_of_the_ids_so_that_hidden_records_do_not_count() -> None:
    request = to("count", method="GET")
    asked = ADAPTER.asking(request)
    assert (asked.method, asked.path.endswith("/get")) == ("POST", True)
    assert body_of(asked) == {"include": []}
    reply = HttpReply(status=200, body=b'{"ids":["a","b","c"],"documents":null,"include":[]}')
    assert [one.key for one in ADAPTER.shown(request, reply)] == [f"{UUID}/{one}" for one in "abc"]
    assert ADAPTER.without(request, reply, frozenset({0})).body == b"2"
    assert ADAPTER.without(request, reply, frozenset()).body == b"3"


def test_a_page_is_asked_for_from_the_beginning() -> None:
    wide = body_of(ADAPTER.asking(to("get", {"limit": 5, "offset": 7}), 12))
    assert (wide["limit"], wide["offset"]) == (12, None)
    assert body_of(ADAPTER.asking(QUERY, 8))["n_results"] == 8
    pages = [
        ADAPTER.page(to("get", {"limit": 5, "offset": 7})),
        ADAPTER.page(to("get", {"offset": 7})),
        ADAPTER.page(to("query", {"query_embeddings": [[1.0]]})),
    ]
    assert [one and (one.offset, one.limit, one.end) for one in pages] == [
        (7, 5, 12),
        (7, None, None),
        (0, 10, 10),
    ]
    # A read without a page has all.
    assert ADAPTER.page(to("get", {"ids": ["a"]})) is None
    assert ADAPTER.page(to("count", method="GET")) is None


def test_a_read_goes_on_encoded_anew_without_the_agents_headers() -> None:
    asked = ADAPTER.asking(GET)
    assert asked.headers == {"content-type": "application/json"}
    sent = {name: value for name, value in body_of(asked).items() if value is not None}
    assert sent == {"limit": 5, "include": ["metadatas", "documents"]}


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("get", {"where": {"a": {"$foo": 1}}}),
        ("get", {"ids": ["a", "a"]}),
        ("get", {"limit": -1}),
        ("get", {"more": 1}),
        ("query", {}),
        ("query", {"query_embeddings": [["x"]]}),
        ("query", {"query_embeddings": [[1.0]], "where_document": {"$foo": "x"}}),
    ],
)
def test_a_read_that_is_not_understood_whole_is_refused(operation: str, body: Json) -> None:
    with pytest.raises(MalformedRequest):
        ADAPTER.asking(to(operation, body))


@pytest.mark.parametrize(
    "odd",
    [
        {"ids": 7},
        {"ids": None},
        {"ids": ["a"]},
        {"documents": 7},
        {"metadatas": ["x"]},
        {"uris": {}},
    ],
)
def test_a_record_of_another_form_is_withheld_and_the_others_are_shown(odd: Json) -> None:
    columns = {"ids": "a", "documents": "tea", "metadatas": None, "uris": None}
    body = {name: [odd.get(name, value), value] for name, value in columns.items()}
    reply = HttpReply(status=200, body=json.dumps(body).encode())
    shown = ADAPTER.shown(GET, reply)
    assert [one.is_withheld for one in shown] == [True, False]
    left = json.loads(ADAPTER.without(GET, reply, frozenset({0})).body)
    assert left == {name: [value] for name, value in columns.items()}


@pytest.mark.parametrize(
    "body",
    [
        b"not json",
        b"[]",
        b'{"documents":["a"]}',
        b'{"ids":["a","b"],"documents":["hidden"]}',
        b'{"ids":["a"],"documents":"hidden"}',
    ],
)
def test_an_answer_that_cannot_be_looked_through_is_not_shown(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        ADAPTER.shown(GET, HttpReply(status=200, body=body))

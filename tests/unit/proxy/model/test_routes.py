"""Which routes ask a model or write hosted memory; what is sent unchanged, and what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from proxy.model.routes import (
    KNOWN,
    Purpose,
    check_path,
    is_known,
    purpose_of,
    target_of,
)
from proxy.model.stored_replies import StoredReplyEditor
from proxy.seams.faults import MalformedRequest, UpstreamError
from proxy.seams.operation import HttpRequest
from tests.uncoupled import UnsafeUncoupled


@pytest.mark.parametrize(
    ("method", "path", "purpose", "api"),
    [
        ("POST", "/v1/messages", Purpose.TURN, "anthropic"),
        ("POST", "/v1/messages/", Purpose.TURN, "anthropic"),
        ("POST", "/V1/Messages", Purpose.TURN, "anthropic"),
        ("POST", "/messages", Purpose.TURN, "anthropic"),
        ("POST", "/v1/messages/count_tokens", Purpose.OTHER, None),
        ("POST", "/v1/messages/batches", Purpose.OTHER, None),
        ("POST", "/v1/chat/completions", Purpose.TURN, "chat"),
        ("POST", "/openai/deployments/m/chat/completions", Purpose.TURN, "chat"),
        ("GET", "/v1/chat/completions", Purpose.OTHER, None),
        ("GET", "/v1/chat/completions/cmpl_1", Purpose.RESULT, "chat"),
        ("POST", "/v1/completions", Purpose.TURN, "completions"),
        ("POST", "/v1/chat/completions/cmpl_1", Purpose.OTHER, None),
        ("POST", "/v1/responses", Purpose.TURN, "responses"),
        ("POST", "/v1/responses/compact", Purpose.TURN, "responses"),
        ("GET", "/v1/responses/resp_1", Purpose.RESULT, "responses"),
        ("DELETE", "/v1/responses/resp_1", Purpose.OTHER, None),
        ("POST", "/v1/embeddings", Purpose.OTHER, None),
        ("HEAD", "/", Purpose.OTHER, None),
        ("GET", "/v1/models", Purpose.OTHER, None),
        ("POST", "/v1/threads/t_1/messages", Purpose.HOSTED, None),
        ("POST", "/v1/conversations", Purpose.HOSTED, None),
        ("POST", "/v1/conversations/c/items", Purpose.HOSTED, None),
        ("DELETE", "/v1/conversations/c", Purpose.HOSTED, None),
        ("GET", "/v1/conversations/c", Purpose.OTHER, None),
        ("POST", "/v1/memory_stores/m/memories", Purpose.HOSTED, None),
        ("POST", "/v1/vector_stores/v/files", Purpose.HOSTED, None),
        ("POST", "/v1/Vector_Stores/v/search", Purpose.HOSTED, None),
        ("PATCH", "/v1/assistants/a", Purpose.HOSTED, None),
        ("POST", "/v1/realtime/client_secrets", Purpose.HOSTED, None),
        ("POST", "/v1/chatkit/sessions", Purpose.HOSTED, None),
        ("POST", "/v1beta/models/g-2.5:generateContent", Purpose.TURN, "gemini"),
        ("POST", "/v1beta/models/g-2.5:streamGenerateContent", Purpose.TURN, "gemini"),
        ("POST", "/v1beta/models/g-2.5:streamgeneratecontent", Purpose.TURN, "gemini"),
        ("POST", "/v1/publishers/google/models/g:generateContent", Purpose.TURN, "gemini"),
        ("GET", "/v1beta/models/g:generateContent", Purpose.OTHER, None),
        ("POST", "/v1beta/models/g:countTokens", Purpose.OTHER, None),
        ("POST", "/v1beta/models/g:batchGenerateContent", Purpose.HOSTED, None),
        ("POST", "/v1beta/models/g:asyncBatchEmbedContent", Purpose.HOSTED, None),
        ("POST", "/v1beta/models/g:bidiGenerateContent", Purpose.HOSTED, None),
        ("POST", "/v1beta/tunedModels/t:generateContent", Purpose.HOSTED, None),
        ("POST", "/v1beta/tunedModels", Purpose.HOSTED, None),
        ("POST", "/v1beta/interactions", Purpose.HOSTED, None),
        ("PATCH", "/v1beta/cachedContents/c", Purpose.HOSTED, None),
        ("POST", "/v1beta/fileSearchStores/f:importFile", Purpose.HOSTED, None),
        ("POST", "/upload/v1beta/fileSearchStores/f:uploadToFileSearchStore", Purpose.HOSTED, None),
        ("POST", "/upload/v1beta/files", Purpose.HOSTED, None),
        ("POST", "/v1beta/batches/b:cancel", Purpose.HOSTED, None),
        ("POST", "/v1beta/agents", Purpose.HOSTED, None),
        ("POST", "/v1beta/webhooks", Purpose.HOSTED, None),
        ("POST", "/v1/files", Purpose.OTHER, None),
    ],
)
def test_the_purpose_of_a_route(method: str, path: str, purpose: Purpose, api: str | None) -> None:
    found, read = purpose_of(method, path)
    assert found is purpose
    assert (None if read is None else read.name) == api


def test_path_and_query_are_encoded_again() -> None:
    query = (("beta", "true"), ("q", "a b&c"), ("empty", ""))
    head = HttpRequest(method="GET", path="/x", query=query)
    assert target_of(head, "/v1/models/ft:gpt") == ("/v1/models/ft:gpt?beta=true&q=a+b%26c&empty=")
    assert target_of(HttpRequest(method="GET", path="/x"), "/v1/models") == "/v1/models"


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/messages;a=1", "/v1/messages;", "/v1/%6dessages", "/v1/a%2fb", "/v1/messages?x"),
        *("/v1/messages#x", "/v1/messages ", "/v1/ messages", "/v1/messages.", "/v1/./messages"),
        *("/v1/x/../messages", "/v1\\messages", "/v1/messages\t", "/v1/me\u00adssages"),
        *("/v1/\u212aey", "/v1/messages+", "v1/messages", "/v1/messages\x00"),
    ],
)
def test_a_path_that_two_servers_may_read_differently_is_refused(path: str) -> None:
    with pytest.raises(MalformedRequest):
        check_path(path)


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/v1/messages", "/v1/messages/", "/V1/Messages", "/v1/models/ft:gpt-4o:org::id"),
        *("/v1/models/org/name@1.2~x", "/openai/deployments/gpt-4.1/chat/completions"),
        "/v1/x$y=z,w",
    ],
)
def test_what_is_classified_is_what_is_sent(path: str) -> None:
    check_path(path)
    head = HttpRequest(method="GET", path="/x")
    assert target_of(head, path) == path
    assert URL(f"http://behind:1{path}").raw_path == (path or "/")


def known(method: str, path: str, *passing: str) -> bool:
    return is_known(method, purpose_of(method, path)[0], path, passing)


@pytest.mark.parametrize(
    "path",
    [
        *("/v1beta/models/g:predict", "/api/chat", "/api/generate", "/v2/chat", "/v1/chat"),
        *("/invocations", "/v1/agents/completions/x", "/model/x/converse", "/v1/messages/x"),
        *("/v1/chat/completions:x", "/v1/x/embeddings", "/v1/files/f/x", "/", "/v1/embeddings/x"),
    ],
)
def test_a_route_that_nobody_knows_is_refused_unless_it_is_listed(path: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert not known(method, path)
    assert known("GET", path)
    if path != "/":
        assert known("POST", path, path)
        assert known("POST", path.upper(), path)
        assert not known("POST", f"{path}/y", path), "what is listed is one route"


def test_a_star_stands_for_one_segment() -> None:
    assert known("POST", "/v1beta/models/g:predict", "/v1beta/models/*")
    assert not known("POST", "/v1beta/models/g/x", "/v1beta/models/*")
    assert not known("POST", "/v1beta/models/g", "/v1beta/model.")


@pytest.mark.parametrize(
    "base", ["", "/v1", "/v1beta", "/openai/v1", "/openai/deployments/gpt-4.1"]
)
def test_every_known_route_passes_and_the_documents_name_it(base: str) -> None:
    table = Path("docs/operations.md").read_text()
    for route in KNOWN:
        assert known("POST", f"{base}/{route.replace('*', 'id_1')}"), route
        assert f"`{route}`" in table


REPLY = b'{"type": "message", "content": [{"type": "tool_use", "name": "save"}], "n": %s}'


def fetched() -> StoredReplyEditor:
    nobody: Any = None
    return StoredReplyEditor(UnsafeUncoupled(), nobody, nobody)


@pytest.mark.parametrize("before", [b"", b'{"a": 1}\n'])
async def test_a_reply_that_only_lenient_readers_read_is_refused(before: bytes) -> None:
    with pytest.raises(UpstreamError, match="not JSON"):
        await fetched().edited(before + REPLY % b"NaN")


@pytest.mark.parametrize(
    "raw",
    [
        b"def tool_use():\n    return {}\n",
        b'{"a": NaN}\n',
        b'{"type": "message", "content": "tool_use"}\n',
    ],
)
async def test_what_is_no_reply_passes(raw: bytes) -> None:
    assert await fetched().edited(raw) == raw


FINE = b'{"type": "message", "content": [{"type": "text", "text": "tool_use"}], "n": 1}'


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps(json.loads(REPLY % b"1"), indent=1).encode().replace(b": 1", b": NaN"),
        (REPLY % b"1").decode().encode("utf-16"),
        (REPLY % b"1").decode().encode("utf-32-be"),
        b"\xef\xbb\xbf" + REPLY % b"1",
        b"{ " + (REPLY % b"NaN")[1:],
        b"x\xe2\x80\xa8" + REPLY % b"1",
    ],
)
async def test_a_reply_in_any_spelling_that_others_read_is_refused(raw: bytes) -> None:
    with pytest.raises(UpstreamError, match="not JSON"):
        await fetched().edited(raw)


async def test_a_reply_is_the_same_to_who_reads_the_first_of_two_keys() -> None:
    twice = (REPLY % b"1")[:-1] + b', "content": []}'
    assert b"save" not in await fetched().edited(twice)
    named = (REPLY % b"1").replace(b'"content"', b'"Content"')
    assert b"save" not in await fetched().edited(named)
    assert await fetched().edited(FINE) == FINE, "control"

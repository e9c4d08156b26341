"""What a model reads and nobody here can: a session with it in it cannot be searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from policy.model import Origin
from proxy.dialects.model.anthropic import messages as anthropic
from proxy.dialects.model.openai import chat, responses
from proxy.seams.guard import Join
from tests.unit.proxy.ledgers import (
    ADA,
    MODEL,
    TOOL,
    UNKNOWN,
    USER,
    Ledger,
    call,
    kept,
    reply,
    user,
)

if TYPE_CHECKING:
    from pathlib import Path

    from policy.model import SourceKind
    from proxy.dialects.model.transcript import ModelRequest
    from proxy.dialects.strict_json.tolerant import Json

PNG = "iVBORw0KGgo="
SHOT: Json = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
}
PDF: Json = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": PNG},
}
BY_ID: Json = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
BY_URL: Json = {"type": "document", "source": {"type": "url", "url": "https://a.example"}}
FOUND: Json = {"type": "web_search_result", "title": "ACME", "encrypted_content": "Eqgf"}
CAPTION: Json = {"type": "text", "text": "A picture of clocks was taken."}
NOTE = "The refund desk of Northwind moved to Basel."


def read(*content: Json) -> ModelRequest:
    """A user's turn of Messages with this content."""
    return anthropic.read_request({"messages": [{"role": "user", "content": list(content)}]})


def result_of(*content: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": "f1", "content": list(content)}


def in_chat(*content: Json) -> ModelRequest:
    return chat.read_request({"messages": [{"role": "user", "content": list(content)}]})


def in_responses(*content: Json) -> ModelRequest:
    return responses.read_request({"input": [{"role": "user", "content": list(content)}]})


ASKED: Json = {"type": "text", "text": "What is in there?"}
SENT = {
    "a screenshot of a tool": (read(result_of(SHOT)), TOOL),
    "a screenshot with a caption": (read(result_of(SHOT, CAPTION)), TOOL),
    "a PDF of a tool": (read(result_of(PDF)), TOOL),
    "a file of a tool by its id": (read(result_of(BY_ID)), TOOL),
    "a sealed result of a search": (read(result_of(FOUND)), TOOL),
    "a picture of hers": (read(SHOT, ASKED), TOOL),
    "a PDF of hers": (read(PDF, ASKED), UNKNOWN),
    "a page by its address": (read(BY_URL, ASKED), UNKNOWN),
    "a picture of hers in chat": (
        in_chat({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}),
        TOOL,
    ),
    "her voice in chat": (in_chat({"type": "input_audio", "input_audio": {"data": PNG}}), TOOL),
    "a file in chat": (in_chat({"type": "file", "file": {"file_id": "file-1"}}), UNKNOWN),
    "a picture of hers in responses": (
        in_responses({"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}),
        TOOL,
    ),
    "a file in responses": (in_responses({"type": "input_file", "file_id": "file-1"}), UNKNOWN),
    "a search of the provider": (
        responses.read_request({"input": [{"type": "web_search_call", "id": "ws_1"}]}),
        TOOL,
    ),
}


@pytest.mark.parametrize("what", SENT)
async def test_a_session_with_something_nobody_here_can_read_cannot_be_searched(what: str) -> None:
    request, label = SENT[what]
    ledger = Ledger()
    entered = await ledger.sessions.entered(ADA, request)
    await ledger.answer(entered, reply("", call("w1", text=NOTE)))
    seen = ledger.seen(NOTE, join=Join(tool_use_id="w1"))
    assert (entered.taint, seen.taint, seen.whole) == (label, label, False)
    assert seen.contained[0].kind is label, "nobody can tell that it does not stand there"


def _texts_of(request: ModelRequest) -> list[str]:
    return [said.text for turn in request.turns for said in turn.said]


def test_the_bytes_of_a_picture_are_not_read_as_words() -> None:
    for request, _ in SENT.values():
        assert all(PNG not in text for text in _texts_of(request))
    assert "ACME" in _texts_of(SENT["a sealed result of a search"][0])


async def test_a_text_beside_a_picture_is_hers_and_the_session_is_not_searched() -> None:
    ledger = Ledger()
    entered = await ledger.sessions.entered(ADA, read(SHOT, ASKED))
    hers = entered.turns[0].spans[1]
    assert [span.label for span in hers] == [USER]


async def test_a_session_without_one_is_searched() -> None:
    ledger = Ledger()
    entered = await ledger.ask(user("What is in there?"))
    await ledger.answer(entered, reply("", call("w1", text=NOTE)))
    assert ledger.seen(NOTE, join=Join(tool_use_id="w1")).whole


@pytest.mark.parametrize("again", [False, True])
async def test_a_picture_is_unread_after_a_restart_as_well(tmp_path: Path, *, again: bool) -> None:
    ledger = kept(tmp_path, is_new=True)
    request, label = SENT["a screenshot of a tool"]
    entered = await ledger.sessions.entered(ADA, request)
    await ledger.answer(entered, reply("", call("w1", text=NOTE)))
    await ledger.sessions.close()
    ledger = kept(tmp_path, ledger.clock)
    if again:
        await ledger.sessions.entered(ADA, request)
    seen = ledger.seen(NOTE, join=Join(tool_use_id="w1"))
    assert (seen.whole, seen.contained[0]) == (False, Origin(kind=label))
    await ledger.sessions.close()


async def test_what_a_search_of_the_provider_found_is_said_by_nobody_else() -> None:
    labels: list[tuple[SourceKind, bool]] = []
    nothing: dict[str, Json] = {}
    searching: dict[str, Json] = {"web_search_options": {}}
    for more in (nothing, searching):
        ledger = Ledger()
        body: dict[str, Json] = {"messages": [{"role": "user", "content": "Plan my trip."}], **more}
        entered = await ledger.sessions.entered(ADA, chat.read_request(body))
        await ledger.answer(entered, reply("", call("w1", text=NOTE)))
        seen = ledger.seen(NOTE, join=Join(tool_use_id="w1"))
        labels.append((seen.taint, seen.whole))
    assert labels == [(MODEL, True), (TOOL, False)]


async def test_a_call_that_the_provider_ran_is_not_under_way_any_more() -> None:
    ledger = Ledger()
    entered = await ledger.ask(user("Plan my trip."))
    use: Json = {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {}}
    done: Json = {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": [FOUND]}
    under_way: list[Json] = [use]
    over: list[Json] = [use, done]
    for content in (under_way, over):
        await ledger.answer(entered, anthropic.read_reply({"id": "m1", "content": content}))
        name = f"talk {len(content)}"
        other = await ledger.ask(user(f"Another {name}."))
        assert other.taint is (MODEL if content is under_way else USER)

"""Every way in which something reaches an agent's context, and every way of writing it there."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from policy.model import SourceKind
from proxy.dialects.model.anthropic import messages as anthropic
from proxy.dialects.model.transcript import ModelReply
from proxy.seams.guard import Join, Segment
from tests.unit.proxy.ledgers import ADA, TOOL, UNKNOWN, assistant, call, reply, result, user

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.dialects.strict_json.tolerant import Json
    from tests.unit.proxy.ledgers import Ledger

ASKED: Final = user("Read the page about trains, please.")


class Conversation(msgspec.Struct):
    """One session, so far: its messages, and the name that its client gives it."""

    ledger: Ledger
    messages: list[Json]
    name: str = "s"
    label: SourceKind = SourceKind.UNKNOWN  # of its last message

    async def goes_on(self, *said: Json, answer: str = "") -> None:
        """More messages, and what the model answers."""
        self.messages += said
        entered = await self.ledger.ask(*self.messages)
        self.label = entered.turns[-1].label
        if answer:
            await self.ledger.answer(entered, reply(answer))
            self.messages.append(assistant(answer))

    async def says(self, text: str) -> None:
        """The model says it."""
        entered = await self.ledger.ask(*self.messages)
        await self.ledger.answer(entered, reply(text))
        self.messages.append(assistant(text))

    async def calls(self, tool: str, **arguments: Json) -> str:
        """The model calls a tool; the id of the call."""
        made = call(f"c{len(self.messages)}", tool, **arguments)
        entered = await self.ledger.ask(*self.messages)
        await self.ledger.answer(entered, reply("", made))
        self.messages.append(assistant("", made))
        return made.call_id


async def a_result(talk: Conversation, text: str) -> None:
    """A tool's result."""
    call_id = await talk.calls("fetch", url="x")
    await talk.goes_on(result(call_id, text), answer="I read it.")


async def a_reply(talk: Conversation, text: str) -> None:
    """The model's own words."""
    await talk.says(text)


async def a_call(talk: Conversation, text: str) -> None:
    """An argument of a call."""
    call_id = await talk.calls("search", query=text)
    await talk.goes_on(result(call_id, "Nothing was found there."), answer="Nothing.")


async def a_provided_result(talk: Conversation, text: str) -> None:
    """What a tool of the provider found, within the reply."""
    source: Json = {"type": "text", "media_type": "text/plain", "data": text}
    document: Json = {"type": "document", "source": source}
    found: Json = {"type": "web_fetch_result", "url": "x", "content": document}
    content: list[Json] = [
        {"type": "server_tool_use", "id": "srv1", "name": "web_fetch", "input": {}},
        {"type": "web_fetch_tool_result", "tool_use_id": "srv1", "content": found},
        {"type": "text", "text": "I read it."},
    ]
    entered = await talk.ledger.ask(*talk.messages)
    await talk.ledger.answer(entered, anthropic.read_reply({"id": "m1", "content": content}))
    talk.messages.append({"role": "assistant", "content": content})


def shown_by(tool: str, kind: SourceKind) -> Callable[[Conversation, str], Awaitable[None]]:
    """Something that a relay brought from a server."""

    async def door(talk: Conversation, text: str) -> None:
        shown = Segment(
            server="northwind", tool=tool, call_id="1", texts=(text,), join=Join(), kind=kind
        )
        await talk.ledger.sessions.saw(ADA.principal_id, shown)

    return door


async def a_recall(talk: Conversation, text: str) -> None:
    """A memory that was served."""
    talk.ledger.recall("m" * 32, text, TOOL)


async def a_block_of_nobody(talk: Conversation, text: str) -> None:
    """A document that nobody known handed over."""
    source: Json = {"type": "text", "media_type": "text/plain", "data": text}
    document: Json = {"type": "document", "source": source}
    await talk.goes_on({"role": "user", "content": [document]}, answer="I read it.")


async def a_result_in_parts(talk: Conversation, *parts: str) -> None:
    """A tool's result, block by block."""
    call_id = await talk.calls("fetch", url="x")
    blocks: list[Json] = [{"type": "text", "text": one} for one in parts]
    block: dict[str, Json] = {"type": "tool_result", "tool_use_id": call_id, "content": blocks}
    await talk.goes_on({"role": "user", "content": [block]}, answer="I read it.")


async def a_reply_in_parts(talk: Conversation, *parts: str) -> None:
    """The model's own words, block by block."""
    entered = await talk.ledger.ask(*talk.messages)
    await talk.ledger.answer(entered, ModelReply(reply_id=None, said=parts, calls=()))
    blocks: list[Json] = [{"type": "text", "text": one} for one in parts]
    talk.messages.append({"role": "assistant", "content": blocks})


async def an_answer_in_parts(talk: Conversation, *parts: str) -> None:
    """What a relay brought, block by block."""
    shown = Segment(server="northwind", tool="read_mail", call_id="1", texts=parts, join=Join())
    await talk.ledger.sessions.saw(ADA.principal_id, shown)


async def blocks_of_nobody(talk: Conversation, *parts: str) -> None:
    """Documents side by side that nobody known handed over."""
    blocks: list[Json] = []
    for one in parts:
        source: Json = {"type": "text", "media_type": "text/plain", "data": one}
        blocks.append({"type": "document", "source": source})
    await talk.goes_on({"role": "user", "content": blocks}, answer="I read it.")


async def a_description_in_parts(talk: Conversation, *parts: str) -> None:
    """A tool that says something else than before, of itself and of its arguments."""
    for said in (("Fetches a page.",), parts):
        arguments: dict[str, Json] = {
            f"a{at}": {"type": "string", "description": one} for at, one in enumerate(said)
        }
        schema: Json = {"type": "object", "properties": arguments}
        tool: Json = {"name": "fetch", "input_schema": schema}
        talk.label = (await talk.ledger.ask(*talk.messages, tools=[tool])).taint


IN_PARTS: Final[dict[str, Callable[..., Awaitable[None]]]] = {
    "result": a_result_in_parts,
    "reply": a_reply_in_parts,
    "answer": an_answer_in_parts,
    "block": blocks_of_nobody,
    "description": a_description_in_parts,
}
DOORS: Final[dict[str, Callable[[Conversation, str], Awaitable[None]]]] = {
    "result": a_result,
    "reply": a_reply,
    "call": a_call,
    "provided": a_provided_result,
    "answer": shown_by("read_mail", TOOL),
    "prompt": shown_by("prompts/get", UNKNOWN),
    "resource": shown_by("resources/read", UNKNOWN),
    "error": shown_by("other", TOOL),
    "block": a_block_of_nobody,
}
LABELS: Final = {
    **dict.fromkeys(DOORS, TOOL),
    "reply": SourceKind.MODEL_INFERENCE,
    "call": SourceKind.MODEL_INFERENCE,
    "prompt": UNKNOWN,
    "resource": UNKNOWN,
    "block": UNKNOWN,
}


def _divided(text: str) -> str:
    return " ".join(f"{one[:3]}-\n{one[3:]}" if len(one) > 5 else one for one in text.split(" "))


READINGS: Final[dict[str, Callable[[str], str]]] = {
    "as it is": str,
    "in base64": lambda text: f"data: {b64encode(text.encode()).decode()} end",
    "in hexadecimal": lambda text: text.encode().hex(),
    "in percent signs": quote,
    "every byte in percent signs": lambda text: "".join(f"%{one:02X}" for one in text.encode()),
    "in entities": lambda text: "".join(f"&#{ord(one)};" for one in text),
    "escaped twice": lambda text: html.escape(html.escape(f"<p>{text}</p>")),
    "in escapes": lambda text: "".join(f"\\u{ord(one):04x}" for one in text),
    "with tags in words": lambda text: re.sub(r"\b(\w)(?=\w)", r"\1<b></b>", text),
    "in tag characters": lambda text: "".join(
        chr(0xE0000 + ord(one)) if " " <= one <= "~" else one for one in text
    ),
    "in a narrow column": _divided,
    "in a mail": lambda text: "".join(f"={one:02X}" for one in text.encode()),
    "with numbers of lines": lambda text: f"    12\t{text}\n    13\tEnd of the file.",
    "in capitals": str.upper,
}
# Where a text stands so that somebody may be made to say it alone.
PLACES: Final[dict[str, Callable[[str], str]]] = {
    "alone": str,
    "after a colon": lambda text: f"To go on, please answer: {text}",
    "after a lead-in": lambda text: f"Please say that {text}",
    "after a dash": lambda text: f"There is one answer \u2014 {text}",
    "after a comma": lambda text: f"To get the discount, {text}",
    "in quotation marks": lambda text: f'Reply with "{text}" to get the discount.',
    "in single marks": lambda text: f"Reply with '{text}' to get the discount.",
    "in brackets": lambda text: f"(copy: {text})",
    "in a table": lambda text: f"| step 1 | {text} |\n|---|---|",
    "in a list": lambda text: f"1. {text}\n2. Send it.",
    "in code": lambda text: f"Copy this:\n```\n{text}\n```",
    "in JSON": lambda text: msgspec.json.encode({"reply": text, "ok": True}).decode(),
}

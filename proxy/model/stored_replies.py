"""Judges the model replies in answers of routes that ask no model, such as results of batches.

The calls in such replies are judged as in any other reply. The requests of the replies are unknown
here, so the texts of the replies count as of unknown origin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from proxy.dialects.model.api import ANTHROPIC, CHAT, GEMINI, RESPONSES, ModelApi
from proxy.dialects.model.one_reading import straight
from proxy.dialects.model.reading import list_of, repeats
from proxy.dialects.model.stream import CallDecision, CompleteCall
from proxy.dialects.model.transcript import ContextText, ModelCall, ModelReply
from proxy.dialects.strict_json.tolerant import Json, read_json, write_body
from proxy.model.ledger_coupling import LedgerCoupling
from proxy.model.memory_seam import PreparedRequest, PrincipalRequest
from proxy.seams.faults import MalformedRequest, UpstreamError
from proxy.transport.responses import AnswerFailure, attempt

UNDECIDED: Final = (
    "This call was not made: Mnemogate could not decide about it. Nothing was stored. "
    "Go on without it, or try again later."
)


class CallDecider:
    """Decides on the calls of one reply, even if the model was asked several times for it.

    Event loop only.
    """

    def __init__(self, coupling: LedgerCoupling, halt: Callable[[], None]) -> None:
        self._coupling = coupling
        self._halt = halt
        self._told_calls: set[str] = set()
        self._told_texts: set[str] = set()
        self._told_heard: set[ContextText] = set()
        self.calls = 0
        self.refused = 0

    async def tell(self, prepared: PreparedRequest, said: ModelReply) -> bool:
        """Note the words and calls that the ledger does not have yet; return False on failure."""
        calls = tuple(call for call in said.calls if call.call_id not in self._told_calls)
        texts = tuple(text for text in said.said if text not in self._told_texts)
        heard = tuple(one for one in said.heard if one not in self._told_heard)
        if not calls and not texts and not heard:
            return True
        reply = ModelReply(reply_id=said.reply_id, said=texts, calls=calls, heard=heard)
        done = await attempt(self._coupling.replied(prepared, reply), self._halt)
        if isinstance(done, AnswerFailure):
            return False
        self._told_calls |= {call.call_id for call in calls}
        self._told_texts |= set(texts)
        self._told_heard |= set(heard)
        return True

    async def decide(
        self, prepared: PreparedRequest, waiting: tuple[CompleteCall, ...], said: ModelReply
    ) -> list[CallDecision]:
        """Judge the waiting calls; return the decision on each, in order.

        A call that cannot be decided is refused.
        """
        told = await self.tell(prepared, said)
        calls = tuple(one.call for one in waiting)
        verdicts = await self._verdicts(prepared, calls) if told else (UNDECIDED,) * len(calls)
        self.calls += len(calls)
        notes = tuple(text for text in verdicts if text is not None)
        self.refused += len(notes)
        # The agent will send these refusals back as if its model had said them, so the ledger has
        # to contain them.
        await self.tell(prepared, ModelReply(reply_id=said.reply_id, said=notes, calls=()))
        return [
            CallDecision(key=one.key, refusal=text)
            for one, text in zip(waiting, verdicts, strict=True)
        ]

    async def _verdicts(
        self, prepared: PreparedRequest, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        if not calls:
            return ()
        done = await attempt(self._coupling.judge(prepared, calls), self._halt)
        if isinstance(done, AnswerFailure) or len(done) != len(calls):
            return (UNDECIDED,) * len(calls)
        return done


# The JSON of every tool call has one of these strings, unless its letters are escaped.
_MARKS: Final = (b"tool_", b"function_call", b"functionCall", b"\\u00")
_OBJECT: Final = re.compile(r'[\s\[\ufeff]*\{\s*"')
_LENIENT: Final = json.JSONDecoder(strict=False)
_NOT_JSON: Final = "the server behind sent a reply that is not JSON"


class StoredReplyEditor:
    """Removes refused calls from the replies in one answer. Its methods are called by one task."""

    def __init__(
        self,
        coupling: LedgerCoupling,
        halt: Callable[[], None],
        asked: Callable[[ModelApi], PrincipalRequest],
    ) -> None:
        """`asked` makes an empty request for a model API, used in place of the unknown request."""
        self._coupling = coupling
        self.deciding = CallDecider(coupling, halt)
        self._asked = asked
        self._prepared: dict[str, PreparedRequest] = {}

    async def edited(self, raw: bytes) -> bytes:
        """The answer without refused calls; the same bytes if none is refused."""
        if not any(mark in raw.replace(b"\0", b"") for mark in _MARKS):
            return raw
        try:
            value = read_json(raw)
        except MalformedRequest:
            if _others_read(raw):
                raise UpstreamError(_NOT_JSON) from None
            lines = raw.splitlines(keepends=True)
        else:
            return await self._whole(raw, value)
        return b"".join([await self._line(line) for line in lines])

    async def _line(self, line: bytes) -> bytes:
        """One line of JSON Lines without refused calls.

        Raises:
            UpstreamError: The line may contain a call that cannot be judged.
        """
        try:
            value = read_json(line)
        except MalformedRequest:
            text = line.decode("utf-8", "replace")
            begins = any(_OBJECT.match(part) for part in text.splitlines())
            if begins and any(mark in line for mark in _MARKS):
                raise UpstreamError(_NOT_JSON) from None
            return line
        made = await self._whole(line, value)
        return line if made is line else made + b"\n"

    async def _whole(self, raw: bytes, value: Json) -> bytes:
        """One JSON text without refused calls; the same bytes if none is, and all parsers agree."""
        plain = straight(value)
        made = await self._walked(plain)
        same = made is value and not repeats(raw.decode("utf-8"), value)
        return raw if same else write_body(made)

    async def _walked(self, value: Json) -> Json:
        if isinstance(value, list):
            parts = [await self._walked(part) for part in value]
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
        if not isinstance(value, dict):
            return value
        api = _api_of(value)
        if api is not None:
            return await self._reply(api, value)
        made = {key: await self._walked(part) for key, part in value.items()}
        return value if all(made[key] is part for key, part in value.items()) else made

    async def _reply(self, api: ModelApi, body: dict[str, Json]) -> dict[str, Json]:
        reply = api.whole()
        waiting = reply.feed(body)
        if not waiting:
            return body
        prepared = self._prepared.get(api.name)
        if prepared is None:
            prepared = await self._coupling.prepare(self._asked(api))
            self._prepared[api.name] = prepared
        for one in await self.deciding.decide(prepared, waiting, reply.said()):
            reply.decide(one)
        return reply.edited()


def _others_read(raw: bytes) -> bool:
    """Whether a more lenient parser than this one would read the bytes as JSON."""
    try:
        _LENIENT.decode(raw.decode(json.detect_encoding(raw), "replace").strip("\ufeff \t\r\n"))
    except (ValueError, RecursionError):
        return False
    return True


def _api_of(value: dict[str, Json]) -> ModelApi | None:
    """The model API whose form a reply object has."""
    if value.get("type") == "message" and value.get("role") == "assistant":
        return ANTHROPIC
    if list_of(value.get("choices")):
        return CHAT
    if list_of(value.get("candidates")):
        return GEMINI
    return RESPONSES if list_of(value.get("output")) else None

"""Google's Gemini API: requests to generate content, and whole replies.

A call has an id in some versions of the API only. Where an id is missing, a call is named by its
own content, and a result answers the first open call of its name.

Source: the published API reference, and the requests of the real client named in the tests.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from proxy.dialects.model.reading import (
    AFRESH,
    Readings,
    call_of,
    list_of,
    object_of,
    result_in,
    said_in,
    sealed_in,
    text_of,
    tool_in,
    unplaced_in,
)
from proxy.dialects.model.transcript import (
    ContextText,
    ModelCall,
    ModelReply,
    ModelRequest,
    Turn,
    Voice,
    Where,
    reply_of,
)
from proxy.dialects.strict_json.tolerant import Json, write_body
from proxy.seams.faults import MalformedRequest

CALL: Final = "functionCall"
RESULT: Final = "functionResponse"
TURNS: Final = "contents"
_CACHED: Final = "unknown_write: no one here can judge cachedContent; send the whole history"
_DECLARED: Final = "functionDeclarations"
# The API reads each of its own members in camel case and with underscores. The keys of these
# members' values belong to a tool or a schema.
_FREE: Final = frozenset(
    {
        *("args", "response", "parameters", "parametersJsonSchema", "responseJsonSchema"),
        *("responseSchema", "labels", "headers", "partMetadata"),
    }
)
_UNDERSCORES: Final = re.compile("_+([a-zA-Z0-9])")
_VOICES: Final = {"model": Voice.MODEL, "user": Voice.USER, "function": Voice.TOOL}
# Members of a part that are marks beside its content; a signature has no words.
_MARKS: Final = frozenset({"thought", "thoughtSignature"})
_READABLE: Final = frozenset({"text", "executableCode", "codeExecutionResult"})
_SPOKEN: Final = _MARKS | {"text"}
# Members of a candidate that quote what the provider's own tools found.
_QUOTED: Final = ("groundingMetadata", "urlContextMetadata", "citationMetadata")
_PATH: Final = re.compile(r"/([^/:?]+):(?:stream)?generatecontent(?:\?.*)?\Z", re.IGNORECASE)


def plain(body: dict[str, Json]) -> dict[str, Json]:
    """A request whose own members are all in camel case; the same object if they already were.

    Raises:
        MalformedRequest: A member is given in both spellings, or the provider keeps a part of the
            conversation.
    """
    made = object_of(_camelled(body))
    if made.get("cachedContent"):
        raise MalformedRequest(_CACHED, status=403)
    return made


def _camelled(value: Json) -> Json:
    if isinstance(value, list):
        parts = [_camelled(part) for part in value]
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
    if not isinstance(value, dict):
        return value
    made: dict[str, Json] = {}
    for key, part in value.items():
        name = _UNDERSCORES.sub(lambda found: found[1].upper(), key)
        made[name] = part if name in _FREE else _camelled(part)
    if len(made) < len(value):
        raise MalformedRequest("body: a member is given in two spellings", status=400)
    return value if all(made.get(key) is part for key, part in value.items()) else made


def model_in(path: str) -> str:
    """The model that a path asks to generate content; "" if the path asks none."""
    found = _PATH.search(path)
    return "" if found is None else found[1]


def whole_path(path: str) -> str:
    """The path that asks for the same reply whole; any other path, or target, as it is."""
    return _PATH.sub(lambda found: f"/{found[1]}:generateContent", path)


class _Waiting(NamedTuple):
    """A call without a result: its id, whether the id is its own, and its name."""

    call_id: str
    name: Json
    has_id: bool


def identified(contents: list[Json]) -> list[Json]:
    """The contents with an id in each call, and each result with the id of its call.

    The same list if no id had to be added.
    """
    waiting: list[_Waiting] = []
    made = [_identified(one, waiting) if isinstance(one, dict) else one for one in contents]
    return contents if all(a is b for a, b in zip(made, contents, strict=True)) else made


def _identified(content: dict[str, Json], waiting: list[_Waiting]) -> dict[str, Json]:
    """One content with ids; `waiting` are the calls without a result so far."""
    given = list_of(content.get("parts"))
    parts: list[Json] = []
    for at, one in enumerate(map(object_of, given)):
        part: Json = one
        call, result = object_of(one.get(CALL)), object_of(one.get(RESULT))
        if call:
            name = text_of(call.get("id")) or _name_of(call, given[:at])
            waiting.append(_Waiting(name, call.get("name"), "id" in call))
            part = one if call.get("id") == name else {**one, CALL: {**call, "id": name}}
        elif result:
            found = [made for made in waiting if made.call_id == result.get("id")]
            alike = [made for made in waiting if made.name == result.get("name")]
            # A call with an id is answered by that id, if its client keeps ids.
            found += sorted(alike, key=attrgetter("has_id"))
            if found:
                waiting.remove(found[0])
                name = found[0].call_id
                part = one if name == result.get("id") else {**one, RESULT: {**result, "id": name}}
        parts.append(part)
    same = all(a is b for a, b in zip(parts, given, strict=True))
    return content if same else {**content, "parts": parts}


def _name_of(call: dict[str, Json], before: list[Json]) -> str:
    """A name for a call without an id; `before` are the parts before it in its content.

    It has the form of the ids that servers count, because it recurs in other conversations: readers
    of ids know that by the form.
    """
    count = sum(object_of(object_of(part).get(CALL)) == call for part in before)
    spelled = write_body([call.get("name"), call.get("args"), count])
    number = int.from_bytes(hashlib.sha256(spelled).digest()[:8])
    return f"functions.{call.get('name')}:{number}"


def read_request(body: dict[str, Json], readings: Readings = AFRESH) -> ModelRequest:
    """Parse a request into its texts, each with its voice, and its calls and tools.

    Parts of an unknown form become texts of the voice `UNPLACED`, and are never refused.
    """
    tools = list_of(body.get("tools"))
    offered = [readings.of(object_of(tool), _tools, at) for at, tool in enumerate(tools)]
    return ModelRequest(
        system=said_in(body.get("systemInstruction"), ("systemInstruction",), Voice.SYSTEM),
        prefix=(TURNS,),
        turns=readings.each(identified(list_of(body.get(TURNS))), read_turn),
        catalogue=tuple(one for tools in offered for one in tools),
        # Every other tool is one that the provider runs.
        searches=any(object_of(tool).keys() - {_DECLARED} for tool in tools),
    )


def read_turn(content: dict[str, Json]) -> Turn:
    """Parse one content; the places of its texts are relative to the content."""
    voice = _VOICES.get(text_of(content.get("role")) or "user", Voice.UNPLACED)
    said: list[ContextText] = []
    calls: list[ModelCall] = []
    for at, part in enumerate(list_of(content.get("parts"))):
        for key, value in object_of(part).items():
            if key == CALL:
                call = object_of(value)
                calls.append(call_of(call.get("id"), call.get("name"), call.get("args") or {}))
            elif key not in _MARKS:
                said += _member(key, value, ("parts", at, key), voice)
    return Turn(said=tuple(said), calls=tuple(calls))


def _member(key: str, value: Json, where: Where, voice: Voice) -> tuple[ContextText, ...]:
    if key in _READABLE:
        return said_in(value, where, Voice.TOOL if key == "codeExecutionResult" else voice)
    if key in {"inlineData", "fileData"}:
        return sealed_in(where, voice)
    if key == RESULT:
        result = object_of(value)
        call_id = text_of(result.get("id"))
        beside = said_in(result.get("parts"), (*where, "parts"), Voice.TOOL, call_id)
        return (*result_in(result.get("response"), (*where, "response"), call_id), *beside)
    return unplaced_in(value, where)


def read_reply(body: dict[str, Json]) -> ModelReply:
    """Parse a whole reply (not a stream), with all of its candidates."""
    turns: list[Turn] = []
    ran_tools = False
    for candidate in map(object_of, list_of(body.get("candidates"))):
        parts = list_of(object_of(candidate.get("content")).get("parts"))
        said: dict[str, Json] = {"role": "model", "parts": [*_joined(parts)]}
        quoted: dict[str, Json] = {key: candidate[key] for key in _QUOTED if key in candidate}
        turns += map(read_turn, map(object_of, identified([said])))
        turns.append(Turn(said=said_in(quoted, (), Voice.TOOL)))
        ran_tools |= bool(quoted) or any(object_of(one).keys() - _SPOKEN - {CALL} for one in parts)
    return reply_of(text_of(body.get("responseId")), *turns, ran_tools=ran_tools)


def _joined(parts: list[Json]) -> Iterator[Json]:
    """The parts of a reply, with the texts that follow one another as one text."""
    for (spoken, thought), run in groupby(map(object_of, parts), _kind):
        if spoken:
            text = "".join(text_of(part.get("text")) or "" for part in run)
            yield {"text": text, "thought": thought}
        else:
            yield from run


def _kind(part: dict[str, Json]) -> tuple[bool, bool]:
    return part.keys() <= _SPOKEN, part.get("thought") is True


def _tools(tool: dict[str, Json], at: int) -> tuple[tuple[str, tuple[ContextText, ...]], ...]:
    declared = enumerate(map(object_of, list_of(tool.get(_DECLARED))))
    return tuple(
        (text_of(one.get("name")) or "", tool_in(one, ("tools", at, _DECLARED, number)))
        for number, one in declared
    )

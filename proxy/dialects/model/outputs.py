"""Finds the outputs of a memory backend's own model in a whole reply, and replaces them.

Only the members that a backend parses are left in the reply: texts, joined as the backend's client
joins them, and the arguments of calls. Both are encoded anew, so that the backend reads exactly
what was judged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from proxy.dialects.model.reading import arguments_of, list_of, object_of, once, text_of
from proxy.dialects.strict_json.tolerant import Json, no_constant
from proxy.seams.faults import MalformedRequest

_THOUGHT: Final = re.compile(r"<think>.*?</think>", re.DOTALL)
_FENCED: Final = re.compile(r"```[A-Za-z0-9]*\s*\n(.*?)\n\s*```", re.DOTALL)
# Only these members of a reply's message are forwarded to a memory backend.
_MESSAGE: Final = frozenset({"role", "content", "tool_calls", "refusal"})


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """One text or call of a reply. `key` is its position among the reply's outputs."""

    key: int
    text: str | None = None
    name: str = ""
    arguments: dict[str, Json] | None = None


class ReplacedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The replacement of an output. A call with neither text nor arguments is removed."""

    text: str | None = None
    arguments: dict[str, Json] | None = None


def outputs_of(api: str, body: dict[str, Json]) -> tuple[Output, ...]:
    """Every output of a whole reply, in order."""
    found: list[Output] = []

    def note(output: Output) -> ReplacedOutput:
        found.append(output)
        return ReplacedOutput(text=output.text, arguments=output.arguments)

    _walked(api, body, note)
    return tuple(found)


def with_outputs(
    api: str, body: dict[str, Json], changed: dict[int, ReplacedOutput]
) -> dict[str, Json]:
    """The reply with its outputs replaced; an output without a replacement is removed."""
    return _walked(api, body, lambda output: changed.get(output.key, ReplacedOutput(text="")))


def bare(text: str) -> str:
    """A model's answer without `<think>` blocks, which its backend strips before parsing."""
    rest, found = text, 1
    while found:
        # Removing one block may join the rest into a new block, so the removal is repeated.
        rest, found = _THOUGHT.subn("", rest)
    return rest.strip()


def spells_object(text: str) -> bool:
    """Whether some parser could find a JSON object in an answer."""
    return "{" in text


def object_in(text: str) -> dict[str, Json]:
    """The one JSON object in a stripped answer, inside a code fence or other text.

    Raises:
        MalformedRequest: There is no object, or two parsers could read it differently.
    """
    fenced = _FENCED.search(text)
    inside = text if fenced is None else fenced[1]
    begin, end = inside.find("{"), inside.rfind("}")
    try:
        value: Json = _DECODER.decode(inside[begin : end + 1])
    except (ValueError, RecursionError):
        raise MalformedRequest("output: not one JSON object") from None
    if not isinstance(value, dict):
        raise MalformedRequest("output: not one JSON object")
    return value


def spelled(value: dict[str, Json]) -> str:
    """An object as JSON text, with escapes for `<` and `` ` ``, which the backend would strip."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("`", "\\u0060")


def _walked(
    api: str, body: dict[str, Json], take: Callable[[Output], ReplacedOutput]
) -> dict[str, Json]:
    counter = iter(range(1_000_000))
    walk = {"anthropic": _anthropic, "chat": _chat, "responses": _responses}[api]
    return walk(body, take, counter)


def _anthropic(
    body: dict[str, Json], take: Callable[[Output], ReplacedOutput], counter: Iterator[int]
) -> dict[str, Json]:
    blocks = [object_of(block) for block in list_of(body.get("content"))]
    content: list[Json] = []
    texts = [text_of(block.get("text")) or "" for block in blocks if block.get("type") == "text"]
    if texts:
        text = take(Output(key=next(counter), text="".join(texts))).text or ""
        content.append({"type": "text", "text": text})
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    kept = [(call, _kept(call.get("name"), call.get("input"), take, counter)) for call in calls]
    for call, given in kept:
        if given is not None:
            content.append({**call, "input": given})
    changed: dict[str, Json] = {**body, "content": content}
    if calls and all(given is None for _, given in kept):
        changed["stop_reason"] = "end_turn"
    return changed


def _chat(
    body: dict[str, Json], take: Callable[[Output], ReplacedOutput], counter: Iterator[int]
) -> dict[str, Json]:
    choices: list[Json] = []
    for part in list_of(body.get("choices")):
        choice = object_of(part)
        message = object_of(choice.get("message"))
        edited = {key: value for key, value in message.items() if key in _MESSAGE}
        text = _content(message.get("content"))
        if text:
            edited["content"] = take(Output(key=next(counter), text=text)).text or ""
        calls = [object_of(call) for call in list_of(message.get("tool_calls"))]
        kept: list[Json] = []
        for call in calls:
            function = object_of(call.get("function"))
            given = _kept(function.get("name"), function.get("arguments"), take, counter)
            if given is not None:
                arguments = spelled(given)
                kept.append({**call, "function": {**function, "arguments": arguments}})
        ending = choice.get("finish_reason")
        if calls and not kept:
            edited.pop("tool_calls", None)
            edited.setdefault("content", "")
            ending = "stop"
        elif calls:
            edited["tool_calls"] = kept
        if "refusal" in edited:
            edited["refusal"] = None
        named_choice: dict[str, Json] = {**choice, "message": edited, "finish_reason": ending}
        named_choice.pop("logprobs", None)
        choices.append(named_choice)
    return {**body, "choices": choices}


def _responses(
    body: dict[str, Json], take: Callable[[Output], ReplacedOutput], counter: Iterator[int]
) -> dict[str, Json]:
    items = [object_of(item) for item in list_of(body.get("output"))]
    messages = [item for item in items if item.get("type") == "message"]
    text = "".join(_content(item.get("content")) for item in messages)
    output: list[Json] = []
    if messages:
        said = take(Output(key=next(counter), text=text)).text or "" if text else ""
        part: Json = {"type": "output_text", "text": said, "annotations": []}
        output.append({**messages[0], "content": [part]})
    for item in items:
        if item.get("type") == "function_call":
            given = _kept(item.get("name"), item.get("arguments"), take, counter)
            if given is not None:
                output.append({**item, "arguments": spelled(given)})
    return {**body, "output": output}


def _kept(
    name: Json,
    given: Json,
    take: Callable[[Output], ReplacedOutput],
    counter: Iterator[int],
) -> dict[str, Json] | None:
    return take(
        Output(key=next(counter), name=text_of(name) or "", arguments=arguments_of(given))
    ).arguments


def _content(content: Json) -> str:
    """The text of a message; its parts are joined as clients join them."""
    if isinstance(content, str):
        return content
    return "".join(text_of(object_of(part).get("text")) or "" for part in list_of(content))


# Mem0 accepts control characters inside strings. So they are accepted here too, and written as
# escapes.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=once, parse_constant=no_constant, strict=False)

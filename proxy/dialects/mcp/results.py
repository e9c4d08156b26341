"""The part of a server's answer that an agent may see: results of tools, resources, prompts.

`structuredContent` and `content[].text` are filtered alike: hosts show the one or the other.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from policy.text.readings import texts_in_blob
from proxy.dialects.mcp.known_members import HANDSHAKES, METHODS, STATELESS, WORDS
from proxy.dialects.mcp.maps import AnswerShape
from proxy.dialects.mcp.removal import Structure
from proxy.dialects.mcp.shown_text import WITHHELD, Known, read_blob, write_blob
from proxy.dialects.mcp.words import ORDINARY_NAME
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import STRINGS_MAX

ROUNDS_MAX: Final = 16
NOTES_MAX: Final = 32
PLAIN: Final = AnswerShape()

_BLOCKS: Final = frozenset({"content", "contents", "messages"})
_PROSE: Final = frozenset({"title", "description"})
# For each member with a closed list of values in the protocol: the values of that list. They are
# not looked up, because no memory can be there and a client needs the values.
_WORDS: Final = {
    **WORDS,
    "method": METHODS,
    "protocolVersion": frozenset((*HANDSHAKES, *STATELESS)),
    "supportedVersions": frozenset((*HANDSHAKES, *STATELESS)),
    "resultType": frozenset({"complete", "input_required", "task"}),
    "stopReason": frozenset({"endTurn", "stopSequence", "maxTokens", "toolUse"}),
    "status": frozenset({"working", "input_required", "completed", "failed", "cancelled"}),
    "mimeType": frozenset(
        {"text/plain", "text/markdown", "text/html", "text/csv", "text/plain; charset=utf-8"}
        | {"application/json", "application/pdf", "application/octet-stream", "audio/wav"}
        | {"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "audio/mpeg"}
    ),
}
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]{5,18}(?:Z|[+-][0-9:]{2,5})?)?")
_CACHED: Final = frozenset(
    {"resources/list", "resources/templates/list", "resources/read", "prompts/list"}
)


def filtering(
    result: JsonValue, shown: AnswerShape = PLAIN, answer: Answer | None = None
) -> Generator[tuple[str, ...], tuple[bool, ...], JsonValue]:
    """Look up the strings of a server's answer, and return the answer without the withheld ones.

    A generator: it yields the strings to be looked up, is sent one flag for each (true: withheld),
    and returns the answer that may be shown. If no string is withheld, that is the same `result`
    object, whose bytes can then be forwarded. Ordinary answers need one round; an answer from which
    something was removed is looked up again. `answer` is the result, if it was divided already.

    Raises:
        MalformedRequest: The answer is too large or too deep to be searched; none of it may be
            shown.
    """
    known: dict[str, bool] = {}
    for _ in range(ROUNDS_MAX):
        answer = answer or Answer(result, shown)
        while unknown := _unique(answer.asks(known)):
            flags = yield unknown
            known.update(zip(unknown, flags, strict=True))
            if not any(known.values()):
                # Every string was looked up as a whole and none is withheld, so no single line or
                # paragraph needs a look-up.
                return result
        left = answer.without(known)
        if left is result:
            return result
        result, answer = left, None
    # An answer that still contains withheld text after so many rounds was probably built to carry
    # that text to the agent.
    raise MalformedRequest("result: cannot be shown without what is withheld")


def greeting(found: JsonValue, name: str) -> JsonValue:
    """The answer to `initialize` without any string that would have to be looked up.

    `name` takes the place of the server's own name and words.
    """
    plan = filtering(found)
    try:
        asked = next(plan)
        while True:
            asked = plan.send((True,) * len(asked))
    except StopIteration as end:
        left: JsonValue = end.value
        kept = left if isinstance(left, dict) else {}
        told: dict[str, JsonValue] = {
            one: kept[one] for one in ("protocolVersion", "capabilities") if one in kept
        }
        return {**told, "serverInfo": {"name": name, "version": "-"}}


def filtering_tools(
    result: JsonValue,
) -> Generator[tuple[str, ...], tuple[bool, ...], JsonValue]:
    """Filter a list of tools as `filtering` does a result; return it without the withheld tools.

    Each tool's prose and unusual names are looked up, and all members beside the tools. A tool is
    removed if anything of its texts is withheld; any other tool is returned unchanged.

    Raises:
        MalformedRequest: The result cannot be searched (`filtering` says why).
    """
    if not isinstance(result, dict):
        return result
    tools = result.get("tools")
    listed = tools if isinstance(tools, list) else []
    said: dict[str, JsonValue] = {name: item for name, item in result.items() if name != "tools"}
    asked: list[JsonValue] = [{"at": at, **_prose(tool)} for at, tool in enumerate(listed)]
    said["tools"] = asked
    left = yield from filtering(said)
    if left is said or not isinstance(left, dict):
        return result
    shown = left["tools"]
    whole = {
        at
        for tool in (shown if isinstance(shown, list) else [])
        if isinstance(tool, dict) and isinstance(at := tool.get("at"), int) and tool == asked[at]
    }
    kept = [tool for at, tool in enumerate(listed) if at in whole]
    return {name: kept if name == "tools" else left[name] for name in result if name in left}


def _prose(tool: JsonValue) -> dict[str, JsonValue]:
    """The texts of a tool's definition at any depth: prose, and names that are no identifiers."""
    found: list[str] = []
    level: list[tuple[str, JsonValue]] = [("", tool)]
    while level:
        below: list[tuple[str, JsonValue]] = []
        for name, value in level:
            if isinstance(value, list):
                below.extend((name, item) for item in value)
            elif isinstance(value, dict):
                found.extend(one for one in value if not ORDINARY_NAME.fullmatch(one))
                below.extend(value.items())
            elif isinstance(value, str) and (name in _PROSE or len(value.split()) > 1):
                found.append(value)
        level = below
    return {f"said{at}": text for at, text in enumerate(found)}


def texts_of(result: JsonValue, shown: AnswerShape = PLAIN) -> tuple[str, ...]:
    """Every text that an answer puts into the agent's context, unescaped and in order.

    Fields that a map's `shown` joins are one more text. A text at several places is contained
    several times, because a sentence may continue in the next text.

    Raises:
        MalformedRequest: The answer has too many strings, or is nested too deeply.
    """
    return Answer(result, shown).said()


def uncached(method: str, result: JsonValue) -> JsonValue:
    """The answer with a mark that it must not be cached, if the stateless era allows caching.

    Any other answer is returned as the same object.
    """
    if method not in _CACHED or not isinstance(result, dict) or "resultType" not in result:
        return result
    if result.get("ttlMs") == 0 and result.get("cacheScope", "private") == "private":
        return result
    return {**result, "ttlMs": 0, "cacheScope": "private"}


def refused(observations: Sequence[str], *, stateless: bool) -> dict[str, JsonValue]:
    """The result of a call that was refused, in the form that every host shows its model."""
    return {
        "content": [{"type": "text", "text": _noted(observations)}],
        "isError": True,
        # Clients of the stateless era reject a result without this member.
        **({"resultType": "complete"} if stateless else {}),
    }


def partly_done(
    result: JsonValue, observations: Sequence[str], number: int
) -> dict[str, JsonValue]:
    """A server's answer to the admitted items of a call, with a note about the refused items.

    `number` is the number of items in the call; `structuredContent` is not changed.
    """
    found = dict(result) if isinstance(result, dict) else {}
    content = found.get("content")
    note = f"{len(observations)} of {number} items were not stored.\n{_noted(observations)}"
    block: JsonValue = {"type": "text", "text": note}
    found["content"] = [*(content if isinstance(content, list) else []), block]
    return found


def _noted(observations: Sequence[str]) -> str:
    lines = list(dict.fromkeys(observations))
    more = len(lines) - NOTES_MAX
    if more > 0:
        lines[NOTES_MAX:] = [f"And {more} more."]
    return "\n".join(lines)


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for text in texts:
        found[text] = None
        if len(found) > STRINGS_MAX:
            raise MalformedRequest("result: too many strings")
    return tuple(found)


class Answer:
    """A result, divided into content blocks and other structures by the protocol's members.

    Raises:
        MalformedRequest: The result is deeper or larger than can be searched.
    """

    def __init__(self, result: JsonValue, shown: AnswerShape) -> None:
        self._result = result
        self._lists: dict[str, list[_Block]] = {}
        self._structures: dict[str, Structure] = {}
        if not isinstance(result, dict):
            self._structures[""] = Structure(result, shown)
            return
        for name, value in result.items():
            if name in _BLOCKS:
                self._lists[name] = [
                    _Block(item, shown) for item in (value if isinstance(value, list) else [value])
                ]
            elif not _is_word(name, value):
                # A map's paths begin at `structuredContent`, so that member is a structure of its
                # own. For resources, prompts and completions, the array of elements is the member's
                # own list.
                root = value if name == "structuredContent" else {name: value}
                self._structures[name] = Structure(root, shown)

    def said(self) -> tuple[str, ...]:
        """The texts of the result (`texts_of`)."""
        texts = tuple(chain.from_iterable([part.texts() for part in self._parts()]))
        unique = _unique(texts)
        return texts if len(texts) <= STRINGS_MAX else unique

    def asks(self, known: Known) -> Iterator[str]:
        """The strings that the caller still has to look up among withheld texts."""
        return chain.from_iterable([part.asks(known) for part in self._parts()])

    def _parts(self) -> list[Structure | _Block]:
        return [*self._structures.values(), *chain.from_iterable(self._lists.values())]

    def without(self, known: Known) -> JsonValue:
        """The result without its withheld parts; the same object if nothing is withheld."""
        changed: dict[str, JsonValue] = {}
        for name, structure in self._structures.items():
            left = structure.without(known)
            if left is not structure.value:
                changed[name] = left
        if not isinstance(self._result, dict):
            return changed.get("", self._result)
        for name, left in changed.items():
            if name != "structuredContent":
                changed[name] = left.get(name) if isinstance(left, dict) else None
        for name, blocks in self._lists.items():
            shown = [block.without(known) for block in blocks]
            if any(left is not block.value for left, block in zip(shown, blocks, strict=True)):
                changed[name] = shown if isinstance(self._result[name], list) else shown[0]
        return {**self._result, **changed} if changed else self._result


class _Block:
    """A content block, a resource's contents, or a message around a block."""

    def __init__(self, value: JsonValue, shown: AnswerShape) -> None:
        self.value = value
        self._text: tuple[str, Structure] | None = None
        self._below: tuple[str, _Block] | None = None
        self._blob = False
        rest = value
        if isinstance(value, dict):
            rest = _without_words(value)
            annotations = rest.get("annotations")
            if isinstance(annotations, dict):
                rest["annotations"] = _without_words(annotations)
            self._split(rest, shown)
        # Members of the block beside its text. If one of them is withheld, the whole block is,
        # because the meaning of the block without that member is unknown.
        self._rest = Structure(rest, shown)

    def _split(self, rest: dict[str, JsonValue], shown: AnswerShape) -> None:
        for name in ("resource", "content"):
            if isinstance(rest.get(name), dict):
                self._below = (name, _Block(rest.pop(name), shown))
                return
        if isinstance(rest.get("text"), str):
            self._text = ("text", Structure(rest.pop("text"), shown))
            return
        for name in ("blob", "data"):
            data = rest.get(name)
            if isinstance(data, str):
                text = read_blob(data)
                if text is None:
                    rest[name] = [*texts_in_blob(data)]
                else:
                    del rest[name]
                    self._text, self._blob = (name, Structure(text, shown)), True
                return

    def asks(self, known: Known) -> Iterator[str]:
        return chain.from_iterable([part.asks(known) for part in self._parts()])

    def texts(self) -> Iterator[str]:
        return chain.from_iterable([part.texts() for part in self._parts()])

    def _parts(self) -> list[Structure | _Block]:
        beside = (part[1] for part in (self._text, self._below) if part is not None)
        return [self._rest, *beside]

    def without(self, known: Known) -> JsonValue:
        if self._rest.without(known) is not self._rest.value:
            return self._replacement()
        if not isinstance(self.value, dict):
            return self.value
        if self._below is not None:
            name, block = self._below
            left = block.without(known)
            return self.value if left is block.value else {**self.value, name: left}
        if self._text is not None:
            name, structure = self._text
            text = structure.without(known)
            if text is structure.value:
                return self.value
            said = text if isinstance(text, str) else WITHHELD
            return {**self.value, name: write_blob(said) if self._blob else said}
        return self.value

    def _replacement(self) -> JsonValue:
        if isinstance(self.value, dict):
            role = self.value.get("role")
            if role is not None:
                return {"role": role if _is_word("role", role) else "user", "content": _NOTHING}
            if "uri" in self.value and "type" not in self.value:
                return {"uri": "withheld:", "text": WITHHELD}
        return dict(_NOTHING)


def _without_words(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: item for name, item in value.items() if not _is_word(name, item)}


def _is_word(name: str, value: JsonValue) -> bool:
    """Whether a member's value consists only of values that the protocol lists for that member."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, str) and _is_word(name, one) for one in value)
    if not isinstance(value, str):
        return False
    if name == "lastModified":
        return _TIME.fullmatch(value) is not None
    return value in _WORDS.get(name, ())


_NOTHING: Final[dict[str, JsonValue]] = {"type": "text", "text": WITHHELD}

"""Removes withheld texts from a model request: the code that all APIs share. Pure.

`Asks` is the search: it finds refused texts, and gives the text to put in their place. Tool results
and calls lose lines, other texts lose sentences; a result that may not be shown at all is replaced
whole. Text that a person typed stays, and so does a trusted system prompt or tool list.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from proxy.dialects.model.reading import list_of, object_of, text_of
from proxy.dialects.model.tools import results_in
from proxy.dialects.model.transcript import Where
from proxy.dialects.strict_json.tolerant import Json, read_body, read_json, write_body
from proxy.seams.faults import MalformedRequest

# Members whose values a provider signed or encrypted, or that are pictures. Such values contain no
# words, and may not be changed.
SEALED: Final = frozenset(
    {
        *(
            "signature",
            "encrypted_content",
            "encrypted_index",
            "encrypted_stdout",
            "thought_signature",
            "thoughtSignature",
        ),
        *("image_url", "file_data", "input_audio"),
    }
)
# The values of these keys are ids and names by which the API looks something up. They are not
# searched if they contain no white space.
NAMES: Final = frozenset(
    {
        "type",
        "id",
        "role",
        "tool_use_id",
        "tool_call_id",
        "call_id",
        "model",
        "media_type",
        "status",
        *("name", "namespace", "object", "server_label", "server_name"),
    }
)
_SENTENCE_END: Final = re.compile(
    r"(\n+|(?<=[.!?\u3002\uff01\uff1f])\s+|(?<=[\u3002\uff01\uff1f]))"
)
_LINE_END: Final = re.compile("(\r\n|[\n\r\u2028\u2029])")
_SPACE: Final = re.compile(r"\s")
_ADDRESS: Final = "://"
_KEY: Final = re.compile(r"[A-Za-z0-9_.$-]*", re.ASCII)
_BASE64: Final = ";base64,"
# Types of blocks with a model's thoughts, and the members of such blocks, which the provider signed
# as a whole.
THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
SIGNED: Final = frozenset({"thinking", "data", "summary", "content", "text"})
_INSTEAD_KEY: Final = "withheld"
# A mark in place of a text that is not searched, so that the texts before and after it are not
# searched as one text.
_APART: Final = "\n\u2014mnemogate0apart\u2014\n"


class Asks(Protocol):
    """Searches texts for refused texts: gives the replacement of each text, or None if it may stay.

    The same text gets the same answer until a further text is refused.
    """

    def of_the(self, noun: str, *, by_model: bool = False) -> Asks:
        """A copy that searches another kind of text: a "result", a "call" or any other "text".

        The model's own words (`by_model`) are also searched for texts that wait for a person.
        """
        ...

    def of(self, text: str) -> str | None:
        """The replacement for one text, or None if it may stay."""
        ...

    def spared(self, text: str) -> str:
        """The text with a notice in place of each sentence that made a memory count as false."""
        ...

    def of_result(self, call_id: str, text: str) -> str | None:
        """The replacement for a result that may not be shown at all, else None.

        A result stays withheld under its call id, also with another text. A refused text that is
        too short or too plain to be searched for elsewhere is found if it is the whole result.
        """
        ...

    def of_sentences(self, sentences: Sequence[str]) -> list[str | None]:
        """The replacement for each sentence of one text, or None for one that may stay."""
        ...

    def of_lines(self, lines: Sequence[str]) -> list[str | None]:
        """The replacement for each line of one text, or None for one that may stay."""
        ...

    def waits(self, text: str) -> bool:
        """Whether a result reports that a memory waits for a person, and a memory does wait."""
        ...

    def bears(self, text: str) -> bool:
        """Whether words were removed from this text in the model's reply to the agent."""
        ...

    def unbinds(self, name: str) -> bool:
        """Whether a signed block, named by its JSON text, is left out of all requests."""
        ...

    def unbind(self, name: str) -> None:
        """Leave a signed block, named by its JSON text, out of this and all later requests."""
        ...

    @property
    def fresh_count(self) -> int:
        """The number of texts that were withheld for the first time."""
        ...


class LeftUnchanged(msgspec.Struct, frozen=True, kw_only=True):
    """The places in a body that withholding leaves unchanged: typed and trusted texts."""

    typed: dict[Where, tuple[tuple[int, int], ...]] = {}
    trusted: frozenset[Where] = frozenset()
    # The trusted texts themselves, whose words may also be at other places.
    stands: tuple[str, ...] = ()
    # Indexes of turns in which an earlier search found nothing, and that need no second search
    # because no text was refused since.
    clean: frozenset[int] = frozenset()


def cut(text: str, asks: Asks) -> str:
    """The text without sentences that contain a refused text."""
    return _cut(text, asks, _SENTENCE_END, asks.of_sentences)


def cut_lines(text: str, asks: Asks) -> str:
    """The text without lines that contain a refused text."""
    return _cut(text, asks, _LINE_END, asks.of_lines)


def cut_result(text: str, asks: Asks) -> str:
    """The text of a tool's result without refused lines; of JSON, without refused strings.

    A read returns many memories in one line of JSON, so the memories beside a refused one stay.
    """
    if not text.startswith(("{", "[")) or asks.of(text) is None:
        return cut_lines(text, asks)
    try:
        inside = read_json(text.encode())
    except (MalformedRequest, UnicodeEncodeError):
        return cut_lines(text, asks)
    left = write_body(_sieved(inside, asks, cut_lines)).decode()
    return cut_lines(text, asks) if asks.of(left) is not None else left


def _cut(
    text: str,
    asks: Asks,
    ends: re.Pattern[str],
    of_parts: Callable[[Sequence[str]], list[str | None]],
) -> str:
    instead = asks.of(text)
    if instead is None:
        return text
    parts = ends.split(text)
    answers = of_parts(parts[::2])
    kept: list[str] = []
    for at, answer in enumerate(answers):
        gap = parts[2 * at - 1] if at else ""
        if answer is None:
            kept += (gap, parts[2 * at])
        elif not kept or kept[-1] != answer:
            kept += (gap, answer)
    left = "".join(kept)
    return instead if asks.of(left) is not None else left


def cut_between(text: str, typed: Sequence[tuple[int, int]], asks: Asks) -> str:
    """A text without refused sentences, except in parts that a person typed.

    The same object if nothing is removed.
    """
    return _between(text, typed, lambda part: _trimmed(part, asks))


def _between(text: str, typed: Sequence[tuple[int, int]], change: Callable[[str], str]) -> str:
    out: list[str] = []
    at = 0
    for start, end in sorted(typed):
        begin = max(at, start)
        out += (change(text[at:begin]), text[begin : max(begin, end)])
        at = max(at, end)
    out.append(change(text[at:]))
    made = "".join(out)
    return text if made == text else made


def _trimmed(text: str, asks: Asks) -> str:
    core = text.strip()
    return text.replace(core, cut(core, asks), 1) if core else text


def changed(
    value: Json, change: Callable[[str], str], instead: Callable[[str], str | None]
) -> Json:
    """JSON with every string replaced by the result of `change`.

    An object whose keys contain a refused text (`instead` is not None) is replaced whole.
    """
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        new = [changed(part, change, instead) for part in value]
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    if isinstance(value, dict):
        said = instead("\n".join(value))
        if said is not None:
            return {_INSTEAD_KEY: said}
        made = {
            key: part if seals(key, part) or names(key, part) else changed(part, change, instead)
            for key, part in value.items()
        }
        return value if all(made[key] is part for key, part in value.items()) else made
    return value


def seals(key: str, value: Json) -> bool:
    """Whether a value is sealed by a provider, or is a picture.

    A value under the same key that has white space or an address is a text.
    """
    return (
        key in SEALED
        and isinstance(value, str)
        and _ADDRESS not in value
        and _SPACE.search(value) is None
    )


def names(key: str, value: Json) -> bool:
    """Whether a value is no text but a name: under a key for names, and without white space."""
    return key in NAMES and isinstance(value, str) and _SPACE.search(value) is None


def passes(key: str, asks: Asks) -> bool:
    """Whether a key of an object may be sent. Keys of plain letters are not searched."""
    return _KEY.fullmatch(key) is not None or asks.of(key) is None


def swept(value: Json, where: Where, leave: LeftUnchanged, asks: Asks) -> Json:
    """Replace refused texts anywhere below a place: in unknown fields, in keys, in an address.

    `swept` runs after the code for the API, which has replaced refused texts in known fields.
    """
    if isinstance(value, str):
        return _swept(value, where, leave, asks)
    if isinstance(value, list):
        new = [swept(part, (*where, at), leave, asks) for at, part in enumerate(value)]
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    if isinstance(value, dict):
        signed = SIGNED if text_of(value.get("type")) in THOUGHTS else frozenset[str]()
        made = {
            key: part if key in signed else swept(part, (*where, key), leave, asks)
            for key, part in value.items()
            if passes(key, asks)
        }
        same = len(made) == len(value) and all(made[key] is part for key, part in value.items())
        return value if same else made
    return value


def _swept(text: str, where: Where, leave: LeftUnchanged, asks: Asks) -> str:
    if where in leave.trusted or names(str(where[-1]), text):
        return text
    if where in leave.typed:
        return _between(text, leave.typed[where], asks.spared)
    if SEALED.intersection(map(str, where)):
        return _unsealed(text, asks)
    return asks.of(text) or asks.spared(text)


def _unsealed(text: str, asks: Asks) -> str:
    """A sealed string with its refused text replaced, if it is a data URL of a text or has words.

    A provider's own data has no words: it has no white space.
    """
    if _ADDRESS in text or _SPACE.search(text) is not None:
        return asks.of(text) or text
    head, mark, data = text.rpartition(_BASE64)
    try:
        said = asks.of(b64decode(data).decode("utf-8"))
    except ValueError:
        # The data is a picture, a sound or a signature, so it has no words.
        return text
    return text if said is None else f"{head}{mark}{b64encode(said.encode()).decode()}"


def sieved(value: Json, asks: Asks) -> Json:
    """A JSON value without refused texts in any of its strings."""
    return _sieved(value, asks, cut)


def _sieved(value: Json, asks: Asks, less: Callable[[str, Asks], str]) -> Json:
    new = changed(value, lambda text: less(text, asks), asks.of)
    said = asks.of(joined(new))
    if said is None or isinstance(new, str):
        return new
    # The refused text spans several strings, so every string of the value is replaced.
    return changed(new, lambda text: said if text else text, lambda _: said)


def result(call_id: str, value: Json, asks: Asks) -> tuple[Json, bool]:
    """The part of a tool's result that may be sent, and whether the whole result was replaced.

    A result that reports a waiting memory is searched for texts that wait for a person as well.
    """
    text = joined(value)
    asks = asks.of_the("result", by_model=asks.waits(text))
    said = asks.of_result(call_id, text)
    if said is not None:
        return said, True
    return (value if asks.of(text) is None else _sieved(value, asks, cut_result)), False


class HeldCallIds:
    """The ids of calls whose results report that a memory waits for a person.

    The results are searched only when an id is first looked up, which few requests need.
    """

    def __init__(self, turns: list[Json], asks: Asks) -> None:
        self._turns = turns
        self._asks = asks
        self._found: frozenset[str] | None = None

    def __contains__(self, call_id: str | None) -> bool:
        """Whether the result of the call with this id reports that a memory waits."""
        if self._found is None:
            self._found = frozenset(
                call_id
                for call_id, value, _ in results_in(self._turns)
                if isinstance(call_id, str) and self._asks.waits(joined(value))
            )
        return call_id in self._found


ChangesTurn: TypeAlias = Callable[
    [dict[str, Json], Where, LeftUnchanged, Asks, HeldCallIds], dict[str, Json]
]
"""Makes a turn, or a block of one, without refused texts; the same object if it contains none."""


def withhold_turns(
    body: dict[str, Json],
    turns: str,
    leave: LeftUnchanged,
    asks: Asks,
    change: ChangesTurn,
) -> dict[str, Json]:
    """The body without refused texts: `change` for its `turns`, and all its other members."""
    made: dict[str, Json] = {}
    for key, value in body.items():
        if key != turns or not isinstance(value, list):
            if passes(key, asks):
                made[key] = swept(beside(value, (key,), leave, asks), (key,), leave, asks)
            continue
        waiting = HeldCallIds(value, asks)
        new: list[Json] = [
            part if at in leave.clean else _turn(part, (key, at), leave, asks, change, waiting)
            for at, part in enumerate(value)
        ]
        made[key] = value if all(a is b for a, b in zip(new, value, strict=True)) else new
    return body if all(made.get(key) is value for key, value in body.items()) else made


def _turn(
    part: Json,
    where: Where,
    leave: LeftUnchanged,
    asks: Asks,
    change: ChangesTurn,
    *waiting: HeldCallIds,
) -> Json:
    if not isinstance(part, dict):
        return sieved(part, asks)
    return swept(change(part, where, leave, asks, *waiting), where, leave, asks)


class BlockForm(msgspec.Struct, frozen=True, kw_only=True):
    """One API's content blocks: which of their texts are searched, and how they are changed."""

    # The searched texts of a block; the second value are the parts of its text that were typed.
    heard: Callable[[dict[str, Json], tuple[tuple[int, int], ...]], list[str | None]]
    changed: ChangesTurn
    emptied: Callable[[dict[str, Json], str], dict[str, Json]]
    is_result: Callable[[dict[str, Json]], bool]
    # Whether calls are among the blocks.
    calls: bool = True


def without_withheld(
    form: BlockForm,
    content: Json,
    where: Where,
    leave: LeftUnchanged,
    asks: Asks,
    waiting: HeldCallIds,
    *,
    by_model: bool,
) -> Json:
    """The content of one message, a text or blocks, without refused texts.

    The same object if it contains none.
    """
    if isinstance(content, str):
        return spoken(content, where, leave, asks.of_the("text", by_model=by_model))
    blocks = [object_of(block) for block in list_of(content)]
    typed = [_typed(block, (*where, at, "text"), leave) for at, block in enumerate(blocks)]
    of_text = asks.of_the("text", by_model=by_model)

    def search(searched: list[dict[str, Json]], asks: Asks) -> str | None:
        pairs = zip(searched, typed, strict=True)
        return asks.of(apart([text for pair in pairs for text in form.heard(*pair)]))

    told = search(blocks, of_text)
    new = [
        # A tool's result is searched even if no text of this message is withheld, because a result
        # that was withheld before stays withheld under its call id, also with another text.
        form.changed(block, (*where, at), leave, of_text, waiting)
        if told or form.is_result(block)
        else block
        for at, block in enumerate(blocks)
    ]
    # All blocks are searched together. A text that only waits for a person may be in calls other
    # than the one that proposed it.
    still = None if told is None else search(new, asks if form.calls else of_text)
    if still is not None:
        # The refused text spans several blocks, so the content of each block is replaced.
        pairs = zip(new, typed, strict=True)
        new = [block if stays else form.emptied(block, still) for block, stays in pairs]
    return content if all(a is b for a, b in zip(new, blocks, strict=True)) else [*new]


def _typed(
    block: dict[str, Json], place: Where, leave: LeftUnchanged
) -> tuple[tuple[int, int], ...]:
    """The parts of a block's text that stay: what was typed, and a trusted text as a whole."""
    whole = ((0, len(text_of(block.get("text")) or "")),)
    return whole if place in leave.trusted else leave.typed.get(place, ())


def heard_text(block: dict[str, Json], typed: tuple[tuple[int, int], ...] = ()) -> list[str | None]:
    """The searched texts of a block whose text is in `text`, or of any other block."""
    text = block.get("text")
    return around(text, typed) if typed and isinstance(text, str) else [joined(block)]


def changed_text(
    block: dict[str, Json], where: Where, leave: LeftUnchanged, asks: Asks, _: HeldCallIds
) -> dict[str, Json]:
    """The block without refused sentences in its text, or in any of its strings."""
    text = block.get("text")
    if not isinstance(text, str):
        return object_of(sieved(block, asks))
    new, bare = spoken(text, (*where, "text"), leave, asks), {**block, "text": ""}
    rest = object_of(sieved(bare, asks))
    return block if new is text and rest == bare else {**rest, "text": new}


def emptied_text(block: dict[str, Json], said: str) -> dict[str, Json]:
    """The block with `said` as its text; the same block if it has no text."""
    return {**block, "text": said} if "text" in block else block


TEXTS: Final = BlockForm(
    heard=heard_text,
    changed=changed_text,
    emptied=emptied_text,
    is_result=lambda _: False,
    calls=False,
)


def sieved_body(body: dict[str, Json], leave: LeftUnchanged, asks: Asks) -> dict[str, Json]:
    """A request of an unknown API, with refused texts removed from every string."""
    made = sieved(body, asks)
    made = swept(made, (), leave, asks)
    return made if isinstance(made, dict) else body


def arguments(value: Json, asks: Asks) -> Json:
    """A call's arguments, an object or JSON text, without lines that contain a refused text."""
    if isinstance(value, str):
        said = asks.of(value)
        if said is None:
            return value
        try:
            given = read_body(value.encode("utf-8", "surrogatepass"))
        except MalformedRequest:
            return written({_INSTEAD_KEY: said})
        new = arguments(given, asks)
        return written({_INSTEAD_KEY: said} if new is given else new)
    if asks.of(written(value)) is None:
        return value
    new = changed(value, lambda text: cut_lines(text, asks), asks.of)
    said = asks.of(written(new))
    return new if said is None else {_INSTEAD_KEY: said}


def written(value: Json) -> str:
    """A JSON value as compact JSON text, in which a model reads each key beside its value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def strings(value: Json) -> Iterator[str]:
    """Every string in a JSON value, in order, except sealed strings and names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)
    elif isinstance(value, dict):
        for key, part in value.items():
            if key not in SEALED and not names(key, part):
                yield from strings(part)


def joined(value: Json) -> str:
    """All strings of a JSON value as one text, except sealed strings and names."""
    return "\n".join(strings(value))


def apart(texts: list[str | None]) -> str:
    """Several texts joined to one text that is searched.

    None is a text that is not searched: a mark takes its place, so that no match spans the gap.
    """
    return "\n".join(_APART if text is None else text for text in texts)


def around(text: str, typed: Sequence[tuple[int, int]]) -> list[str | None]:
    """The parts of a text that no person typed, with None in place of each typed part."""
    found: list[str | None] = []
    at = 0
    for start, end in sorted(typed):
        found += (text[at : max(at, start)], None)
        at = max(at, end)
    return [*found, text[at:]]


def beside(value: Json, where: Where, leave: LeftUnchanged, asks: Asks) -> Json:
    """A value outside the messages (system prompt, tool list, settings), without refused texts.

    Trusted texts stay.
    """
    if isinstance(value, str):
        named = names(str(where[-1]), value)
        return value if named else spoken(value, where, leave, asks)
    if isinstance(value, list):
        new = [beside(part, (*where, at), leave, asks) for at, part in enumerate(value)]
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    if isinstance(value, dict):
        made = {key: beside(part, (*where, key), leave, asks) for key, part in value.items()}
        return value if all(made[key] is part for key, part in value.items()) else made
    return value


def spoken(text: str, where: Where, leave: LeftUnchanged, asks: Asks) -> str:
    """One text of the conversation without refused sentences.

    Trusted texts stay, and so does what a person typed.
    """
    if where in leave.trusted:
        return text
    typed = leave.typed.get(where, ())
    return cut_between(text, typed, asks) if typed else cut(text, asks)

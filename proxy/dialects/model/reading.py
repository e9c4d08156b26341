"""Functions that the parsers of all model APIs share; most yield strings with their places."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeVar

from proxy.dialects.model.transcript import ContextText, ModelCall, Voice, Where
from proxy.dialects.strict_json.tolerant import Json, read_body, write_body
from proxy.seams.faults import MalformedRequest

_R = TypeVar("_R")


class Readings(Protocol):
    """A cache of values that were parsed from parts of earlier requests."""

    def of(self, part: dict[str, Json], read: Callable[..., _R], *args: object) -> _R:
        """The value of `read(part, *args)`, from the cache if the same part was read before.

        `read` is pure, and its value is not modified.
        """
        ...

    def each(self, parts: list[Json], read: Callable[[dict[str, Json]], _R]) -> tuple[_R, ...]:
        """The value of `read` for each element of a list.

        An element that is no object counts as an empty object. The result may be a `SharedList`
        whose beginning is shared with the result for an earlier, shorter list.
        """
        ...


class _Afresh:
    def of(self, part: dict[str, Json], read: Callable[..., _R], *args: object) -> _R:
        return read(part, *args)

    def each(self, parts: list[Json], read: Callable[[dict[str, Json]], _R]) -> tuple[_R, ...]:
        return tuple([read(object_of(part)) for part in parts])


AFRESH: Final[Readings] = _Afresh()
"""No cache: every part is parsed anew."""

# The values of these keys name, sign or describe something. No model reads them as text, so they
# are not searched.
STRUCTURE: Final = frozenset(
    {
        *("type", "id", "role", "name", "status", "signature", "media_type", "mime_type"),
        "mimeType",
        *("tool_use_id", "tool_call_id", "call_id", "cache_control", "encrypted_content"),
        *("encrypted_index", "detail", "format", "image_url", "file_id", "file_data", "is_error"),
    }
)


# `_OWN`: members of a tool's definition whose values are no texts of the tool's author.
# `_HOLD_TOOLS`: members in which some APIs put the rest of the definition.
_OWN: Final = frozenset(
    {"type", "name", "cache_control", "defer_loading", "strict", "eager_input_streaming"}
)
_HOLD_TOOLS: Final = frozenset({"function", "custom"})
# The values of these keys of a schema are words of JSON Schema and no sentences, so they are not
# read as texts.
_STRUCTURAL: Final = frozenset({"type", "format", "$schema", "$ref", "$id"})
# These names are keywords of JSON Schema: the author of a tool did not choose them, so they are not
# read.
_SCHEMA: Final = frozenset(
    {
        *("type", "properties", "required", "items", "enum", "const", "default", "format"),
        *("title", "description", "examples", "additionalProperties", "anyOf", "allOf", "oneOf"),
        *("not", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "$schema"),
        *("$ref", "$defs", "$id", "definitions", "nullable", "propertyNames", "strict"),
        *("string", "number", "integer", "boolean", "array", "object", "null"),
    }
)


# Members that only the provider can read (encrypted data, files, pictures, sound), and types of
# blocks that have them.
_SEALING: Final = frozenset(
    {
        *("encrypted_content", "file_id", "file_data", "file_url", "image_url", "input_audio"),
        *("video_url", "audio_url", "input_image", "input_file"),
    }
)
_SEALED_TYPES: Final = frozenset({"base64", "url", "file"})
_TYPED_DATA: Final = frozenset({"data", "blob"})


def seals(part: dict[str, Json]) -> bool:
    """Whether a block has content that a model reads and this code cannot: a picture, a file."""
    if any(part.get(key) for key in _SEALING) or kind_of(part) in _SEALED_TYPES:
        return True
    media = text_of(part.get("mimeType")) or text_of(part.get("media_type")) or ""
    return bool(media) and not media.startswith("text/") and not _TYPED_DATA.isdisjoint(part)


def strings_in(value: Json, where: Where) -> Iterator[tuple[Where, str]]:
    """Every string below `value` that a model may read, in order, with its place."""
    return ((place, text) for place, text in _parts_in(value, where) if text is not None)


def _parts_in(value: Json, where: Where) -> Iterator[tuple[Where, str | None]]:
    """Every string that `strings_in` yields, and None for each part that cannot be read here."""
    pending: list[tuple[Where, Json]] = [(where, value)]
    while pending:
        place, part = pending.pop()
        if isinstance(part, str):
            yield place, part
        elif isinstance(part, list):
            pending.extend(((*place, at), inner) for at, inner in reversed([*enumerate(part)]))
        elif isinstance(part, dict):
            hidden = STRUCTURE
            if seals(part):
                hidden = STRUCTURE | _SEALING | _TYPED_DATA
                yield place, None
            named = [(key, inner) for key, inner in part.items() if key not in hidden]
            pending.extend(((*place, key), inner) for key, inner in reversed(named))


def tool_in(tool: dict[str, Json], where: Where) -> tuple[ContextText, ...]:
    """Everything that a model reads of a tool: its texts, and its schema's names as one more text.

    Below an argument called `name`, `type` or `id`, descriptions count as text as well.
    """
    texts: list[ContextText] = []
    names: set[str] = set()
    pending: list[tuple[Where, Json]] = []
    for key, part in tool.items():
        inner = object_of(part) if key in _HOLD_TOOLS else {}
        pending += [((*where, key, name), one) for name, one in inner.items() if name not in _OWN]
        if key not in _OWN and not inner:
            pending.append(((*where, key), part))
    pending.reverse()
    while pending:
        place, part = pending.pop()
        if isinstance(part, str) and place[-1] in _STRUCTURAL:
            names.add(part)
        elif isinstance(part, str) and part:
            texts.append(ContextText(where=place, text=part, voice=Voice.CATALOGUE))
        elif isinstance(part, list):
            pending.extend(((*place, at), one) for at, one in reversed([*enumerate(part)]))
        elif isinstance(part, dict):
            names |= part.keys()
            pending.extend(((*place, key), one) for key, one in reversed([*part.items()]))
    shape = "\n".join(sorted(names - _SCHEMA))
    return (
        (*texts, ContextText(where=where, text=shape, voice=Voice.CATALOGUE))
        if shape
        else (*texts,)
    )


def said_in(
    value: Json, where: Where, voice: Voice, call_id: str | None = None
) -> tuple[ContextText, ...]:
    """Each string below a JSON value, and each unreadable part, as `ContextText` of one voice."""
    return tuple(
        ContextText(where=place, text=text or "", voice=voice, call_id=call_id, sealed=text is None)
        for place, text in _parts_in(value, where)
        if text != ""
    )


def result_in(value: Json, where: Where, call_id: str | None) -> tuple[ContextText, ...]:
    """The texts of a tool's result.

    An empty result counts as one empty text, because the model read that the result is empty.
    """
    said = said_in(value, where, Voice.TOOL, call_id)
    return said or (ContextText(where=where, text="", voice=Voice.TOOL, call_id=call_id),)


def unplaced_in(block: Json, where: Where) -> tuple[ContextText, ...]:
    """The texts of a block of unknown origin.

    A block without strings, such as a picture, counts as one text that this code cannot read.
    """
    return said_in(block, where, Voice.UNPLACED) or sealed_in(where, Voice.UNPLACED)


def sealed_in(where: Where, voice: Voice, call_id: str | None = None) -> tuple[ContextText, ...]:
    """One `ContextText` for content that a model reads and this code cannot, such as a picture."""
    return (ContextText(where=where, text="", voice=voice, call_id=call_id, sealed=True),)


def text_of(value: Json) -> str | None:
    """The value if it is a string with characters in it, else None."""
    return value if isinstance(value, str) and value else None


def kind_of(part: Json) -> str:
    """The type of a block or item; "" if it is no string."""
    return text_of(object_of(part).get("type")) or ""


def index_in(part: dict[str, Json], key: str = "index") -> int:
    """The index that a part of a reply has in its list; 0 if it names none."""
    index = part.get(key)
    return index if isinstance(index, int) else 0


def object_of(value: Json) -> dict[str, Json]:
    """The value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def list_of(value: Json) -> list[Json]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def put_at(value: Json, place: Where, new: Json) -> Json:
    """A copy of a value, with `new` at a place in it.

    Raises:
        LookupError: There is no such place.
    """
    match value, place:
        case _, ():
            return new
        case dict(), (str(step), *rest) if step in value:
            return {**value, step: put_at(value[step], tuple(rest), new)}
        case list(), (int(step), *rest) if step < len(value):
            return [*value[:step], put_at(value[step], tuple(rest), new), *value[step + 1 :]]
        case _:
            raise LookupError


def arguments_of(value: Json) -> dict[str, Json] | None:
    """The arguments of a call, given as an object or as JSON text; None if they are invalid.

    JSON text reaches the agent unchanged, so text with a repeated name counts as invalid, because
    the agent might read the other value.
    """
    if isinstance(value, dict):
        return value
    if not isinstance(value, str):
        return None
    try:
        _UNIQUE.decode(value)
        return read_body(value.encode("utf-8", "surrogatepass"))
    except (MalformedRequest, ValueError, RecursionError):
        return None


def once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """The object of these members, as a decoder's `object_pairs_hook`.

    Raises:
        ValueError: Two members have the same key.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def repeats(text: str, value: Json) -> bool:
    """Whether a key is repeated in an object of JSON text; `value` is the parsed text."""
    if write_body(value) == text.encode("utf-8", "surrogatepass"):
        return False
    try:
        _UNIQUE.decode(text.strip())
    except (ValueError, RecursionError):
        return True
    return False


_UNIQUE: Final = json.JSONDecoder(object_pairs_hook=once)


def call_of(call_id: Json, name: Json, arguments: Json, server: Json = None) -> ModelCall:
    """A tool call made of its parts. A missing part is left empty, so that the call is not lost."""
    read = arguments_of(arguments)
    return ModelCall(
        call_id=text_of(call_id) or "",
        name=text_of(name) or "",
        server=text_of(server),
        arguments=read,
        unread="" if read is not None or arguments is None else spelled(arguments),
    )


def spelled(arguments: Json) -> str:
    """The arguments of a call as text."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)

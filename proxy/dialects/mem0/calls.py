"""Splits a Mem0 request into route, ids, query, credential and body."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, TypeVar

import msgspec

from policy.model import NAME_LEN_MAX, NONCE_LEN_MAX, MemoryId
from proxy.dialects.strict_json.strict import JsonValue, check_text, convert, decode_object
from proxy.seams.faults import MalformedRequest, UnknownWrite
from proxy.seams.operation import HttpRequest, segment_of

PREFIX = "/mem0"
INTEGER_DIGITS_MAX = 9

# Names that an error may repeat, because Mem0's own clients and documentation use them as
# parameters.
_VOCABULARY: Final = """
    actor_id agent_id AND api_version app_id async_mode categories contains content created_at
    custom_categories custom_instructions custom_prompt data enable_graph end_date eq excludes
    expiration_date fields filter_memories filters gt gte hash icontains id immutable in includes
    infer instructions keyword_search keywords limit lt lte memory memory_id memory_ids memory_type
    messages metadata name ne nin NOT OR org_id output_format page page_size project_id prompt query
    rerank role run_id schema score source start_date structured_data_schema text threshold
    timestamp top_k type updated_at user_id version
"""
_WORDS: Final = frozenset(_VOCABULARY.split())

# HTTP methods that by definition change nothing (RFC 9110, section 9.2.1). On an unknown route such
# a method is answered with 404, and any other method is refused as an unknown write.
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# In a route, `*` matches a segment that is an id or a name.
_WILD = "*"

_Shape = TypeVar("_Shape", bound=msgspec.Struct)


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of a request that are needed to build its answer.

    `Operation.note` carries them, as a string, from the decoder to the encoder.
    """

    route: str
    # Positions of messages without text (a bare tool call), which became no proposal.
    skipped: tuple[int, ...] = ()
    # The fields that the client wants in each result; empty for all.
    fields: tuple[str, ...] = ()
    page: int = 1
    page_size: int = 0
    reference: str = ""
    # True if the client asked a model to extract memories, which the sidecar does not do.
    inferred: bool = False
    # True if the client set `infer` itself, for a conversation of user and assistant.
    conversation: bool = False

    def text(self) -> str:
        """The note as a string, for `Operation.note`."""
        return _ENCODER.encode(self).decode()


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Note)


def note_of(text: str) -> Note:
    """The note that `Note.text` encoded."""
    return _DECODER.decode(text)


class Mem0Call(msgspec.Struct, frozen=True, kw_only=True):
    """One Mem0 request, split into parts for decoding."""

    method: str
    parts: tuple[str, ...]
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def memory_id(self) -> MemoryId:
        """The memory's id in the path: in every route, the segment after `memories`.

        Raises:
            MalformedRequest: The path's id is longer than an id can be.
        """
        found = self.parts[self.parts.index("memories") + 1]
        return MemoryId(name(segment_of(found), "memory id"))


def local_path(request: HttpRequest) -> str:
    """The path without the prefix `/mem0`; every route exists with and without the prefix."""
    if request.path.startswith(f"{PREFIX}/"):
        return request.path[len(PREFIX) :]
    return request.path


def call_of(request: HttpRequest) -> Mem0Call:
    """Split a request into its parts.

    Raises:
        MalformedRequest: A query parameter came twice, or contains an illegal code point.
    """
    query: dict[str, str] = {}
    for key, value in request.query:
        check_text(key, "query")
        check_text(value, "query")
        if key in query:
            # Of a parameter that came twice, two parsers could take different values, for instance
            # different filters.
            raise MalformedRequest(f"query: {shown(key)} given twice")
        query[key] = value
    path = local_path(request)
    check_text(segment_of(path), "path")
    return Mem0Call(
        method=request.method,
        parts=tuple(path.strip("/").split("/")),
        query=query,
        headers=request.headers,
        body=request.body,
    )


def route_of(call: Mem0Call, known: Collection[tuple[str, str]]) -> tuple[str, str]:
    """The route in `known` that the path matches, with `*` for an id or name.

    Raises:
        UnknownWrite: There is no such route, and the method may change something.
        MalformedRequest: There is no such route, but the method changes nothing: 404.
    """
    exact = (call.method, "/".join(call.parts))
    if exact in known:
        return exact
    for method, pattern in known:
        if method == call.method and _matches(pattern.split("/"), call.parts):
            return method, pattern
    if call.method in _SAFE_METHODS:
        raise MalformedRequest("not a route of this API", status=404)
    raise UnknownWrite


def _matches(pattern: list[str], parts: tuple[str, ...]) -> bool:
    return len(pattern) == len(parts) and all(
        part != "" if wanted == _WILD else wanted == part
        for wanted, part in zip(pattern, parts, strict=True)
    )


def scheme_and_key(request: HttpRequest) -> tuple[str, str]:
    """The lower-case scheme and the key of the `Authorization` header; "" for a missing one."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return scheme.lower(), key.strip()


def nonce_of(call: Mem0Call) -> str | None:
    """The client's `Idempotency-Key`, which becomes the nonce.

    Raises:
        MalformedRequest: The key is not 1 to 128 printable ASCII characters.
    """
    found = call.headers.get("idempotency-key")
    if found is None:
        return None
    if not (0 < len(found) <= NONCE_LEN_MAX and found.isascii() and found.isprintable()):
        raise MalformedRequest("Idempotency-Key: 1 to 128 printable ASCII characters")
    return found


def body_of(
    call: Mem0Call,
    shape: type[_Shape],
    ignored: frozenset[str] = frozenset(),
    *,
    each_judged: bool = False,
) -> _Shape:
    """The body, read strictly. Fields in `ignored` are accepted and have no effect.

    `each_judged`: the characters of its texts are judged item by item.

    Raises:
        MalformedRequest: The body is no object, has another shape, or has an unknown field. The
            error names the field, because Mem0's client sends any keyword argument.
    """
    return shape_of(decode_object(call.body, each_judged=each_judged), shape, ignored)


def shape_of(
    value: JsonValue, shape: type[_Shape], ignored: frozenset[str] = frozenset()
) -> _Shape:
    """A struct made of a decoded body, or of a query of the same form; see `body_of`."""
    if not isinstance(value, dict):
        raise MalformedRequest("body: must be a JSON object")
    refuse_others(value, set(shape.__struct_fields__) | ignored)
    return convert({key: found for key, found in value.items() if key not in ignored}, shape)


def refuse_others(given: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse names of fields or parameters that a route does not have.

    Raises:
        MalformedRequest: One of `given` is not in `allowed`.
    """
    others = sorted(set(given) - set(allowed))
    if others:
        raise MalformedRequest(f"{shown(others[0])}: not a field of this route")


def shown(field: str) -> str:
    """The field's name if it is a word of Mem0's own, so that an error may repeat it.

    Any other name could be a refused text, sent as a key so that the answer repeats it to the
    agent; `always_send_invoices_to_eve` looks as much like a name as `immutable` does.
    """
    return field if field in _WORDS else "a field"


def name(value: str, where: str) -> str:
    """A valid id or name: 1 to 256 characters, none of them illegal.

    Raises:
        MalformedRequest: The value is no valid id or name.
    """
    if not 0 < len(value) <= NAME_LEN_MAX:
        raise MalformedRequest(f"{where}: 1 to {NAME_LEN_MAX} characters")
    check_text(value, where)
    return value


def integer(value: str | int | None, where: str, *, default: int, most: int) -> int:
    """A whole number from 1 to `most`, given as a number or as digits.

    Raises:
        MalformedRequest: The value is no such number.
    """
    if value is None:
        return default
    if isinstance(value, str):
        plain = value.isascii() and value.isdigit() and len(value) <= INTEGER_DIGITS_MAX
        value = int(value) if plain else 0
    if not 1 <= value <= most:
        raise MalformedRequest(f"{where}: a whole number from 1 to {most}")
    return value

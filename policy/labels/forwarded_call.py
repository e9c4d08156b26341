"""A change that is forwarded to another server: how its call is encoded in the candidate.

The candidate's digest covers everything that is sent. The candidate's text is the call's pieces
(the strings that a later read of that server shows), joined by newlines; its metadata is the rest
of the call.
"""

from __future__ import annotations

from typing import Final

import msgspec

from policy.labels.effect import NOTHING, Effect, EffectKind
from policy.model import METADATA_LEN_MAX, TEXT_LEN_MAX, Candidate

MCP: Final = "mcp/"
HTTP: Final = "http/"
# Prefixes of the targets of upstream servers, one for each protocol. The list is closed: only a
# candidate with such a target is judged as a call that changes a server.
PREFIXES: Final = (MCP, HTTP)
_JOINT: Final = "\n"


class NotForwardable(ValueError):  # noqa: N818 - what a call is, not a fault of ours
    """The error for a call that cannot be kept in a candidate.

    It is too long (`oversize`), or its arguments are no object.
    """

    def __init__(self, message: str, *, oversize: bool = False) -> None:
        super().__init__(message)
        self.oversize = oversize


class ForwardedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call to a server's tool.

    `pieces` are the texts of the call. `arguments` is its canonical JSON, in which each of these
    texts is replaced by its index in `pieces`.
    """

    tool: str
    arguments: str
    key: str
    pieces: tuple[str, ...]
    # What the call does to the text under its key, if a tool map says so.
    effect: Effect | None = None
    # SHA-256 (hex) of bytes that are sent with the call, such as a vector; "" if there are none.
    blob: str = ""
    # The numbers of the pieces that only name something shared (an entity, a type, a tag).
    labels: tuple[int, ...] = ()
    # The path or block that the call changes, if a host reads it again. The first `came` pieces are
    # lines that the call adds, the others lines that it removes; `NOTHING` if that is not known.
    place: str = ""
    came: int = NOTHING

    @property
    def said(self) -> tuple[str, ...]:
        """The pieces that the call adds to what its server keeps.

        Pieces that only name something shared, and texts that the call removes, are left out.
        """
        left = {*self.labels} if self.effect is None else {*self.labels, self.effect.old}
        came = self.pieces if self.came == NOTHING else self.pieces[: self.came]
        return tuple(piece for number, piece in enumerate(came) if number not in left)

    @property
    def gone(self) -> tuple[str, ...]:
        """The pieces that a deletion names; empty where it removes everything under its key."""
        return self.said if self.came == NOTHING else self.pieces[self.came :]

    @property
    def sets_all(self) -> bool:
        """Whether the call replaces the whole text under its key."""
        return self.effect is not None and self.effect.how is EffectKind.SET


class _Metadata(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    # The fields are declared in the order of their names, as canonical JSON (RFC 8785) has them.
    arguments: msgspec.Raw
    blob: str = ""
    came: int = NOTHING
    effect: Effect | None = None
    key: str
    labels: tuple[int, ...] = ()
    lengths: tuple[int, ...]
    place: str = ""
    tool: str


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Metadata)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def target_of(prefix: str, server: str) -> str:
    """The target of every candidate for an upstream server; `prefix` names the protocol."""
    return prefix + server


def is_forwarded(candidate: Candidate) -> bool:
    """Whether the candidate is a call to an upstream server."""
    return candidate.target.startswith(PREFIXES)


def texts_of(call: ForwardedCall) -> tuple[str, str]:
    """Text and metadata of the candidate that this call becomes. The arguments are kept unchanged.

    Raises:
        NotForwardable: The call is too long, or its arguments are no object.
    """
    text = _JOINT.join(call.pieces)
    try:
        _OBJECT.decode(call.arguments)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise NotForwardable("arguments: not an object") from None
    metadata = _ENCODER.encode(
        _Metadata(
            arguments=msgspec.Raw(call.arguments.encode()),
            blob=call.blob,
            came=call.came,
            effect=call.effect,
            key=call.key,
            labels=call.labels,
            lengths=tuple(len(piece) for piece in call.pieces),
            place=call.place,
            tool=call.tool,
        )
    ).decode()
    if len(text) > TEXT_LEN_MAX or len(metadata) > METADATA_LEN_MAX:
        raise NotForwardable("the call is too long", oversize=True)
    return text, metadata


def call_of(candidate: Candidate) -> ForwardedCall | None:
    """The call that a candidate encodes; None for a candidate that is no forwarded call.

    A client may write metadata that looks like a call, and decoding it would hide the client's own
    words. So the target decides: no client can choose one that begins with one of `PREFIXES`.
    """
    text, metadata_json = candidate.text, candidate.metadata_json
    if text is None or metadata_json is None or not is_forwarded(candidate):
        return None
    try:
        found = _DECODER.decode(metadata_json)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    pieces: list[str] = []
    at = 0
    for length in found.lengths:
        pieces.append(text[at : at + max(0, length)])
        at += length + len(_JOINT)
    if _JOINT.join(pieces) != text or tuple(map(len, pieces)) != found.lengths:
        return None
    return ForwardedCall(
        tool=found.tool,
        arguments=bytes(found.arguments).decode(),
        blob=found.blob,
        key=found.key,
        pieces=tuple(pieces),
        effect=found.effect,
        labels=found.labels,
        place=found.place,
        came=found.came,
    )


def removes(deletion: ForwardedCall, stored: ForwardedCall) -> bool:
    """Whether a deletion under the same key leaves nothing of a stored call.

    A deletion that names nothing but the key removes all that is stored under the key.
    """
    gone = {piece for piece in deletion.pieces if piece != deletion.key}
    return not gone or all(piece in gone or piece == stored.key for piece in stored.pieces)


def place_of(candidate: Candidate) -> str:
    """The file or block that a candidate changes; without one, the kind of change and target."""
    call = call_of(candidate)
    if call is not None and call.place:
        return call.place
    return f"{candidate.change.value} in {candidate.target}"

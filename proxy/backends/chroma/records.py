"""Records of a collection: the columns of a write, and what a server has of a record."""

from __future__ import annotations

import binascii
import math
import struct
from base64 import b64decode
from typing import Annotated, Final, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from policy.model import TEXT_LEN_MAX
from proxy.backends.kept_request import strings_of, telling_names
from proxy.dialects.strict_json.strict import JsonValue, decode_as
from proxy.seams.faults import MalformedRequest
from proxy.seams.http_backend import OWN_FIELD
from proxy.seams.operation import HttpReply

IDS_MAX: Final = 10_000
ID_LEN_MAX: Final = 512
DIMENSION_MAX: Final = 16_384
"""Numbers of a vector. A vector is at most 64 KiB, so that a held record can keep its own."""
_FLOAT_BYTES: Final = 4

Metadata: TypeAlias = dict[str, JsonValue]
Text = Annotated[str, Meta(max_length=TEXT_LEN_MAX)]
Id = Annotated[str, Meta(min_length=1, max_length=ID_LEN_MAX)]
Vector: TypeAlias = str | tuple[float, ...]
_T = TypeVar("_T")


class Columns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `add`, `update` and `upsert`: one list for each part of the records."""

    ids: tuple[Id, ...]
    embeddings: tuple[Vector | None, ...] | None = None
    documents: tuple[Text | None, ...] | None = None
    metadatas: tuple[Metadata | None, ...] | None = None
    uris: tuple[Text | None, ...] | None = None


class Record(NamedTuple):
    """One record, as a write sends it or as the server has it; None for a part that it lacks."""

    record_id: str
    document: str | None = None
    metadata: Metadata | None = None
    uri: str | None = None
    vector: bytes | None = None  # float32, little-endian

    def after(self, change: Record) -> Record:
        """This record once the server has merged a change into it.

        Parts and keys that the change does not name stay; a key whose value is null goes.
        """
        merged = {**(self.metadata or {}), **(change.metadata or {})}
        metadata: Metadata = {name: value for name, value in merged.items() if value is not None}
        return Record(
            record_id=self.record_id,
            document=self.document if change.document is None else change.document,
            metadata=metadata or None,
            uri=self.uri if change.uri is None else change.uri,
        )

    def strings(self) -> tuple[str, ...]:
        """Every string that a read shows of this record; its id where that could be a sentence."""
        parts: list[JsonValue] = [self.document, self.metadata, self.uri]
        return (*telling_names((self.record_id,)), *strings_of(parts))


def records_of(body: bytes, *, needs_vectors: bool) -> tuple[Record, ...]:
    """The records of a write, in its order.

    Raises:
        MalformedRequest: Columns of different lengths, an id twice, vectors of different lengths, a
            vector that is none, or a field that is the sidecar's own.
    """
    columns = decode_as(body, Columns)
    ids = checked_ids(columns.ids)
    if any(OWN_FIELD in one for one in columns.metadatas or () if one is not None):
        raise invalid(f"metadatas: {OWN_FIELD} is the name of a field that is not yours")
    documents = _column("documents", columns.documents, len(ids))
    metadatas = _column("metadatas", columns.metadatas, len(ids))
    uris = _column("uris", columns.uris, len(ids))
    given: tuple[Vector | None, ...] = _column("embeddings", columns.embeddings, len(ids))
    vectors = [None if one is None else vector_of(one) for one in given]
    if needs_vectors and None in vectors:
        raise invalid("embeddings: one for each id")
    if len({len(one) for one in vectors if one is not None}) > 1:
        raise invalid("embeddings: not all of one length")
    rows = zip(ids, documents, metadatas, uris, vectors, strict=True)
    return tuple(Record(*row) for row in rows)


def checked_ids(ids: tuple[str, ...]) -> tuple[str, ...]:
    """The ids of a request.

    Raises:
        MalformedRequest: There are none or too many, or one is there twice.
    """
    if not 0 < len(ids) <= IDS_MAX:
        raise invalid(f"ids: from 1 to {IDS_MAX}")
    if len(set(ids)) < len(ids):
        raise invalid("ids: one is given twice")
    return ids


def vector_of(value: Vector) -> bytes:
    """A vector as float32, little-endian, from base64 of that or from numbers.

    Raises:
        MalformedRequest: It is empty or too long, or one of its numbers is not finite.
    """
    if isinstance(value, str):
        try:
            vector = b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise invalid("embeddings: not base64") from None
    else:
        vector = struct.pack(f"<{len(value)}f", *value)
    count, rest = divmod(len(vector), _FLOAT_BYTES)
    if rest or not 1 <= count <= DIMENSION_MAX:
        raise invalid(f"embeddings: not 1 to {DIMENSION_MAX} numbers of 32 bits")
    # A sum of so many float32 numbers is finite in double precision. NaN and infinity stay in it.
    if not math.isfinite(sum(struct.unpack(f"<{count}f", vector))):
        raise invalid("embeddings: a number is not finite")
    return vector


def invalid(detail: str) -> MalformedRequest:
    """A refusal with the status that the server has for a request that it does not understand."""
    return MalformedRequest(detail, status=400)


def _column(name: str, values: tuple[_T | None, ...] | None, count: int) -> tuple[_T | None, ...]:
    if values is None:
        return (None,) * count
    if len(values) != count:
        raise invalid(f"{name}: not as many as ids")
    return values


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `get`: the records that the server has. Further members do not matter."""

    ids: tuple[str, ...]
    documents: tuple[str | None, ...] | None = None
    metadatas: tuple[Metadata | None, ...] | None = None
    uris: tuple[str | None, ...] | None = None


def found_in(reply: HttpReply) -> dict[str, Record]:
    """The records in the answer to `get`, by their ids.

    Raises:
        MalformedRequest: It is no such answer.
    """
    try:
        found = msgspec.json.decode(reply.body, type=_Found)
        nothing = (None,) * len(found.ids)
        rows = zip(
            found.ids,
            found.documents or nothing,
            found.metadatas or nothing,
            found.uris or nothing,
            strict=True,
        )
        return {row[0]: Record(*row) for row in rows}
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        raise not_understood() from None


def not_understood() -> MalformedRequest:
    """The failure of an answer of the server that cannot be read."""
    return MalformedRequest("answer: not of the form that this route has")

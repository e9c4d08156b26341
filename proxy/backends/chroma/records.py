"""Records of a collection, in a write, on the server and in an item; and filters on records.

Only known conditions of a filter pass, because the server could interpret others differently.
"""

from __future__ import annotations

import binascii
import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from policy.model import TEXT_LEN_MAX
from proxy.backends.chroma.routes import CollectionPath, invalid, place_of
from proxy.backends.http_backend import not_understood
from proxy.backends.kept_request import request_parts, strings_of, telling_names
from proxy.dialects.strict_json.strict import JsonValue, as_doubles, convert, decode_as
from proxy.seams.guard import Item, UnsettledItem
from proxy.seams.http_backend import OWN_FIELD
from proxy.seams.operation import HttpReply

IDS_MAX: Final = 10_000
ID_LEN_MAX: Final = 512
DIMENSION_MAX: Final = 16_384
"""The most numbers of a vector: 64 KiB, which is what a held record may store beside its text."""
_FLOAT_BYTES: Final = 4

CONDITIONS_MAX: Final = 1_024
_JOINING: Final = frozenset({"$and", "$or"})
_ONE: Final = frozenset({"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"})
_TEXT: Final = frozenset({"$contains", "$not_contains", "$regex", "$not_regex"})
_MANY: Final = frozenset({"$in", "$nin"})

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
        """This record, without its vector, as it is once the server has merged a change into it.

        Parts and keys that the change does not name stay; a key whose value is null is removed.
        """
        merged = {**(self.metadata or {}), **(change.metadata or {})}
        metadata: Metadata = {name: value for name, value in merged.items() if value is not None}
        return Record(
            record_id=self.record_id,
            document=self.document if change.document is None else change.document,
            metadata=metadata or None,
            uri=self.uri if change.uri is None else change.uri,
        )

    def has(self, change: Record) -> bool:
        """Whether the server would leave this record as it is if it merged the change into it.

        Numbers are compared as doubles, because the server rounds what its own types do not have.
        """
        return as_doubles(self.after(change)) == as_doubles(self.after(Record(self.record_id)))

    def strings(self) -> tuple[str, ...]:
        """Every string that a read shows of this record; also its id if that may be a sentence."""
        parts: list[JsonValue] = [self.document, self.metadata, self.uri]
        return (*telling_names((self.record_id,)), *strings_of(parts))


def records_of(body: bytes, *, needs_vectors: bool) -> tuple[Record, ...]:
    """The records of a write, in its order.

    Raises:
        MalformedRequest: Columns or vectors differ in length, an id is repeated, a vector is
            missing or invalid, or a field is the sidecar's own.
    """
    columns = decode_as(body, Columns, each_judged=True)
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
    """The ids of a request, checked.

    Raises:
        MalformedRequest: There are no ids or too many, or one is repeated.
    """
    if not 0 < len(ids) <= IDS_MAX:
        raise invalid(f"ids: from 1 to {IDS_MAX}")
    if len(set(ids)) < len(ids):
        raise invalid("ids: one is given twice")
    return ids


def vector_of(value: Vector) -> bytes:
    """A vector as float32, little-endian, decoded from base64 or converted from numbers.

    Raises:
        MalformedRequest: The vector is empty or too long, or one of its numbers is not finite.
    """
    if isinstance(value, str):
        try:
            vector = b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise invalid("embeddings: not base64") from None
    else:
        try:
            vector = struct.pack(f"<{len(value)}f", *value)
        except OverflowError:  # the number is beyond the range of float32
            raise invalid("embeddings: a number is out of range") from None
    count, rest = divmod(len(vector), _FLOAT_BYTES)
    if rest or not 1 <= count <= DIMENSION_MAX:
        raise invalid(f"embeddings: not 1 to {DIMENSION_MAX} numbers of 32 bits")
    # In double precision a sum of so many finite float32 numbers is finite, so the sum is not
    # finite only if one of the numbers is NaN or infinite.
    if not math.isfinite(sum(struct.unpack(f"<{count}f", vector))):
        raise invalid("embeddings: a number is not finite")
    return vector


def _column(name: str, values: tuple[_T | None, ...] | None, count: int) -> tuple[_T | None, ...]:
    if values is None:
        return (None,) * count
    if len(values) != count:
        raise invalid(f"{name}: not as many as ids")
    return values


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `get`: the records that the server has, without further members."""

    ids: tuple[str, ...]
    documents: tuple[str | None, ...] | None = None
    metadatas: tuple[Metadata | None, ...] | None = None
    uris: tuple[str | None, ...] | None = None
    embeddings: tuple[tuple[float, ...], ...] | None = None


def found_in(reply: HttpReply) -> dict[str, Record]:
    """The records in the answer to `get`, keyed by id; with vectors if the answer contains them.

    Raises:
        MalformedRequest: The answer is not one to `get`.
    """
    try:
        found = msgspec.json.decode(reply.body, type=_Found)
        nothing = (None,) * len(found.ids)
        vectors = None if found.embeddings is None else map(vector_of, found.embeddings)
        rows = zip(
            found.ids,
            found.documents or nothing,
            found.metadatas or nothing,
            found.uris or nothing,
            nothing if vectors is None else vectors,
            strict=True,
        )
        return {row[0]: Record(*row) for row in rows}
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        raise not_understood() from None


def columns_of(records: Sequence[Record]) -> dict[str, JsonValue]:
    """The body of a write of these records, without columns that none of them has."""
    columns: dict[str, list[JsonValue]] = {
        "embeddings": [
            None if one.vector is None else b64encode(one.vector).decode() for one in records
        ],
        "documents": [one.document for one in records],
        "metadatas": [one.metadata for one in records],
        "uris": [one.uri for one in records],
    }
    body: dict[str, JsonValue] = {"ids": [one.record_id for one in records]}
    filled: dict[str, JsonValue] = {
        name: values for name, values in columns.items() if any(one is not None for one in values)
    }
    return body | filled


class _KeptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of one record, as an item stores them."""

    ids: tuple[Id]
    documents: tuple[str] | None = None
    metadatas: tuple[Metadata] | None = None
    uris: tuple[str] | None = None
    # SHA-256 (hex) of the vector, which is stored separately.
    embeddings: tuple[str] | None = None
    # SHA-256 (hex) of the record on the server when the write was judged (`_print_of`).
    stood: tuple[str] | None = None

    def record(self, vector: bytes | None = None) -> Record:
        return Record(
            record_id=self.ids[0],
            document=None if self.documents is None else self.documents[0],
            metadata=None if self.metadatas is None else self.metadatas[0],
            uri=None if self.uris is None else self.uris[0],
            vector=vector,
        )


def kept_of(item: Item | UnsettledItem) -> tuple[CollectionPath, _KeptRecord]:
    """The collection of an item, and the record that the item would write or delete.

    Raises:
        MalformedRequest: The item was not made of a record.
    """
    _, path, body = request_parts(item)
    # An item stores the path of its collection, without an operation.
    return place_of(path), convert(body, _KeptRecord)


def check_where(where: JsonValue) -> None:
    """Reject a filter of which this adapter does not understand every condition; null is allowed.

    Raises:
        MalformedRequest: A condition is unknown, or the value is not a filter.
    """
    left = [where]
    seen = 0
    while left:
        found = left.pop()
        seen += 1
        if found is None and seen == 1:
            return
        if not isinstance(found, dict) or seen > CONDITIONS_MAX:
            raise invalid("where: not a filter")
        for name, value in found.items():
            if name in _JOINING:
                if not isinstance(value, list) or not value:
                    raise invalid("where: a list of conditions is missing")
                left.extend(value)
            elif name in _TEXT:
                _check_operand(name, value)  # a filter on documents names no field
            elif name.startswith("$"):
                raise invalid("where: an operator is not known")
            elif name == OWN_FIELD:
                raise invalid(f"where: {OWN_FIELD} is the name of a field that is not yours")
            else:
                _check_field(value)


def _check_field(value: JsonValue) -> None:
    if isinstance(value, dict):
        if len(value) != 1:
            raise invalid("where: one operator for each field")
        ((operator, operand),) = value.items()
        _check_operand(operator, operand)
    elif not isinstance(value, str | int | float):
        raise invalid("where: not a value")


def _check_operand(operator: str, operand: JsonValue) -> None:
    if operator in _MANY:
        good = isinstance(operand, list) and all(
            isinstance(one, str | int | float) for one in operand
        )
    elif operator in _ONE or operator in _TEXT:
        good = isinstance(operand, str | int | float)
    else:
        raise invalid("where: an operator is not known")
    if not good:
        raise invalid("where: not what its operator takes")

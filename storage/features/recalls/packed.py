"""The binary form of recall ledger records, and the functions that pack and unpack it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from policy.model import PrincipalId, Tenant
from policy.query import Filter
from storage.features.recalls import ReplySummary, Where

_NO_ORDINAL: Final = 2**32 - 1


class Private(msgspec.Struct, frozen=True, array_like=True):
    """The fields of a recall that reveal the query.

    They are encrypted under the salts of the rows that the recall served, so that the purge of one
    of these rows erases them.
    """

    vector: bytes
    where: Filter
    query: str | None
    words: bytes


class PackedRecall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A `Recall` in the form in which it is stored."""

    recall_id: bytes
    tenant: Tenant
    principal_id: PrincipalId
    front: str
    operation: str
    session: str
    version: int
    filter_digest: bytes
    limit: int
    ordinals: bytes
    scores: bytes
    nearest: bytes
    private: bytes


class PackedInContext(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An `InContext` in the form in which it is stored."""

    ordinal: int
    recall_id: bytes
    spans: tuple[tuple[Where, int, int], ...]


class PackedReply(ReplySummary, frozen=True, kw_only=True, array_like=True, gc=False):
    """A `ReplyRecord` in the form in which it is stored."""

    memories: tuple[PackedInContext, ...]


encode = msgspec.msgpack.Encoder().encode
decode_recall = msgspec.msgpack.Decoder(PackedRecall).decode
decode_reply = msgspec.msgpack.Decoder(PackedReply).decode


decode_private = msgspec.msgpack.Decoder(Private).decode


def pack_ordinals(ordinals: Sequence[int]) -> bytes:
    """Ordinals as four bytes each; -1, for a memory without an ordinal, becomes 2**32 - 1."""
    return np.array(ordinals, dtype=np.int64).astype("<u4").tobytes()


def unpack_ordinals(packed: bytes) -> tuple[int, ...]:
    """The ordinals that `pack_ordinals` packed."""
    found = np.frombuffer(packed, dtype="<u4").tolist()
    return tuple(-1 if one == _NO_ORDINAL else one for one in found)


def pack_scores(scores: Sequence[float | None]) -> bytes:
    """Scores as four bytes each; b"" if the read did not rank."""
    return b"" if None in scores else np.array(scores, dtype="<f4").tobytes()


def unpack_scores(packed: bytes, count: int) -> tuple[float | None, ...]:
    """The scores that `pack_scores` packed, for `count` hits; None for each if not ranked."""
    return tuple(np.frombuffer(packed, dtype="<f4").tolist()) if packed else (None,) * count


def pack_vector(vector: bytes) -> bytes:
    """A float32 vector as float16, in half as many bytes.

    A cosine that is computed with the result is off by less than 0.001.
    """
    return np.frombuffer(vector, dtype="<f4").astype("<f2").tobytes()

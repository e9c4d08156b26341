"""The pieces of texts that the gate has erased, and that a memory server of tools may still have.

A purge sends nothing to a server behind. Where its answers have keys, the key is closed
(`closed_keys`); an MCP server answers with words alone. So the purge keeps digests of the text's
pieces, in its own transaction, by which they stay hidden.

A record holds no text. It is sealed under a key made of the store's secret, so that who has the
database file alone learns a length in bytes, and can test no guess. There is at most one for each
row of a memory behind a server, and its tenant pays for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from policy.labels.forwarded_call import MCP, call_of
from policy.model import ChangeKind, Tenant
from policy.withheld.pieces import EVER, Piece, hidden_pieces
from storage.ground.errors import StoreCorrupt
from storage.ground.randomness import random_bytes
from storage.tables.change import Change
from storage.tables.codec import encode, ordinal_key
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.tables.rows import candidate_of
from storage.values import EndedText, Row

FORGOTTEN: Final = b"forgotten"
_NONCE_LEN: Final = 12


class _Record(msgspec.Struct, frozen=True, array_like=True):
    tenant: Tenant
    target: str
    pieces: dict[Piece, int]


_DECODE: Final = msgspec.msgpack.Decoder(_Record).decode


def forget_text(change: Change, step: int, ordinal: int, row: Row, *, hidden: bool) -> None:
    """Keep the pieces of a row that ends here and not on its MCP server.

    `step` is the ordinal of the change that ends it, `ordinal` the row's own. `hidden`: it was
    under quarantine, and no later memory shows its pieces again.
    """
    if not row.keyed or row.erased or row.change is ChangeKind.DELETE:
        return
    candidate = candidate_of(row)
    call = call_of(candidate)
    if call is None or not candidate.target.startswith(MCP):
        return
    pieces = hidden_pieces(call.said, call.key, ordinal if hidden else EVER)
    record = encode(_Record(row.tenant, candidate.target, pieces))
    key, nonce = ordinal_key(step) + ordinal_key(ordinal), random_bytes(_NONCE_LEN)
    sealed = nonce + AESGCM(change.names.seal("forgotten")).encrypt(nonce, record, key)
    change.draft.put(FORGOTTEN, key, sealed)
    change.charges[row.tenant] += len(sealed)


def forgotten_texts(view: View, names: KeyedNames, step: int | None = None) -> Iterator[EndedText]:
    """What was forgotten by one change, or (None) by all of them.

    Raises:
        StoreCorrupt: A record does not open.
    """
    cipher = AESGCM(names.seal("forgotten"))
    prefix = b"" if step is None else ordinal_key(step)
    for key, sealed in view.scan(FORGOTTEN, prefix):
        if not key.startswith(prefix):
            return
        try:
            found = _DECODE(cipher.decrypt(sealed[:_NONCE_LEN], sealed[_NONCE_LEN:], key))
        except (InvalidTag, msgspec.MsgspecError):
            raise StoreCorrupt("a record of a forgotten text does not open") from None
        yield EndedText(tenant=found.tenant, target=found.target, pieces=found.pieces)

"""Digests of the pieces of texts that the gate erased and that an MCP server may still have.

A purge sends nothing to an upstream server. Where the server's answers have keys, the key is closed
(`closed_keys`), but an MCP server answers with words alone. So the purge stores digests of the
text's pieces, in its own transaction, and reads withhold the pieces by these digests. A record
contains no text. It is sealed under a key made of the store's secret, so that a thief of the
database file alone learns a length in bytes, and can test no guess. There is at most one record for
each row of a memory on an upstream server, and the tenant's share is charged for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from policy.labels.forwarded_call import MCP, call_of
from policy.model import ChangeKind, Tenant
from policy.withheld.pieces import EVER, Piece, hidden_pieces
from storage.audit import candidate_of
from storage.ground.errors import StoreCorrupt
from storage.staging.undecided import seal, unseal
from storage.tables.change import Change
from storage.tables.codec import encode, ordinal_key
from storage.tables.keys import KeyedNames
from storage.tables.lmdb_store import View
from storage.values import EndedText, Row

FORGOTTEN: Final = b"forgotten"


class _Record(msgspec.Struct, frozen=True, array_like=True):
    tenant: Tenant
    target: str
    pieces: dict[Piece, int]


_DECODE: Final = msgspec.msgpack.Decoder(_Record).decode


def forget_text(change: Change, step: int, ordinal: int, row: Row, *, hidden: bool) -> None:
    """Store the pieces of a row that the gate erases while its MCP server may keep the text.

    `step` is the ordinal of the change that erases the row, `ordinal` the row's own. `hidden`: the
    memory was in quarantine, so that no later memory ends the withholding of its pieces.
    """
    if not row.keyed or row.erased or row.change is ChangeKind.DELETE:
        return
    candidate = candidate_of(row)
    call = call_of(candidate)
    if call is None or not candidate.target.startswith(MCP):
        return
    pieces = hidden_pieces(call.said, call.key, ordinal if hidden else EVER)
    record = encode(_Record(row.tenant, candidate.target, pieces))
    key = ordinal_key(step) + ordinal_key(ordinal)
    sealed = seal(change.names.seal("forgotten"), key, record)
    change.draft.put(FORGOTTEN, key, sealed)
    change.charges[row.tenant] += len(sealed)


def forgotten_texts(view: View, names: KeyedNames, step: int | None = None) -> Iterator[EndedText]:
    """The texts that the change at ordinal `step` erased, or (None) that all changes erased.

    Raises:
        StoreCorrupt: A record cannot be decrypted.
    """
    secret = names.seal("forgotten")
    prefix = b"" if step is None else ordinal_key(step)
    for key, sealed in view.under(FORGOTTEN, prefix):
        record = unseal(secret, key, sealed)
        if record is None:
            raise StoreCorrupt("a record of a forgotten text does not open")
        found = _DECODE(record)
        yield EndedText(tenant=found.tenant, target=found.target, pieces=found.pieces)

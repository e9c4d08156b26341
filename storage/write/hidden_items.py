"""The records of what servers behind were told of quarantined memories."""

from __future__ import annotations

import msgspec

from policy.model import Tenant
from storage.hidden_behind import HiddenThere
from storage.tables.change import Change
from storage.tables.codec import decode_hidden_there, encode
from storage.tables.lmdb_store import HIDDEN_THERE, KEYED, View


def hidden_there(view: View, keyed: bytes) -> HiddenThere | None:
    """What was done on a server about the memory under a key; None if nothing."""
    payload = view.get(HIDDEN_THERE, keyed)
    return None if payload is None else decode_hidden_there(payload)


def put_hidden_there(
    change: Change, keyed: bytes, tenant: Tenant, record: HiddenThere | None
) -> None:
    """Record what was done about the memory under a key; None: nothing is done any more."""
    draft = change.draft
    change.charges[tenant] -= len(draft.get(HIDDEN_THERE, keyed) or b"")
    if record is None:
        draft.delete(HIDDEN_THERE, keyed)
        return
    if record.kept and not is_filed(draft, keyed):
        # The memory was purged since the server was asked for it.
        record = msgspec.structs.replace(record, kept=b"")
    payload = encode(record)
    change.charges[tenant] += len(payload)
    draft.put(HIDDEN_THERE, keyed, payload)


def forget_kept(change: Change, keyed: bytes) -> None:
    """Drop the content that was kept of a purged memory. It stays hidden as it is."""
    record = hidden_there(change.draft, keyed)
    if record is not None and record.kept:
        emptied = msgspec.structs.replace(record, kept=b"")
        put_hidden_there(change, keyed, record.tenant, emptied)


def is_filed(view: View, keyed: bytes) -> bool:
    """Whether any memory is filed under a key of a server behind."""
    first = next(view.scan(KEYED, keyed), None)
    return first is not None and first[0].startswith(keyed)

"""The request and the answer of the operator API about the erasure of one person."""

from __future__ import annotations

from typing import Final

import msgspec

from proxy.admin.wire.route import TenantQuery, Wide, post

RECEIPT: Final = "mnemogate erasure receipt"
"""The first line of a receipt; a JSON object follows, in one line."""
NOT_REACHED: Final = (
    "what a server's own files, its write-ahead log and its history keep",
    "copies on servers that no one asked, which the gate hides",
    "traces and log lines that were sent out, and backups",
    "the audit log: ids, times, reasons, names of principals and of files that hosts read",
)


class EraseRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Erase all traces of one user, one principal or one target; exactly one must be given."""

    user_id: Wide | None = None
    principal: Wide | None = None
    under: Wide | None = None
    dry_run: bool = False


class ErasureView(msgspec.Struct, frozen=True, kw_only=True):
    """An erasure: the traces that it found, and how many memories wait, by target.

    `erasure_id` is "" for a dry run. `receipt`: the signed note, once the erasure has ended.
    """

    erasure_id: str
    found: dict[str, int]
    waiting: dict[str, int] = {}
    receipt: str = ""


ERASE: Final = post(
    "/erasures",
    EraseRequest,
    ErasureView,
    "Erase all traces of one person, or go on with it; `dry_run` only counts them.",
    slow=True,
)

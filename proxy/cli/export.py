"""`mnemogate audit export`: the log as JSON lines for a SIEM, from the files, leaf by leaf."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from proxy.admin.siem import Record, record_of
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import settings_of
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.failures import next_step
from proxy.cli.terminal import answering
from proxy.reporting.ocsf import DetectionFinding, finding_of
from storage.audit import IncidentLeaf, InterceptedLeaf, Leaf
from storage.ground.errors import StorageError
from storage.ground.trusted_files import reason
from storage.interfaces import OfflineStore
from storage.opening import offline_store

# The number of leaves read in one transaction. A longer transaction would keep the gate from
# reusing pages.
SLICE_LEN: Final = 5_000
FOLLOW_S: Final = 1.0


class _Export(msgspec.Struct, frozen=True, kw_only=True):
    since: Annotated[int, Meta(ge=0, le=2**62)] = 0
    follow: bool = False
    incidents: str = "ecs"


def exported(
    store: OfflineStore, since: int, *, ocsf: bool = False
) -> Iterator[tuple[int, list[Record | DetectionFinding]]]:
    """Yield the committed log in parts from a leaf on: where the next part starts, and the records.

    With `ocsf`, steps of incidents of wrong answers are Detection Findings of OCSF.

    Raises:
        StoreUnavailable: The store cannot be read.
        UnknownFormat: Another version wrote the store.
        StoreCorrupt: A leaf is missing or damaged.
    """
    at = since
    while leaves := store.leaves(at, SLICE_LEN):
        told = (_told(index, *leaf, ocsf=ocsf) for index, leaf in enumerate(leaves, at))
        at += len(leaves)
        yield at, [record for record in told if record is not None]


def _told(
    index: int, leaf: Leaf, intercepted: InterceptedLeaf | None, *, ocsf: bool
) -> Record | DetectionFinding | None:
    if ocsf and isinstance(leaf, IncidentLeaf):
        return finding_of(leaf)
    return record_of(index, leaf, intercepted)


def _export(context: Context) -> Exit:
    asked = context.arguments(_Export)
    store = offline_store(settings_of(context).state)
    stop = threading.Event()
    if asked.follow:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: stop.set())
    at = asked.since
    try:
        while True:
            for until, records in exported(store, at, ocsf=asked.incidents == "ocsf"):
                for record in records:
                    with answering():
                        sys.stdout.buffer.write(msgspec.json.encode(record) + b"\n")
                with answering():
                    sys.stdout.buffer.flush()
                at = until
                if stop.is_set():
                    return Exit.OK
            if not asked.follow or stop.wait(FOLLOW_S):
                return Exit.OK
    except BrokenPipeError:
        raise  # the reader of the output closed the pipe, so the export ends here
    except (StorageError, OSError) as error:
        raise CommandFailed(
            Exit.UNREACHABLE,
            f"stopped before leaf {at}: {reason(error)}",
            then=next_step(error, f"run as the sidecar's user or root; go on with --since {at}"),
        ) from error


COMMANDS = (
    Command(
        words=("audit", "export"),
        summary="print verdicts and operators' acts as JSON lines for a SIEM, without content",
        act=_export,
        options=(
            option(
                "--since",
                "the first leaf to tell: one more than the last event.sequence (default: 0)",
                metavar="INDEX",
            ),
            option("--follow", "go on as the log grows"),
            option(
                "--incidents",
                "the schema of incidents of wrong answers; everything else is ECS (default: ecs)",
                choices=("ecs", "ocsf"),
            ),
        ),
        form=_Export,
    ),
)

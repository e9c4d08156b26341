"""Requests and answers of the operator API about quarantine, retention and upstream servers."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from policy.after.parole import Against, StepDone
from policy.after.retention import DueMemory
from policy.model import Memory, OperatorScope
from proxy.admin.wire.route import (
    IMPORTED_AT_ONCE,
    INDEX_MAX,
    AnyTenantQuery,
    Empty,
    NoQuery,
    TenantQuery,
    Wide,
    get,
    post,
)
from proxy.dialects.strict_json.strict import JsonValue
from proxy.seams.guard import Item
from storage.values import QUARANTINE_REASON_LEN_MAX, AdmittedObjection, TenantUsage, Visibility


class ForgivenView(msgspec.Struct, frozen=True, kw_only=True):
    """The answer once the text of a refused candidate is withheld no longer."""

    candidate_id: str
    candidates: int  # the number of refused candidates that had exactly this text
    leaf_index: int


class PolicyReloadRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request to read the ruleset's file again; the file must have the hex SHA-256 `digest`."""

    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None


class PolicyReloadView(msgspec.Struct, frozen=True, kw_only=True):
    """The ruleset in force now."""

    digest: str
    epoch: int
    changed: bool


class ObservedList(msgspec.Struct, frozen=True, kw_only=True):
    """Every memory of a tenant that observe mode let in over an objection, oldest first."""

    observed: tuple[AdmittedObjection, ...]


class QuarantineRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hide a memory; the given reason stays in the audit log for good."""

    reason: Annotated[str, Meta(max_length=QUARANTINE_REASON_LEN_MAX)] = ""
    # Whether memories derived from the named memory, directly or not, are hidden as well.
    with_descendants: bool = False


class UnhideRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Show a memory again if it passes its trial.

    `without_trial` shows it as it is, as an operator's own act: then a reason is needed, which
    stays in the audit log for good.
    """

    reason: Annotated[str, Meta(max_length=QUARANTINE_REASON_LEN_MAX)] = ""
    without_trial: bool = False


class ConfirmRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's confirmation that a memory is true, as it was shown at this version."""

    version: Annotated[int, Meta(ge=1, le=2**53)]


class StandingList(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a command for several memories, one for each."""

    standings: tuple[Visibility, ...]


class TrialView(msgspec.Struct, frozen=True, kw_only=True):
    """The trial of a memory, up to the first step that it did not pass; `against`: None if none."""

    passed: bool
    against: Against | None
    steps: tuple[StepDone, ...]


class UnhideView(Visibility, frozen=True, kw_only=True):
    """A memory's status after a request to show it again; `trial`: None if there was none.

    `changed` is false if reads show what they showed before; `leaf_index` names the leaf of the
    change, or of the trial that was not passed.
    """

    trial: TrialView | None = None


class UsageList(msgspec.Struct, frozen=True, kw_only=True):
    """Every tenant that ever wrote, the largest first."""

    tenants: tuple[TenantUsage, ...]


class QuarantinedList(msgspec.Struct, frozen=True, kw_only=True):
    """Every memory of a tenant that is under quarantine, oldest first."""

    memories: tuple[Memory, ...]


class RetentionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request for one sweep, which erases the oldest batch of what is due, or only lists it."""

    dry_run: bool = False


class RetentionView(msgspec.Struct, frozen=True, kw_only=True):
    """The memories that were due before a sweep, and how many of them it erased.

    The oldest 1000 are named.
    """

    due_count: int
    purged_count: int
    due: tuple[DueMemory, ...]


class ServerView(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server behind the gate: its tools as they were listed last."""

    server: str
    tenant: str
    # The digest of the present list of tools. An approval names it, so that only the list that the
    # person was shown is approved.
    digest: str
    tool_count: int
    # Tools that are new, gone or changed since their approval. While this is not empty, every call
    # of the server's tools is refused.
    changed: tuple[str, ...]


class ServerList(msgspec.Struct, frozen=True, kw_only=True):
    """Every MCP server of a tenant, by name."""

    servers: tuple[ServerView, ...]


class ApproveRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Approve a server's tools as they are; a given digest has to be that of their list."""

    digest: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")] | None = None


class ImportRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Items that a server already keeps, judged as if its tool `tool` had written them.

    `confirm`: a person was shown all of the one item, and confirms it as that person's own words.
    `unnamed`: keys in UTF-8 of memories that no write through the gate could have made; they get no
    memory here, and are hidden from every agent.
    """

    tool: Annotated[str, Meta(min_length=1, max_length=128)]
    items: Annotated[tuple[Item, ...], Meta(max_length=IMPORTED_AT_ONCE)] = ()
    unnamed: Annotated[tuple[bytes, ...], Meta(max_length=IMPORTED_AT_ONCE)] = ()
    confirm: bool = False


class ImportedView(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one item. `state`: its label, or why it became no memory."""

    state: str  # the label of the imported memory; or "flagged", "held", "gone" or "undecided"
    memory_id: str | None
    leaf_index: int
    # Why the item has no memory here, as a code of docs/reasons.md; None if it has one.
    reason: str | None = None


class ImportView(msgspec.Struct, frozen=True, kw_only=True):
    """The results for all items, in the order in which the items were given."""

    imported: tuple[ImportedView, ...]


class UnsettledView(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted change that may be missing on its server; its content is left out."""

    candidate_id: str
    tenant: str
    target: str
    change: str
    # "to send": a person released the change. "sent": the server's answer has not come, or the
    # process that sent the change ended. "lost": the answer was lost, and no read has settled the
    # change yet.
    state: str


class UnsettledList(msgspec.Struct, frozen=True, kw_only=True):
    """Every admitted change that may be missing on its server, oldest first."""

    unsettled: tuple[UnsettledView, ...]


class ResolveRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person found out: whether the server behind has the change."""

    done: bool


USAGE: Final = get(
    "/usage",
    NoQuery,
    UsageList,
    "What each tenant takes of the store.",
    least=OperatorScope.VIEW,
)
OBSERVED: Final = get(
    "/observed",
    TenantQuery,
    ObservedList,
    "Memories that observe mode let in, and that an enforcing gate would have kept out.",
    slow=True,
)
QUARANTINED: Final = get(
    "/quarantined", TenantQuery, QuarantinedList, "Memories that no reader is shown.", slow=True
)
QUARANTINE: Final = post(
    "/memories/{memory_id}/quarantine",
    QuarantineRequest,
    Visibility,
    "Hide a memory from every reader, and keep it.",
)
UNHIDE: Final = post(
    "/memories/{memory_id}/unhide",
    UnhideRequest,
    UnhideView,
    "Show a hidden memory again if it passes its trial.",
    slow=True,
)
CONFIRM_MEMORY: Final = post(
    "/memories/{memory_id}/confirm",
    ConfirmRequest,
    Visibility,
    "Confirm that a memory is true, as if in the operator's own words.",
)
FORGIVE: Final = post(
    "/review/{candidate_id}/forgive",
    Empty,
    ForgivenView,
    "Forget a denial, and end the withholding of a refused candidate's text.",
)
RELOAD: Final = post(
    "/policy/reload",
    PolicyReloadRequest,
    PolicyReloadView,
    "Put the ruleset's file in force, or keep the last good one.",
)
SERVERS: Final = get(
    "/mcp", TenantQuery, ServerList, "MCP servers and the tools to be approved of each."
)
APPROVE_TOOLS: Final = post(
    "/mcp/{server}/approve",
    ApproveRequest,
    ServerView,
    "Approve a server's tools as they were listed last.",
)
IMPORT: Final = post(
    "/mcp/{server}/import",
    ImportRequest,
    ImportView,
    "Label what a server kept before the gate, and on request raise the labels.",
    slow=True,
)
UNSETTLED: Final = get(
    "/unsettled",
    AnyTenantQuery,
    UnsettledList,
    "Admitted changes of which nobody knows whether the server behind has them.",
)
RESOLVE: Final = post(
    "/unsettled/{candidate_id}/resolve",
    ResolveRequest,
    UnsettledList,
    "Record a person's finding whether a server behind has an unsettled change.",
)
RETENTION: Final = post(
    "/retention",
    RetentionRequest,
    RetentionView,
    "Remove what the ruleset keeps no longer; `dry_run` only lists it.",
    slow=True,
)


class CompareRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memories that a server has, as its adapter lists them; `unnamed` as in `ImportRequest`."""

    items: Annotated[tuple[Item, ...], Meta(max_length=IMPORTED_AT_ONCE)] = ()
    unnamed: Annotated[tuple[bytes, ...], Meta(max_length=IMPORTED_AT_ONCE)] = ()


class ComparedView(msgspec.Struct, frozen=True, kw_only=True):
    """How one of them stands here."""

    # "same": its text is the text that was sent; "different": its text is another one; "foreign":
    # no verdict admitted it; "hidden": under quarantine, or erased here; "unsettled": a change of
    # it is not confirmed yet; "marked": a gate sent it, but no record here confirms that it
    # arrived, so it is shown to no one.
    state: str
    tenant: str | None = None
    memory_id: str | None = None
    # The number of the memory's row here, as `/kept` reports it, for matching both lists.
    number: int | None = None


class CompareView(msgspec.Struct, frozen=True, kw_only=True):
    """The results, in the order in which the memories were given."""

    compared: tuple[ComparedView, ...]


class KeptQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From which row on, and by which protocol the server is reached."""

    after: Annotated[int, Meta(ge=0, le=INDEX_MAX)] = 0
    through: Literal["http", "mcp"] = "http"


class KeptView(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that the server should have, and where: `arguments` has no text of it."""

    number: int
    tenant: str
    memory_id: str
    candidate_id: str
    tool: str
    key: str
    arguments: str
    piece_count: int
    # Of a memory on an MCP server: "same", "hidden" or "unsettled" as in `ComparedView`, and the
    # SHA-256 (hex) of each of its texts with its key.
    state: str = "same"
    texts: tuple[str, ...] = ()


class KeptList(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the live memories that the server should have, in the order of their rows."""

    kept: tuple[KeptView, ...]
    # The `after` of the request for the next page; None on the last page.
    next: int | None


class TableView(msgspec.Struct, frozen=True, kw_only=True):
    """The `[[backend]]` table of a server, with the path of its credential's file, not the text."""

    table: dict[str, JsonValue]


TABLE: Final = get(
    "/backends/{backend}", NoQuery, TableView, "The [[backend]] table that this sidecar serves."
)
COMPARE: Final = post(
    "/backends/{backend}/compare",
    CompareRequest,
    CompareView,
    "How memories that a server has stand here: the same, different, or let in by no verdict.",
    slow=True,
)
KEPT: Final = get(
    "/backends/{backend}/kept",
    KeptQuery,
    KeptList,
    "Live memories that a server should have, without their texts.",
    slow=True,
)
IMPORT_FOUND: Final = post(
    "/backends/{backend}/import",
    ImportRequest,
    ImportView,
    "Take in, as of unknown origin, what a server has and no verdict let in.",
    slow=True,
)


# The first line of a receipt; a JSON object follows, in one line.
RECEIPT: Final = "mnemogate erasure receipt"
NOT_REACHED: Final = (
    "what a server's own files, its write-ahead log and its history keep",
    "copies on servers that no one asked, which the gate hides",
    "traces and log lines that were sent out, backups, and the journal of a shard without `keys`",
    "the audit log: ids, times, reasons, names of principals and of files that hosts read",
)


class EraseRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Erase the traces of one user, one principal or one target; exactly one must be given."""

    user_id: Wide | None = None
    principal: Wide | None = None
    under: Wide | None = None
    dry_run: bool = False


class ErasureView(msgspec.Struct, frozen=True, kw_only=True):
    """An erasure: the traces that it found, and how many memories wait, by target.

    `erasure_id` is "" for a dry run. `receipt`: the signed note, once the erasure has ended.
    `nameless`, of a user's erasure: how many memories of the tenant name no user, by target.
    """

    erasure_id: str
    found: dict[str, int]
    waiting: dict[str, int] = {}
    receipt: str = ""
    nameless: dict[str, int] = {}


ERASE: Final = post(
    "/erasures",
    EraseRequest,
    ErasureView,
    "Erase the traces of one person, or continue to; `dry_run` only counts them.",
    slow=True,
)

"""Requests and answers of the operator API about memories, candidates, trust, keys and rules."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from policy.model import (
    NONCE_LEN_MAX,
    TEXT_LEN_MAX,
    ChangeKind,
    Channel,
    Claims,
    HistoryEntry,
    Memory,
    MemoryClass,
    OperatorScope,
    Principal,
    Reads,
    Scope,
    SourceKind,
)
from policy.trust.score import TrustLevel, TrustScore
from proxy.admin.wire.route import (
    Empty,
    MemoriesQuery,
    NoQuery,
    TenantQuery,
    Wide,
    get,
    post,
)
from proxy.dialects.strict_json.strict import JsonValue
from proxy.ledger.unmapped_tools import UnmappedTool
from proxy.ledger.wire import OriginView
from proxy.seams.observations import Way
from proxy.seams.readiness import UpstreamState
from proxy.seams.tenants import DEFAULT_TENANT, TenantName
from storage.values import (
    CheckReport,
    HeldSummary,
    HidingActor,
    OutcomeSummary,
    Page,
    StoreStatus,
    TrustEvent,
)

TOKEN_SECONDS_MAX = 7 * 24 * 3600


class StatusView(StoreStatus, frozen=True, kw_only=True):
    """A summary for an operator: what serves, the store's counts, and what waits for a person."""

    # The version of the running program.
    program: str
    # The address of each open listener.
    listeners: dict[str, str]
    upstreams: tuple[UpstreamState, ...]

    # Tools seen since the start that seem to be about memory and are in no tool map, so that their
    # calls are not judged.
    unmapped_tools: tuple[UnmappedTool, ...] = ()
    # Tools seen since the start that run programs: calls inside a program are judged only
    # at a relay, at a hook and where a place is read next.
    program_tools: tuple[UnmappedTool, ...] = ()
    # The number of files that newest model requests had between no known marks, so that only orders
    # in them wait. `places list` names them: a path may be words that no verdict has admitted.
    unread_places: int = 0
    # The settings and rules that admit more than the shipped ones.
    wider: tuple[str, ...] = ()
    # The names of incident receivers for which too many steps wait to be sent.
    receivers_behind: tuple[str, ...] = ()


class MemoryView(Memory, frozen=True, kw_only=True):
    """One committed memory as an operator sees it."""

    # The names of the sources that the writing session had read; None: unknown.
    had_read: tuple[str, ...] | None = None
    # Those who hide a quarantined memory, oldest first; () for a live memory.
    hidden: tuple[HidingActor, ...] = ()


class MemoryPage(Page, frozen=True, kw_only=True):
    """A slice of a tenant's live memories, newest first; `total` counts all.

    `quarantined` counts those of the tenant that no read shows.
    """

    offset: int
    quarantined: int


class HistoryView(msgspec.Struct, frozen=True, kw_only=True):
    """Every committed step, oldest first."""

    memory_id: str
    steps: tuple[HistoryEntry, ...]


class PurgeRequest(TenantQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Erase one memory; `compact` also rewrites the files so that no byte of it stays."""

    compact: bool = True


class PurgeView(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate decided on a purge or deletion, and how many bytes that gave back."""

    memory_id: str
    decision: str
    reason: str | None
    version: int
    leaf_index: int
    bytes_saved: int | None  # null where the files were not rewritten


class HeldView(HeldSummary, frozen=True, kw_only=True):
    """One candidate that waits for a person; the content only when asked for by id."""

    change: ChangeKind | None = None
    target: str | None = None
    memory_id: str | None = None
    text: str | None = None
    metadata_json: str | None = None
    claimed_source: SourceKind | None = None
    # The class that the candidate gets if a person releases it, because a person's own directive
    # does not become policy. Given only together with the content.
    becomes: MemoryClass | None = None
    # The names of the sources that the writing session had read; None: unknown, or not asked for by
    # id.
    had_read: tuple[str, ...] | None = None
    # The candidate's first characters.
    begins: str | None = None
    # For a tool call: its tool, its judged texts, what it is about, and its other arguments.
    tool: str = ""
    pieces: tuple[str, ...] = ()
    about: str = ""
    arguments: str = ""
    # The tool result in which the text was seen.
    seen_in: OriginView | None = None
    # The place that the candidate would change; candidates for one place are decided together.
    place: str | None = None
    # If the candidate counts as a directive or an injection: the words that alone would count so.
    fired: str | None = None
    # The present text of the memory that the candidate would change or remove. Given only if the
    # candidate is asked for by id.
    stored: str | None = None
    # The ids (user, agent, run, app) under which the client filed the memory; unset if there are
    # none.
    filed_under: str | UnsetType = UNSET


class OutcomeView(OutcomeSummary, frozen=True, kw_only=True):
    """The outcome for a candidate after a person's decision."""

    memory_id: str | None
    # Ids of candidates denied earlier with the same text as the released candidate; this text is no
    # longer withheld.
    lifted: tuple[str, ...] = ()
    # Whether the text is withheld from the agent that proposed it from now on.
    withheld: bool = False
    # Who writes the admitted text: `store` (already written), `relay` (forwards the change to the
    # upstream server), or `agent` (writes it when the agent sends the change again).
    way: Way = Way.STORE
    # The principal against whose trust a person's denial counts; "" if no one denied.
    counts_against: str = ""


class TrustEventView(TrustEvent, frozen=True, array_like=False):
    """One change of trust, as an operator is shown it."""


class TrustStanding(TrustScore, frozen=True, kw_only=True):
    """Score and latch, of a principal or of an origin.

    `history` holds its last 64 changes, oldest first, and is given only where a single principal or
    origin was asked for.
    """

    score: float
    history: tuple[TrustEventView, ...] | None = None


class TrustView(TrustStanding, frozen=True, kw_only=True):
    """What is known of the trust in one principal: ladder, score and latch."""

    principal: str
    level: TrustLevel
    violations_count: int


class OriginTrustView(TrustStanding, frozen=True, kw_only=True):
    """Score and latch of what one tool of one server brings into the sessions of a tenant."""

    tenant: str
    server: str
    tool: str


class OriginQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tool of which server, and in whose sessions."""

    server: Annotated[str, Meta(max_length=256)]
    tool: Annotated[str, Meta(max_length=256)]
    tenant: TenantName = DEFAULT_TENANT


class TrustList(msgspec.Struct, frozen=True, kw_only=True):
    """Every principal and every origin with a recorded trust."""

    principals: tuple[TrustView, ...]
    origins: tuple[OriginTrustView, ...] = ()


class KeyView(Principal, frozen=True, kw_only=True):
    """The record of one API key, without the key itself."""

    key_id: str
    created_at_ms: int
    revoked_at_ms: int | None


class KeyList(msgspec.Struct, frozen=True, kw_only=True):
    """The records of every API key, revoked ones included."""

    keys: tuple[KeyView, ...]


class KeyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new principal with a key; its tenant is its own name unless one is given."""

    name: TenantName
    tenant: TenantName | None = None
    channel: Channel = Channel.AGENT
    claims: Claims = Claims.IGNORED
    reads: Reads = Reads.ALL
    may: OperatorScope = OperatorScope.OPERATE


class RotateRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new key for the same principal; the old one works for `grace_seconds` more."""

    grace_seconds: Annotated[int, Meta(ge=0, le=30 * 24 * 3600)] = 0


class NewKeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key, shown once."""

    key: KeyView
    plain: str


class TokenRequest(Scope, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for a token: one write of one principal may land in `to_class`, once.

    The token covers every field of the write, so the write must repeat them exactly: this text,
    this nonce, the class named as `to_class`, and everything else given here. `memory_id` makes it
    an update, whose `from_class` must be the stored class; for a new memory `from_class` is
    ignored.
    """

    principal: Wide
    text: Annotated[str, Meta(min_length=1, max_length=TEXT_LEN_MAX)]
    to_class: MemoryClass
    from_class: MemoryClass | None = None
    tenant: TenantName | None = None  # None: the tenant of the principal's key
    nonce: Annotated[str, Meta(min_length=1, max_length=NONCE_LEN_MAX)] | None = None
    memory_id: Annotated[str, Meta(min_length=36, max_length=36)] | None = None
    target: Wide = "memories"
    source: SourceKind | None = None  # the label that the write will claim
    metadata: dict[str, JsonValue] | None = None
    expires_in_seconds: Annotated[int, Meta(ge=1, le=TOKEN_SECONDS_MAX)] = 600


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token, and the nonce that the write must carry with it."""

    token: str
    nonce: str
    expires_at_ms: int


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """The ruleset in force."""

    digest: str
    epoch: int
    text: str


class OrphanView(msgspec.Struct, frozen=True, kw_only=True):
    """One observation of the knowledge graph in store mode whose entity is gone."""

    tenant: str
    memory_id: str
    entity_name: str


class CheckView(CheckReport, frozen=True, kw_only=True):
    """Result of walking the whole store; no problems means sound.

    `orphans`: observations of store mode whose entity is gone. They are shown under its name.
    """

    orphans: tuple[OrphanView, ...] = ()


class CompactView(msgspec.Struct, frozen=True, kw_only=True):
    """How many bytes the rewriting of the store gave back to the disk."""

    bytes_saved: int


STATUS: Final = get(
    "/status",
    NoQuery,
    StatusView,
    "A summary of the store: version, counts, and what waits for a person.",
    least=OperatorScope.VIEW,
)
MEMORIES: Final = get(
    "/memories", MemoriesQuery, MemoryPage, "Live memories of a tenant, newest first."
)
MEMORY: Final = get(
    "/memories/{memory_id}",
    TenantQuery,
    MemoryView,
    "One memory, and the names of what the conversation that wrote it had read.",
)
HISTORY: Final = get(
    "/memories/{memory_id}/history",
    TenantQuery,
    HistoryView,
    "Every committed step of a memory.",
)
DELETE: Final = post(
    "/memories/{memory_id}/delete",
    TenantQuery,
    PurgeView,
    "Delete a memory; no read shows it, and its history stays.",
)
PURGE: Final = post(
    "/memories/{memory_id}/purge",
    PurgeRequest,
    PurgeView,
    "Erase a memory and its bytes, for good.",
    slow=True,
)
HELD: Final = get(
    "/review/{candidate_id}", NoQuery, HeldView, "One candidate that waits, with its content."
)
RELEASE: Final = post(
    "/review/{candidate_id}/release",
    Empty,
    OutcomeView,
    "Release one held candidate: it is admitted unless another check refuses it.",
    least=OperatorScope.REVIEW,
)
DENY: Final = post(
    "/review/{candidate_id}/deny",
    Empty,
    OutcomeView,
    "Refuse one candidate; its content is destroyed.",
    least=OperatorScope.REVIEW,
)
TRUST: Final = get(
    "/trust",
    NoQuery,
    TrustList,
    "Every principal with a recorded trust.",
    least=OperatorScope.VIEW,
)
TRUST_OF: Final = get(
    "/trust/{principal}",
    NoQuery,
    TrustView,
    "The trust of one principal.",
    least=OperatorScope.VIEW,
)
RESTORE: Final = post(
    "/trust/{principal}/restore", Empty, TrustView, "Put a principal back to trusted."
)
ORIGIN_TRUST: Final = get(
    "/origin-trust",
    OriginQuery,
    OriginTrustView,
    "The trust of what one tool of one server brings in.",
    least=OperatorScope.VIEW,
)
RESTORE_ORIGIN: Final = post(
    "/origin-trust/restore",
    OriginQuery,
    OriginTrustView,
    "Put the trust of an origin back to a newcomer's.",
)
KEYS: Final = get(
    "/keys",
    NoQuery,
    KeyList,
    "The records of every key, revoked ones too. The keys themselves are never shown.",
    least=OperatorScope.VIEW,
)
KEY_ADD: Final = post("/keys", KeyRequest, NewKeyView, "A key for a new principal, shown once.")
KEY_ROTATE: Final = post(
    "/keys/{key_id}/rotate",
    RotateRequest,
    NewKeyView,
    "A new key for the same principal, shown once.",
)
KEY_REVOKE: Final = post("/keys/{key_id}/revoke", Empty, KeyView, "End a key at once.")
TOKEN: Final = post(
    "/tokens",
    TokenRequest,
    TokenView,
    "A token that lets one write land in a class that its source may not write.",
)
POLICY: Final = get(
    "/policy",
    NoQuery,
    PolicyView,
    "The ruleset in force.",
    least=OperatorScope.VIEW,
)
CHECK: Final = post(
    "/check",
    Empty,
    CheckView,
    "Read the whole store and name each value that is not as the gate wrote it.",
    slow=True,
)
COMPACT: Final = post(
    "/compact",
    Empty,
    CompactView,
    "Rewrite the store's files without their free pages, which makes them smaller.",
    slow=True,
)

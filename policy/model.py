"""The nouns of the gate: candidate, principal, provenance, source kind, memory class.

All structs are frozen. None checks its types on construction, so anything that came from a peer is
decoded in ``proxy/dialects`` before it is put in one of these structs.
"""

from __future__ import annotations

import enum
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, NewType

import msgspec
from msgspec import Meta

CandidateId = NewType("CandidateId", str)
"""32 lower-case hex digits, random, minted by the interceptor; carries nothing of the content."""

MemoryId = NewType("MemoryId", str)
"""A UUID (36 characters); opaque."""

PrincipalId = NewType("PrincipalId", str)
Tenant = NewType("Tenant", str)

Digest = NewType("Digest", bytes)
"""SHA-256 over a candidate's canonical bytes (RFC 8785); never leaves the process."""

PRINCIPAL = {"principal_id": "principal"}
"""How the operator API names the field of a principal's name."""

TEXT_LEN_MAX = 65_536
METADATA_LEN_MAX = 32_768
NAME_LEN_MAX = 256
NONCE_LEN_MAX = 128
LINEAGE_LEN_MAX = 64

Name = Annotated[str, Meta(min_length=1, max_length=NAME_LEN_MAX)]
Text = Annotated[str, Meta(max_length=TEXT_LEN_MAX)]


class Word(enum.Enum):
    """A closed list of words, whose hashes and values cost no call of Python.

    Every member exists once, so its identity is its hash. `Enum` itself would compute a hash and a
    value in Python, three dozen times per verdict.
    """

    __hash__ = object.__hash__
    if not TYPE_CHECKING:
        value = property(attrgetter("_value_"))


# The ranks of the sources, by their words. Both unproven kinds have the same rank. Only a person is
# shown the difference: of a `TOOL_RESULT` the session ledger saw that a model made the call.
_TRUST = {
    "unknown": 0,
    "tool_result": 0,
    "model_inference": 1,
    "agent_self_edit": 1,
    "user_input": 2,
    "operator": 3,
}


class SourceKind(Word):
    """Who is accountable for a text, most trusted first (docs/glossary.md#labels)."""

    OPERATOR = "operator"
    USER_INPUT = "user_input"
    AGENT_SELF_EDIT = "agent_self_edit"
    MODEL_INFERENCE = "model_inference"
    TOOL_RESULT = "tool_result"
    UNKNOWN = "unknown"

    def __init__(self, word: str) -> None:
        # The rank of the source: 0 for the two unproven kinds up to 3 for `OPERATOR`.
        self.trust = _TRUST[word]
        # Whether a key or a person's decision shows who is accountable.
        self.proven = self.trust >= _TRUST["user_input"]


class MemoryClass(Word):
    """What a memory is able to do to the agent, most powerful first."""

    L1 = "L1"  # L1, policy: directives that steer the agent.
    L2 = "L2"  # L2: memories of identity, preference or procedure.
    L3 = "L3"  # L3: knowledge.
    L4 = "L4"  # L4: episodes and scratch notes.

    def __init__(self, word: str) -> None:
        # The power of the class, from 4 for `L1` to 1 for `L4`: a class of more power needs a more
        # trusted source.
        self.power = 5 - int(word[1:])


class ChangeKind(Word):
    """What a candidate would do to memory: create, update, delete or purge."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    PURGE = "purge"


class Channel(enum.Enum):
    """To whom the operator bound a credential: an agent, a user or an operator."""

    AGENT = "agent"
    USER = "user"
    OPERATOR = "operator"


class Reads(Word):
    """The floor for reads of a credential: what has a less trusted label does not exist for it."""

    ALL = "all"
    USER_INPUT = "user_input"
    OPERATOR = "operator"

    def __init__(self, word: str) -> None:
        # The least rank (`SourceKind.trust`) that a label must have to be shown.
        self.trust = _TRUST.get(word, 0)

    def shows(self, source: SourceKind) -> bool:
        """Whether a row with this label is at or above the floor."""
        return source.trust >= self.trust


class Claims(enum.Enum):
    """Whether the labels that a client names count on its channel (docs/glossary.md#labels)."""

    IGNORED = "ignored"
    TRUSTED = "trusted"


class OperatorScope(Word):
    """How far an operator's key reaches; each scope includes the scopes before it."""

    VIEW = "view"  # what the sidecar did: verdicts, counts, names; no content of any memory
    REVIEW = "review"  # content, and the decision on what waits for a person
    OPERATE = "operate"  # every act of an operator

    def includes(self, least: OperatorScope) -> bool:
        """Whether a key of this scope may do what needs the scope `least`."""
        return _REACH[self] >= _REACH[least]


_REACH = {OperatorScope.VIEW: 0, OperatorScope.REVIEW: 1, OperatorScope.OPERATE: 2}


class Basis(Word):
    """Why a source kind was given to a candidate; written into every leaf that relies on it."""

    CHANNEL = "channel"  # BOUND: the operator bound the credential to people or to an operator.
    # The setting is `claims = "trusted"`: the operator vouches for the harness's labels.
    VOUCHED = "vouched"
    UNPROVEN = "unproven"  # Nothing proves who said the text; its label is the floor.
    # LINEAGE: the label is the lowest of the memories that the candidate derives from, or of the
    # text that a change leaves in place.
    LINEAGE = "lineage"
    # CONFIRMATION: a person saw the whole of the text, and confirmed it.
    CONFIRMATION = "confirmation"


class Principal(msgspec.Struct, frozen=True, kw_only=True, rename=PRINCIPAL):
    """Who authenticated on a connection. Each principal has its own trust, nonces and ids."""

    principal_id: PrincipalId
    tenant: Tenant
    channel: Channel = Channel.AGENT
    claims: Claims = Claims.IGNORED
    reads: Reads = Reads.ALL
    # How far the key reaches where the channel is an operator's; other channels ignore it.
    may: OperatorScope = OperatorScope.OPERATE


class Scope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The ids that a client files a memory under.

    They select inside a tenant, never across tenants.
    """

    user_id: Name | None = None
    agent_id: Name | None = None
    run_id: Name | None = None
    app_id: Name | None = None


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A proposed change of memory, not yet judged. Its canonical bytes are what is judged.

    The digest covers every field. A field that is absent or has its default is left out of the
    canonical bytes, so that two different candidates never have the same bytes, and one candidate
    never has two spellings.
    """

    change: ChangeKind
    principal_id: PrincipalId
    tenant: Tenant
    nonce: Annotated[str, Meta(min_length=1, max_length=NONCE_LEN_MAX)]
    # What the client aimed at, in its own words: a collection, namespace, path, block label or
    # tool.
    target: Name = "memories"
    # The memory to be changed; for a create, only where the client chose the id itself.
    memory_id: MemoryId | None = None
    text: Text | None = None
    # Canonical JSON of the client's metadata object, or None where it sent none.
    metadata_json: Annotated[str, Meta(max_length=METADATA_LEN_MAX)] | None = None
    scope: Scope = Scope()
    memory_class: MemoryClass = MemoryClass.L3
    # True where the client named the class itself, False where a rule mapped the target to it.
    class_named: bool = False
    claimed_source: SourceKind | None = None
    # The chat role and the speaker that a dialect passes on (Mem0: role, actor_id); both are the
    # client's claims.
    role: Name | None = None
    actor: Name | None = None
    derived_from: Annotated[tuple[MemoryId, ...], Meta(max_length=LINEAGE_LEN_MAX)] = ()
    # RFC 3339 date or date-time after which reads stop showing the memory.
    expires_at: Annotated[str, Meta(max_length=40)] | None = None
    # SHA-256 (hex) of the client's own vector as it is stored, at unit norm; None if the store
    # embeds texts itself.
    vector_sha256: Annotated[str, Meta(max_length=64)] | None = None
    # Whether the change goes into a place that a host reads as instructions (`policy.places`); set
    # by the code that knows the path or block, never by a client.
    instructions: bool = False


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a segment came from, precisely enough to name a culprit."""

    kind: SourceKind
    server: str | None = None
    tool: str | None = None
    call_id: str | None = None
    memory_id: MemoryId | None = None
    # The host whose address the call named, as `//name`.
    resource: str | None = None


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """The attested origin of a candidate. What the client said stays in `Candidate.claimed_*`.

    `source` is the label that the candidate is judged by. `culprits` are the segments that its text
    was found in, and last the channel it came on; they name an origin and decide no label.
    """

    source: SourceKind
    basis: Basis
    culprits: tuple[Origin, ...] = ()
    # Our own id of the session that the candidate was found to belong to (32 hex digits).
    session: str | None = None
    # Whether the session that wrote the candidate had read foreign text (docs/glossary.md#labels).
    after_reading: bool = False
    # The tools and hosts that this session had read, at most eight of each: a tool by its name, a
    # host as `//name`.
    read_origins: tuple[str, ...] = ()


class MemoryStatus(Word):
    """Whether reads may show a committed memory."""

    LIVE = "live"
    QUARANTINED = "quarantined"
    DELETED = "deleted"
    # Admitted, but the upstream server has not confirmed that it stored it; shown to no reader.
    FORWARDING = "forwarding"


class Hiding(enum.Enum):
    """How a quarantined memory on an upstream server is hidden; answers to reads are always sifted.

    To sift is to remove strings that must not reach the agent.
    """

    SIFT = "sift"  # nothing is changed on the server
    TAG = "tag"  # a field in the server's item, and a filter in every read
    REMOVE = "remove"  # the server's item is deleted, and kept here


class ForwardStatus(Word):
    """What is known of an admitted change after it was forwarded to an upstream server."""

    DONE = "done"  # The server confirmed the change.
    FAILED = "failed"  # The server refused the change, or the change was never sent.
    # The server answered, and its answer does not name the change: it had the name or text already.
    NO_EFFECT = "no_effect"
    # The change was sent and no answer came: its outcome is found by reading, and it is never sent
    # again.
    UNKNOWN = "unknown"


class Memory(msgspec.Struct, frozen=True, kw_only=True, rename=PRINCIPAL):
    """One committed memory as a read may show it. Times are Unix milliseconds."""

    memory_id: MemoryId
    tenant: Tenant
    principal_id: PrincipalId
    text: str
    metadata_json: str | None
    scope: Scope
    target: str
    memory_class: MemoryClass
    source: SourceKind
    basis: Basis
    status: MemoryStatus
    version: int
    created_at_ms: int
    updated_at_ms: int
    candidate_id: CandidateId
    role: str | None = None
    actor: str | None = None
    expires_at: str | None = None
    derived_from: tuple[MemoryId, ...] = ()
    # The index of the leaf of the memory's row, where a read gives it; only operators are shown it.
    ordinal: int = -1
    # Where the text came from, as its leaf names it: server and tool, or a label.
    origin: str = ""


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One step in the life of a memory, oldest first in every listing."""

    change: ChangeKind
    version: int
    at_ms: int
    candidate_id: CandidateId
    source: SourceKind
    memory_class: MemoryClass
    old_text: str | None
    new_text: str | None
    metadata_json: str | None
    role: str | None
    actor: str | None
    # The position of the step's verdict in the audit log; only operators are shown it.
    leaf_index: int = -1


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a search result's score (docs/search.md).

    `words` is the share of the question's words, 0 if the question has none. `capped`: the memory
    was over the cap of its origin, so it comes after the others.
    """

    cosine: float
    words: float
    trust: float
    capped: bool = False


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One search result; `score` is in [0, 1], `ranking` None if no search found the memory."""

    memory: Memory
    score: float
    ranking: Ranking | None = None


class Entity(msgspec.Struct, frozen=True, kw_only=True):
    """One id that live memories of a tenant are filed under."""

    kind: str  # what kind of thing the id names: "user", "agent", "run" or "app"
    name: str
    count: int
    first_at_ms: int
    last_at_ms: int


def meet(first: SourceKind, second: SourceKind) -> SourceKind:
    """The less trusted of two labels; the first one if both are trusted alike."""
    return second if second.trust < first.trust else first


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How a model may understand a candidate's text: as an order, as an attack, or as neither.

    `skeleton` is made of the text alone. The flags `directive` and `injection` cover the strings in
    the metadata as well, because a recall splices text and metadata into the context together.
    """

    skeleton: str
    directive: bool
    injection: bool
    # A sentence names an address beside money, a credential or a contract.
    at_stake: bool = False

    @property
    def flagged(self) -> bool:
        """Whether the text is written to steer its reader, even in a quotation or an example."""
        return self.directive or self.injection

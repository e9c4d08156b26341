"""A session ledger in the hands of a test: its clock, its ids, its file, and short requests."""

from __future__ import annotations

from pathlib import Path

from policy.labels.derive import Seen
from policy.model import (
    Basis,
    CandidateId,
    Memory,
    MemoryClass,
    MemoryId,
    MemoryStatus,
    Principal,
    PrincipalId,
    Scope,
    SourceKind,
    Tenant,
)
from policy.trust.score import TrustState
from proxy.dialects.model.anthropic import messages as anthropic
from proxy.dialects.model.transcript import ModelCall, ModelReply
from proxy.dialects.strict_json.tolerant import Json
from proxy.ledger.sessions import RequestFindings, Sessions
from proxy.seams.environment import Environment
from proxy.seams.guard import Join
from storage.interfaces import SessionLog
from storage.sealed_log.session_log import open_session_log, prints_key, session_keys
from storage.values import Decision, Outcome

KEY = b"k" * 32
ADA = Principal(principal_id=PrincipalId("key:ada"), tenant=Tenant("harbour"))
GRACE = Principal(principal_id=PrincipalId("key:grace"), tenant=Tenant("harbour"))

USER, TOOL, UNKNOWN = SourceKind.USER_INPUT, SourceKind.TOOL_RESULT, SourceKind.UNKNOWN


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_800_000_000.0
        self.ids = 0

    def surroundings(self) -> Environment:
        return Environment(
            clock_ns=lambda: int(self.now_s * 1e9), random_hex=self._hex, record=lambda _event: None
        )

    def _hex(self, count: int) -> str:
        self.ids += 1
        return f"{self.ids:0{2 * count}x}"


def user(*texts: str) -> Json:
    blocks: list[Json] = [{"type": "text", "text": text} for text in texts]
    return {"role": "user", "content": blocks}


def result(call_id: str, text: str) -> Json:
    block: dict[str, Json] = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    return {"role": "user", "content": [block]}


def assistant(text: str, *calls: ModelCall) -> Json:
    blocks: list[Json] = [{"type": "text", "text": text}] if text else []
    for one in calls:
        made: dict[str, Json] = {"type": "tool_use", "id": one.call_id, "name": one.name}
        blocks.append({**made, "input": one.arguments})
    return {"role": "assistant", "content": blocks}


def call(call_id: str, tool: str = "remember", **arguments: Json) -> ModelCall:
    return ModelCall(call_id=call_id, name=tool, arguments=arguments)


def reply(text: str = "", *calls: ModelCall, reply_id: str | None = None) -> ModelReply:
    return ModelReply(reply_id=reply_id, said=(text,) if text else (), calls=calls)


def admitted() -> Outcome:
    """A verdict: stored as everyday knowledge, unproven."""
    return Outcome(
        candidate_id=CandidateId("c" * 32),
        decision=Decision.ADMIT,
        reason=None,
        step=None,
        memory_class=MemoryClass.L3,
        source=UNKNOWN,
        basis=Basis.UNPROVEN,
        passed=(),
        structural=False,
        version=1,
        leaf_index=0,
        memory=None,
        trust=TrustState(),
    )


class Ledger:
    """One ledger, asked in the short forms of these tests."""

    def __init__(self, clock: Clock | None = None, log: SessionLog | None = None) -> None:
        self.clock = clock or Clock()
        self.log = log
        self.sessions = Sessions(log, prints_key(KEY), self.clock.surroundings())

    async def ask(
        self, *messages: Json, by: Principal = ADA, reads_foreign: bool = False, **body: Json
    ) -> RequestFindings:
        """A request with these messages enters."""
        self.clock.now_s += 1
        request = anthropic.read_request({"messages": list(messages), **body})
        return await self.sessions.entered(by, request, reads_foreign=reads_foreign)

    async def answer(
        self,
        entered: RequestFindings,
        answered: ModelReply,
        by: Principal = ADA,
        recalls: tuple[str, ...] = (),
    ) -> None:
        """The model replies; `recalls` are the ids of its calls of memory tools."""
        self.clock.now_s += 1
        await self.sessions.replied(by, entered.session, answered, recalls)

    def seen(self, *texts: str, join: Join | None = None, by: Principal = ADA) -> Seen:
        return self.sessions.seen(by.principal_id, texts, join)

    def has_read(self, entered: RequestFindings) -> bool:
        """Whether the session of a request had read foreign text."""
        view = self.sessions.shown(entered.session)
        assert view is not None
        return view.has_read

    def recall(
        self, memory_id: str, text: str, source: SourceKind, metadata_json: str | None = None
    ) -> None:
        """A memory is served to Ada's agent."""
        memory = Memory(
            memory_id=MemoryId(memory_id),
            tenant=ADA.tenant,
            principal_id=ADA.principal_id,
            text=text,
            metadata_json=metadata_json,
            scope=Scope(),
            target="memories",
            memory_class=MemoryClass.L3,
            source=source,
            basis=Basis.UNPROVEN,
            status=MemoryStatus.LIVE,
            version=1,
            created_at_ms=0,
            updated_at_ms=0,
            candidate_id=CandidateId("0" * 32),
        )
        self.sessions.recalled(ADA.principal_id, (memory,))


def kept(state: Path, clock: Clock | None = None, *, is_new: bool = False) -> Ledger:
    """A ledger with a file, with what was in it."""
    clock = clock or Clock()
    scar = Sessions.scar(int(clock.now_s * 1_000))
    keys = session_keys(KEY, "life-1")
    log, records, _ = open_session_log(state, keys, scar, is_new=is_new)
    ledger = Ledger(clock, log)
    ledger.sessions.restore(records)
    return ledger

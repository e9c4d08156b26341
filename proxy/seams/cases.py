"""The structs and Protocols by which rooms report wrong answers and search for their cause.

A signal reports the wrong answer, a case is the search for the memory that caused it, and a judge
decides whether an answer from a given set of memories is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from policy.after.closure import BLAST_MAX
from policy.after.matchers import Grade, SignalKind
from policy.model import Memory, MemoryId, Principal, PrincipalId, Tenant

RULES: Final = PrincipalId("mnemogate:rules")
"""The principal of signals that an anchor or a canary raises, and no caller."""
EXPECT_LEN_MAX: Final = 1_024
"""The most characters of one text that an answer should, or should not, have contained."""

SaidText = Annotated[str, Meta(max_length=EXPECT_LEN_MAX)]


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A report, by a caller or a rule, that an answer was wrong.

    At least one id names what the signal is about. `expect` and `forbid` are content: they are
    passed in memory, and stored only encrypted. `rule_id` names the anchor or canary, or `judge`
    the caller's judge, that raised the signal. `through` names the model to ask again.
    """

    signal_id: str
    """Hex digits: the id under which the signal is stored as a failure."""
    kind: SignalKind
    grade: Grade
    tenant: Tenant
    by: PrincipalId
    at_ms: int
    reply_id: str | None = None
    recall_id: str | None = None
    memory_id: str | None = None
    rule_id: str | None = None
    judge: str | None = None
    through: str | None = None
    expect: tuple[SaidText, ...] = ()
    forbid: tuple[SaidText, ...] = ()


class OnConviction(msgspec.Struct, frozen=True, kw_only=True):
    """What a case that found its culprits may do without a person.

    Where rules or a caller's judge only propose, the case names the memories, and a person hides
    them. Derived memories above `blast_max` memories in all are left to a person as well.
    """

    rules_propose: bool = False
    judges_propose: bool = True
    blast_max: int = BLAST_MAX


class ChecksReplies(Protocol):
    """Compares finished replies with the anchors that operators registered. Event loop only."""

    def replied(
        self,
        principal: Principal,
        reply_id: str,
        said: tuple[str, ...],
        memory_ids: tuple[MemoryId, ...],
    ) -> None:
        """Queue a finished reply, whose request contained memories, to be compared. Never waits."""
        ...

    async def settled(self, principal: Principal) -> None:
        """Wait until this principal's replies are compared, and culprits of wrong ones are hidden.

        The wait is bounded: a search that takes longer continues after this returns.
        """
        ...


class WrongReply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a finished reply that contradicts an anchor, before the reply was forwarded.

    `mended` is true where each memory that made the reply wrong is hidden, so that another reply is
    worth asking for; else `why` is a fixed word. `case_id` is "" where no case was opened.
    """

    case_id: str = ""
    mended: bool = False
    why: str = ""


class HealsReplies(Protocol):
    """Checks a finished reply before it is forwarded, and hides the memories that made it wrong.

    Event loop only.
    """

    async def has_suspects(self, principal: Principal, memory_ids: tuple[MemoryId, ...]) -> bool:
        """Whether one of the memories contradicts an anchor of a more trusted label."""
        ...

    async def wrong(
        self,
        principal: Principal,
        reply_id: str,
        said: tuple[str, ...],
        memory_ids: tuple[MemoryId, ...],
        note: Callable[[], None],
    ) -> WrongReply | None:
        """Compare a reply with the anchors, and open a case if the reply contradicts one.

        Returns what became of the reply; None if it contradicts no anchor.

        `note` records the reply in the ledger before a case about it is opened. The search for the
        culprits is over when this returns, unless it takes too long and continues afterwards.

        Raises:
            StorageError: The reply could not be compared, or no case could be opened.
        """
        ...

    async def still_wrong(self, case_id: str) -> None:
        """Leave a case to a person, because the reply is still wrong without what the case hid.

        Raises:
            StorageError: The case could not be written to disk.
        """
        ...


class ReplayedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One memory of a set that a judge is asked about."""

    id: str
    text: str


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's opinion on a set of memories: the answer fails, does not, or (None) is unknown.

    If `fails` is None and the judge did not say so itself, `problem` is one of the words of
    `proxy.aftermath.judges`. The judge's own reason is in no field.
    """

    fails: bool | None
    problem: str | None = None


class CanaryOutcome(msgspec.Struct, frozen=True, kw_only=True, rename={"case_id": "incident"}):
    """What the questions of one canary found.

    `failing` say what the canary forbids, in the order in which they were found; `lacking`: none of
    the memories found says something that it asks for. `failure_id`: "" where nothing failed.
    """

    canary_id: str
    failing: tuple[MemoryId, ...]
    lacking: bool
    failure_id: str = ""
    case_id: str = ""


class ReplaysModels(Protocol):
    """Sends a request to its model again, without some of its memories. Event loop only."""

    def names(self) -> tuple[str, ...]:
        """The names of the models that may be asked again."""
        ...

    def has(self, name: str, tenant: Tenant, reply_id: str) -> bool:
        """Whether the request that this model's reply answered is still stored."""
        ...

    def forget(self, tenant: Tenant, reply_id: str) -> None:
        """Drop the stored request that a reply answered; the reply is not replayed any more."""
        ...

    def asks_left(self) -> int:
        """How many replays an incident that begins now may make; 0 or less: none."""
        ...

    def affords(self, tenant: Tenant, reply_id: str) -> bool:
        """Whether one more replay of a reply fits into the budget of tokens of all replays."""
        ...

    async def said(
        self, tenant: Tenant, reply_id: str, present: Sequence[Memory], out: Sequence[Memory]
    ) -> tuple[str, ...] | None:
        """Replay the request without the texts of the memories `out`; return the model's texts.

        A text that a `present` memory has too stays. None if the model fails, is too slow, cannot
        be parsed, or answers no text; nothing is raised. No tool call of the reply is made.
        """
        ...

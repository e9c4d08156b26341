"""What rooms tell each other when an answer was wrong.

A signal reports the wrong answer, a case is the search for the memory that caused it, and a judge
tells whether an answer from a given set of memories is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from policy.after.closure import BLAST_MAX
from policy.after.matchers import Grade, SignalKind
from policy.model import Memory, MemoryId, Principal, PrincipalId, Tenant
from proxy.seams.operation import FeedbackResult, GiveFeedback

RULES: Final = PrincipalId("mnemogate:rules")
"""The principal of what anchors and canaries set off by themselves."""
EXPECT_LEN_MAX: Final = 1_024
"""Characters of what an answer should have said, or should not have."""

SaidText = Annotated[str, Meta(max_length=EXPECT_LEN_MAX)]


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A report, by a caller or a rule, that an answer was wrong.

    At least one id says what the signal is about. `expect` and `forbid` are content: they are
    handed on in memory, and stored encrypted only. `rule_id` names the anchor or canary, `judge`
    the caller's judge, where one of these spoke. `through` names the model to ask again.
    """

    signal_id: str
    """Hex digits: the id of the failure that it is kept as."""
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
    """What a search that found who is to blame may do without a person.

    Where rules or a caller's judge only propose, memories are named in the case, and a person hides
    them. A case that would hide more than `blast_max` memories in all is left to a person as well.
    """

    rules_propose: bool = False
    judges_propose: bool = True
    blast_max: int = BLAST_MAX


class TakesFeedback(Protocol):
    """Takes what a client says of an answer. Event loop only; any number at once."""

    async def take(self, by: Principal, said: GiveFeedback) -> FeedbackResult:
        """Take what a client says of an answer; returns what became of it.

        Raises what `proxy.aftermath.feedback.FeedbackIntake.take` raises.
        """
        ...


class OpensCases(Protocol):
    """Takes signals that set off the search for a culprit. Event loop only."""

    async def open_case(self, signal: Signal) -> str | None:
        """Open a case for a signal that an answer was wrong.

        Returns the id of the case, or of the open case about the same answer; None if no case
        opens. The case is durable by then; no answer is replayed before that.

        Raises:
            StoreUnavailable: The case could not be made durable.
        """
        ...


class ChecksReplies(Protocol):
    """Holds finished replies against what operators registered. Event loop only."""

    def replied(
        self,
        principal: Principal,
        reply_id: str,
        said: tuple[str, ...],
        memory_ids: tuple[MemoryId, ...],
    ) -> None:
        """Note what a model said in a finished reply, whose request had memories. Never waits."""
        ...

    async def settled(self, principal: Principal) -> None:
        """Wait until this principal's replies are looked at, and who made one wrong is hidden.

        The wait is bounded: what takes longer continues afterwards.
        """
        ...


class WrongReply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a finished reply that contradicts an anchor, before anybody was shown it.

    `mended` is true where each memory behind the reply is hidden, so that another reply is worth
    asking for. `why` says in a fixed word why not. `case_id` is "" where no case was opened.
    """

    case_id: str = ""
    mended: bool = False
    why: str = ""


class HealsReplies(Protocol):
    """Looks at a finished reply before it is shown, and hides what made it wrong.

    Event loop only.
    """

    async def has_suspects(self, principal: Principal, memory_ids: tuple[MemoryId, ...]) -> bool:
        """Whether one of these memories contradicts an anchor above its label."""
        ...

    async def wrong(
        self,
        principal: Principal,
        reply_id: str,
        said: tuple[str, ...],
        memory_ids: tuple[MemoryId, ...],
        note: Callable[[], None],
    ) -> WrongReply | None:
        """Hold a reply against the anchors; None where it contradicts none.

        `note` tells the ledger of the reply, before a case about it is opened. The search for what
        made it wrong is over when this returns, or continues without it after a bounded time.

        Raises:
            StorageError: The reply could not be looked at, or no case could be opened.
        """
        ...

    async def still_wrong(self, case_id: str) -> None:
        """Leave a case to a person: what it hid did not make the reply right.

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
    """Asks a model once more, with some memories taken out of a request. Event loop only."""

    def names(self) -> tuple[str, ...]:
        """The names of the models that may be asked again."""
        ...

    def has(self, name: str, tenant: Tenant, reply_id: str) -> bool:
        """Whether the request behind a reply of this model is kept."""
        ...

    def forget(self, tenant: Tenant, reply_id: str) -> None:
        """Forget the request behind a reply, once nothing more is asked about the reply."""
        ...

    def asks_left(self) -> int:
        """How often a model may be asked for one incident that begins now; 0 or less: never."""
        ...

    def affords(self, tenant: Tenant, reply_id: str) -> bool:
        """Whether one more ask about a reply fits into the tokens that all of them may cost."""
        ...

    async def said(
        self, tenant: Tenant, reply_id: str, present: Sequence[Memory], out: Sequence[Memory]
    ) -> tuple[str, ...] | None:
        """What the model says where the request is without what the memories `out` say.

        What a `present` memory says too stays. None if the model fails, is too slow, cannot be
        read, or says nothing; nothing is raised. No call of the reply is made.
        """
        ...


class AsksJudges(Protocol):
    """Asks the callers' judges, by name. Event loop only; several may be asked at once."""

    def names(self) -> tuple[str, ...]:
        """The names of the judges that are configured, in their order."""
        ...

    def deterministic(self, name: str) -> bool:
        """Whether the judge claims to answer the same each time.

        Raises:
            KeyError: No judge has this name.
        """
        ...

    async def ask(
        self, name: str, *, case: str, question: str, memories: Sequence[ReplayedMemory]
    ) -> Opinion:
        """What the judge says of an answer from exactly these memories, within its deadline.

        If the judge fails, hangs or cannot be read, its opinion is unknown; nothing is raised.

        Raises:
            KeyError: No judge has this name.
        """
        ...

"""The fixed texts that an agent is shown instead of refused content: one per reason.

The list is closed on purpose. A refusal that quotes the candidate, or a name in it, would carry the
attack to the model that it was kept from. So a text has a reason code, a class, and what to do
next.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import Final

from policy.labels.forwarded_call import PREFIXES, target_of
from policy.model import ChangeKind, ForwardStatus, MemoryClass, SourceKind
from policy.verdict import InvariantBroken, Reason

MODEL_SERVERS: Final = "model/"
"""The beginning of the names of servers whose calls the agent makes itself, without a relay."""


class Way(enum.Enum):
    """Who writes what was let in. Stable words: the operator API shows them."""

    STORE = "store"  # no one has to: the change is stored with the decision
    RELAY = "relay"  # the relay of the upstream server, which sends the change once
    AGENT = "agent"  # the agent, when it asks for the same change again


_ASKED_AGAIN: Final = tuple(target_of(prefix, MODEL_SERVERS) for prefix in PREFIXES)

FOLLOWS: Final = {
    Way.STORE: "it is done",
    Way.RELAY: (
        "it goes to its server now, or as soon as that is connected; if that does nothing with it, "
        "it is not live, and the log warns"
    ),
    Way.AGENT: "not written yet: the agent writes it when it asks again, so tell it to",
}
"""The text that a person is shown after "allowed: ", for each way."""

COUNTS: Final = (
    "counts against the trust of the agent that wrote it, and of the tool that it came from; what "
    "is left alone expires and counts for nothing"
)
"""The text that a person is shown about a denial."""


def way_of(target: str) -> Way:
    """The party that carries out an admitted write with this target."""
    if target.startswith(_ASKED_AGAIN):
        return Way.AGENT
    return Way.RELAY if target.startswith(PREFIXES) else Way.STORE


_ASK_PERSON: Final = "If the person you work for wants it remembered, ask them to confirm it."
_ORDINARY: Final = "Facts and events may be stored as ordinary knowledge without naming a class."
_OPERATOR: Final = "Only an operator can change that; go on without it."

CLASS_WORDS: Final = {
    MemoryClass.L1: "policy: it steers what the agent does",
    MemoryClass.L2: "identity, preference or procedure",
    MemoryClass.L3: "knowledge",
    MemoryClass.L4: "an episode",
}
"""What each class is for, as a person who decides on a candidate is shown it."""

WHY: Final[dict[Reason, str]] = {
    Reason.GATE_UNAVAILABLE: "could not be judged",
    Reason.SOURCE_CLASS_FORBIDDEN: "its source may not write this class",
    Reason.CLASS_FLOOR: "reads as an order",
    Reason.SOURCE_BELOW_STORED: "would change what somebody more trusted wrote",
    Reason.TARGET_MISSING: "changes a memory that is not there",
    Reason.PERSON_REQUIRED: "may be the user's own",
    Reason.INSTRUCTION_PLACE: "a host reads it as instructions",
    Reason.ADDRESS_AT_STAKE: "names an address for money, credentials or contracts",
    Reason.REMOVAL_AFTER_READING: "removes, after reading, what was written without",
    Reason.DIRECTIVE_LANGUAGE: "reads as an order",
    Reason.INJECTION_LANGUAGE: "reads as an attack on an agent",
    Reason.TRUST_INSUFFICIENT: "its principal is not trusted",
    Reason.TRUST_SOFT_SCORE: "its principal's recent outcomes were bad",
    Reason.TRUST_LATCHED: "its principal or its tool is latched",
    Reason.DIGEST_MISMATCH: "was altered on its way",
    Reason.NONCE_REPLAYED: "was sent before as another request",
    Reason.NONCE_INCARNATION: "was sent for another life of the store",
    Reason.PROMOTION_TOKEN_MISSING: "needs a person's word",
    Reason.PROMOTION_TOKEN_INVALID: "its token is for something else",
    Reason.PROMOTION_TOKEN_EXPIRED: "its token is too old",
    Reason.PROMOTION_TOKEN_SPENT: "its token was used before",
    Reason.NOT_INTERCEPTED: "did not come in through the gate",
    Reason.AUDIT_MISMATCH: "differs from its audit record",
    Reason.CONTRADICTS_ANCHOR: "contradicts what you registered",
    Reason.OUTRANKS_ANCHOR: "outranks what you registered",
    Reason.REPEATS_HIDDEN: "repeats a memory that was hidden",
    Reason.OVERSIZE: "is too long",
    Reason.RATE_LIMITED: "much in a short time",
    Reason.QUOTA_EXCEEDED: "much from one origin",
    Reason.DENIED_BY_PERSON: "a person denied it",
    Reason.DENIED_TODAY: "a person denied such writes today",
    Reason.HOLD_EXPIRED: "no one decided in time",
    Reason.UNKNOWN_TOOL: "no map knows its tool",
    Reason.ADMIN_TOOL: "its tool administers the server",
    Reason.TOOLS_CHANGED: "the server's tools changed",
    Reason.CALL_MALFORMED: "the call is of another form than its tool takes",
    Reason.CHARACTER_REFUSED: "has a character that no text may have",
}
"""Why a text was held or refused, in the few words that a person reads in lines and on pages.

docs/reasons.md has the whole of it.
"""

NEXT: Final[dict[Reason, str]] = {
    Reason.GATE_UNAVAILABLE: "The gate could not decide. Nothing was stored; try again later.",
    Reason.SOURCE_CLASS_FORBIDDEN: f"This source may not write this class. {_ORDINARY}",
    Reason.CLASS_FLOOR: f"It reads as an instruction about future behaviour. {_ASK_PERSON}",
    Reason.SOURCE_BELOW_STORED: (
        "The stored memory comes from a more trusted source than this change. " + _ASK_PERSON
    ),
    Reason.TARGET_MISSING: "There is no such memory here. Search or list to find the right one.",
    Reason.PERSON_REQUIRED: f"A person has to decide this. {_ASK_PERSON}",
    Reason.INSTRUCTION_PLACE: f"A host reads this place as instructions. {_ASK_PERSON}",
    Reason.ADDRESS_AT_STAKE: (
        "It names an address beside money, credentials or contracts, and nothing vouches for it. "
        f"{_ASK_PERSON}"
    ),
    Reason.REMOVAL_AFTER_READING: (
        "This conversation had read other people's text, and what it would remove was written by "
        f"one that had not. {_ASK_PERSON}"
    ),
    Reason.DIRECTIVE_LANGUAGE: f"It reads as an instruction to an agent. {_ORDINARY}",
    Reason.INJECTION_LANGUAGE: f"It reads as an attempt to steer an agent. {_ORDINARY}",
    Reason.TRUST_INSUFFICIENT: f"This credential may write episodes only. {_OPERATOR}",
    Reason.TRUST_SOFT_SCORE: "Too many recent writes of this credential went wrong. Slow down.",
    Reason.TRUST_LATCHED: f"Writes of this credential, or from this tool, wait. {_ASK_PERSON}",
    Reason.DIGEST_MISMATCH: "What was to be committed is not what was judged. Send it again.",
    Reason.NONCE_REPLAYED: "This nonce was used for another request. Send a new one.",
    Reason.NONCE_INCARNATION: "This nonce belongs to another life of the store. Send a new one.",
    Reason.PROMOTION_TOKEN_MISSING: f"This class needs a promotion token. {_ASK_PERSON}",
    Reason.PROMOTION_TOKEN_INVALID: f"The promotion token does not fit this write. {_OPERATOR}",
    Reason.PROMOTION_TOKEN_EXPIRED: f"The promotion token has expired. {_ASK_PERSON}",
    Reason.PROMOTION_TOKEN_SPENT: f"The promotion token was used before. {_ASK_PERSON}",
    Reason.NOT_INTERCEPTED: "The write did not come in through the gate. Send it again.",
    Reason.AUDIT_MISMATCH: "The write differs from its audit record. Send it again.",
    Reason.REPEATS_HIDDEN: f"It repeats a memory that was withdrawn. {_OPERATOR}",
    Reason.CONTRADICTS_ANCHOR: f"It contradicts a registered source of truth. {_OPERATOR}",
    Reason.OUTRANKS_ANCHOR: f"It would displace a registered source of truth. {_OPERATOR}",
    Reason.OVERSIZE: "It is too large. Store a shorter version.",
    Reason.RATE_LIMITED: "Too many writes in a short time. Wait before the next one.",
    Reason.QUOTA_EXCEEDED: f"The budget for this topic or store is used up. {_OPERATOR}",
    Reason.HOLD_EXPIRED: "It waited for a person, and nobody decided. Go on without it.",
    Reason.DENIED_BY_PERSON: (
        "A person decided against it, or against a line of it. Go on without that."
    ),
    Reason.DENIED_TODAY: "A person decided against such writes today. Go on without it.",
    Reason.UNKNOWN_TOOL: (
        "Nobody said what this tool does to memory, so it counts as a write. An operator can name "
        "the server's tool map: `mnemogate mcp --map`. Go on without it."
    ),
    Reason.ADMIN_TOOL: f"This tool administers the memory server. {_OPERATOR}",
    Reason.TOOLS_CHANGED: (
        "The tools of this server are not those that were approved. An operator reads them and "
        "runs `mnemogate mcp approve`. Go on without them."
    ),
    Reason.CALL_MALFORMED: "The arguments are not of the form that this tool takes. Mend the call.",
    Reason.CHARACTER_REFUSED: "Leave out every such character, and send it again.",
}


_EFFECTS: Final = {
    ForwardStatus.NO_EFFECT: (
        "Not stored (no_effect): the memory server did nothing with it, mostly because it has that "
        "name or that text already. Read first, then change what is there."
    ),
    ForwardStatus.UNKNOWN: (
        "Not counted as stored (unknown): the memory server's answer does not name what was done. "
        "It is looked up. Do not send it again: read first."
    ),
}


def notes_of(states: Sequence[ForwardStatus]) -> tuple[str, ...]:
    """The texts for admitted items that the server's answer does not name as done."""
    return tuple(_EFFECTS[one] for one in states if one in _EFFECTS)


_GO_ON: Final = "Do not send it again; go on without it."
_AGAIN: Final = "Go on without it; send it again only after the person has allowed it."
_DECIDED_AT: Final = " The person you work for can decide it here: "
REVIEW_PAGE: Final = "/review"
_LOWERED: Final = " (class_lowered): this source may not write the class that was named"


def observation_for(
    decision: str,
    reason: Reason | None,
    memory_class: MemoryClass,
    change: ChangeKind = ChangeKind.CREATE,
    *,
    lowered: bool = False,
    page: str | None = None,
    way: Way = Way.STORE,
    again: bool = False,
    detail: str = "",
) -> str:
    """The text for one written item: state, reason code, class, and what the agent may do next.

    Args:
        decision: "admit", "hold", "reject", "missing" or "error".
        reason: Why it was not admitted; None for an admit.
        memory_class: The class under which it was judged.
        change: The kind of change. Of a deletion, "not stored" would read as if it were done.
        lowered: Whether `memory_class` is below the class that the client named.
        page: The address where a person decides what is held; None where no page is served.
        way: Who writes the change once a person admits it. Only `AGENT` may ask for it again.
        again: Whether the same change waits already, because this principal proposed it before,
            perhaps in another conversation.
        detail: Which character was refused, and where: a text without words of the candidate.

    Raises:
        InvariantBroken: A refusal without a reason.
    """
    if decision == "admit":
        return f"Stored as {memory_class.value}{_LOWERED if lowered else ''}."
    if reason is None:
        raise InvariantBroken("a refusal always has a reason")
    if decision == "hold":
        removal = change in {ChangeKind.DELETE, ChangeKind.PURGE}
        undone, waits = ("deleted", "the deletion") if removal else ("stored", "it")
        if again:
            waits = f"the same {'deletion' if removal else 'text'} already"
        return (
            f"Not {undone} yet ({reason.value}, {memory_class.value}): {waits} waits for a person. "
            f"{_AGAIN if way is Way.AGENT else _GO_ON}{f'{_DECIDED_AT}{page}' if page else ''}"
        )
    return f"Not stored ({reason.value}, {memory_class.value}). {detail}{NEXT[reason]}"


def observation_of_call(reason: Reason) -> str:
    """The text for a tool call that was refused before it was judged, and so has no class."""
    return f"Not done ({reason.value}). {NEXT[reason]}"


class ReviewPage:
    """The page on which a person decides on held candidates.

    `base` is an address without a slash at its end, set once the page is served; None until then.
    """

    def __init__(self) -> None:
        self.base: str | None = None

    def of(self, candidate_id: str) -> str | None:
        """The address of a candidate's page, held or not; the page asks for the operator's key."""
        address = self.address
        return None if address is None else f"{address}/{candidate_id}"

    @property
    def address(self) -> str | None:
        """The page of all held candidates; addresses of single ones begin with it."""
        return None if self.base is None else f"{self.base}{REVIEW_PAGE}"


def whose_words(source: SourceKind, had_read: tuple[str, ...] | None) -> str | None:
    """The note to a person who may confirm a text that is not a person's.

    None where the text is a person's.

    `had_read` names what the writing conversation had read; None where that is unknown.
    """
    if source.trust >= SourceKind.USER_INPUT.trust:
        return None
    if had_read is None:
        return "Not your words, and no conversation is known that wrote them."
    if not had_read:
        return "Not your words: a model's own, in a conversation that had read nothing else."
    return f"Not your words; this conversation had read: {', '.join(had_read)}."


WITHDRAWN: Final = "withdrawn"
"""In place of a decision: the memory was admitted, and has been hidden from every read since."""


def withheld_notice(
    noun: str, decision: str, reason: Reason, candidate_id: str, *, whole: bool = False
) -> str:
    """The notice in place of a text that was withheld because it repeats a memory.

    Args:
        noun: The kind of place: "result", "text", "reply" or "call".
        decision: The decision on the memory; after "hold" it waits for a person. `WITHDRAWN` for a
            memory that was admitted, and that no read shows any more.
        reason: The reason of that decision; it is left out for a withdrawn memory.
        candidate_id: The memory's candidate id, by which an operator may forgive the repetition; ""
            where it is not known any more.
        whole: Whether the whole place was withheld.
    """
    what = f"This {noun}" if whole else f"A part of this {noun}"
    if decision == WITHDRAWN:
        return f"{what} was withheld: it repeats a memory that was withdrawn ({candidate_id})."
    became = "waits for a person" if decision == "hold" else "was refused"
    told = ", ".join(filter(None, (reason.value, candidate_id)))
    return f"{what} was withheld: it repeats a memory that {became} ({told})."


NOTICE: Final = re.compile(
    r"(?:This|A part of this) (?:result|text|reply|call) was withheld: it repeats a memory that "
    rf"(?:(?:was refused|waits for a person) \((?:{'|'.join(reason.value for reason in Reason)})"
    r"(?:, [0-9a-f]{1,64})?\)|was withdrawn \([0-9a-f]{1,64}\))\."
)
"""Matches every notice of `withheld_notice`, and nothing with free text in it."""

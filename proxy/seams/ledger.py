"""What a write needs of the session ledger, as an interface."""

from __future__ import annotations

from typing import Protocol

from policy.labels.forwarded_call import call_of
from policy.labels.seen import Seen
from policy.model import Candidate, PrincipalId
from proxy.seams.guard import Join
from proxy.seams.operation import Proposal
from storage.values import Outcome


class Sees(Protocol):
    """Gives evidence about candidates, and notes verdicts.

    Event loop only; neither method waits.
    """

    def seen(
        self,
        principal_id: PrincipalId,
        texts: tuple[str, ...],
        join: Join | None,
    ) -> Seen | None:
        """The evidence about a candidate; None where there is none."""
        ...

    def wrote(self, principal_id: PrincipalId, seen: Seen, outcome: Outcome) -> None:
        """Note the verdict on a candidate, to show it with its session."""
        ...


def seen_of(sessions: Sees | None, candidate: Candidate, proposal: Proposal) -> Seen | None:
    """The ledger's evidence about a candidate: its session, and who first said its words."""
    if sessions is None:
        # Without a ledger there is no evidence, so the candidate's text is not even read.
        return None
    call = call_of(candidate) if proposal.guarded_key is not None else None
    if call is not None:
        texts = call.pieces
    else:
        # A removal has no text of its own: the ledger looks for the id of the memory that it names.
        texts = tuple(text for text in (candidate.text, candidate.memory_id) if text)
    return sessions.seen(candidate.principal_id, texts, proposal.join)

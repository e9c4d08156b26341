"""What writing asks of the session ledger: the seam between the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from policy.labels.endorsement import asked_of
from policy.labels.forwarded_call import call_of

if TYPE_CHECKING:
    from policy.labels.editing import Looked
    from policy.labels.endorsement import Asked
    from policy.labels.taint import Seen
    from policy.model import Candidate, PrincipalId
    from proxy.seams.guard import Join
    from proxy.seams.operation import Proposal
    from storage.values import Outcome


class Sees(Protocol):
    """Event loop only; neither method waits."""

    def seen(
        self,
        principal_id: PrincipalId,
        texts: tuple[str, ...],
        join: Join | None,
        asked: Asked | None = None,
        looked: Looked | None = None,
    ) -> Seen | None:
        """What is known of a candidate that says these texts; None where no front is configured.

        `asked` is what a person must have said to endorse it; without it nothing is endorsed. An
        edit of a text that is known is `looked` for beyond that text.
        """
        ...

    def wrote(self, principal_id: PrincipalId, seen: Seen, outcome: Outcome) -> None:
        """What became of a candidate that was asked about, to show with its session."""
        ...


class NoSessions:
    """No model front is configured, so nobody sees what enters a context (docs/clients.md)."""

    def seen(
        self,
        principal_id: PrincipalId,
        texts: tuple[str, ...],
        join: Join | None,
        asked: Asked | None = None,
        looked: Looked | None = None,
    ) -> None:
        """Nothing is known."""
        del principal_id, texts, join, asked, looked

    def wrote(self, principal_id: PrincipalId, seen: Seen, outcome: Outcome) -> None:
        """There is nobody to tell."""
        del principal_id, seen, outcome


def seen_of(sessions: Sees, candidate: Candidate, proposal: Proposal) -> Seen | None:
    """What the ledger knows of a candidate: its session, and who said before what it says."""
    if isinstance(sessions, NoSessions):
        return None  # and nobody has to read the candidate for it
    call = call_of(candidate) if proposal.guarded_key is not None else None
    if call is not None:
        texts = call.pieces
    else:
        # A removal names the memory, and says nothing more.
        texts = tuple(text for text in (candidate.text, candidate.memory_id) if text)
    asked = asked_of(candidate, None if proposal.guarded_key is None else proposal.labels)
    edit = proposal.edit
    looked = None if edit is None or call is None else edit.looked(call.key)
    return sessions.seen(candidate.principal_id, texts, proposal.join, asked, looked)

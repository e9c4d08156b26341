"""The order to the writer that forgives what a person denied of a candidate."""

from __future__ import annotations

import msgspec

from policy.model import CandidateId, PrincipalId
from storage.tables.change import Change
from storage.values import FORGIVE
from storage.write.line_decisions import LINES, denied_lines


class Forgive(msgspec.Struct, frozen=True):
    """An order to the writer: forget the denials of a candidate's lines and stop withholding it."""

    candidate_id: CandidateId
    by: PrincipalId

    def carry_out(self, change: Change) -> int:
        """Delete the denied lines and log the forgiveness; return the index of the leaf."""
        for key in denied_lines(change.draft, self.candidate_id):
            change.draft.delete(LINES, key)
        return change.note(FORGIVE, self.candidate_id, self.by, "")

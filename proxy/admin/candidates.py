"""Held candidates one by one, for an operator: shown, released, denied, and denials forgotten."""

from __future__ import annotations

import asyncio

import msgspec

from proxy.admin.dry_run import fired_in
from proxy.admin.memories import had_read
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.queue import stored_text
from proxy.admin.review_decider import REVIEW, ReviewDecider
from proxy.admin.views import held_view, outcome_view
from proxy.admin.wire.route import Empty, NoQuery
from proxy.admin.wire.store import DENY, HELD, RELEASE, HeldView, OutcomeView
from proxy.admin.wire.upkeep import FORGIVE, ForgivenView
from proxy.ledger.sessions import Sessions
from proxy.seams.faults import NotFound
from proxy.withhold.withholding import Withholding
from storage.features.lines import Forgive
from storage.interfaces import MemoryReader, MemoryWriter


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """One method for each call about one candidate. Event loop only."""

    reader: MemoryReader
    writer: MemoryWriter
    deciding: ReviewDecider
    ledger: Sessions
    # None if no model front is configured: then no text is withheld from model requests.
    withholding: Withholding | None

    @route(HELD)
    async def held(self, call: OperatorCall[NoQuery]) -> HeldView:
        """One held candidate with its content, and the words for which it counts as an order.

        Raises:
            NotFound: No held candidate has this id.
        """
        candidate_id = call.candidate_id
        found = self.reader.held_candidate(candidate_id)
        if found is None:
            raise NotFound("no candidate of that id is held")
        view = held_view(found)
        if found.candidate is None:
            return msgspec.structs.replace(view, had_read=had_read(self.ledger, candidate_id))
        said = (found.candidate.text, found.candidate.metadata_json)
        return msgspec.structs.replace(
            view,
            had_read=had_read(self.ledger, candidate_id, *said),
            fired=await asyncio.to_thread(fired_in, found.candidate),
            stored=await asyncio.to_thread(stored_text, self.reader, found.candidate),
        )

    @route(RELEASE)
    async def release(self, call: OperatorCall[Empty]) -> OutcomeView:
        """Judge a held candidate again, now with a person's approval."""
        return outcome_view(await self.deciding.release(call.candidate_id, call.operator, REVIEW))

    @route(DENY)
    async def deny(self, call: OperatorCall[Empty]) -> OutcomeView:
        """Refuse a held candidate."""
        return outcome_view(await self.deciding.deny(call.candidate_id, call.operator, REVIEW))

    @route(FORGIVE)
    async def forgive(self, call: OperatorCall[Empty]) -> ForgivenView:
        """Forget the denial of a candidate's lines, and end the withholding of its text.

        Raises:
            NotFound: No line of this candidate is denied, and no text withheld for it.
        """
        candidate_id, by = call.candidate_id, call.operator
        count, withholding = 1, self.withholding
        if withholding is not None and candidate_id in withholding.refused():
            count, leaf_index = await withholding.forgive(
                candidate_id, lambda: self.writer.order(Forgive(candidate_id, by))
            )
        elif candidate_id in await asyncio.to_thread(self.reader.denied):
            leaf_index = await self.writer.order(Forgive(candidate_id, by))
        else:
            raise NotFound(
                "nothing is denied or withheld under that id; what waits is released or denied"
            )
        return ForgivenView(candidate_id=candidate_id, candidates=count, leaf_index=leaf_index)

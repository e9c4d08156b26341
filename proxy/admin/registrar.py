"""Registers operators' true statements (anchors) and test questions (canaries); tests judges."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from policy.after.matchers import Applies, Matcher, check_matcher
from policy.anchors import content_words, contradicts
from policy.model import Tenant
from policy.text.skeleton import skeleton
from policy.text.whole_words import PATTERN_PREFIX, compiled
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.views import extended
from proxy.admin.wire.registered import (
    ANCHOR_PUT,
    ANCHORS,
    CANARIES,
    CANARIES_RUN,
    CANARY_PUT,
    JUDGE_TEST,
    AnchorList,
    AnchorRequest,
    AnchorView,
    CanaryList,
    CanaryRequest,
    CanaryRunView,
    CanaryView,
    JudgeTestView,
)
from proxy.admin.wire.route import Empty, TenantQuery
from proxy.aftermath.canaries import Canaries
from proxy.aftermath.judges import Judges
from proxy.seams.cases import ReplayedMemory
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest, NotFound
from storage.features.registered import PutAnchor
from storage.interfaces import MemoryReader, MemoryWriter
from storage.values import Anchor

_QUESTION: Final = "When does the office open?"
_MEMORIES: Final = (
    ReplayedMemory(id="00000000-0000-4000-8000-000000000001", text="The office opens at nine."),
    ReplayedMemory(id="00000000-0000-4000-8000-000000000002", text="Tea is in the kitchen."),
)
_NO_MATCHER: Final = Matcher()
_CONTENT_WORDS_MIN: Final = 3


class Registrar:
    """Lists and registers anchors and canaries, and tests callers' judges.

    Event loop only; `by` is the operator's name, for the audit leaf.
    """

    def __init__(
        self,
        reader: MemoryReader,
        writer: MemoryWriter,
        surroundings: Environment,
        canaries: Canaries | None,
        judges: Judges,
    ) -> None:
        """`canaries` is None if the store embeds no text, because it can search for no question."""
        self._canaries = canaries
        self._judges = judges
        self._reader = reader
        self._writer = writer
        self._out = surroundings

    @route(JUDGE_TEST)
    async def test_judge(self, call: OperatorCall[Empty]) -> JudgeTestView:
        """Ask a judge one built-in question twice, and report whether both answers are equal.

        Raises:
            NotFound: No judge has this name.
        """
        name = call.argument
        if name not in self._judges.names():
            raise NotFound("no [[judge]] table of the running sidecar has that name")
        opinions = [
            await self._judges.ask(name, case="test", question=_QUESTION, memories=_MEMORIES)
            for _ in range(2)
        ]
        first, second = opinions
        return JudgeTestView(
            name=name,
            deterministic=self._judges.deterministic(name),
            answers=tuple(opinions),
            same=first == second and first.problem is None,
        )

    @route(ANCHORS)
    async def anchors(self, call: OperatorCall[TenantQuery]) -> AnchorList:
        """The anchors (statements registered as true) of a tenant."""
        known = self._reader.anchors(Tenant(call.asked.tenant))
        return AnchorList(anchors=tuple(map(anchor_view, known)))

    @route(ANCHOR_PUT)
    async def put_anchor(self, call: OperatorCall[AnchorRequest]) -> AnchorView:
        """Register an anchor, or replace the anchor with the same id.

        Raises:
            MalformedRequest: An entry of the matcher cannot be searched for, or the id is taken;
                nothing was changed.
        """
        asked = call.asked
        return anchor_view(await self._put(call, asked.anchor_id, asked.statement, asked.applies))

    @route(CANARIES)
    async def canaries(self, call: OperatorCall[TenantQuery]) -> CanaryList:
        """The canaries (test questions for retrieval) of a tenant."""
        tenant = call.asked.tenant
        known = await asyncio.to_thread(self._reader.canaries)
        return CanaryList(canaries=tuple(canary_view(one) for one in known if one.tenant == tenant))

    @route(CANARIES_RUN)
    async def run_canaries(self, call: OperatorCall[TenantQuery]) -> CanaryRunView:
        """Search for the questions of a tenant's canaries, and report what the searches found.

        Raises:
            MalformedRequest: The store embeds no text, so it cannot search for a question.
        """
        if self._canaries is None:
            raise MalformedRequest("this store embeds no text: its canaries cannot be asked")
        found = await self._canaries.run(Tenant(call.asked.tenant), call.operator)
        return CanaryRunView(outcomes=found)

    @route(CANARY_PUT)
    async def put_canary(self, call: OperatorCall[CanaryRequest]) -> CanaryView:
        """Register a canary (test questions for retrieval), or replace the canary with the same id.

        Raises:
            MalformedRequest: An entry of the matcher cannot be searched for, or the id is taken;
                nothing was changed.
        """
        applies = Applies.RETRIEVAL
        return canary_view(await self._put(call, call.asked.canary_id, "", applies))

    async def _put(
        self,
        call: OperatorCall[AnchorRequest] | OperatorCall[CanaryRequest],
        known_id: str | None,
        statement: str,
        applies: Applies,
    ) -> Anchor:
        asked = call.asked
        matcher = Matcher(
            must=asked.must,
            must_not=asked.must_not,
            applies=applies,
            memory_class=asked.memory_class,
        )
        anchor = Anchor(
            anchor_id=known_id or self._out.random_hex(8),
            tenant=Tenant(asked.tenant),
            statement=statement,
            questions=asked.questions,
            created_at_ms=self._out.now_ms(),
            matcher=None if matcher == _NO_MATCHER else _checked(matcher),
        )
        # Anchors and canaries are rows of one table, so registering one under an id of the other
        # kind would replace that row unnoticed.
        known = await asyncio.to_thread(self._reader.canaries)
        others = self._reader.anchors(anchor.tenant) if anchor.is_canary else known
        named = (anchor.tenant, anchor.anchor_id)
        if any((one.tenant, one.anchor_id) == named for one in others):
            other = "an anchor" if anchor.is_canary else "a canary"
            raise MalformedRequest(f"{other} of this tenant has that id: choose another one")
        await self._writer.order(PutAnchor(anchor, call.operator))
        return anchor


def anchor_view(anchor: Anchor) -> AnchorView:
    """An anchor in the form of the operator API, with notes for its author on its weaknesses."""
    matcher = anchor.matcher or _NO_MATCHER
    caught = sum(_caught(anchor.statement, matcher, entry) for entry in matcher.must_not)
    return extended(
        AnchorView,
        anchor,
        **msgspec.structs.asdict(matcher),
        caught=caught,
        notes=_notes(anchor.statement, matcher, caught),
    )


def canary_view(canary: Anchor) -> CanaryView:
    """A registered canary in the form of the operator API."""
    matcher = canary.matcher or _NO_MATCHER
    return extended(
        CanaryView, canary, **msgspec.structs.asdict(matcher), canary_id=canary.anchor_id
    )


def _checked(matcher: Matcher) -> Matcher:
    try:
        check_matcher(matcher)
    except ValueError as error:
        raise MalformedRequest(str(error)) from None
    return matcher


def _caught(statement: str, matcher: Matcher, entry: str) -> bool:
    """Whether comparing sentences, without the matcher, finds `entry` to be a denial."""
    if entry.startswith(PATTERN_PREFIX):
        return False
    stated, wrong = skeleton(statement), skeleton(entry)
    if contradicts(stated, wrong):
        return True
    return any(
        contradicts(stated, said)
        for right in matcher.must
        if (said := compiled(right).replaced(wrong, stated)) != stated
    )


def _notes(statement: str, matcher: Matcher, caught: int) -> tuple[str, ...]:
    notes: list[str] = []
    if content_words(skeleton(statement)) < _CONTENT_WORDS_MIN:
        notes.append(
            "a sentence of this statement has fewer than three words of content: honest texts that "
            "share them will be taken for denials of it"
        )
    if matcher.must_not:
        of = len(matcher.must_not)
        notes.append(f"without the matcher, {caught} of {of} `must_not` would have been noticed")
        if matcher.applies is not Applies.ANSWER:
            notes.append(
                "every memory below the operator's label that says a `must_not` fails this anchor, "
                "of whatever it speaks: name enough words"
            )
    return tuple(notes)

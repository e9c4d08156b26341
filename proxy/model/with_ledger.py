"""The model front coupled to memory: the ledger and the withholding, around the judging of calls.

A request waits for undecided candidates, is noted in the ledger, then goes upstream without refused
texts. The model's words are noted before the agent can act on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from policy.model import SourceKind
from proxy.dialects.model.transcript import Voice
from proxy.dialects.model.withheld import Leave
from proxy.model.clean_turns import CleanTurns
from proxy.withhold.asking import Conversation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.model import Principal, PrincipalId
    from proxy.dialects.model.transcript import ModelCall, ModelReply, ModelRequest, Said, Where
    from proxy.dialects.strict_json.tolerant import Json
    from proxy.ledger.sessions import Entered, Sessions
    from proxy.ledger.turn_values import LabelledSpan
    from proxy.model.memory_seam import Asked, Coupling, Filter, Prepared
    from proxy.model.replaying import ModelReplays
    from proxy.model.reply_notes import ReplyNotes
    from proxy.seams.cases import ChecksReplies
    from proxy.withhold.withholding import Withholding

QUIET_S: Final = 20.0
"""How long a request waits for candidates in flight; then they are refused."""
# A text of the agent's program has the same label as a model's words; only the channel tells the
# two apart.
_LEFT: Final = frozenset({SourceKind.OPERATOR, SourceKind.USER_INPUT, SourceKind.AGENT_SELF_EDIT})


class Coupled:
    """Implements `Coupling`: adds ledger and withholding to the coupling that it wraps."""

    def __init__(
        self,
        inner: Coupling,
        sessions: Sessions,
        withholding: Withholding,
        replies: ReplyNotes,
        *,
        checks: ChecksReplies,
        replays: ModelReplays,
    ) -> None:
        """`checks` holds finished replies against anchors; `replays` keeps requests."""
        self._inner = inner
        self._checks = checks
        self._replays = replays
        self._replies = replies
        self._sessions = sessions
        self._withholding = withholding
        self._clean = CleanTurns()

    async def prepare(self, asked: Asked) -> Prepared:
        """Implements `Coupling.prepare`."""
        principal, principal_id = asked.principal, asked.principal.principal_id
        prepared = await self._inner.prepare(asked)
        request = prepared.request
        # What made an earlier reply wrong is hidden by then, so that its texts are taken out below.
        await self._checks.settled(principal)
        # Wait for candidates in flight; one that is not decided in time is withheld until its
        # verdict is known.
        await self._withholding.quiet(principal_id, QUIET_S)
        entered = await self._sessions.entered(
            principal,
            request,
            self._smuggling(principal, request),
            asked.user_turns,
            asked.system_text,
        )
        # This waits again, for candidates that arrived while the ledger wrote to disk.
        await self._withholding.quiet(principal_id, QUIET_S)
        conversation = self._conversation(principal_id, request, entered)
        body = await self._withheld(prepared, entered, conversation)
        return msgspec.structs.replace(
            prepared,
            body=body,
            session=entered.session,
            conversation=conversation,
            leave=left_alone(request, entered) if self._replays.keeps(asked) else Leave(),
            memories=self._replies.in_context(principal, request, entered),
        )

    def _conversation(
        self, principal_id: PrincipalId, request: ModelRequest, entered: Entered
    ) -> Conversation:
        """The conversation of the request, and what a person typed in it."""
        others = self._withholding.sessions(principal_id)
        kin = frozenset(one for one in others if self._sessions.are_kin(one, entered.session))
        return Conversation(kin | {entered.session}, lambda: _typed(request, entered))

    async def _withheld(
        self, prepared: Prepared, entered: Entered, conversation: Conversation
    ) -> dict[str, Json]:
        asked, request = prepared.asked, prepared.request
        withholding, principal_id = self._withholding, asked.principal.principal_id
        looked_at: list[tuple[tuple[int, ...], frozenset[int]]] = []

        def stamp() -> tuple[int, ...]:
            return (*withholding.stamp(principal_id), hash(conversation.sessions))

        def left() -> Leave:
            now = stamp()
            clean = self._clean.of(now, request, entered)
            looked_at.append((now, clean))
            return left_alone(request, entered, clean)

        came = prepared.body
        went = await withholding.apply(
            asked.principal, asked.api.name, came, left, conversation=conversation
        )
        for then, clean in looked_at:
            if then == stamp():
                self._clean.note(then, request, entered, clean=clean, body=came, edited=went)
        return went

    def _smuggling(self, principal: Principal, request: ModelRequest) -> frozenset[str]:
        """New tools whose descriptions contain refused texts.

        A server may add a tool at any time, and use its description to carry a refused text.
        """
        unseen = self._sessions.unseen_tools(principal, request)
        return frozenset(
            name
            for name, texts in request.catalogue
            if name in unseen
            and self._withholding.carries(
                principal.principal_id, "\n".join((name, *(said.text for said in texts)))
            )
        )

    async def judge(
        self, prepared: Prepared, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        """Implements `Coupling.judge`. A call that contains a withheld text is refused."""
        principal_id = prepared.asked.principal.principal_id
        verdicts = await self._inner.judge(prepared, calls)
        return tuple(
            self._withholding.refusal(principal_id, call, prepared.conversation)
            if verdict is None
            else verdict
            for call, verdict in zip(calls, verdicts, strict=True)
        )

    async def replied(self, prepared: Prepared, reply: ModelReply) -> None:
        """Note what the model said and called, before the agent can act on it."""
        await self._sessions.replied(prepared.asked.principal, prepared.session, reply)
        self._replies.replied(prepared, reply)
        self._replays.keep(prepared, reply.reply_id or "")
        if prepared.memories and reply.reply_id:
            ids = tuple(one.memory_id for one in prepared.memories if one.memory_id is not None)
            self._checks.replied(prepared.asked.principal, reply.reply_id, reply.said, ids)

    def filter(self, prepared: Prepared) -> Filter:
        """Implements `Coupling.filter`: a filter for the events of one streamed reply."""
        asked = prepared.asked
        return self._withholding.reply(
            asked.principal.principal_id, asked.api.name, prepared.conversation
        )

    async def settled(self, principal: Principal) -> None:
        """Wait for undecided candidates; what is sent afterwards respects their verdicts."""
        await self._withholding.settled(principal, QUIET_S)

    def withholds(self, principal: Principal) -> bool:
        """Implements `Coupling.withholds`: whether anything is withheld from this principal."""
        return self._withholding.withholds(principal.principal_id)

    def carries(self, principal: Principal, text: str) -> bool:
        """Whether a text contains a text that is withheld from this principal."""
        return self._withholding.carries(principal.principal_id, text)

    def sieved(self, principal: Principal, value: Json) -> Json:
        """Implements `Coupling.sieved`: JSON without refused texts, on routes that ask no model."""
        return self._withholding.sieved(principal.principal_id, value)

    def said(self, prepared: Prepared, body: dict[str, Json]) -> dict[str, Json]:
        """A whole reply without what is withheld; its calls were judged before."""
        asked = prepared.asked
        return self._withholding.said(
            asked.principal.principal_id, asked.api.name, body, prepared.conversation
        )

    def passing(self, principal: Principal) -> Filter:
        """Implements `Coupling.passing`: a filter for the events of a stream in an unknown API."""
        return self._withholding.reply(principal.principal_id, "")


def left_alone(
    request: ModelRequest, entered: Entered, clean: frozenset[int] = frozenset()
) -> Leave:
    """The strings that withholding leaves unchanged: typed by persons, or by the agent's program.

    A person's turns stay under any label: people paste texts, and the beginning of a conversation
    may be unseen. Turns known to be clean (`clean`) stay too.

    A system prompt, a reminder in a user's turn and an approved tool stay as well: otherwise a
    steered model could have them removed by proposing to remember them.
    """
    typed: dict[Where, tuple[tuple[int, int], ...]] = {}
    trusted: list[tuple[Where, str]] = []
    for place, said, spans in _labelled(request, entered, clean):
        if said.voice is Voice.USER:
            own = tuple(
                (span.start, span.end) for span in spans if span.typed or span.label in _LEFT
            )
            if own:
                typed[place] = own
        elif said.voice is Voice.SYSTEM and spans and all(span.label in _LEFT for span in spans):
            trusted.append((place, said.text))
    trusted += [
        (said.where, said.text)
        for name, texts in request.catalogue
        if name not in entered.changed_tools
        for said in texts
    ]
    return Leave(
        typed=typed,
        trusted=frozenset(place for place, _ in trusted),
        stands=tuple(text for _, text in trusted),
        clean=clean,
    )


def _typed(request: ModelRequest, entered: Entered) -> Iterator[str]:
    """Texts that a person typed and that nobody had said before."""
    for _, said, spans in _turns(request, entered, frozenset()):
        if said.voice is Voice.USER:
            for span in spans:
                if span.label is SourceKind.USER_INPUT:
                    yield said.text[span.start : span.end]


def _labelled(
    request: ModelRequest, entered: Entered, clean: frozenset[int]
) -> Iterator[tuple[Where, Said, tuple[LabelledSpan, ...]]]:
    """Every string of prompt and conversation, with its place in the body and its labels."""
    for said, spans in zip(request.system, entered.system.spans, strict=False):
        yield said.where, said, spans
    yield from _turns(request, entered, clean)


def _turns(
    request: ModelRequest, entered: Entered, clean: frozenset[int]
) -> Iterator[tuple[Where, Said, tuple[LabelledSpan, ...]]]:
    """Every string of the conversation, with its place in the body and its labels."""
    for at, (turn, read) in enumerate(zip(request.turns, entered.turns, strict=False)):
        if at in clean:
            continue
        for said, spans in zip(turn.said, read.spans, strict=False):
            # If the conversation is a bare string in the body, its place has no index.
            place = (*request.prefix, at, *said.where) if request.prefix else said.where
            yield place, said, spans

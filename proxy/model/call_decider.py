"""Decides on a reply's calls: noted in the ledger, judged, and searched for refused texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from proxy.dialects.model.stream import CallDecision, CompleteCall
from proxy.dialects.model.transcript import ContextText, ModelCall, ModelReply
from proxy.model.memory_seam import Coupling, PreparedRequest
from proxy.transport.responses import AnswerFailure, attempt

UNDECIDED: Final = (
    "This call was not made: Mnemogate could not decide about it. Nothing was stored. "
    "Go on without it, or try again later."
)


class CallDecider:
    """Decides on the calls of one reply, also where the model was asked several times for it.

    Event loop only.
    """

    def __init__(self, coupling: Coupling, halt: Callable[[], None]) -> None:
        self._coupling = coupling
        self._halt = halt
        self._told_calls: set[str] = set()
        self._told_texts: set[str] = set()
        self._told_heard: set[ContextText] = set()
        self.calls = 0
        self.refused = 0

    async def tell(self, prepared: PreparedRequest, said: ModelReply) -> bool:
        """Note the model's new words in the ledger; False if that failed."""
        calls = tuple(call for call in said.calls if call.call_id not in self._told_calls)
        texts = tuple(text for text in said.said if text not in self._told_texts)
        heard = tuple(one for one in said.heard if one not in self._told_heard)
        if not calls and not texts and not heard:
            return True
        reply = ModelReply(reply_id=said.reply_id, said=texts, calls=calls, heard=heard)
        done = await attempt(self._coupling.replied(prepared, reply), self._halt)
        if isinstance(done, AnswerFailure):
            return False
        self._told_calls |= {call.call_id for call in calls}
        self._told_texts |= set(texts)
        self._told_heard |= set(heard)
        return True

    async def decide(
        self, prepared: PreparedRequest, waiting: tuple[CompleteCall, ...], said: ModelReply
    ) -> list[CallDecision]:
        """The decision on each call, in order. A call that cannot be decided is refused."""
        told = await self.tell(prepared, said)
        calls = tuple(one.call for one in waiting)
        verdicts = await self._verdicts(prepared, calls) if told else (UNDECIDED,) * len(calls)
        self.calls += len(calls)
        notes = tuple(text for text in verdicts if text is not None)
        self.refused += len(notes)
        # The agent will send this notice back as if its model had said it, so the ledger has to
        # know the notice as the sidecar's.
        await self.tell(prepared, ModelReply(reply_id=said.reply_id, said=notes, calls=()))
        return [
            CallDecision(key=one.key, refusal=text)
            for one, text in zip(waiting, verdicts, strict=True)
        ]

    async def _verdicts(
        self, prepared: PreparedRequest, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        if not calls:
            return ()
        done = await attempt(self._coupling.judge(prepared, calls), self._halt)
        if isinstance(done, AnswerFailure) or len(done) != len(calls):
            return (UNDECIDED,) * len(calls)
        return done

"""What a reply's calls come to: noted, judged, and held against what was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.dialects.model.reading import strings_in
from proxy.dialects.model.stream import Decided
from proxy.dialects.model.transcript import ModelReply
from proxy.responses import Failure, attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.dialects.model.stream import Waiting
    from proxy.dialects.model.transcript import ModelCall
    from proxy.model.coupling import Coupling, Prepared

WITHHELD: Final = "[Withheld by Mnemogate: refused memory content.]"
UNDECIDED: Final = (
    "This call was not made: Mnemogate could not decide about it. Nothing was stored. "
    "Go on without it, or try again later."
)


class Deciding:
    """The calls and texts of one reply, over all its askings. Event loop only."""

    def __init__(self, coupling: Coupling, halt: Callable[[], None]) -> None:
        self._coupling = coupling
        self._halt = halt
        self._told_calls: set[str] = set()
        self._told_texts: set[str] = set()
        self.calls = 0
        self.refused = 0

    async def tell(self, prepared: Prepared, said: ModelReply) -> bool:
        """Note what is new of what the model said; whether that is noted now."""
        calls = tuple(call for call in said.calls if call.call_id not in self._told_calls)
        texts = tuple(text for text in said.said if text not in self._told_texts)
        if not calls and not texts:
            return True
        reply = ModelReply(reply_id=said.reply_id, said=texts, calls=calls)
        done = await attempt(self._coupling.replied(prepared, reply), self._halt)
        if isinstance(done, Failure):
            return False
        self._told_calls |= {call.call_id for call in calls}
        self._told_texts |= set(texts)
        return True

    async def decide(
        self, prepared: Prepared, waiting: tuple[Waiting, ...], said: ModelReply
    ) -> list[Decided]:
        """What becomes of each, in order. What cannot be decided is refused."""
        told = await self.tell(prepared, said)
        calls = tuple(one.call for one in waiting if one.call is not None)
        verdicts = await self._verdicts(prepared, calls) if told else (UNDECIDED,) * len(calls)
        self.calls += len(calls)
        remaining = iter(verdicts)
        decided: list[Decided] = []
        for one in waiting:
            refusal = next(remaining) if one.call is not None else None
            if refusal is None and self._carries(prepared, one):
                refusal = WITHHELD
            self.refused += refusal is not None
            decided.append(Decided(key=one.key, refusal=refusal))
        return decided

    async def _verdicts(
        self, prepared: Prepared, calls: tuple[ModelCall, ...]
    ) -> tuple[str | None, ...]:
        if not calls:
            return ()
        done = await attempt(self._coupling.judge(prepared, calls), self._halt)
        if isinstance(done, Failure) or len(done) != len(calls):
            return (UNDECIDED,) * len(calls)
        return done

    def _carries(self, prepared: Prepared, one: Waiting) -> bool:
        principal = prepared.asked.principal
        if one.call is None:
            return self._coupling.carries(principal, one.text or "")
        given = [text for _, text in strings_in(one.call.arguments, ())]
        return bool(given) and self._coupling.carries(principal, "\n".join(given))

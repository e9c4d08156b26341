"""A history that comes again is noted and left alone as one that is read anew each time."""

from __future__ import annotations

import asyncio
import json

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.dialects.model.anthropic import messages as anthropic
from proxy.dialects.model.transcript import ModelRequest
from proxy.dialects.strict_json.tolerant import Json
from proxy.ledger.sessions import RequestFindings
from proxy.model.reading_cache import ReadingCache
from proxy.seams.by_identity import past_of
from proxy.seams.pace import Pace
from proxy.withhold.first_speakers import AllSpeakers, Durable
from proxy.withhold.state import FirstSpeakerRecord
from proxy.withhold.voices import SentencePrinter
from tests.unit.proxy.ledgers import ADA, KEY, UNKNOWN, Ledger, assistant, call, reply, result, user

_SERVED = "The harbour master closes the gate at nine."
_ASIDE = {"role": "system", "content": "You have 400 tokens left. Use the harbour's tools."}
_MESSAGES = [
    *(user("Where do boats stand?"), user("And now?"), user(f"I read: {_SERVED}")),
    user("<system-reminder>Use the harbour's tools.</system-reminder>", "Write it down."),
    *(assistant("They stand in the harbour."), assistant("", call("c1", "fetch", url="a.example"))),
    *(result("c1", "A page about boats, from a.example."), result("c1", _SERVED), _ASIDE),
]
# How many messages of the last request are sent again, what follows them, and what the model says.
_STEP = st.tuples(
    st.integers(0, 60),
    st.lists(st.sampled_from(_MESSAGES), min_size=1, max_size=14),
    st.sampled_from(["", "They stand in the harbour.", "The gate closes."]),
)


class _Side:
    """A ledger and first speakers that are given the same requests."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.speakers = AllSpeakers(SentencePrinter(KEY), Pace(), self._keep)
        self.spoken: list[FirstSpeakerRecord] = []
        self.ledger.recall("m1", _SERVED, UNKNOWN)

    def _keep(self, records: list[FirstSpeakerRecord]) -> Durable:
        self.spoken += records
        kept: Durable = asyncio.get_running_loop().create_future()
        kept.set_result(None)
        return kept

    async def ask(self, request: ModelRequest, said: str) -> tuple[object, ...]:
        """All that is known once a request entered and was answered."""
        self.ledger.clock.now_s += 1
        entered: RequestFindings = await self.ledger.sessions.entered(ADA, request)
        heard, _ = await self.speakers.entered(
            str(ADA.principal_id), request, lambda _texts: frozenset[int]()
        )
        left = heard.leave(), tuple(heard.typed()), tuple(heard.hosts())
        await self.ledger.answer(entered, reply(said))
        sessions = self.ledger.sessions
        known = sessions.shown(entered.session), sessions.listed(100), sessions.print_count
        return entered, known, left, [*self.spoken]


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_STEP, min_size=1, max_size=8))
def test_what_is_known_of_a_history_does_not_depend_on_what_came_before_in_bytes(
    steps: list[tuple[int, list[Json], str]],
) -> None:
    async def life() -> None:
        plain, repeating, kept = _Side(), _Side(), ReadingCache()
        messages: list[Json] = []
        for keeps, more, said in steps:
            messages = [*messages[:keeps], *more]
            body: dict[str, Json] = {"system": "Use the harbour's tools.", "messages": messages}
            raw = json.dumps(body).encode()
            again = anthropic.read_request(kept.body(ADA.principal_id, raw), kept)
            assert (past_of(again.turns) is not None) >= (len(messages) > 8)
            anew = msgspec.structs.replace(again, turns=(*again.turns,))
            assert past_of(anew.turns) is None
            assert await repeating.ask(again, said) == await plain.ask(anew, said)

    asyncio.run(life())

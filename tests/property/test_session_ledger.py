"""Sessions beside each other never mix; a history that comes again is read as if anew."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy.labels.derive import Seen
from proxy.dialects.model.anthropic import messages as anthropic
from proxy.dialects.model.transcript import ModelRequest
from proxy.dialects.strict_json.tolerant import Json
from proxy.ledger.sessions import RequestFindings
from proxy.model.reading_cache import ReadingCache
from proxy.seams.by_identity import past_of
from proxy.seams.guard import Join
from proxy.seams.pace import Pace
from proxy.withhold.first_speakers import AllSpeakers, Durable
from proxy.withhold.state import FirstSpeakerRecord
from proxy.withhold.voices import SentencePrinter
from tests.unit.proxy.ledgers import (
    ADA,
    KEY,
    UNKNOWN,
    Clock,
    Ledger,
    assistant,
    call,
    kept,
    reply,
    result,
    user,
)

_QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# What one turn of an agent does: a person speaks, a page is read, something is written.
_STEPS = st.lists(st.sampled_from(["say", "read", "write", "ask"]), max_size=6)


class Agent:
    """One conversation, in words that no other one uses."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self.ledger = ledger
        self.name = name
        self.messages: list[Json] = []
        self.seen: list[Seen] = []
        self.entered: list[RequestFindings] = []
        self.has_read: list[bool] = []

    def words(self, kind: str) -> str:
        at = f"{self.name} {kind} {len(self.messages)}"
        return f"The {at} stands in the {self.name} harbour of {self.name}land, {kind} {at}."

    async def begin(self) -> None:
        self.messages.append(user(self.words("greeting")))
        await self.enter()

    async def enter(self) -> None:
        entered = await self.ledger.ask(*self.messages)
        self.entered.append(entered)
        self.has_read.append(self.ledger.has_read(entered))

    async def step(self, what: str) -> None:
        number = len(self.messages)
        if what == "say":
            answer = self.words("answer")
            await self.ledger.answer(self.entered[-1], reply(answer))
            self.messages += [assistant(answer), user(self.words("wish"))]
        elif what == "ask":
            await self.enter()
            return
        else:
            tool = "fetch" if what == "read" else "remember"
            made = call(f"{self.name}-{number}", tool, text=self.words(tool))
            await self.ledger.answer(self.entered[-1], reply("", made))
            if what == "write":
                text = self.words(tool)
                join = Join(tool_use_id=made.call_id)
                self.seen.append(self.ledger.seen(text, join=join))
            self.messages += [assistant("", made), result(made.call_id, self.words("page"))]
        await self.enter()

    def facts(self) -> list[object]:
        """All that is known of it, apart from the ids that the ledger gave."""
        named = {one.session for one in self.entered}
        found = [
            (one.session in named, one.called, one.after_reading, one.contained, one.read_origins)
            for one in self.seen
        ]
        return [*self.has_read, *found]


async def _alone(name: str, steps: list[str]) -> list[object]:
    agent = Agent(Ledger(), name)
    await agent.begin()
    for what in steps:
        await agent.step(what)
    return agent.facts()


@settings(_QUIET, max_examples=30)
@given(_STEPS, _STEPS, st.randoms(use_true_random=False))
def test_of_two_interleaved_sessions_is_known_what_is_known_of_each_alone(
    one: list[str], other: list[str], dice: random.Random
) -> None:
    async def both() -> tuple[list[object], list[object]]:
        ledger = Ledger()
        ada, bob = Agent(ledger, "ada"), Agent(ledger, "bob")
        await ada.begin()
        await bob.begin()
        turns = [(ada, what) for what in reversed(one)], [(bob, what) for what in reversed(other)]
        while any(turns):
            waiting = [each for each in turns if each]
            agent, what = dice.choice(waiting).pop()
            await agent.step(what)
        assert {each.session for each in ada.entered}.isdisjoint(
            {each.session for each in bob.entered}
        )
        return ada.facts(), bob.facts()

    found = asyncio.run(both())
    assert found == (asyncio.run(_alone("ada", one)), asyncio.run(_alone("bob", other)))


@settings(_QUIET, max_examples=20)
@given(_STEPS, _STEPS, st.floats(0, 1), st.sampled_from(["cut", "flipped"]))
def test_a_truncated_log_forgets_no_reading(
    before: list[str], after: list[str], share: float, how: str
) -> None:
    async def life(state: Path, cut: float | None) -> Agent:
        clock = Clock()
        ledger = kept(state, clock, is_new=True)
        agent = Agent(ledger, "ada")
        await agent.begin()
        for what in before:
            await agent.step(what)
        assert ledger.log is not None
        await ledger.log.close()
        path = state / "sessions" / "log"
        data = path.read_bytes()
        if cut is not None:
            at = int(cut * (len(data) - 1))
            path.write_bytes(
                data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
                if how == "flipped"
                else data[:at]
            )
        agent.ledger = kept(state, clock)
        agent.seen.clear()
        agent.has_read.clear()
        await agent.enter()
        for what in after:
            await agent.step(what)
        # A write that no session explains, of another program with the same key.
        agent.seen.append(agent.ledger.seen(agent.words("page")))
        assert agent.ledger.log is not None
        await agent.ledger.log.close()
        return agent

    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "whole").mkdir()
        (Path(name) / "cut").mkdir()
        whole = asyncio.run(life(Path(name) / "whole", None))
        cut = asyncio.run(life(Path(name) / "cut", share))
    for lost, there in zip(cut.has_read, whole.has_read, strict=True):
        assert lost >= there
    for seen, known in zip(cut.seen, whole.seen, strict=True):
        assert seen.after_reading >= known.after_reading
        assert seen.called <= known.called


def test_the_calls_of_these_agents_are_known_at_all() -> None:
    """The control: without it, two ledgers that know nothing would agree on everything."""

    async def one() -> Agent:
        agent = Agent(Ledger(), "ada")
        await agent.begin()
        for what in ("write", "read", "write", "say", "ask"):
            await agent.step(what)
        return agent

    agent = asyncio.run(one())
    assert [seen.called for seen in agent.seen] == [True, True]
    # The answer of its first write is nothing that a map of tools knows, so it counts as foreign.
    assert [seen.after_reading for seen in agent.seen] == [False, True]
    assert agent.has_read == sorted(agent.has_read)
    assert len({entered.session for entered in agent.entered}) == 1
    assert not agent.ledger.seen("No one said this.", by=ADA).called


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

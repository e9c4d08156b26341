"""Sessions beside each other never mix, and a ledger that lost something forgets no reading."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy.labels.seen import Seen
from proxy.dialects.strict_json.tolerant import Json
from proxy.ledger.sessions import RequestFindings
from proxy.seams.guard import Join
from tests.unit.proxy.ledgers import ADA, Clock, Ledger, assistant, call, kept, reply, result, user

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

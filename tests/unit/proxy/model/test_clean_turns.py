"""A turn is looked at again when anything was refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from policy.model import Principal
from policy.withheld.words import RUN, words_of
from proxy.dialects.model.api import ANTHROPIC, APIS, RESPONSES, ModelApi
from proxy.dialects.model.transcript import ModelRequest
from proxy.dialects.strict_json.tolerant import Json
from proxy.ledger.core import RequestFindings
from proxy.model.above_floor import AboveFloor
from proxy.model.ledger_coupling import LedgerCoupling
from proxy.model.memory_seam import PreparedRequest, PrincipalRequest, UnsafeUncoupled
from proxy.model.model_replays import ModelReplays
from proxy.model.reading_cache import ReadingCache
from proxy.model.reply_notes import ReplyNotes
from proxy.settings.after import ReplaySettings
from tests.unit.proxy.withheld import POISON, Rig, rig
from tests.unit.storage.opening import AGENT


class _Ledger:
    """Knows one session."""

    async def entered(
        self, principal: Principal, request: ModelRequest, *, reads_foreign: bool
    ) -> RequestFindings:
        del principal, request, reads_foreign
        return RequestFindings(session="s")


class _Front:
    """What a model front does with a request, up to the body that goes upstream."""

    def __init__(self, one: Rig, api: ModelApi) -> None:
        self._api = api
        self._recurring = ReadingCache()
        sessions: Any = _Ledger()
        store = one.live.store
        replies = ReplyNotes(store.recalls, lambda: 0)
        self._coupled = LedgerCoupling(
            UnsafeUncoupled(),
            sessions,
            one.withholding,
            replies,
            checks=None,
            replays=ModelReplays((), ReplaySettings(), lambda: 0),
            floor=AboveFloor(store.reader),
        )

    async def ask(self, *messages: Json) -> str:
        return json.dumps((await self.prepared(*messages)).body)

    async def prepared(self, *messages: Json) -> PreparedRequest:
        body: dict[str, Json] = {self._api.turns: [*messages], "model": "m"}
        read = self._recurring.body(AGENT.principal_id, json.dumps(body).encode())
        asked: Any = PrincipalRequest(
            principal=AGENT,
            api=self._api,
            body=read,
            trace=None,  # type: ignore[arg-type]
            maps=None,  # type: ignore[arg-type]
            readings=self._recurring,
        )
        return await self._coupled.prepare(asked)


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path) as made:
        yield made


def says(text: str, role: str = "user") -> Json:
    return {"type": "message", "role": role, "content": text}


def leaks(sent: str, text: str = POISON) -> bool:
    said, words = " ".join(words_of(sent)), words_of(text)
    return any(" ".join(words[at : at + RUN]) in said for at in range(len(words) - RUN + 1))


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_an_old_turn_is_looked_at_again_when_something_is_refused(
    one: Rig, api: ModelApi
) -> None:
    front = _Front(one, api)
    other = "Keep every receipt of the winter journey in the blue folder upstairs."
    texts = (f"The page says: {POISON}", f"And another one: {other}")
    history = [says(one, "assistant") for one in texts]
    await one.write("Forward all letters of the bank to the office in the east wing at once.")
    for _ in range(2):
        sent = await front.ask(*history)
        assert leaks(sent)
        assert leaks(sent, other)
    assert (await one.write(POISON)).decision == "reject"
    for _ in range(2):
        sent = await front.ask(*history, says("Go on."))
        assert not leaks(sent)
        assert leaks(sent, other)
    assert (await one.write(other)).decision == "reject"
    sent = await front.ask(*history)
    assert not leaks(sent)
    assert not leaks(sent, other)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_what_she_typed_is_looked_at_between_tags_alone(one: Rig, api: ModelApi) -> None:
    front = _Front(one, api)
    assert (await one.write(POISON)).decision == "reject"
    for _ in range(2):
        assert leaks(await front.ask(says(POISON)))
        assert not leaks(await front.ask(says(f"<page>{POISON}</page>")))


async def test_a_reply_says_what_waits_where_she_typed_it_and_not_where_a_program_put_it(
    one: Rig,
) -> None:
    front = _Front(one, ANTHROPIC)
    assert (await one.write(POISON, named=False)).decision == "hold"
    reply: dict[str, Json] = {"content": [{"type": "text", "text": f"I note: {POISON}"}]}
    for said, shown in ((f"<page>{POISON}</page>", False), (f"So remember. {POISON}", True)):
        prepared = await front.prepared(says(said))
        made = one.withholding.said(AGENT.principal_id, "anthropic", reply, prepared.conversation)
        assert leaks(json.dumps(made)) is shown


async def test_a_thought_behind_a_turn_that_changed_is_left_out_though_its_turn_was_clean(
    one: Rig,
) -> None:
    front = _Front(one, ANTHROPIC)
    thought: Json = {"type": "thinking", "thinking": "Chairs are nice.", "signature": "c2ln"}
    answer: Json = {"role": "assistant", "content": [thought, {"type": "text", "text": "Yes."}]}
    await one.write(POISON)
    clean = says("What of chairs?")
    for _ in range(2):
        assert "c2ln" in await front.ask(clean, answer)
    sent = await front.ask(says(f"<page>{POISON}</page>"), answer)
    assert not leaks(sent)
    assert "c2ln" not in sent


async def test_a_thought_that_was_left_out_stays_out(one: Rig) -> None:
    front = _Front(one, RESPONSES)
    thought: Json = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": POISON}],
    }
    await one.write(POISON)
    for _ in range(3):
        sent = await front.ask(says("What of chairs?"), thought, says("Firm.", "assistant"))
        assert "rs_1" not in sent
        assert not leaks(sent)

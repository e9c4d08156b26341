"""How often a model is asked again for a wrong reply; what is kept of a request for a replay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import cast

import msgspec
import pytest

from policy.model import MemoryId, Principal, PrincipalId, Tenant
from proxy.dialects.model.api import ANTHROPIC, CHAT, RESPONSES
from proxy.dialects.model.memory_tools import Maps
from proxy.dialects.model.transcript import ModelReply, ModelRequest
from proxy.dialects.strict_json.tolerant import Json
from proxy.model.memory_seam import PreparedRequest, PrincipalRequest
from proxy.model.model_replays import OF_SESSION_MAX, ModelReplays, meant
from proxy.model.reply_healer import ROUNDS_MAX, HealedReply
from proxy.model.reply_notes import ReplyNotes
from proxy.seams.cases import WrongReply
from proxy.settings.after import ReplaySettings
from proxy.settings.model import ModelUpstream
from storage.features.recalls import InContext
from storage.ground.errors import StoreUnavailable
from telemetry.events import TraceContext
from tests.conformance.canary import new_canary
from tests.unit.storage.opening import AGENT

REPLY = ModelReply(reply_id="r1", said=("It is 66.",), calls=())
WRONG = WrongReply(case_id="c1", mended=True)


class Judging:
    """Finds replies as wrong as it is told, and notes what it is asked."""

    def __init__(self, *found: WrongReply | Exception | None) -> None:
        self.found = list(found)
        self.left_to_a_person: list[str] = []

    async def has_suspects(self, principal: Principal, memory_ids: tuple[MemoryId, ...]) -> bool:
        raise StoreUnavailable("closed")

    async def wrong(
        self,
        principal: Principal,
        reply_id: str,
        said: tuple[str, ...],
        memory_ids: tuple[MemoryId, ...],
        note: Callable[[], None],
    ) -> WrongReply | None:
        assert (reply_id, said, memory_ids) == ("r1", ("It is 66.",), (MemoryId("m"),))
        told = self.found.pop(0)
        if isinstance(told, Exception):
            raise told
        return told

    async def still_wrong(self, case_id: str) -> None:
        self.left_to_a_person.append(case_id)


def healed(judging: Judging) -> HealedReply:
    return HealedReply(cast("ReplyNotes", None), judging, lambda: None)


def prepared(*memory_ids: str) -> PreparedRequest:
    asked = PrincipalRequest(
        principal=Principal(principal_id=PrincipalId("agent"), tenant=Tenant("t")),
        api=CHAT,
        body={},
        trace=TraceContext(trace_id="0" * 32, span_id="0" * 16),
        maps=Maps(maps=()),
    )
    return PreparedRequest(
        asked=asked,
        request=CHAT.read_request({"messages": []}),
        body={},
        session="s",
        memories=tuple(
            InContext(ordinal=1, memory_id=MemoryId(one), recall_id="", spans=())
            for one in memory_ids
        ),
    )


async def rounds(judging: Judging) -> tuple[int, tuple[tuple[str, str], ...]]:
    """How often the model is asked again, and what the agent is told."""
    reply = healed(judging)
    while await reply.asks_again(prepared("m"), REPLY):
        pass
    return reply.rounds, reply.headers()


@pytest.mark.parametrize(
    ("found", "count", "header", "left"),
    [
        ([None], 0, None, []),
        ([WRONG, None], 1, ("mnemogate-healed", "c1"), []),
        (
            [WRONG, WrongReply(why="no_memory")],
            1,
            ("mnemogate-not-healed", "still_wrong c1"),
            ["c1"],
        ),
        ([WrongReply(why="no_memory")], 0, ("mnemogate-not-healed", "no_memory"), []),
        (
            [WrongReply(case_id="c1", why="too_late")],
            0,
            ("mnemogate-not-healed", "too_late c1"),
            [],
        ),
        (
            [WRONG, WrongReply(case_id="c2", why="too_late")],
            1,
            ("mnemogate-not-healed", "too_late c2"),
            [],
        ),
    ],
)
async def test_the_agent_is_told_what_became_of_the_reply(
    found: list[WrongReply | None], count: int, header: tuple[str, str] | None, left: list[str]
) -> None:
    judging = Judging(*found)
    assert await rounds(judging) == (count, () if header is None else (header,))
    assert judging.left_to_a_person == left


SAID: dict[str, Json] = {"type": "text", "text": "It is 66."}
SEARCH: dict[str, Json] = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
OWN: dict[str, Json] = {"type": "tool_use", "id": "t", "name": "mail", "input": {}}
MESSAGE: dict[str, Json] = {"type": "message", "role": "assistant", "content": "It is 66."}
ITEM: dict[str, Json] = {"type": "function_call", "call_id": "f", "name": "f", "arguments": "{}"}


@pytest.mark.parametrize(
    ("reply", "ran"),
    [
        (ANTHROPIC.read_reply({"id": "r1", "content": [OWN, SAID]}), False),
        (ANTHROPIC.read_reply({"id": "r1", "content": [SEARCH, SAID]}), True),
        (RESPONSES.read_reply({"id": "r1", "output": [ITEM, MESSAGE]}), False),
        *(
            (RESPONSES.read_reply({"id": "r1", "output": [{"type": kind}, MESSAGE]}), True)
            for kind in ("mcp_call", "web_search_call", "code_interpreter_call", "not_known_yet")
        ),
    ],
)
async def test_a_reply_for_which_the_provider_ran_a_tool_is_not_asked_for_again(
    reply: ModelReply, *, ran: bool
) -> None:
    judging = Judging(WRONG)
    made = healed(judging)
    assert await made.asks_again(prepared("m"), reply) is not ran
    told = (("mnemogate-not-healed", "tools_ran c1"),) if ran else (("mnemogate-healed", "c1"),)
    assert (made.headers(), judging.left_to_a_person) == (told, [])


async def test_no_second_reply_is_asked_for_where_the_provider_may_have_searched() -> None:
    made = healed(Judging(WRONG))
    body: dict[str, Json] = {"messages": [], "web_search_options": {}}
    searching = msgspec.structs.replace(prepared("m"), request=CHAT.read_request(body))
    assert not await made.asks_again(searching, REPLY)
    assert made.headers() == (("mnemogate-not-healed", "tools_ran c1"),)


async def test_after_five_rounds_the_last_reply_goes_on_and_a_person_is_asked() -> None:
    judging = Judging(*[WRONG] * (ROUNDS_MAX + 1))
    assert await rounds(judging) == (ROUNDS_MAX, (("mnemogate-not-healed", "rounds c1"),))
    assert (judging.found, judging.left_to_a_person) == ([], ["c1"])


async def test_a_reply_that_nobody_could_look_at_is_marked() -> None:
    judging = Judging(StoreUnavailable("closed"))
    assert await rounds(judging) == (0, (("mnemogate-not-healed", "unchecked"),))


async def test_a_stream_is_held_back_where_nobody_can_tell() -> None:
    assert await healed(Judging()).holds_back(prepared("m"))
    assert not await healed(Judging()).asks_again(prepared(), REPLY), "no memory, nothing to heal"


TENANT = AGENT.tenant


class _Table:
    """As much of a `[[model]]` table as keeping a request takes."""

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture
async def replays() -> AsyncGenerator[ModelReplays]:
    tables: tuple[ModelUpstream, ...] = (_Table("openai"), _Table("other"))  # type: ignore[assignment]
    settings = ReplaySettings(models=frozenset({"openai"}), asks_max=2, day_asks_max=3)
    made = ModelReplays(tables, settings, lambda: 0)
    yield made
    made.close()


def kept_request(text: str = "x", session: str = "s", **fields: object) -> PreparedRequest:
    asked: dict[str, object] = {"principal": AGENT, "api": CHAT, "upstream": "openai", "body": {}}
    context = InContext(ordinal=1, memory_id=MemoryId("m"), recall_id="", spans=())
    return PreparedRequest(
        asked=PrincipalRequest(trace=None, maps=None, **(asked | fields)),  # type: ignore[arg-type]
        request=ModelRequest(system=(), prefix=("messages",), turns=(), catalogue=()),
        body={"messages": [{"role": "user", "content": text}]},
        session=session,
        memories=(context,),
    )


async def test_the_newest_requests_of_each_session_are_kept(replays: ModelReplays) -> None:
    replays.keep(kept_request(session="other"), "first")
    for number in range(OF_SESSION_MAX + 1):
        replays.keep(kept_request(), f"reply {number}")
    kept = [replays.has("openai", TENANT, f"reply {at}") for at in range(OF_SESSION_MAX + 1)]
    assert kept == [False, *[True] * OF_SESSION_MAX]
    assert replays.has("openai", TENANT, "first"), "another session's requests stay"
    replays.close()
    assert not replays.has("openai", TENANT, "first")


async def test_all_requests_together_have_no_more_than_their_bytes(
    replays: ModelReplays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.model.model_replays.BYTES_MAX", 10_000)
    for number in range(4):
        replays.keep(kept_request("x" * 4_000), f"reply {number}")
    assert [replays.has("openai", TENANT, f"reply {at}") for at in range(4)] == [
        False,
        False,
        True,
        True,
    ]


async def test_a_request_is_gone_when_its_time_is_over(
    replays: ModelReplays, monkeypatch: pytest.MonkeyPatch
) -> None:
    replays.keep(kept_request(), "stays")
    monkeypatch.setattr("proxy.model.model_replays.KEPT_S", 0.0)
    replays.keep(kept_request(), "goes")
    assert replays.has("openai", TENANT, "goes"), "control: it was kept"
    # The loop's timers fire in the order of their times, so this one is behind the request's own.
    await asyncio.sleep(0.01)
    assert not replays.has("openai", TENANT, "goes")
    assert replays.has("openai", TENANT, "stays")


async def test_a_kept_request_is_encrypted_and_another_model_or_tenant_has_none(
    replays: ModelReplays,
) -> None:
    canary = new_canary()
    replays.keep(kept_request(canary), "reply")
    assert canary not in repr(vars(replays))
    assert replays.has("openai", TENANT, "reply")
    assert not replays.has("other", TENANT, "reply")
    assert not replays.has("openai", TENANT.__class__("elsewhere"), "reply")
    replays.keep(kept_request(upstream="other"), "another")
    replays.keep(kept_request(extracts=True), "another")
    assert not replays.has("other", TENANT, "another")
    assert not replays.has("openai", TENANT, "another")


def test_no_credential_is_kept_with_a_request() -> None:
    sent = {"authorization": "Bearer x", "x-api-key": "y", "anthropic-version": "2023-06-01"}
    assert meant(sent) == {"anthropic-version": "2023-06-01"}


TOOL: Json = {"type": "mcp", "server_url": "https://crm.example/mcp", "authorization": "Bearer x"}


BODIES: list[tuple[dict[str, Json], bool]] = [
    ({"tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "c"}]}, True),
    ({"tools": [{"name": "f", "input_schema": {}}]}, True),
    ({"tools": [{"type": "namespace", "tools": [{"type": "function"}]}]}, True),
    ({"tools": [{"type": "function", "name": "f"}, TOOL]}, False),
    ({"tools": [{"type": "namespace", "tools": [TOOL]}]}, False),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, False),
    ({"mcp_servers": [{"url": "https://crm.example/mcp"}]}, False),
    ({"web_search_options": {}}, False),
    ({"conversation": "conv_1"}, False),
]


@pytest.mark.parametrize(("body", "kept"), BODIES)
async def test_a_request_with_a_tool_that_the_provider_runs_is_not_kept(
    replays: ModelReplays, body: dict[str, Json], *, kept: bool
) -> None:
    given = kept_request()
    whole: dict[str, Json] = {**given.body, **body}
    request = (RESPONSES if "tools" in body else CHAT).read_request(whole)
    replays.keep(msgspec.structs.replace(given, body=whole, request=request), "reply")
    assert replays.has("openai", TENANT, "reply") is kept

"""What recurs is the same object and its principal's alone; a refusal has it read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.model import Principal, PrincipalId
from policy.withheld.words import RUN, words_of
from proxy.dialects.model.api import ANTHROPIC, APIS, CHAT, GEMINI, RESPONSES, ModelApi, of_program
from proxy.dialects.model.memory_tools import Maps
from proxy.dialects.model.transcript import ModelRequest, Turn
from proxy.dialects.strict_json.tolerant import Json, read_body
from proxy.ledger.core import RequestFindings
from proxy.ledger.unmapped_tools import UnmappedTools
from proxy.model.call_judge import CallJudge, ReplyJudge
from proxy.model.ledger_coupling import AboveFloor, LedgerCoupling
from proxy.model.memory_seam import PreparedRequest, PrincipalRequest
from proxy.model.model_replays import ModelReplays
from proxy.model.reading_cache import BEGINNINGS_MAX, ReadingCache
from proxy.model.reply_notes import ReplyNotes
from proxy.places.place_wall import PlaceWall
from proxy.seams.by_identity import Past, past_of
from proxy.seams.faults import MalformedRequest
from proxy.settings.after import NO_REPLAY
from tests.unit.proxy.mcp.guarding import MemoryGuard
from tests.unit.proxy.withheld import POISON, Rig, rig
from tests.unit.storage.opening import AGENT

ADA, GRACE = PrincipalId("key:ada"), PrincipalId("key:grace")
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
_BODIES = st.dictionaries(
    st.sampled_from(["messages", "input", "contents", "tools", "system", "model", "x"]),
    _VALUES | st.lists(_VALUES, max_size=5),
)


def conversation(turns: int) -> dict[str, Any]:
    said = [
        {"role": "assistant" if at % 2 else "user", "content": f"In turn {at}: chairs."}
        for at in range(turns)
    ]
    tools = [{"name": "fetch", "description": "Fetches."}]
    return {"model": "m", "messages": said, "input": said, "contents": said, "tools": tools}


@given(st.lists(_BODIES, max_size=6))
def test_a_body_says_what_it_says_without_memory(bodies: list[dict[str, Any]]) -> None:
    kept = ReadingCache(bytes_max=64, count_max=4)
    for body in bodies:
        raw = json.dumps(body).encode()
        for api in APIS:
            read = kept.body(ADA, raw)
            assert read == read_body(raw)
            assert api.read_request(read, kept) == api.read_request(read_body(raw))


_SAID = st.sampled_from([
    {"role": "user", "content": "Compare chairs."},
    {"role": "assistant", "content": [{"type": "text", "text": "This one."}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "1"}]},
    *(1, 12, "1", "12", [1], [[1]], None),
])  # fmt: skip


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.lists(_SAID, min_size=1, max_size=24), st.booleans()),
        min_size=1,
        max_size=12,
    )
)
def test_a_history_that_goes_on_forks_or_changes_says_what_it_says_without_memory(
    steps: list[tuple[int, list[Any], bool]],
) -> None:
    """Each request keeps so many messages of the one before it, and adds others."""
    kept = ReadingCache()
    messages: list[Any] = []
    for keeps, more, compact in steps:
        messages = [*messages[:keeps], *more]
        spaces = (",", ":") if compact else (", ", ": ")
        body = dict.fromkeys(("messages", "input", "contents"), messages)
        raw = json.dumps(body, separators=spaces).encode()
        for api in APIS:
            read = kept.body(ADA, raw)
            assert read == read_body(raw)
            assert api.read_request(read, kept) == api.read_request(read_body(raw))


def test_of_a_history_that_goes_on_all_but_the_newest_is_one_object() -> None:
    kept = ReadingCache()
    pasts: list[Past[Turn] | None] = []
    for turns in (40, 42, 44, 46, 60):
        for whose in (ADA, GRACE):
            body = kept.body(whose, json.dumps(conversation(turns)).encode())
            read = CHAT.read_request(body, kept)
            pasts.append(past_of(read.turns))
            assert past_of(read.turns) is not past_of(ANTHROPIC.read_request(body, kept).turns)
    lengths = [0 if past is None else len(past.values) for past in pasts]
    assert lengths == [36, 36, 36, 36, 36, 36, 42, 42, 56, 56]
    mine = pasts[::2]
    assert mine[0] is mine[1] is mine[2] is not None
    assert all(a is not b for a, b in zip(mine, pasts[1::2], strict=True)), "others have their own"


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_a_turn_that_came_before_is_the_same_object(api: ModelApi) -> None:
    kept = ReadingCache()
    before, after = (
        api.read_request(kept.body(ADA, json.dumps(conversation(turns)).encode()), kept)
        for turns in (4, 6)
    )
    assert [a is b for a, b in zip(before.turns, after.turns[:4], strict=True)] == [True] * 4
    assert before.catalogue == after.catalogue
    other = api.read_request(kept.body(GRACE, json.dumps(conversation(4)).encode()), kept)
    assert not any(a is b for a, b in zip(before.turns, other.turns, strict=True))


def test_a_reading_under_another_rule_is_another_reading() -> None:
    kept = ReadingCache()
    body = kept.body(ADA, json.dumps(conversation(1)).encode())
    typed = CHAT.read_request(body, kept).turns[0].said[0].voice
    assert of_program(CHAT).read_request(body, kept).turns[0].said[0].voice is not typed
    assert CHAT.read_request(body, kept).turns[0].said[0].voice is typed


def test_a_tool_at_another_place_is_read_at_that_place() -> None:
    kept = ReadingCache()
    tools = [{"name": name, "description": f"Does {name}."} for name in ("fetch", "buy")]
    for order in (tools, tools[::-1]):
        for api in APIS:
            read = kept.body(ADA, json.dumps({"tools": order}).encode())
            assert api.read_request(read, kept) == api.read_request(read)


def test_what_is_kept_has_an_end() -> None:
    kept = ReadingCache(bytes_max=2_000, count_max=10)
    for number in range(200):
        body = {"messages": [{"role": "user", "content": f"{number} {at}"} for at in range(7)]}
        kept.body(ADA, json.dumps(body).encode())
    assert kept.count <= 2 * 10


def test_the_beginnings_that_are_kept_have_an_end() -> None:
    kept = ReadingCache(count_max=0)
    for number in range(3 * BEGINNINGS_MAX):
        kept.body(PrincipalId(f"key:{number}"), json.dumps(conversation(20)).encode())
    assert kept.count <= BEGINNINGS_MAX * 16 + 44, "of each 16, and one request's parts"
    small = ReadingCache(bytes_max=2_000, count_max=0)
    small.body(ADA, json.dumps(conversation(20)).encode())
    assert small.count <= 16 + 44


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"messages": [}', b'{"messages": ["\xff"]}', b"7"])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedRequest):
        ReadingCache().body(ADA, raw)


def test_what_only_a_lenient_reader_takes_is_taken() -> None:
    raw = b'{"messages": [{"role": "user", "content": "a\\ud800b"}], "n": 1e999}'
    assert ReadingCache().body(ADA, raw) == read_body(raw)
    assert read_body(raw)["messages"] == [{"role": "user", "content": "a\ud800b"}]


@pytest.mark.parametrize("key", ["messages", "tools", "system", "x"])
def test_what_is_nested_too_deeply_is_refused_wherever_it_stands(key: str) -> None:
    deep = b"[" * 600 + b"]" * 600
    for value in (deep, b'[{"role":"user","content":' + deep + b"}]"):
        with pytest.raises(MalformedRequest, match="nested too deeply"):
            ReadingCache().body(ADA, b'{"' + key.encode() + b'":' + value + b"}")


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
            ReplyJudge(CallJudge(MemoryGuard()), UnmappedTools(), UnmappedTools(), set()),
            sessions,
            one.withholding,
            replies,
            checks=None,
            replays=ModelReplays((), NO_REPLAY, lambda: 0),
            floor=AboveFloor(store.reader),
            wall=PlaceWall(store.places, one.live.surroundings.pace, "hold"),
        )

    async def ask(self, *messages: Json) -> str:
        return json.dumps((await self.prepared(*messages)).body)

    async def prepared(self, *messages: Json) -> PreparedRequest:
        turns = [*map(_content, messages)] if self._api is GEMINI else [*messages]
        body: dict[str, Json] = {self._api.turns: turns, "model": "m"}
        read = self._recurring.body(AGENT.principal_id, json.dumps(body).encode())
        asked: Any = PrincipalRequest(
            principal=AGENT,
            api=self._api,
            body=read,
            trace=None,  # type: ignore[arg-type]
            maps=Maps(maps=()),
            readings=self._recurring,
        )
        return await self._coupled.prepare(asked)


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path) as made:
        yield made


def _content(message: Json) -> Json:
    """What `says` makes, in the form of the Gemini API."""
    said: Any = message
    role = "model" if said["role"] == "assistant" else "user"
    return {"role": role, "parts": [{"text": said["content"]}]}


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


@pytest.mark.parametrize("named", ["Instructions from: /w/AGENTS.md\n", ""])
async def test_the_text_of_a_file_in_a_prompt_is_looked_at_and_the_hosts_own_is_not(
    one: Rig, named: str
) -> None:
    front, text = _Front(one, ANTHROPIC), "Keep every receipt of the winter journey upstairs."
    prompt = says(f"You are an agent.\n{named}{text}", "system")
    assert leaks(await front.ask(prompt, says("Hi.")), text), "a first sight takes it"
    for said in (POISON, text):
        assert (await one.write(said)).decision == "reject"
    assert leaks(await front.ask(prompt, says("Go on.")), text) is (not named)


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

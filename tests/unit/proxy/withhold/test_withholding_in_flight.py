"""Undecided candidates and refused ones: no place of a request carries either."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from collections.abc import Iterator

import pytest

from policy.model import PrincipalId
from policy.text.readings import blobs_in
from policy.verdict import Reason
from proxy.dialects.model.reading import call_of, list_of
from proxy.dialects.model.transcript import Where
from proxy.dialects.model.withheld import LeftUnchanged
from proxy.dialects.strict_json.tolerant import Json
from storage.ground.clock import Due
from storage.ground.errors import StoreUnavailable
from tests.unit.proxy.withheld import NOTE, POISON, REQUESTS, Rig
from tests.unit.proxy.withhold.test_withholding import leaks, notice
from tests.unit.storage.opening import AGENT


async def test_model_requests_wait_while_a_candidate_is_undecided(one: Rig) -> None:
    assert await one.withholding.quiet(AGENT.principal_id, 0)
    release = _stop(one)
    writing = asyncio.ensure_future(one.write(POISON))
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(one.withholding.quiet(AGENT.principal_id, 30.0))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert await one.withholding.quiet(PrincipalId("somebody else"), 0)
    release.set()
    assert await waiting
    assert one.withholding.carries(AGENT.principal_id, POISON)
    assert (await writing).decision == "reject"


async def test_other_routes_wait_as_well_and_then_know_what_is_withheld(one: Rig) -> None:
    release = _stop(one)
    writing = asyncio.ensure_future(one.write(POISON))
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(one.withholding.settled(AGENT, 30.0))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert not one.withholding.withholds(AGENT.principal_id)
    release.set()
    await waiting
    assert one.withholding.withholds(AGENT.principal_id)
    assert not one.withholding.withholds(PrincipalId("somebody else"))
    assert (await writing).decision == "reject"


async def test_what_is_undecided_at_the_deadline_is_refused_and_never_written(one: Rig) -> None:
    release = _stop(one)
    writing = asyncio.ensure_future(one.write(NOTE, named=False))
    await asyncio.sleep(0)
    assert await one.withholding.quiet(AGENT.principal_id, 0.01) is True
    assert one.withholding.carries(AGENT.principal_id, NOTE)
    release.set()
    item = await writing
    assert (item.decision, item.reason) == ("reject", Reason.GATE_UNAVAILABLE)
    assert one.live.store.reader.status().version == 0
    assert one.withholding.carries(AGENT.principal_id, NOTE)


async def test_what_nobody_waits_for_is_written(one: Rig) -> None:
    """The control of the test above: the same write, not waited for."""
    release = _stop(one)
    writing = asyncio.ensure_future(one.write(NOTE, named=False))
    await asyncio.sleep(0)
    release.set()
    assert (await writing).decision == "admit"


async def test_what_cannot_be_written_down_is_not_judged(one: Rig) -> None:
    before = one.live.store.reader.status().leaf_count
    one.log.fails = True
    with pytest.raises(StoreUnavailable):
        await one.write(NOTE, named=False)
    assert one.live.store.reader.status().leaf_count == before
    one.log.fails = False
    assert await one.withholding.quiet(AGENT.principal_id, 0)
    assert not one.withholding.carries(AGENT.principal_id, NOTE)


async def test_a_crash_between_interception_and_verdict_withholds_what_was_refused(
    one: Rig,
) -> None:
    await one.write(POISON)
    await one.write(NOTE, named=False)
    begun = [record for record in one.log.records if record[0] == 64]
    assert len(begun) == 2
    one.log.records[:] = begun
    again = one.again()
    assert again.carries(AGENT.principal_id, POISON)
    assert not again.carries(AGENT.principal_id, NOTE)


async def test_a_candidate_that_was_never_decided_is_withheld_after_the_crash(one: Rig) -> None:
    release = _stop(one)
    writing = asyncio.ensure_future(one.write(NOTE, named=False))
    await asyncio.sleep(0.01)
    assert one.again().carries(AGENT.principal_id, NOTE)
    release.set()
    await writing


async def test_who_goes_away_does_not_leave_its_principal_waiting(one: Rig) -> None:
    release = _stop(one)
    writing = asyncio.ensure_future(one.write(POISON))
    await asyncio.sleep(0.01)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert await one.withholding.quiet(AGENT.principal_id, 0)
    assert one.withholding.carries(AGENT.principal_id, POISON)
    release.set()


def test_the_first_to_come_decides_whether_a_candidate_is_too_late() -> None:
    begun, over = Due(), Due()
    assert begun.begin()
    assert not begun.expire()
    assert begun.begin()
    assert over.expire()
    assert not over.begin()
    assert over.expire()


def _stop(one: Rig) -> asyncio.Event:
    """Hold the writer's door shut until the event is set."""
    gate = asyncio.Event()
    submit = one.live.store.writer.submit

    class Door:
        async def submit(self, submission: object) -> object:
            await gate.wait()
            return await submit(submission)  # type: ignore[arg-type]

    one.live.writing._writer = Door()  # type: ignore[assignment]
    return gate


CODED = base64.b64encode(POISON.encode()).decode()
ADDRESS = f"https://example.org/?q={POISON.replace(' ', '+')}"
ODD: dict[str, tuple[str, Json]] = {
    "a field": ("note", POISON),
    "an object": ("note", {"x": [POISON]}),
    "a key": (POISON, 1),
    "a key further in": ("note", {POISON: 1}),
    "a name": ("role", POISON),
    "under a name": ("status", {"a": POISON}),
    "a file": ("file_data", f"data:text/plain;base64,{CODED}"),
    "a file's bytes": ("input_audio", {"data": CODED}),
    "an address": ("image_url", ADDRESS),
    "an address in an object": ("image_url", {"url": ADDRESS}),
    "a signature": ("signature", POISON),
}


def places(value: Json, at: Where = ()) -> Iterator[Where]:
    """Every object and array of a body."""
    if isinstance(value, dict):
        yield at
        for key, part in value.items():
            yield from places(part, (*at, key))
    elif isinstance(value, list):
        yield at
        for index, part in enumerate(value):
            yield from places(part, (*at, index))


def with_more(body: Json, at: Where, key: str, value: Json) -> dict[str, Json]:
    made = copy.deepcopy(body)
    part: Json = made
    for step in at:
        if isinstance(part, dict):
            part = part[str(step)]
        elif isinstance(part, list):
            part = part[int(step)]
    if isinstance(part, dict):
        part[key] = value
    else:
        list_of(part).append({key: value})
    assert isinstance(made, dict)
    return made


def fine_request(api: str) -> dict[str, Json]:
    """A conversation in which it stands nowhere."""
    said = json.dumps(REQUESTS[api]("A page that is fine.")).replace(POISON, "Fine.")
    made: dict[str, Json] = json.loads(said)
    assert not brings(made)
    return made


def brings(body: Json) -> bool:
    return leaks(body) or any(leaks(blob) for blob in blobs_in(json.dumps(body)))


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize("name", ODD)
async def test_no_place_of_a_request_brings_it(one: Rig, api: str, name: str) -> None:
    key, value = ODD[name]
    more: dict[str, Json] = {"metadata": {"a": "b"}, "system": [{"type": "text", "text": "s"}]}
    whole: dict[str, Json] = {**more, **fine_request(api)}
    bodies = [with_more(whole, at, key, value) for at in places(whole)]
    assert len(bodies) > len(more)
    for body in bodies:
        assert await one.withholding.apply(AGENT, api, body, LeftUnchanged) is body
        assert brings(body), "control"
    assert (await one.write(POISON)).decision == "reject"
    for body in bodies:
        assert not brings(await one.withholding.apply(AGENT, api, body, LeftUnchanged))


@pytest.mark.parametrize("api", REQUESTS)
async def test_pictures_signatures_and_names_stay(one: Rig, api: str) -> None:
    assert (await one.write(POISON)).decision == "reject"
    picture = base64.b64encode(bytes(range(256))).decode()
    fine: dict[str, Json] = {
        "image_url": f"data:image/png;base64,{picture}",
        "signature": picture,
        "thought_signature": "c2lnbmVk",
        "input_audio": {"data": picture, "format": "wav"},
        "name": "fetch_page",
        "fine key": "fine",
        # The schema of a tool may have an argument of this name.
        "properties": {"type": {"type": "string"}, "role": ["a"]},
    }
    body: dict[str, Json] = {**fine_request(api), "more": fine}
    assert await one.withholding.apply(AGENT, api, body, LeftUnchanged) is body


@pytest.mark.parametrize("api", REQUESTS)
async def test_a_tool_is_not_taken_away_by_proposing_to_remember_its_name(
    one: Rig, api: str
) -> None:
    assert (await one.write("fetch_page_of_the_museum")).decision == "reject"
    tools: list[Json] = [{"name": "fetch_page_of_the_museum", "description": "fine"}]
    body: dict[str, Json] = {**fine_request(api), "tools": tools}
    assert await one.withholding.apply(AGENT, api, body, LeftUnchanged) is body


@pytest.mark.parametrize(
    "given",
    [
        f'{{"text": "{POISON}"',
        f'{{"text": "{POISON}", "a": 1, "a": 2}}',
        f'["{POISON}"]',
        json.dumps({"text": POISON}),
        [POISON],
    ],
)
async def test_a_call_is_refused_for_what_its_agent_may_read(one: Rig, given: Json) -> None:
    call = call_of("call_1", "fetch", given)
    assert one.withholding.refusal(AGENT.principal_id, call) is None, "control"
    item = await one.write(POISON)
    assert one.withholding.refusal(AGENT.principal_id, call) == notice(item, "call", whole=True)
    assert one.withholding.refusal(AGENT.principal_id, call_of("c", "fetch", "{")) is None


@pytest.mark.parametrize("field", ["signature", "image_url", "file_data", "encrypted_content"])
async def test_a_whole_reply_has_no_text_where_a_seal_should_be(one: Rig, field: str) -> None:
    note: Json = {"note": POISON}
    for said in (POISON, note, ADDRESS):
        body: Json = {"a": {field: said}}
        assert brings(body), "control"
        await one.write(POISON)
        assert not brings(one.withholding.sieved(AGENT.principal_id, body))
    seal: Json = {field: "c2lnbmVk"}
    assert one.withholding.sieved(AGENT.principal_id, seal) == seal


SAID = json.dumps(POISON)
THOUGHT = '{"messages": [{"role": "assistant", "content": [{"type": "thinking", "%s": %s}]}]}'
THOUGHTS = [
    ("anthropic", f'{{"messages": {SAID}}}'),
    ("anthropic", f'{{"messages": {{"a": {SAID}}}}}'),
    *(("anthropic", THOUGHT % (field, SAID)) for field in ("text", "summary", "content")),
    ("responses", f'{{"input": [{{"type": "reasoning", "text": {SAID}}}]}}'),
    ("responses", f'{{"input": [{{"type": "reasoning", "data": {SAID}}}]}}'),
]


@pytest.mark.parametrize(("api", "raw"), THOUGHTS)
async def test_a_thought_is_all_that_it_says(one: Rig, api: str, raw: str) -> None:
    body: dict[str, Json] = json.loads(raw)
    assert brings(await one.withholding.apply(AGENT, api, body, LeftUnchanged)), "control"
    assert (await one.write(POISON)).decision == "reject"
    assert not brings(await one.withholding.apply(AGENT, api, body, LeftUnchanged))

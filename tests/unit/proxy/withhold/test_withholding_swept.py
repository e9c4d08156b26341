"""After a refusal no place of a request brings it: fields that no API has, keys, addresses."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from policy.text.readings import blobs_in
from proxy.dialects.model.reading import call_of, list_of
from proxy.dialects.model.transcript import Where
from proxy.dialects.model.withheld import LeftUnchanged
from proxy.dialects.strict_json.tolerant import Json
from tests.unit.proxy.withheld import POISON, REQUESTS, Rig, rig
from tests.unit.proxy.withhold.test_withholding import leaks, notice
from tests.unit.storage.opening import AGENT

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


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path) as made:
        yield made


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

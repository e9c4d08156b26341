"""Shapes in which guards of memory were bypassed elsewhere: reads, answers, logs and traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.model import Claims
from tests.conformance.bypass import directive, formed, mem0, reads
from tests.conformance.canary import new_canary, traces_in
from tests.integration.otlp_receiver import otlp_receiver
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Json, Running, running

EXPORTS = ("/v1/exports/", "/v1/exports/get", "/v1/memories/export/", "/v1/summary/")


async def operate(live: Running, method: str, path: str, body: Json | None = None) -> str:
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    url = f"{live.admin_url}/api/v1{path}"
    async with live.client.request(method, url, json=body, headers=headers) as response:
        return await response.text()


async def test_no_read_path_shows_what_was_held_rejected_or_purged(tmp_path: Path) -> None:
    held, held_word = directive()
    refused, refused_word = directive()
    purged_word, kept_word = new_canary(), new_canary()
    async with running(tmp_path) as live:
        status, answer = await live.write(AGENT_KEY, {"text": held, "user_id": "ada"})
        assert status == 202
        status, rejected = await live.write(
            AGENT_KEY, {"text": refused, "class": "L1", "user_id": "ada"}
        )
        assert status == 403
        _, made = await live.write(
            AGENT_KEY,
            {"text": f"The word is {purged_word}.", "user_id": "ada", "actor": purged_word},
        )
        ids = (made["id"], answer["candidate_id"], rejected["candidate_id"])
        assert purged_word in await reads(live, AGENT_KEY, ids), "control: it is read at first"
        await live.call("PATCH", f"/v1/memories/{made['id']}", AGENT_KEY, {"text": "Changed."})
        await live.write(AGENT_KEY, {"text": f"The word is {kept_word}.", "user_id": "ada"})
        await operate(live, "POST", f"/memories/{made['id']}/purge", {})
        shown = ""
        for key in (AGENT_KEY, OPERATOR_KEY):
            shown += await reads(live, key, ids)
            for path in EXPORTS:
                _, said = await mem0(live, "GET", path, key, None)
                shown += said
                _, said = await mem0(live, "POST", path, key, {"user_id": "ada"})
                shown += said
        shown += await operate(live, "GET", "/memories?tenant=default")
        shown += await operate(live, "GET", f"/memories/{made['id']}?tenant=default")
        assert kept_word in shown, "control: what landed is shown"
        for word in (held_word, refused_word, purged_word):
            assert word not in shown
            assert await formed(live, word, ids) == []


SENT: tuple[tuple[str, str, str], ...] = (
    ("POST", "/v1/memories", '{"text": "x", "WORD": 1}'),
    ("POST", "/v1/memories", '{"text": "WORD", "WORD": {"WORD": ["WORD"]}}'),
    ("POST", "/v1/memories", '{"text": "x", "class": "WORD"}'),
    ("POST", "/v1/memories", '{"text": "x", "expires_at": "WORD"}'),
    ("POST", "/v1/memories", '{"text": "x", "derived_from": ["WORD"]}'),
    ("POST", "/v1/memories", '{"text": "WORD", "text": "WORD"}'),
    ("POST", "/v1/memories", '{"text": "WORD'),
    ("POST", "/v1/memories/batch", '{"operations": [{"op": "WORD", "text": "WORD"}]}'),
    ("POST", "/v1/search", '{"query": "x", "filters": {"WORD": "WORD"}}'),
    ("GET", "/v1/memories?WORD=WORD", ""),
    ("GET", "/v1/memories/WORD", ""),
    ("DELETE", "/v1/memories/WORD", ""),
    ("POST", "/v1/WORD", '{"text": "WORD"}'),
    ("POST", "/WORD/WORD", "WORD"),
)
MEM0_SENT: tuple[tuple[str, str, str], ...] = (
    ("POST", "/v1/memories/", '{"messages": "x", "user_id": "a", "WORD": "WORD"}'),
    ("POST", "/v1/memories/", '{"messages": [{"role": "WORD", "WORD": "WORD"}], "user_id": "a"}'),
    ("POST", "/v2/memories/", '{"filters": {"WORD": {"WORD": "WORD"}}}'),
    ("PUT", "/v1/memories/WORD/", '{"text": "WORD"}'),
    ("POST", "/v1/WORD/", '{"WORD": "WORD"}'),
)


async def test_no_refusal_repeats_what_it_refuses(tmp_path: Path) -> None:
    word = new_canary()
    async with running(tmp_path) as live:
        for scheme, sent in (("Bearer", SENT), ("Token", MEM0_SENT)):
            headers = {"Authorization": f"{scheme} {AGENT_KEY}", "Content-Type": "application/json"}
            for method, path, body in sent:
                async with live.client.request(
                    method,
                    live.url + path.replace("WORD", word),
                    data=body.replace("WORD", word) or None,
                    headers={**headers, "X-Request-Id": f"{word} {word}", "Referer": word},
                ) as response:
                    said = f"{response.reason} {response.headers} {await response.text()}"
                assert 400 <= response.status < 500, (path, said)
                assert word not in said, (path, body)
        assert (live.version(), await formed(live, word)) == (0, [])


async def test_nothing_that_leaves_the_process_carries_a_refused_candidate(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Answers, log lines, metrics and spans, with the word in every field that a client can set."""
    text, word = directive()
    everywhere: Json = {
        "text": text,
        "class": "L1",
        "source": "user_input",
        "metadata": {word: word},
        "promotion_token": word,
        **dict.fromkeys(("target", "role", "actor", "user_id", "agent_id", "run_id"), word),
        "nonce": word,
    }
    admitted = new_canary()
    with otlp_receiver() as received:
        flags: dict[str, str | int | float | bool | list[str]] = {
            "otel_endpoint": received.url,
            "log_level": "debug",
            "admit_detail_share": 1.0,
        }
        async with running(tmp_path, flags=flags) as live:
            vouched = await live.key("vouched", claims=Claims.TRUSTED)
            said = ""
            for key in (AGENT_KEY, vouched):
                headers = {"Authorization": f"Bearer {key}", "tracestate": f"a={word}"}
                async with live.client.post(
                    f"{live.url}/v1/memories", json=everywhere, headers=headers
                ) as response:
                    assert response.status == 403
                    said += f"{response.reason} {response.headers} {await response.text()}"
                everywhere["nonce"] = f"{word}-2"
            await live.write(AGENT_KEY, {"text": f"The word is {admitted}."})
            async with live.client.get(f"{live.admin_url}/metrics") as response:
                metrics = await response.text()
            assert await formed(live, word) == []
    spans = b"".join(request.SerializeToString() for request in received.requests)
    logs = "".join(capfd.readouterr())
    assert b"source_class_forbidden" in spans, "control: the refusal was traced"
    assert "mnemogate_" in metrics
    for where, data in (
        ("answer", said.encode()),
        ("metrics", metrics.encode()),
        ("spans", spans),
        ("logs", logs.encode()),
    ):
        found = traces_in(data, word)
        assert found == [], f"{where}: {found}"
        assert traces_in(data, admitted) == [], where

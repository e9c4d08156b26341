"""Shapes in which guards of memory were bypassed elsewhere: methods, paths, keys and processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from policy.model import Claims
from storage.embedded import open_embedded
from storage.ground.errors import StoreLocked
from tests.conformance.bypass import directive, formed, mem0, reads
from tests.conformance.canary import new_canary, traces_in
from tests.integration.otlp_receiver import otlp_receiver
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Json, Running, running

ROOT = Path(__file__).resolve().parents[2]
OPENS = """
import sys
from pathlib import Path
from policy.gate import GATE
from policy.ruleset import parse_ruleset
from storage.embedded import open_embedded
from storage.ground.errors import StoreLocked
rules = parse_ruleset(Path(sys.argv[3]).read_text())
try:
    open_embedded(
        state=Path(sys.argv[1]), checkpoint=Path(sys.argv[2]), gate=GATE, ruleset=rules,
        embedder_id="any", dimension=8, clock=lambda: 0,
    )
except StoreLocked:
    sys.exit(17)
"""


async def raw(live: Running, head: str, body: bytes = b"") -> bytes:
    """What is answered to a request that no client library would send."""
    address = urlsplit(live.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    lines = (
        head,
        "Host: localhost",
        f"Authorization: Bearer {AGENT_KEY}",
        f"Content-Length: {len(body)}",
        "Content-Type: application/json",
        "Connection: close",
    )
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    await writer.drain()
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


async def test_odd_methods_write_nothing(tmp_path: Path) -> None:
    canary = new_canary()
    body = f'{{"text": "The word is {canary}."}}'.encode()
    methods = ("HEAD", "OPTIONS", "GET", "PUT", "TRACE", "CONNECT", "PROPFIND", "MOVE", "post")
    async with running(tmp_path) as live:
        for method in methods:
            answer = await raw(live, f"{method} /v1/memories HTTP/1.1", body)
            assert answer.split()[1][:1] in {b"2", b"4"}, answer
            assert canary.encode() not in answer
            assert (live.version(), await formed(live, canary)) == (0, []), method
        answer = await raw(live, "POST /v1/memories HTTP/1.1", body)
        assert b" 201 " in answer, "control: the same bytes by POST"
        assert live.version() == 1


@pytest.mark.parametrize(
    "header",
    ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL"],
)
async def test_no_header_turns_a_read_into_a_write(header: str, tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        _, made = await live.write(AGENT_KEY, {"text": "Ada likes tea."})
        path = f"/v1/memories/{made['id']}"
        sent = {"Authorization": f"Bearer {AGENT_KEY}", header: "DELETE"}
        for method, where in (
            ("GET", path),
            ("POST", "/v1/search"),
            ("GET", f"{path}?_method=DELETE"),
        ):
            async with live.client.request(
                method,
                live.url + where,
                headers=sent,
                json={"query": "tea"} if method == "POST" else None,
            ) as response:
                assert response.status in {200, 422}
        assert (live.version(), await live.texts(AGENT_KEY)) == (1, ["Ada likes tea."])
        status, _ = await live.call("DELETE", path, AGENT_KEY)
        assert (status, live.version()) == (200, 2), "control: by the method itself"


async def test_no_spelling_of_a_path_reaches_past_the_gate(tmp_path: Path) -> None:
    canary = new_canary()
    async with running(tmp_path) as live:
        _, theirs = await live.write(OPERATOR_KEY, {"text": "Refunds take a day."})
        one = theirs["id"]
        before = live.version()
        body = f'{{"text": "The word is {canary}."}}'.encode()
        for path in (
            "//v1/memories",
            "/v1//memories",
            "/V1/memories",
            "/v1/memories/.",
            "/v1/./memories",
            "/v1/x/../memories",
            "/v1/%2e%2e/v1/memories",
            "/v1%2fmemories",
            "/v1/memories%00",
            "/v1/memories%0d%0aX: y",
            "/v1/memories;x=y",
            "/v1\\memories",
            "/mem0/../v1/memories",
            "/api/v1/memories",
            "http://localhost/v1/memories",
        ):
            answer = await raw(live, f"POST {path} HTTP/1.1", body)
            assert answer.split()[1][:1] == b"4", (path, answer)
            assert canary.encode() not in answer
        for path in (f"/v1/memories/{one}", f"/v1/memories/{one.upper()}", f"/v1/memories%2f{one}"):
            answer = await raw(live, f"DELETE {path} HTTP/1.1")
            assert answer.split()[1][:1] in {b"2", b"4"}, answer
        assert (live.version(), await formed(live, canary)) == (before, [])
        assert await live.texts(OPERATOR_KEY) == ["Refunds take a day."]
        answer = await raw(live, "POST /v1/%6demories HTTP/1.1", body)
        assert b" 201 " in answer, "control: one decoding, of one path"


async def test_an_idempotency_key_belongs_to_who_sent_it(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        first, second = await live.key("first"), await live.key("second")

        async def write(key: str, text: str) -> tuple[int, Json]:
            headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "same"}
            body = {"text": text, "user_id": "ada"}
            async with live.client.post(
                f"{live.url}/v1/memories", json=body, headers=headers
            ) as response:
                return response.status, await response.json(content_type=None)

        status, one = await write(first, "The first agent's words.")
        assert status == 201
        status, two = await write(second, "The second agent's words.")
        assert (status, two["id"] != one["id"]) == (201, True)
        # The same words of another principal are another write, and tell nothing of the first.
        status, three = await write(second, "The first agent's words.")
        assert (status, three["reason"]) == (422, "nonce_replayed")
        status, again = await write(first, "The first agent's words.")
        assert (status, again["id"], live.version()) == (201, one["id"], 2), "control: a retry"


async def test_a_claimed_tenant_changes_nothing(tmp_path: Path) -> None:
    canary = new_canary()
    async with running(tmp_path) as live:
        victim = await live.key("victim", tenant="one")
        thief = await live.key("thief", tenant="two")
        _, made = await live.write(victim, {"text": f"The word is {canary}.", "user_id": "one"})
        for user in ("one", "victim", "default", "*"):
            await live.write(thief, {"text": "Mine.", "user_id": user})
            _, said = await mem0(
                live,
                "POST",
                "/v2/memories/search/",
                thief,
                {"query": canary, "filters": {"user_id": user}},
            )
            assert canary not in said
        assert canary not in await reads(live, thief, (made["id"],))
        assert canary in await reads(live, victim, (made["id"],)), "control: its owner reads it"


def _opened_elsewhere(state: Path) -> int:
    """How another process fares that opens the store by its own code."""
    rules = ROOT / "policy" / "default.toml"
    command = [sys.executable, "-P", "-c", OPENS, str(state), str(state.parent / "c"), str(rules)]
    done = subprocess.run(
        command,
        cwd="/",
        env={"PYTHONPATH": str(ROOT)},
        check=False,
        timeout=60,
        capture_output=True,
    )
    return done.returncode


async def test_a_second_process_does_not_open_the_store(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        assert await asyncio.to_thread(_opened_elsewhere, live.state) == 17
        status, _ = await live.write(AGENT_KEY, {"text": "Still here."})
        assert status == 201
    assert StoreLocked.__name__ in OPENS
    assert open_embedded.__name__ in OPENS
    assert _opened_elsewhere(tmp_path / "state") != 17, "control: nobody holds it any more"


EXPORTS = ("/v1/exports/", "/v1/exports/get", "/v1/memories/export/", "/v1/summary/")


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
        await live.operate("POST", f"/memories/{made['id']}/purge", {})
        shown = ""
        for key in (AGENT_KEY, OPERATOR_KEY):
            shown += await reads(live, key, ids)
            for path in EXPORTS:
                _, said = await mem0(live, "GET", path, key, None)
                shown += said
                _, said = await mem0(live, "POST", path, key, {"user_id": "ada"})
                shown += said
        shown += str(await live.operated("GET", "/memories?tenant=default"))
        shown += str(await live.operated("GET", f"/memories/{made['id']}?tenant=default"))
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

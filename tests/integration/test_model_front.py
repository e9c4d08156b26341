"""The model front on real sockets: what passes, what is edited, and what it refuses."""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path

import aiohttp
import pytest

from tests.integration.model_bench import (
    APIS,
    MODEL_KEY,
    PATHS,
    Bench,
    ScriptedCoupling,
    asking,
    call,
    coupled,
    fronted,
    shown,
)
from tests.integration.models.server import Fault
from tests.integration.running import AGENT_KEY, running

each_api = pytest.mark.parametrize("api", APIS)
streamed = pytest.mark.parametrize("how", ["whole", "stream"])


@each_api
@streamed
async def test_a_reply_is_the_very_bytes_that_the_model_sent(
    tmp_path: Path, api: str, how: str
) -> None:
    prompt = call("save", text="tea") + call("read", key="a")
    body = asking(api, prompt, stream=how == "stream", tools=("save", "read"))
    async with fronted(tmp_path) as bench:
        through = await bench.ask(api, body, {"anthropic-beta": "one,two"})
        direct = await bench.ask_direct(api, body)
    first, second = bench.model.requests
    assert through.status == 200
    # The replies number their requests.
    assert through.raw == direct.raw.replace(b"00000002", b"00000001")
    assert through.headers["content-type"] == direct.headers["content-type"]
    assert through.headers["request-id"] == "req_upstream"
    assert through.headers["x-request-id"] == "req_up"
    assert first.body == second.body
    assert first.headers["anthropic-beta"] == "one,two"
    assert first.headers["authorization"] == f"Bearer {MODEL_KEY}"
    assert AGENT_KEY.encode() not in bench.model.sent_upstream()


@each_api
@streamed
async def test_a_refused_call_is_replaced_and_the_model_is_asked_again(
    tmp_path: Path, api: str, how: str
) -> None:
    prompt = f"{call('save', text='POISON')} THEN {call('save', text='tea')}"
    body = asking(api, prompt, stream=how == "stream", tools=("save",))
    for coupling in (None, ScriptedCoupling()):
        (tmp_path / str(coupling is None)).mkdir()
        composition = None if coupling is None else coupled(coupling)
        async with fronted(tmp_path / str(coupling is None), composition) as bench:
            answer = await bench.ask(api, body)
        whole = shown(answer)
        assert ("POISON" in whole) is (coupling is None), "control: it lands where nobody looks"
        if coupling is None:
            continue
        # One reply: the refusal, and what the model did after it read that.
        assert "Not stored (class_floor, L1)" in whole
        assert '"tea"' in whole.replace("\\", "")
        assert len(bench.model.asked) == 2
        assert b"POISON" not in bench.model.requests[1].raw
        assert b"Not stored" in bench.model.requests[1].raw


async def test_any_cut_of_the_models_stream_is_the_same_bytes_to_the_agent(tmp_path: Path) -> None:
    prompt = f"{call('save', text='POISON')} THEN {call('save', text='tea')}"
    coupling = ScriptedCoupling()
    async with fronted(tmp_path, coupled(coupling)) as bench:
        for api in APIS:
            body = asking(api, prompt, stream=True, tools=("save",))
            got: set[bytes] = set()
            for piece_len in (64 * 1024, 1_000, 61, 7):
                bench.model.piece_len = piece_len
                bench.model.requests.clear()
                coupling.refused.clear()
                got.add((await bench.ask(api, body)).raw)
            assert len(got) == 1, api
            assert b"Not stored" in got.pop()


async def test_who_may_ask(tmp_path: Path) -> None:
    async with fronted(tmp_path, more='principals = ["agent"]') as bench:
        body = asking("chat", "hello")
        assert (await bench.ask("chat", body)).status == 200, "control"
        for path, shape in ((PATHS["chat"], "openai"), (PATHS["anthropic"], "anthropic")):
            none = await bench.send("POST", path, body, key=None)
            wrong = await bench.send("POST", path, body, key="sk-something-else-entirely")
            assert (none.status, wrong.status) == (401, 401)
            assert wrong.headers["x-should-retry"] == "false"
            assert "error" in none.body
            assert (none.body.get("type") == "error") is (shape == "anthropic")
        other = await bench.front.key("other")
        assert (await bench.send("POST", PATHS["chat"], body, key=other)).status == 404
        own = {"Mnemogate-Key": AGENT_KEY, "Authorization": "Bearer sk-of-the-agent"}
        assert (await bench.send("POST", PATHS["chat"], body, own, key=None)).status == 200
        assert bench.model.requests[-1].headers["authorization"] == "Bearer sk-of-the-agent"
        assert "mnemogate-key" not in bench.model.requests[-1].headers
    assert len(bench.model.requests) == 2


async def test_a_turn_that_stays_refused_has_the_status_that_its_hosts_take_for_final(
    tmp_path: Path,
) -> None:
    async with fronted(tmp_path, more='principals = ["agent"]') as bench:
        other = await bench.front.key("other")
        for api in APIS:
            body = asking(api, "hello")
            refused = await bench.send("POST", PATHS[api], body, key=other)
            final = {"responses": 400, "anthropic": 403}
            assert refused.status == final.get(api, 404), "control: the others"
            assert "Mnemogate: " in refused.body["error"]["message"]
            assert (await bench.send("POST", PATHS[api], body, key=None)).status == 401
            assert (await bench.send("POST", PATHS[api], body)).status == 200
        stored = await bench.send("GET", f"{PATHS['responses']}/r", key=other)
        assert stored.status == 404, "control: no turn"


async def test_without_a_table_the_answer_says_which_one_to_write(tmp_path: Path) -> None:
    async with running(tmp_path) as front:
        for name in ("anthropic", "openai"):
            status, body = await front.call("POST", f"/{name}/v1/messages", AGENT_KEY, {})
            assert status == 403
            assert f'[[model]] table "{name}"' in body["error"]["message"]
        status, body = await front.call("POST", "/v1/messages", AGENT_KEY, {})
        assert (status, "no [[model]] table is configured" in body["detail"]) == (403, True)


async def test_a_client_whose_base_url_lacks_the_name_is_told_which_one_it_needs(
    tmp_path: Path,
) -> None:
    async with fronted(tmp_path) as bench:
        ours = {"Authorization": f"Bearer {AGENT_KEY}"}
        own = {"Authorization": "Bearer sk-of-the-agent"}
        for path, given, status in (
            ("/v1/chat/completions", ours, 403),
            ("/v1/messages", ours, 403),
            ("/chat/completions", ours, 403),
            ("/v1/messages", own, 401),
        ):
            answer = await bench.send("POST", path, asking("chat", "hello"), given, key=None)
            assert answer.status == status
            detail = answer.body["detail"]
            assert detail.startswith("unknown_write: ") is (status == 403)
            assert "ANTHROPIC_BASE_URL=.../anthropic" in detail
            assert "OPENAI_BASE_URL=.../openai/v1" in detail
        # Control: another unknown write is not told of models.
        answer = await bench.send("POST", "/v1/threads", b"{}", ours, key=None)
        assert (answer.status, "BASE_URL" in answer.body["detail"]) == (403, False)
        assert bench.model.requests == []


async def test_other_routes_pass_untouched_and_hosted_memory_does_not(tmp_path: Path) -> None:
    async with fronted(tmp_path) as bench:
        passes = [
            ("GET", "/openai/v1/models?limit=2&after=a%20b", None),
            ("HEAD", "/anthropic/", None),
            ("POST", "/anthropic/v1/messages/count_tokens?beta=true", b'{"a":1}'),
            ("POST", "/openai/v1/embeddings", b'{"input":"x"}'),
            ("GET", "/openai/v1/conversations/c", None),
            ("DELETE", "/openai/v1/responses/r", None),
        ]
        for method, path, body in passes:
            answer = await bench.send(method, path, body)
            assert answer.status == 200, path
            got = bench.model.requests[-1]
            assert (got.method, got.raw) == (method, body or b"")
            assert got.path == path.split("/", 2)[2].join(["/", ""]).replace("%20", "+")
        upload = b"--x\r\nnot json\r\n--x--"
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        assert (await bench.send("POST", "/openai/v1/files", upload, kind)).status == 200
        assert bench.model.requests[-1].raw == upload
        count = len(bench.model.requests)
        for path in ("vector_stores", "conversations", "threads/t/messages", "memory_stores/m"):
            for name in ("anthropic", "openai"):
                answer = await bench.send("POST", f"/{name}/v1/{path}", b"{}")
                assert answer.status == 403
                assert "unknown_write" in answer.body["error"]["message"]
        assert len(bench.model.requests) == count


async def test_errors_of_the_api_pass_with_their_headers(tmp_path: Path) -> None:
    async with fronted(tmp_path) as bench:
        for api, status in product(APIS, (400, 401, 404, 429, 500, 529)):
            headers = {"Retry-After": "7", "anthropic-ratelimit-tokens-remaining": "3"}
            fault = Fault(status=status, headers=headers, body=b'{"error":{"type":"x"}}')
            bench.model.faults.append(fault)
            answer = await bench.ask(api, asking(api, "hello", stream=True))
            assert (answer.status, answer.raw) == (status, fault.body)
            assert answer.headers["retry-after"] == "7"
            assert answer.headers["anthropic-ratelimit-tokens-remaining"] == "3"


async def test_partial_histories_are_refused_so_that_clients_send_all_of_it(
    tmp_path: Path,
) -> None:
    async with fronted(tmp_path) as bench:
        thread = {**asking("anthropic", "hello"), "thread": {"type": "create"}}
        answer = await bench.ask("anthropic", thread)
        assert answer.status == 400
        assert answer.body["error"]["details"]["error_code"] == "thread_unsupported_request"
        for more in ({"previous_response_id": "resp_9"}, {"conversation": "conv_1"}):
            answer = await bench.ask("responses", {**asking("responses", "hello"), **more})
            assert answer.status == 400
            assert answer.body["error"]["code"] == "previous_response_not_found"
            assert b"resp_9" not in answer.raw
        assert bench.model.requests == []


@streamed
async def test_a_known_response_is_gone_on_from_with_its_whole_history(
    tmp_path: Path, how: str
) -> None:
    tools = ("read",)
    async with fronted(tmp_path) as bench:
        first = asking("responses", call("read", key="a"), stream=how == "stream", tools=tools)
        await bench.ask("responses", first)
        result = {"type": "function_call_output", "call_id": "call_0000", "output": "the value"}
        second = {**first, "input": [result], "previous_response_id": "resp_00000001"}
        answer = await bench.ask("responses", second)
        assert "Done. I read: the value" in shown(answer)
        sent = bench.model.requests[1].body
        assert "previous_response_id" not in sent
        assert [item["type"] for item in sent["input"]] == [
            *("message", "message", "function_call", "function_call_output")
        ]
        third = {**first, "input": "and?", "previous_response_id": "resp_00000002"}
        assert (await bench.ask("responses", third)).status == 200
        assert len(bench.model.requests[2].body["input"]) == 6
        other = await bench.front.key("other")
        alien = await bench.send("POST", PATHS["responses"], third, key=other)
        assert alien.status == 400, "another principal's response is nobody's"


async def test_a_stream_that_breaks_is_torn(tmp_path: Path) -> None:
    async with fronted(tmp_path) as bench:
        for api in APIS:
            await _broken(bench, api)


async def _broken(bench: Bench, api: str) -> None:
    body = asking(api, call("save", text="x" * 200), stream=True, tools=("save",))
    size = len((await bench.ask(api, body)).raw)
    for cut in range(0, size, max(1, size // 12)):
        bench.model.faults.append(Fault(cut=cut))
        with pytest.raises(aiohttp.ClientPayloadError):
            await bench.ask(api, body)
    bench.model.faults.append(Fault(cut=10))
    broken = await bench.ask(api, asking(api, "hello"))
    assert broken.status == 502
    assert "upstream" in broken.body["error"]["message"]


async def test_a_client_that_goes_closes_the_upstream(tmp_path: Path) -> None:
    async with fronted(tmp_path) as bench:
        api = "anthropic"
        bench.model.piece_len, bench.model.pause_s = 50, 0.02
        body = asking(api, "hello", stream=True)
        headers = {"X-Api-Key": AGENT_KEY}
        async with (
            aiohttp.ClientSession() as client,
            client.post(bench.front.url + PATHS[api], json=body, headers=headers) as got,
        ):
            await got.content.readany()
        async with asyncio.timeout(5):
            await bench.model.left.wait()


async def test_a_silent_model_is_not_waited_for(tmp_path: Path) -> None:
    async with fronted(tmp_path, more="answer_seconds = 1") as bench:
        bench.model.faults.append(Fault(silent_s=5))
        answer = await bench.ask("chat", asking("chat", "hello"))
        assert answer.status == 502
        bench.model.faults.append(Fault(cut=60, silent_s=5))
        with pytest.raises(aiohttp.ClientPayloadError):
            await bench.ask("chat", asking("chat", "hello", stream=True))


async def test_what_is_no_request_is_refused_in_the_apis_shape(tmp_path: Path) -> None:
    bad = (b"", b"[]", b"{", b'{"a":NaN}', b"\xff", b"[" * 100_000)
    async with fronted(tmp_path, more="request_bytes_max = 150000") as bench:
        for api, body in product(APIS, bad):
            answer = await bench.send("POST", PATHS[api], body)
            assert answer.status == 400
            error = answer.body["error"]
            if api == "gemini":
                assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
            else:
                assert error["type"] == "invalid_request_error"
        large = await bench.send("POST", PATHS["chat"], b" " * 150_001)
        assert large.status == 413
        assert "error" in large.body
        assert bench.model.requests == []


async def test_a_websocket_is_refused_with_the_status_that_sends_clients_to_http(
    tmp_path: Path,
) -> None:
    async with fronted(tmp_path) as bench:
        headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        answer = await bench.send("GET", PATHS["responses"], None, headers)
        assert answer.status == 426

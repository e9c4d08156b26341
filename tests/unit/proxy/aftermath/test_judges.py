"""What a caller's judge may do and be told, and that what cannot be read is no answer."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from proxy.aftermath.judges import FAILED, TIMEOUT, UNREADABLE, Judges
from proxy.seams.cases import Opinion, ReplayedMemory
from proxy.settings.judge_tables import JudgeTable
from proxy.settings.values import BadValue
from tests.unit.proxy.tabled import tables_of

MEMORIES = (ReplayedMemory(id="m1", text="Refunds take 90 days."),)
YES, UNKNOWN = Opinion(fails=True), Opinion(fails=None)
LOOPBACK = ("127.0.0.0/8",)


def problem(word: str) -> Opinion:
    return Opinion(fails=None, problem=word)


def script(text: str) -> Judges:
    command = (sys.executable, "-I", "-c", text)
    return Judges((JudgeTable(name="j", command=command),))


async def asked(judges: Judges) -> Opinion:
    return await judges.ask("j", case="c1", question="How long?", memories=MEMORIES)


async def test_a_program_is_asked_on_its_input_and_told_nothing_else(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    text = (
        "import os, sys, json\n"
        f"open({str(seen)!r}, 'w').write(json.dumps([sys.stdin.read(), dict(os.environ),"
        " os.getcwd(), os.getpgid(0) == os.getpid()]))\n"
        'print(\'{"fails": true, "why": "Refunds take 90 days."}\')'
    )
    os.environ["MNEMOGATE_TEST_SECRET"] = "hidden"
    try:
        assert await asked(script(text)) == YES
    finally:
        del os.environ["MNEMOGATE_TEST_SECRET"]
    sent, environment, place, leads = json.loads(seen.read_text())
    assert json.loads(sent) == {
        "case": "c1",
        "question": "How long?",
        "memories": [{"id": "m1", "text": "Refunds take 90 days."}],
        "deadline_ms": 30_000,
    }
    # What CPython itself puts there.
    assert environment.keys() <= {"LC_CTYPE"}
    assert (place, leads) == ("/", True)


@pytest.mark.parametrize(
    ("text", "opinion"),
    [
        ("print('{\"fails\": false}')", Opinion(fails=False)),
        ("print('{\"fails\": null}')", UNKNOWN),
        ("print('<html>')", problem(UNREADABLE)),
        ("print('{}')", problem(UNREADABLE)),
        ("print('{\"fails\": 1}')", problem(UNREADABLE)),
        ("print('[' * 60000)", problem(UNREADABLE)),
        ("pass", problem(UNREADABLE)),
        ("print('{\"fails\": true}'); raise SystemExit(1)", problem(FAILED)),
        ("while True: print('x' * 4096)", problem(UNREADABLE)),
    ],
)
async def test_what_cannot_be_read_is_no_answer(text: str, opinion: Opinion) -> None:
    assert await asked(script(text)) == opinion


async def test_a_judge_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child"
    text = f"/bin/sleep 600 & echo $! > {child}; wait"
    command = ("/bin/sh", "-c", text)
    judges = Judges((JudgeTable(name="j", command=command),), deadline_s=5.0)
    assert await asked(judges) == problem(TIMEOUT)
    pid = int(child.read_text())
    for _ in range(500):
        if not _runs(pid):
            break
        await asyncio.sleep(0.01)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def test_a_pipe_that_breaks_is_no_answer_and_a_fault_is_no_opinion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken: list[Exception] = [OSError(5, "the pipe failed"), LookupError("a fault of ours")]

    async def write(_process: object, _asked: bytes) -> None:
        raise broken.pop(0)

    judges = script("print('{\"fails\": false}')")
    assert await asked(judges) == Opinion(fails=False), "control"
    monkeypatch.setattr("proxy.aftermath.judges._write", write)
    assert await asked(judges) == problem(FAILED)
    with pytest.raises(ExceptionGroup):
        await asked(judges)


@pytest.mark.parametrize("held", [True, False])
async def test_a_past_holder_of_a_shard_asks_no_judge(tmp_path: Path, *, held: bool) -> None:
    seen = tmp_path / "seen"
    text = f"open({str(seen)!r}, 'w'); print('{{\"fails\": true}}')"
    command = (sys.executable, "-I", "-c", text)
    judges = Judges((JudgeTable(name="j", command=command),), holds=lambda: held)
    assert await asked(judges) == (YES if held else problem(FAILED))
    assert seen.exists() is held


async def test_a_program_that_is_gone_is_no_answer(tmp_path: Path) -> None:
    program = tmp_path / "judge"
    program.touch()
    judges = Judges((JudgeTable(name="j", command=(str(program),)),))
    program.unlink()
    assert await asked(judges) == problem(FAILED)
    with pytest.raises(KeyError):
        await judges.ask("other", case="", question="", memories=())


@asynccontextmanager
async def serving(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncGenerator[str]:
    app = web.Application()
    app.router.add_post("/judge", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/judge"
    finally:
        await runner.cleanup()


async def test_a_server_is_asked_by_post_and_only_where_it_may_stand() -> None:
    heard: list[Any] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        heard.append((await request.json(), sorted(request.headers)))
        return web.json_response({"fails": True, "why": "90 days"})

    async with serving(answer) as url:
        listed = Judges((JudgeTable(name="j", url=url, allow=LOOPBACK),))
        assert await asked(listed) == YES
        assert heard[0][0]["memories"] == [{"id": "m1", "text": "Refunds take 90 days."}]
        assert "Authorization" not in heard[0][1]
        assert await asked(
            Judges((JudgeTable(name="j", url=url, allow=("10.0.0.0/8",)),))
        ) == problem(FAILED)
        assert len(heard) == 1, "nothing is sent to an address that is not listed"


@pytest.mark.parametrize(
    ("status", "body", "opinion"),
    [
        (200, "<html>all is well</html>", problem(UNREADABLE)),
        (302, "", problem(FAILED)),
        (500, '{"fails": true}', problem(FAILED)),
        (200, '{"fails": true, "why": "' + "x" * 70_000 + '"}', problem(FAILED)),
    ],
)
async def test_what_a_server_says_beside_the_answer_is_none(
    status: int, body: str, opinion: Opinion
) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=body, headers={"Location": "/judge"})

    async with serving(answer) as url:
        table = JudgeTable(name="j", url=url, allow=LOOPBACK)
        assert await asked(Judges((table,))) == opinion


def test_tables_say_what_is_wrong_with_them(tmp_path: Path) -> None:
    good = {"name": "j", "command": [sys.executable]}
    (judge,) = tables_of("judge", [{**good, "deterministic": True}])
    assert (judge.command, judge.deterministic) == ((sys.executable,), True)
    (there,) = tables_of(
        "judge", [{"name": "j", "url": "http://10.1.2.3/x", "allow": ["10.0.0.0/8"]}]
    )
    assert there.networks == (ip_network("10.0.0.0/8"),)
    wrong: tuple[tuple[dict[str, object], str], ...] = (
        ({"name": "j"}, "exactly one of command and url"),
        ({**good, "url": "https://a.example/"}, "exactly one of command and url"),
        ({"name": "j", "command": ["judge"]}, "absolute path"),
        ({"name": "j", "command": ["/nonexistent/x"]}, "there is no program"),
        ({"name": "J"}, "name"),
        ({"name": "j", "url": "http://a.example/"}, "https://"),
        ({"name": "j", "url": "https://u:p@a.example/"}, "url"),
        ({**good, "allow": ["10.0.0.0/8"]}, "allow"),
        ({**good, "deadline_seconds": 5}, "deadline_seconds: no such setting; an answer has 30"),
        ({**good, "environment": {}}, "environment"),
    )
    for table, why in wrong:
        with pytest.raises(BadValue, match="judge, table 1: ") as refused:
            tables_of("judge", [table])
        assert why in str(refused.value)
    with pytest.raises(BadValue, match="judge: two tables have the same name"):
        tables_of("judge", [good, good])
    open_place = tmp_path / "open"
    open_place.mkdir()
    open_place.chmod(0o777)
    program = open_place / "judge"
    program.write_text("")
    with pytest.raises(BadValue, match="out of the reach of others"):
        tables_of("judge", [{"name": "j", "command": [str(program)]}])

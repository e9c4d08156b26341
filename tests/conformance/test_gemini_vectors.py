"""Exchanges of the real Gemini CLI, replayed: what it sent, and what its model answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from proxy.compose.app import Composition
from proxy.dialects.model.gemini.contents import read_request
from proxy.dialects.model.tools import tools_of
from proxy.dialects.model.transcript import Voice
from tests.integration.model_bench import fronted
from tests.integration.models.server import Fault
from tests.uncoupled import UnsafeUncoupled


class _Exchange(msgspec.Struct, forbid_unknown_fields=True):
    note: str
    path: str
    body: dict[str, Any]
    status: int
    answer: str


_FILE: Final = Path(__file__).parent / "vectors" / "gemini" / "cli_0.61.0.json"
EXCHANGES: Final = msgspec.json.decode(_FILE.read_bytes(), type=list[_Exchange])
CONTROL: Final = Composition(couple=lambda _: UnsafeUncoupled())
ORDER: Final = b"always send invoices"
# The answers that write an order into a file which the CLI puts into its prompt.
REFUSED: Final = {1, 2, 4}
# The requests with a file of the CLI in which something is new.
PLACED: Final = {1, 3, 4, 5}


@pytest.mark.parametrize("number", range(len(EXCHANGES)))
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])
async def test_a_recorded_answer_is_the_same_bytes_unless_it_writes_an_order(
    tmp_path: Path, number: int, *, guarded: bool
) -> None:
    one = EXCHANGES[number]
    kind = {"Content-Type": "text/event-stream; charset=utf-8"}
    async with fronted(tmp_path, None if guarded else CONTROL) as bench:
        bench.model.faults.append(Fault(headers=kind, body=one.answer.encode()))
        answer = await bench.send("POST", f"/gemini{one.path}", one.body)
        first, *more = bench.model.requests
    assert answer.status == one.status
    assert first.path == one.path
    if not guarded or number not in PLACED:
        assert first.body == one.body
    else:
        assert first.body.keys() == one.body.keys()
        assert b"mnemogate places" in first.raw, "a file that the CLI put into the prompt waits"
    if guarded and number in REFUSED:
        assert ORDER in one.answer.encode(), "control"
        assert b"Not stored" in answer.raw
        assert b"functionCall" not in answer.raw
        (again,) = more
        called, answered = again.body["contents"][-2:]
        assert called["parts"][-1]["thoughtSignature"] == "c2ln"
        assert "Not stored" in str(answered["parts"][0]["functionResponse"]["response"])
    else:
        assert answer.raw == one.answer.encode()
        assert more == []


def test_what_entered_is_read_with_its_voice() -> None:
    for one in EXCHANGES:
        read = read_request(one.body)
        voices = {said.voice for turn in read.turns for said in turn.said}
        assert Voice.UNPLACED not in voices
        assert [said.voice for said in read.system] == [Voice.SYSTEM]
        names = [tool.name for tool in tools_of(one.body) or ()]
        assert {"write_file", "replace", "run_shell_command"} <= {*names}
        assert names == [name for name, _ in read.catalogue]
        assert not read.searches
    (call,) = [one for turn in read_request(EXCHANGES[1].body).turns for one in turn.calls]
    assert (call.name, call.call_id) == ("read_file", "fc00025d132a380")
    assert call.arguments == {"file_path": "/home/adaWORK/src/a.txt"}
    result = read_request(EXCHANGES[1].body).turns[-1].said[0]
    assert (result.voice, result.call_id) == (Voice.TOOL, "fc00025d132a380")
    assert "SUBMARK" in result.text
    assert result.where == ("parts", 0, "functionResponse", "response", "output")
